//! `basalt inspect`, and the formats: a data directory that an earlier commit wrote is read as it was written.
//!
//! The archives in `data` were written by the first test below, which keeps what it writes when there is a new format:
//! `BASALT_WRITE_FORMAT=3 cargo test -p basalt --test inspect format`. Old ones stay, and stay readable. `format-2-ids`
//! has the same kind of directory as `format-2`, with log entries of format 2: large collections with ids, dropped
//! prefixes, and zstd values whose heads are apart. Format 1, of before there were stores of several nodes, was in no
//! release and is refused.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, announce, eventually};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const FORMATS: [(&str, &[(&str, &str)]); 2] =
    [(TRANSCRIBED, &[("DBSIZE", "(integer) 12")]), ("format-2-ids", &WITH_IDS)];
/// The one that the views' transcript is of.
const TRANSCRIBED: &str = "format-2";

fn inspect(data: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.arg("inspect").arg(data).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

/// What `inspect` says of a sound directory.
fn said(data: &Path, arguments: &[&str]) -> String {
    let output = inspect(data, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

fn json(data: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = inspect(data, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", text(&output)))
}

/// Everything that a look must not change: names, bytes, times and modes.
fn fingerprint(root: &Path) -> Vec<(PathBuf, i64, i64, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(path) = folders.pop() {
        let about = path.metadata().unwrap();
        let bytes = if about.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
        if about.is_dir() {
            folders.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path, about.mtime(), about.mtime_nsec(), about.mode(), bytes));
    }
    found.sort();
    found
}

fn unpack(format: &str, dir: &Dir) -> PathBuf {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{format}.tar.gz"));
    let status = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(dir.path()).status().unwrap();
    assert!(status.success(), "{}", archive.display());
    dir.join("data")
}

fn write_early(connection: &mut Connection) {
    for words in ["SET greeting hello", "SET gone 1", "SET expiring v PXAT 4102444800000", "HSET small b 2 a 1"] {
        assert!(!connection.call(words).is_error(), "{words}");
    }
    // Too long and too random not to get a blob file.
    let large = Random::new(1).bytes(6000);
    let marked: &[u8] = b"\xF5\x01 looks compressed";
    for (key, value) in [(&b"large"[..], &large[..]), (b"bin\0\xFF", marked), (b"empty", b"")] {
        assert_eq!(connection.try_call(&[b"SET", key, value]).unwrap(), Value::ok());
    }
    let fields: Vec<String> = (0..200).map(|n| format!("f{n} v{n}")).collect();
    assert_eq!(connection.call(&format!("HSET spread {}", fields.join(" "))), Value::Int(200));
}

fn write_late(connection: &mut Connection) {
    for words in ["SET greeting again", "DEL gone", "HSET spread f0 changed", "HDEL spread f1", "SET late x"] {
        assert!(!connection.call(words).is_error(), "{words}");
    }
    for words in ["MULTI", "INCR {t}1", "APPEND {t}2 y", "EXEC"] {
        assert!(!connection.call(words).is_error(), "{words}");
    }
}

/// What entries of format 2 can hold, and those of format 1 cannot.
fn write_with_ids(connection: &mut Connection) {
    let fields: Vec<String> = (0..300).map(|n| format!("f{n} v{n}")).collect();
    for key in ["{i}moves", "{i}goes", "{i}overwritten"] {
        assert_eq!(connection.call(&format!("HSET {key} {}", fields.join(" "))), Value::Int(300));
    }
    for words in
        ["RENAME {i}moves {i}moved", "DEL {i}goes", "SET {i}overwritten by-a-string", "COPY {i}moved {i}copied"]
    {
        assert!(!connection.call(words).is_error(), "{words}");
    }
    // It is kept out of the levels although it shrinks.
    let packs = Random::new(3).bytes(10_000).repeat(2);
    assert_eq!(connection.try_call(&[b"SET".as_slice(), b"packed", &packs]).unwrap(), Value::ok());
}

const WITH_IDS: [(&str, &str); 9] = [
    ("DBSIZE", "(integer) 16"),
    ("HLEN {i}moved", "(integer) 300"),
    ("HGET {i}moved f299", "v299"),
    ("HLEN {i}copied", "(integer) 300"),
    ("HGET {i}copied f7", "v7"),
    ("EXISTS {i}moves {i}goes", "(integer) 0"),
    ("GET {i}overwritten", "by-a-string"),
    ("STRLEN packed", "(integer) 20000"),
    ("OBJECT ENCODING {i}moved", "listpack"),
];

/// What a store says that was opened on such a directory.
const ANSWERS: [(&str, &str); 13] = [
    ("GET greeting", "again"),
    ("GET gone", "(nil)"),
    ("PEXPIRETIME expiring", "(integer) 4102444800000"),
    ("HGETALL small", "b,2,a,1"),
    ("STRLEN large", "(integer) 6000"),
    ("STRLEN empty", "(integer) 0"),
    ("HLEN spread", "(integer) 199"),
    ("HMGET spread f0 f1 f199", "changed,(nil),v199"),
    ("OBJECT ENCODING spread", "listpack"),
    ("GET late", "x"),
    ("GET {t}1", "1"),
    ("GET {t}2", "y"),
    ("TYPE small", "hash"),
];

fn plain(value: &Value) -> String {
    match value {
        Value::Int(n) => format!("(integer) {n}"),
        Value::NilBulk | Value::Null | Value::NilArray => "(nil)".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.text(),
    }
}

#[test]
fn what_this_format_writes_is_read() {
    let dir = Dir::new("format");
    let data = dir.join("data");
    // The smallest memory, so that little data makes it flush.
    let setup = Setup::bare(&data).with("--shards", "2").with("--memory", "16mb").with("--compression", "zstd");
    let server = Server::start(&setup);
    let mut connection = server.connect();
    write_early(&mut connection);
    write_with_ids(&mut connection);
    // What does not compress fills a memtable; what repeats itself does not fill the archive.
    let filler = Random::new(2).bytes(12_000);
    let mut fillers = 0;
    eventually("both trees are flushed", Duration::from_secs(60), || {
        for key in ["key7", "foo"] {
            let name = format!("{{{key}}}{fillers}");
            assert_eq!(connection.try_call(&[b"SET", name.as_bytes(), &filler]).unwrap(), Value::ok());
        }
        fillers += 1;
        let shards = json(&data, &["--live"])["shards"].clone();
        // The metadata group's tree hardly grows.
        let flushed = |shard: &serde_json::Value| {
            shard["shard"] == 0 || shard["tree"]["flushed"].as_u64().is_some_and(|index| index > 4)
        };
        shards.as_array().unwrap().iter().all(flushed).then_some(())
    });
    for key in ["key7", "foo"] {
        connection.call(&format!("SET {key} x"));
        let fillers: Vec<String> = (0..fillers).map(|n| format!("{{{key}}}{n}")).collect();
        connection.call(&format!("DEL {}", fillers.join(" ")));
    }
    write_late(&mut connection);
    server.kill();
    if let Ok(format) = std::env::var("BASALT_WRITE_FORMAT") {
        let archive = format!("{}/tests/data/format-{format}.tar.gz", env!("CARGO_MANIFEST_DIR"));
        let mut tar = Command::new("tar");
        tar.args(["--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--mtime=@0", "-czf", &archive]);
        assert!(tar.arg("-C").arg(dir.path()).arg("data").status().unwrap().success());
    }
    answers(&data, "this format", &WITH_IDS);
}

/// Opens the data twice and asks for what was written.
fn answers(data: &Path, format: &str, own: &[(&str, &str)]) {
    for round in ["first start", "second start"] {
        let server = Server::start(&Setup::bare(data).with("--memory", "64mb"));
        let mut connection = server.connect();
        for (words, answer) in ANSWERS.iter().chain(own) {
            assert_eq!(plain(&connection.call(words)), *answer, "{format}, {round}: {words}");
        }
        let large = connection.call("GET large");
        assert_eq!(large.bytes(), Some(&Random::new(1).bytes(6000)[..]), "{format}, {round}");
        let marked = connection.try_call(&[&b"GET"[..], b"bin\0\xFF"]).unwrap();
        assert_eq!(marked.bytes(), Some(&b"\xF5\x01 looks compressed"[..]), "{format}, {round}");
        assert!(server.stop(), "{format}, {round}");
    }
}

#[test]
fn what_an_earlier_commit_wrote_is_read() {
    for (format, own) in FORMATS {
        let dir = Dir::new(format);
        let data = unpack(format, &dir);
        answers(&data, format, own);
        said(&data, &["--verify"]);
    }
}

#[test]
fn a_format_that_is_not_known_is_refused_by_name() {
    let dir = Dir::new("unknown");
    let data = unpack("format-1", &dir);
    let before = fingerprint(&data);
    let refused = "basalt.node is of format 1, which an earlier version of basalt wrote; this one reads format 2 only";
    let output = inspect(&data, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains(refused), "{}", text(&output));
    let Err(messages) = Server::try_start(&Setup::bare(&data)) else { panic!("it was opened") };
    assert!(messages.contains(refused), "{messages}");
    assert!(fingerprint(&data)[1..] == before[1..], "something was changed");
}

/// `$` and arguments, then what is printed. `BASALT_TRANSCRIPTS=rewrite` writes down what is printed now.
#[test]
fn every_view_is_as_written_down() {
    let dir = Dir::new("views");
    let data = unpack(TRANSCRIBED, &dir);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/inspect.txt");
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut found = String::new();
    let before = fingerprint(dir.path());
    for line in expected.lines().filter(|line| line.starts_with("$ ")) {
        let arguments: Vec<&str> = line[2..].split(' ').collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        let output = command.args(&arguments).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
        let code = match output.status.code() {
            Some(0) => String::new(),
            code => format!("exit code {}\n", code.unwrap()),
        };
        found += &format!("{line}\n{}{code}\n", text(&output));
    }
    assert!(fingerprint(&data) == before[1..], "a look changed something");
    if std::env::var("BASALT_TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite") {
        std::fs::write(&path, &found).unwrap();
    }
    assert_eq!(found, expected);
}

/// Makes a collection of each type, small and large, and groups that have read some of a stream.
fn write_collections(connection: &mut Connection) {
    let many = |part: fn(usize) -> String| (0..300).map(part).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = ["SADD few-members a b", "RPUSH few-elements a b", "ZADD few-scores 1.5 a 2 b -inf c"]
        .map(str::to_owned)
        .to_vec();
    lines.extend(["XADD few-entries 1-1 f v", "XADD few-entries 2-1 f v g w"].map(str::to_owned));
    lines.push(format!("SADD members {}", many(|n| format!("m{n}"))));
    lines.push(format!("RPUSH elements {}", many(|n| format!("e{n}"))));
    lines.push(format!("ZADD scores {}", many(|n| format!("{n}.5 m{n}"))));
    lines.extend((1..=30).map(|n| format!("XADD entries {n}-1 n {n}")));
    let groups = [
        "XGROUP CREATE entries readers 0",
        "XREADGROUP GROUP readers alice COUNT 3 STREAMS entries >",
        "XREADGROUP GROUP readers bob COUNT 25 STREAMS entries >",
        "XACK entries readers 2-1",
        "XNACK entries readers FAIL IDS 1 3-1",
        "XDEL entries 5-1",
        "XGROUP CREATECONSUMER entries readers carol",
        "XGROUP CREATE entries others $",
    ];
    lines.extend(groups.map(str::to_owned));
    for line in lines {
        let answer = connection.call(&line);
        assert!(!answer.is_error(), "{line}: {answer:?}");
    }
}

/// What `--key` shows of a collection after a start.
struct Listing {
    key: &'static str,
    always: &'static [&'static str],
    /// Without `--full` alone.
    short: &'static [&'static str],
    /// With `--full` alone.
    full: &'static [&'static str],
}

