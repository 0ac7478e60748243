//! `basalt inspect`, and the formats: a data directory that an earlier commit wrote is read as it was written.
//!
//! `data/format-1.tar.gz` was written by the first test below, which is run by hand when there is a new format:
//! `BASALT_WRITE_FORMAT=2 cargo test -p basalt --test inspect -- --ignored`. Old ones stay, and stay readable.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Server, Setup, Value, eventually};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const FORMATS: [&str; 1] = ["format-1"];

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
    let large = vec![b'x'; 6000];
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

/// What a store says that was opened on such a directory.
const ANSWERS: [(&str, &str); 14] = [
    ("DBSIZE", "(integer) 11"),
    ("GET greeting", "again"),
    ("GET gone", "(nil)"),
    ("PEXPIRETIME expiring", "(integer) 4102444800000"),
    ("HGETALL small", "b,2,a,1"),
    ("STRLEN large", "(integer) 6000"),
    ("STRLEN empty", "(integer) 0"),
    ("HLEN spread", "(integer) 199"),
    ("HMGET spread f0 f1 f199", "changed,(nil),v199"),
    ("OBJECT ENCODING spread", "hashtable"),
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
#[ignore = "writes the data of a new format: see the words at the top"]
fn write_the_data_of_this_format() {
    let format = std::env::var("BASALT_WRITE_FORMAT").expect("the number of the format");
    let dir = Dir::new("format");
    let data = dir.join("data");
    // The smallest memory, so that little data makes it flush.
    let setup = Setup::bare(&data).with("--shards", "2").with("--memory", "16mb");
    let server = Server::start(&setup);
    let mut connection = server.connect();
    write_early(&mut connection);
    let filler = "a".repeat(3000);
    eventually("both trees are flushed", Duration::from_secs(60), || {
        for key in ["key7", "foo"].repeat(25) {
            connection.call(&format!("SET {key} {filler}"));
        }
        let shards = json(&data, &["--live"])["shards"].clone();
        let flushed = |shard: &serde_json::Value| shard["tree"]["flushed"].as_u64().is_some_and(|index| index > 50);
        shards.as_array().unwrap().iter().all(flushed).then_some(())
    });
    write_late(&mut connection);
    server.kill();
    let archive = format!("{}/tests/data/format-{format}.tar.gz", env!("CARGO_MANIFEST_DIR"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--mtime=@0", "-czf", &archive]);
    assert!(tar.arg("-C").arg(dir.path()).arg("data").status().unwrap().success());
}
