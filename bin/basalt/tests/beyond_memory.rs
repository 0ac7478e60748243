//! Data that are larger than memory and in no page cache: whatever way a read takes to the disk, it answers what was
//! written, and others are answered meanwhile.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, announce};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 30_000;
const CLIENTS: u64 = 8;
/// So long, at least, with files that are in no page cache.
const LASTS: Duration = Duration::from_secs(3);

fn value(n: u64) -> Vec<u8> {
    // One in 64 is kept out of the tree's levels.
    Random::new(n).bytes(if n.is_multiple_of(64) { 9_000 } else { 1_500 })
}

fn setup(dir: &Path) -> Setup {
    Setup::bare(dir).with("--shards", "4").with("--memory", "16mb").with("--durability", "nosync")
}

/// What kind of key a number has: every third is a hash.
fn is_hash(n: u64) -> bool {
    n.is_multiple_of(3)
}

fn fill(connection: &mut Connection) {
    for batch in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        for &n in batch {
            let (key, value) = (format!("key{n}"), value(n));
            let request: Vec<&[u8]> = match is_hash(n) {
                true => vec![b"HSET", key.as_bytes(), b"field", &value],
                false => vec![b"SET", key.as_bytes(), &value],
            };
            connection.send(&Connection::encode(&request)).unwrap();
        }
        for &n in batch {
            assert_eq!(connection.read().unwrap(), if is_hash(n) { Value::Int(1) } else { Value::ok() });
        }
    }
}

/// Takes the store's files out of the page cache.
fn evict(data: &Path) {
    let dd = ["-exec", "dd", "if={}", "iflag=nocache", "count=0", "status=none", ";"];
    // Files come and go; one that is gone by now is in no cache either.
    Command::new("find").arg(data).args(["-type", "f"]).args(dd).stderr(Stdio::null()).status().unwrap();
}

/// A request and what it must be answered with.
fn request(random: &mut Random) -> (Vec<Vec<u8>>, Value) {
    let n = random.below(KEYS + KEYS / 10);
    let written = |n: u64| (n < KEYS).then(|| value(n)).map_or(Value::NilBulk, Value::bulk);
    let key = |n: u64| format!("key{n}").into_bytes();
    if n < KEYS && is_hash(n) {
        return (vec![b"HGET".to_vec(), key(n), b"field".to_vec()], written(n));
    }
    // Several keys of one slot would need a tag: one key, twice, and one that is not there.
    match random.below(4) {
        0 => {
            let absent = format!("{{{}}}absent", String::from_utf8(key(n)).unwrap()).into_bytes();
            let expected = Value::Array(vec![written(n), Value::NilBulk, written(n)]);
            (vec![b"MGET".to_vec(), key(n), absent, key(n)], expected)
        }
        1 => (vec![b"STRLEN".to_vec(), key(n)], Value::Int(if n < KEYS { value(n).len() as i64 } else { 0 })),
        _ => (vec![b"GET".to_vec(), key(n)], written(n)),
    }
}

/// Reads in pipelines until told to stop; how many.
fn read(server: &Server, seed: u64, stop: &AtomicBool) -> u64 {
    let (mut connection, mut random, mut reads) = (server.connect(), Random::new(seed), 0);
    while !stop.load(Ordering::Relaxed) {
        let requests: Vec<_> = (0..=random.below(20)).map(|_| request(&mut random)).collect();
        for (words, _) in &requests {
            connection.send(&Connection::encode(words)).unwrap();
        }
        for (words, expected) in &requests {
            let answer = connection.read().unwrap();
            assert_eq!(answer, *expected, "{}", words.join(&b' ').escape_ascii());
        }
        reads += requests.len() as u64;
    }
    reads
}

/// Files of the server that are read past the page cache: flag `O_DIRECT` of open(2).
fn direct_files(server: &Server) -> usize {
    let infos = fs::read_dir(format!("/proc/{}/fdinfo", server.pid())).unwrap().flatten();
    let flags = infos.filter_map(|info| {
        let text = fs::read_to_string(info.path()).ok()?;
        i64::from_str_radix(text.lines().find_map(|line| line.strip_prefix("flags:"))?.trim(), 8).ok()
    });
    flags.filter(|flags| flags & 0o40_000 != 0).count()
}

#[test]
fn reads_beyond_memory_answer_what_was_written() {
    let dir = Dir::new("beyond-memory");
    let data = dir.join("data");
    let server = Server::start(&setup(&data));
    fill(&mut server.connect());
    assert!(server.stop());
    let server = Server::start(&setup(&data));
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let (reads, direct) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || read(server, seed, stop))
            })
            .collect();
        let mut direct = 0;
        while begun.elapsed() < LASTS && !readers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            evict(&data);
            direct = direct.max(direct_files(&server));
        }
        stop.store(true, Ordering::Relaxed);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        (reads, direct)
    });
    // None where the kernel has no rings, or the disk is so fast that nobody waits for it.
    announce(&format!("beyond memory: {reads} reads, {direct} files read past the page cache"));
    assert!(reads > 100, "{reads} reads");
    assert!(server.stop());
}