const LISTINGS: [Listing; 8] = [
    Listing {
        key: "few-members",
        always: &["  set, version ", ", 2 members, ", "    a  \"\"\n"],
        short: &[],
        full: &[],
    },
    Listing {
        key: "few-elements",
        always: &["  list, version ", ", 2 elements, ", "    1  b\n"],
        short: &[],
        full: &[],
    },
    Listing {
        key: "few-scores",
        always: &["  sorted set, version ", ", 3 members, ", "    c  -inf\n    a  1.5\n    b  2\n"],
        short: &[],
        full: &[],
    },
    Listing {
        key: "few-entries",
        always: &[
            "  stream, version ",
            ", 2 entries, ",
            "    1-1  f v\n    2-1  f v g w\n",
            "  last id 2-1, added 2, 0 groups\n",
        ],
        short: &[],
        full: &[],
    },
    Listing {
        key: "members",
        always: &["  large set, version ", ", 300 members, "],
        short: &["    … 280 more: --full lists all\n"],
        // Which of its members come first is by their positions.
        full: &[],
    },
    Listing {
        key: "elements",
        always: &["  large list, version ", ", 300 elements, ", "    0  e0\n", "    19  e19\n"],
        short: &["    … 280 more: --full lists all\n"],
        full: &["    20  e20\n", "    299  e299\n"],
    },
    Listing {
        key: "scores",
        always: &["  large sorted set, version ", ", 300 members, ", "    m0  0.5\n    m1  1.5\n", "    m19  19.5\n"],
        short: &["    … 280 more: --full lists all\n"],
        full: &["    m20  20.5\n", "    m299  299.5\n"],
    },
    Listing {
        key: "entries",
        always: &[
            "  large stream, version ",
            ", 29 entries, ",
            "    4-1  n 4\n    6-1  n 6\n",
            "    21-1  n 21\n",
            "  last id 30-1, added 30, 2 groups\n",
            "    group others: last id 30-1, 0 consumers, 0 pending",
            "    group readers: last id 28-1, 3 consumers, 27 pending",
            "      consumer alice: 1 pending, asked 20",
            "      consumer bob: 25 pending, asked 20",
            "      consumer carol: 0 pending, asked 20",
            ", got never\n",
            "      pending 1-1: consumer alice, delivered 1 time, last 20",
            "      pending 3-1: released, delivered 1 time\n",
            "      pending 21-1: consumer bob, delivered 1 time, last 20",
        ],
        short: &["    … 9 more: --full lists all\n", "      … 7 more: --full lists all\n"],
        full: &["    22-1  n 22\n", "    30-1  n 30\n", "      pending 28-1: consumer bob, delivered 1 time, last 20"],
    },
];

