//! A flipped byte anywhere in a stopped store's files: it refuses to start and names the file, or answers an error
//! that does, or the byte did not matter. Never a wrong answer, never "not found".
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, announce, number, tree_hash};
use std::path::{Path, PathBuf};
use std::process::Command;

const KEYS: u64 = 3_000;

fn value(n: u64) -> Vec<u8> {
    // One in 16 is large enough to be kept out of the levels.
    Random::new(n).bytes(if n.is_multiple_of(16) { 100_000 } else { 2_000 })
}

fn setup(dir: &Path) -> Setup {
    Setup::bare(dir).with("--shards", "2").with("--memory", "64mb")
}

fn fill(connection: &mut Connection) {
    for batch in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        for n in batch {
            let set = Connection::encode(&[b"SET".as_slice(), format!("key{n}").as_bytes(), &value(*n)]);
            connection.send(&set).unwrap();
        }
        for _ in batch {
            assert_eq!(connection.read().unwrap(), Value::ok());
        }
    }
    // Damage to the last write of all cannot be told from a write that a crash tore: it is not looked at. Both shards
    // get one, as their logs end apart.
    for key in ["a", "b", "c", "d"] {
        assert_eq!(connection.call(&format!("SET {key} last")), Value::ok());
    }
}

/// A store that was filled and stopped politely: what was written is in tables.
fn stopped_store(dir: &Dir) -> PathBuf {
    let data = dir.join("data");
    let server = Server::start(&setup(&data));
    fill(&mut server.connect());
    assert!(server.stop());
    data
}

fn is_below(file: &Path, folder: &str) -> bool {
    file.components().any(|part| part.as_os_str() == folder)
}

/// What reading everything came to.
#[derive(Debug, Default)]
struct Reads {
    right: u64,
    errors: Vec<String>,
    wrong: Vec<String>,
}

fn read_all(server: &Server) -> Reads {
    let mut reads = Reads::default();
    let mut connection = server.connect();
    for n in 0..KEYS {
        match connection.try_call(&["GET".to_owned(), format!("key{n}")]) {
            Ok(Value::Bulk(bytes)) if bytes == value(n) => reads.right += 1,
            Ok(Value::Error(text)) => reads.errors.push(text),
            Ok(Value::Bulk(_)) => reads.wrong.push(format!("key{n} has another value")),
            Ok(other) => reads.wrong.push(format!("key{n}: {other:?}")),
            // It ended rather than answer wrongly; its messages must say why.
            Err(error) => {
                reads.errors.push(format!("{error}: {}", server.messages()));
                break;
            }
        }
    }
    reads
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}

/// Where to flip: some places of every file, and every file at least once.
fn places(data: &Path, random: &mut Random, count: usize) -> Vec<(PathBuf, u64)> {
    let files: Vec<_> = tree_hash(data).into_iter().filter(|(_, length, _)| *length > 0).collect();
    assert!(!files.is_empty());
    let mut places: Vec<_> = files.iter().map(|(path, length, _)| (path.clone(), random.below(*length))).collect();
    while places.len() < count {
        let (path, length, _) = random.pick(&files);
        places.push((path.clone(), random.below(*length)));
    }
    // A seeded choice of `count` of them.
    while places.len() > count {
        places.swap_remove(random.below(places.len() as u64) as usize);
    }
    places
}

/// One flip; what became of it, or why that is wrong.
fn flip(source: &Path, data: &Path, file: &Path, at: u64) -> Result<&'static str, String> {
    copy(source, data);
    let path = data.join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at as usize] ^= 0x5A;
    std::fs::write(&path, bytes).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let place = format!("{} at {at}", file.display());
    let _ = std::fs::remove_file(data.with_extension("messages"));
    match Server::try_start(&setup(data)) {
        Err(messages) if messages.contains(&name) => Ok("start refused"),
        Err(messages) => Err(format!("{place}: the refusal does not name the file:\n{messages}")),
        Ok(server) => {
            let reads = read_all(&server);
            if let Some(wrong) = reads.wrong.first() {
                return Err(format!("{place}: {} wrong answers, first {wrong}", reads.wrong.len()));
            }
            match reads.errors.first() {
                None => Ok("harmless"),
                Some(error) if error.contains(&name) => Ok("reads refused"),
                Some(error) => Err(format!("{place}: the error does not name the file: {error}")),
            }
        }
    }
}

fn hunt(name: &str, source: &Path, dir: &Dir, seed: u64) {
    let count = number("BASALT_CORRUPTION_FLIPS", 24) as usize;
    let mut random = Random::new(seed);
    let (mut outcomes, mut failures) = (std::collections::BTreeMap::new(), Vec::new());
    for (file, at) in places(source, &mut random, count) {
        match flip(source, &dir.join("flipped"), &file, at) {
            Ok(outcome) => *outcomes.entry(outcome).or_insert(0) += 1,
            Err(why) => failures.push(why),
        }
    }
    announce(&format!("corruption: {name}: {outcomes:?}, {} failures", failures.len()));
    assert!(failures.is_empty(), "{} flips:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_flipped_byte_in_the_tree_is_never_a_wrong_answer() {
    let dir = Dir::new("corrupt-tree");
    let data = stopped_store(&dir);
    let files = tree_hash(&data);
    let kept_in = |folder: &str| files.iter().any(|(path, _, _)| is_below(path, folder));
    assert!(kept_in("tables") && kept_in("blobs"), "nothing was flushed: {files:?}");
    hunt("after a stop", &data, &dir, number("BASALT_CORRUPTION_SEED", 1));
}

/// A write looks up what it replaces. Where that is damaged the shard's only replica cannot go on, and no client waits for
/// another leader: there will be none.
#[test]
fn a_shard_that_cannot_go_on_says_why_at_once() {
    let dir = Dir::new("corrupt-gone");
    let data = stopped_store(&dir);
    for (file, length, _) in tree_hash(&data) {
        // Shard 0 has the map, without which no node starts.
        let of_data = !file.starts_with("shards/0");
        // In a table of a few writes, the last ones, a start looks at every block.
        if of_data && is_below(&file, "tables") && length > 64 << 10 {
            let mut bytes = std::fs::read(data.join(&file)).unwrap();
            // Rows are there; what a start looks at is before and after them.
            let half = length as usize / 2;
            bytes[half / 4..half].iter_mut().step_by(512).for_each(|byte| *byte ^= 0x5A);
            std::fs::write(data.join(&file), bytes).unwrap();
        }
    }
    let server = Server::start(&setup(&data));
    let mut connection = server.connect();
    let refused = |answer: &Value| matches!(answer, Value::Error(text) if text.contains("tables"));
    let gone = (0..KEYS).map(|n| format!("key{n}")).find(|key| {
        let answer = connection.call(&format!("SET {key} new"));
        assert!(answer == Value::ok() || answer.is_error(), "{answer:?}");
        answer.is_error()
    });
    let gone = gone.expect("a write that looks up a damaged row");
    for read in ["GET", "STRLEN", "EXISTS"] {
        // Damage, at once; a read that was held until its time is over would say CLUSTERDOWN.
        let answer = connection.call(&format!("{read} {gone}"));
        assert!(refused(&answer), "{read}: {answer:?}");
    }
}

/// Killed: what was written is in the log.
#[test]
fn a_flipped_byte_in_the_log_is_never_a_wrong_answer() {
    let dir = Dir::new("corrupt-log");
    let data = dir.join("data");
    let server = Server::start(&setup(&data));
    fill(&mut server.connect());
    server.kill();
    hunt("after a kill", &data, &dir, number("BASALT_CORRUPTION_SEED", 2));
}
