//! Data that are larger than memory and in no page cache: whatever way a request takes to the disk, it is answered as
//! what was written says, and others are answered meanwhile.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, announce};
use std::collections::HashMap;
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

/// The client that appends to the string of a number, which no other client asks for then.
fn owner(n: u64) -> Option<u64> {
    (n < KEYS && n.is_multiple_of(16) && !is_hash(n)).then_some(n / 16 % CLIENTS)
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

/// A request of a client and what it must be answered with. `appended`: to which of its numbers it has appended, and how
/// often.
fn request(random: &mut Random, client: u64, appended: &mut HashMap<u64, usize>) -> (Vec<Vec<u8>>, Value) {
    let mut n = random.below(KEYS + KEYS / 10);
    while owner(n).is_some_and(|owner| owner != client) {
        n = random.below(KEYS);
    }
    let key = |n: u64| format!("key{n}").into_bytes();
    if owner(n).is_some() && random.below(2) == 0 {
        let times = appended.entry(n).or_default();
        *times += 1;
        return (vec![b"APPEND".to_vec(), key(n), b"x".to_vec()], Value::Int((value(n).len() + *times) as i64));
    }
    let value = |n: u64| [value(n), vec![b'x'; appended.get(&n).copied().unwrap_or_default()]].concat();
    let written = |n: u64| (n < KEYS).then(|| value(n)).map_or(Value::NilBulk, Value::bulk);
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

/// Asks in pipelines until told to stop; how often.
fn ask(server: &Server, client: u64, stop: &AtomicBool) -> u64 {
    let (mut connection, mut random, mut appended) = (server.connect(), Random::new(client), HashMap::new());
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let requests: Vec<_> = (0..=random.below(20)).map(|_| request(&mut random, client, &mut appended)).collect();
        for (words, _) in &requests {
            connection.send(&Connection::encode(words)).unwrap();
        }
        for (words, expected) in &requests {
            let answer = connection.read().unwrap();
            assert_eq!(answer, *expected, "{}", words.join(&b' ').escape_ascii());
        }
        asked += requests.len() as u64;
    }
    asked
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

/// Whether its event loop has given reads to a thread.
fn has_disk_thread(server: &Server) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
    let mut names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name.starts_with("disk-reader"))
}

#[test]
fn requests_beyond_memory_are_answered_as_what_was_written_says() {
    let dir = Dir::new("beyond-memory");
    let data = dir.join("data");
    let server = Server::start(&setup(&data));
    fill(&mut server.connect());
    assert!(server.stop());
    let server = Server::start(&setup(&data));
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let (asked, direct, threaded) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || ask(server, client, stop))
            })
            .collect();
        let mut direct = 0;
        while begun.elapsed() < LASTS && !clients.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            evict(&data);
            direct = direct.max(direct_files(&server));
        }
        stop.store(true, Ordering::Relaxed);
        let asked: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        (asked, direct, has_disk_thread(&server))
    });
    // None where the kernel has no rings, or the disk is so fast that nothing waits for it.
    announce(&format!(
        "beyond memory: {asked} requests, {direct} files read past the page cache, disk thread: {threaded}"
    ));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(!threaded || processors > 1, "a disk thread is of use where there are processors");
    assert!(asked > 100, "{asked} requests");
    assert!(server.stop());
}