#[test]
fn collections_are_listed_in_part_or_whole() {
    let dir = Dir::new("collections");
    let data = dir.join("data");
    let server = Server::start(&Setup::bare(&data).with("--shards", "2").with("--memory", "64mb"));
    write_collections(&mut server.connect());
    server.kill();
    for Listing { key, always, short, full } in LISTINGS {
        // The log before that names the elements too.
        let after_start = |arguments: &[&str]| {
            let text = said(&data, arguments);
            text.split_once("\nafter a start").unwrap_or_else(|| panic!("{text}")).1.to_owned()
        };
        let (part, whole) = (after_start(&["--key", key]), after_start(&["--key", key, "--full"]));
        for &line in always {
            assert!(part.contains(line) && whole.contains(line), "{key}: {line:?}\n{part}\n{whole}");
        }
        for &line in short {
            assert!(part.contains(line) && !whole.contains(line), "{key}: {line:?}\n{part}\n{whole}");
        }
        for &line in full {
            assert!(!part.contains(line) && whole.contains(line), "{key}: {line:?}\n{part}\n{whole}");
        }
        assert!(short.is_empty() || whole.lines().count() > part.lines().count(), "{key}: {part}\n{whole}");
        assert!(!whole.contains("--full lists all"), "{key}: {whole}");
    }
    let stream = json(&data, &["--key", "entries", "--full"])["recovered"]["stream"].clone();
    let parts = |of: &serde_json::Value, name: &str| of[name].as_array().map(Vec::len);
    assert_eq!((parts(&stream, "entries"), parts(&stream, "groups")), (Some(29), Some(2)));
    let readers = &stream["groups"][1];
    assert_eq!((parts(readers, "consumers"), parts(readers, "pending")), (Some(3), Some(27)));
    said(&data, &["--verify"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_no_obstacle() {
    let dir = Dir::new("read-only");
    let data = unpack(TRANSCRIBED, &dir);
    std::fs::remove_file(data.join("LOCK")).unwrap();
    let chmod = |mode: &str| {
        assert!(Command::new("chmod").args(["-R", mode]).arg(&data).status().unwrap().success());
    };
    chmod("a-w");
    let before = fingerprint(&data);
    for arguments in [&[][..], &["--verify"], &["--key", "late"], &["--scan"], &["--shard", "0"]] {
        said(&data, arguments);
    }
    assert!(fingerprint(&data) == before, "a look changed something");
    chmod("u+w");
}

#[test]
fn a_running_store_is_left_alone() {
    let dir = Dir::new("running");
    let data = unpack(TRANSCRIBED, &dir);
    let setup = Setup::bare(&data).with("--memory", "64mb");
    let server = Server::start(&setup);
    let output = inspect(&data, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("in use"), "{}", text(&output));
    // It may come upon a file that is being replaced.
    eventually("a look at a running store", Duration::from_secs(10), || {
        let output = inspect(&data, &["--live"]);
        output.status.success().then(|| assert!(text(&output).contains("IN USE"), "{}", text(&output)))
    });
    assert_eq!(json(&data, &["--live"])["running"], true);
    server.kill();
    said(&data, &["--verify"]);
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x5A;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damage_is_found_and_named() {
    let dir = Dir::new("damage");
    let table = "shards/2/tree-1/tables/1";
    let log = "log/0000000000000001.raftlog";
    let middle = |path: &Path| (path.metadata().unwrap().len() / 2) as usize;
    for (file, place) in [
        (table, None),
        (log, Some(1000)),
        (log, Some(10)),
        ("basalt.node", None),
        ("shards/1/generation", None),
        ("basalt.map", None),
    ] {
        let data = unpack(TRANSCRIBED, &dir);
        let path = data.join(file);
        flip(&path, place.unwrap_or_else(|| middle(&path)));
        let output = inspect(&data, &["--verify"]);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(output.status.code(), Some(1), "{file}: {}", text(&output));
        let named = text(&output).lines().any(|line| line.contains(name) && !line.contains("sound"));
        assert!(named, "{file}: {}", text(&output));
        std::fs::remove_dir_all(&data).unwrap();
    }
    // Without its map nothing tells which trees are the node's.
    let data = unpack(TRANSCRIBED, &dir);
    std::fs::remove_file(data.join("basalt.map")).unwrap();
    let output = inspect(&data, &["--verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("DAMAGED: map: basalt.map is missing"), "{}", text(&output));
}

#[test]
fn what_goes_wrong_is_json_where_that_is_asked_for() {
    let dir = Dir::new("json-errors");
    let data = unpack(TRANSCRIBED, &dir);
    let nowhere = dir.join("nowhere");
    for (data, arguments, code) in [(&data, &["--shard", "99"][..], 2), (&nowhere, &[], 1)] {
        let output = inspect(data, &[arguments, &["--json"]].concat());
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        let error: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!((output.status.code(), &error["exit_code"]), (Some(code), &code.into()), "{said}");
        assert!(error["error"].is_string(), "{said}");
    }
}

#[test]
fn a_torn_write_at_the_end_is_no_damage() {
    let dir = Dir::new("torn");
    let data = unpack(TRANSCRIBED, &dir);
    let log = json(&data, &[])["log"].clone();
    let file = &log["files"].as_array().unwrap()[1];
    let written = file["written_bytes"].as_u64().unwrap() as usize;
    let path = data.join("log/0000000000000001.raftlog");
    let mut bytes = std::fs::read(&path).unwrap();
    let records = file["records"].as_u64().unwrap();
    // The last byte of the last record, and some after it.
    bytes.resize(bytes.len().max(written + 10), 0);
    for at in [written - 1, written + 5] {
        bytes[at] ^= 0x5A;
    }
    std::fs::write(&path, &bytes).unwrap();
    let torn = json(&data, &[])["log"]["files"][1].clone();
    assert_eq!((torn["end"].as_str(), torn["records"].as_u64()), (Some("torn"), Some(records - 1)));
    assert!(said(&data, &[]).contains("an unfinished write at its end"));
    // A start agrees: the transaction was the last write.
    let server = Server::start(&Setup::bare(&data).with("--memory", "64mb"));
    assert_eq!(plain(&server.connect().call("GET {t}1")), "(nil)");
    assert_eq!(plain(&server.connect().call("GET late")), "x");
    server.kill();
    said(&data, &["--verify"]);
}

/// The log is read by code of its own: it must come to what the store comes to, whatever happened to the files.
#[test]
fn the_log_is_read_as_a_start_reads_it() {
    let dir = Dir::new("agree");
    let data = unpack(TRANSCRIBED, &dir);
    for round in 0..3 {
        let server = Server::start(&Setup::bare(&data).with("--memory", "16mb"));
        let mut connection = server.connect();
        for n in 0..40 {
            assert_eq!(connection.call(&format!("SET round{round}:{n} {n}")), Value::ok());
        }
        server.kill();
        let report = json(&data, &["--verify"]);
        assert!(report["parts"].as_array().unwrap().iter().all(|part| part["damage"].as_array().unwrap().is_empty()));
        let key = format!("round{round}:39");
        let found = said(&data, &["--key", &key]);
        assert!(found.contains(&format!("SET {key} 39")), "{found}");
    }
    let terms: Vec<_> =
        json(&data, &[])["shards"].as_array().unwrap().iter().map(|shard| shard["log"]["term"].clone()).collect();
    announce(&format!("inspect: terms {terms:?}"));
    assert!(terms.iter().all(|term| *term == 4), "{terms:?}");
}

/// What `--key` says that a start makes of a key is what a start makes of it.
#[test]
fn recovery_is_foretold() {
    let dir = Dir::new("foretold");
    let data = unpack(TRANSCRIBED, &dir);
    let setup = Setup::bare(&data).with("--memory", "64mb");
    // Some that the tree has, one of them a large hash; and some that share a slot with the first.
    let key = |n: u64| {
        ["small", "spread", "key7"].get(n as usize).map_or_else(|| format!("{{small}}{n}"), |&key| key.to_owned())
    };
    for seed in 1..=2 {
        let mut random = Random::new(seed);
        let server = Server::start(&setup);
        let mut connection = server.connect();
        for n in 0..200 {
            let (a, b) = (key(random.below(12)), key(random.below(12)));
            let words = match random.below(9) {
                // The large hash stays, so that what is written to it meets what the tree has of it.
                0 | 3 | 4 if a == "spread" => format!("HSET {a} f{} {n}", random.below(200)),
                0 => format!("DEL {a}"),
                1 => format!("INCR {a}"),
                2 => format!("HSET {a} f{} {n}", random.below(300)),
                3 => format!("RENAME {a} {b}"),
                4 => format!("COPY {a} {b} REPLACE"),
                5 => format!("HDEL {a} f{}", random.below(300)),
                _ if n == 100 && seed == 2 => "FLUSHALL".to_owned(),
                _ => format!("APPEND {a} {n}"),
            };
            connection.call(&words);
            if n % 50 == 0 {
                let fields: Vec<String> = (0..150).map(|n| format!("f{n} v{n}")).collect();
                connection.call(&format!("HSET {a} {}", fields.join(" ")));
            }
        }
        server.kill();
        let foretold: Vec<_> =
            (0..12).map(|n| json(&data, &["--key", &key(n), "--full"])["recovered"].clone()).collect();
        let server = Server::start(&setup);
        let mut connection = server.connect();
        for (n, foretold) in (0..).zip(foretold) {
            let key = key(n);
            let found = match connection.call(&format!("TYPE {key}")).text().as_str() {
                "none" => serde_json::Value::Null,
                "string" => connection.call(&format!("GET {key}")).text().into(),
                _ => plain(&connection.call(&format!("HGETALL {key}"))).into(),
            };
            let fields = foretold["fields"].as_array().map(|fields| {
                let words = fields.iter().flat_map(|field| [&field["field"]["text"], &field["value"]["text"]]);
                words.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(",")
            });
            let foretold = match foretold["value"]["text"].as_str() {
                Some(value) => value.into(),
                None if foretold.is_null() => serde_json::Value::Null,
                None => fields.unwrap_or_default().into(),
            };
            assert_eq!(foretold, found, "seed {seed}: {key}");
        }
        server.kill();
    }
}
