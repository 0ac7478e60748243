//! Clients that misbehave cost bounded memory and do not slow the others; the libraries of four languages work.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;
#[path = "clients/libraries.rs"]
mod libraries;

use common::{Connection, Dir, Random, Server, Setup, Value, announce, eventually};
use parking_lot::RwLock;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More than anything here may add to the server's memory.
const GROWTH_BYTES_MAX: u64 = 320 << 20;

/// Mischief may share the machine with other mischief, held for reading; a library has it to itself.
static MACHINE: RwLock<()> = RwLock::new(());

fn start(name: &str) -> (Dir, Server) {
    let dir = Dir::new(name);
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    (dir, server)
}

/// Tells threads to end once it goes out of scope, also by a panic: waiting for them would not end.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// So many requests of a well-behaved client are answered while mischief lasts.
const PROBES: usize = 200;

/// The well-behaved client's progress, which mischief waits for.
struct Others {
    answered: AtomicUsize,
}

impl Others {
    /// Returns once enough requests were answered since the call: what the caller holds is held meanwhile.
    fn go_on(&self) {
        let wanted = self.answered.load(Ordering::SeqCst) + PROBES;
        eventually("the others are served", Duration::from_secs(120), || {
            (self.answered.load(Ordering::SeqCst) >= wanted).then_some(())
        });
    }
}

/// A well-behaved client is served while `mischief` goes on, and the server's memory stays within bounds.
fn others_are_served(server: &Server, what: &str, mischief: impl FnOnce(&Others) + Send) {
    let _shared = MACHINE.read();
    let before = server.resident_bytes();
    let mut connection = server.connect();
    let (mut slowest, mut most) = (Duration::ZERO, before);
    let done = AtomicBool::new(false);
    let others = Others { answered: AtomicUsize::new(0) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whatever becomes of the mischief, the probing must end.
            let _done = Done(&done);
            mischief(&others);
        });
        while !done.load(Ordering::SeqCst) {
            let n = others.answered.load(Ordering::SeqCst);
            let start = Instant::now();
            assert_eq!(connection.call(&format!("SET probe {n}")), Value::ok());
            assert_eq!(connection.call("GET probe"), Value::bulk(n.to_string()));
            slowest = slowest.max(start.elapsed());
            most = most.max(server.resident_bytes());
            others.answered.fetch_add(1, Ordering::SeqCst);
        }
    });
    let grown = most - before;
    announce(&format!("{what}: the slowest of the others {slowest:?}, memory +{} MB", grown >> 20));
    assert!(grown < GROWTH_BYTES_MAX, "{what}: {} MB more", grown >> 20);
}

/// Writes as long as the server takes it, for at most `limit`; how much it took.
fn push(stream: &mut TcpStream, bytes: &[u8], limit: Duration) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let begun = Instant::now();
    let mut taken = 0;
    while begun.elapsed() < limit {
        match stream.write(bytes) {
            Ok(n) if n > 0 => taken += n,
            _ => break,
        }
    }
    taken
}

#[test]
fn clients_that_never_read() {
    let (_dir, server) = start("never-read");
    let big = vec![b'x'; 1 << 20];
    assert_eq!(server.connect().try_call(&[b"SET".as_slice(), b"big", &big]).unwrap(), Value::ok());
    let port = server.port();
    others_are_served(&server, "8 clients that never read 1 MB answers", |others| {
        let requests = Connection::encode(&["GET", "big"]).repeat(1000);
        let mut streams: Vec<_> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        for stream in &mut streams {
            push(stream, &requests, Duration::from_secs(2));
        }
        others.go_on();
    });
}

#[test]
fn clients_that_stall_in_the_middle_of_a_request() {
    let (_dir, server) = start("stalled");
    let port = server.port();
    others_are_served(&server, "200 clients that stall within a 60 MB value", |others| {
        let head = b"*3\r\n$3\r\nSET\r\n$5\r\nstall\r\n$60000000\r\n";
        let streams: Vec<_> = (0..200)
            .map(|_| {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                stream.write_all(head).unwrap();
                stream.write_all(&[b'x'; 10_000]).unwrap();
                stream
            })
            .collect();
        others.go_on();
        drop(streams);
    });
    assert!(server.connect().call("GET stall").bytes().is_none());
}

#[test]
fn a_request_of_the_largest_size_is_taken_and_a_larger_one_refused() {
    let (_dir, server) = start("largest");
    let mut connection = server.connect();
    let big = Random::new(1).bytes(32 << 20);
    others_are_served(&server, "a value of 32 MB", |_| {
        assert_eq!(connection.try_call(&[b"SET".as_slice(), b"big", &big]).unwrap(), Value::ok());
        assert!(connection.try_call(&["GET", "big"]).unwrap() == Value::Bulk(big.clone()));
    });
    let answer = connection.send(b"*2\r\n$3\r\nGET\r\n$99999999999\r\n").and_then(|()| connection.read());
    assert_eq!(answer.unwrap(), Value::Error("ERR Protocol error: invalid bulk length".to_owned()));
}

#[test]
fn a_flood_of_garbage() {
    let (_dir, server) = start("garbage");
    let port = server.port();
    others_are_served(&server, "garbage on 2,000 connections", |_| {
        let mut random = Random::new(number_seed());
        for round in 0..2_000u64 {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let length = 1 + random.below(2_000) as usize;
            let mut bytes = random.bytes(length);
            match round % 4 {
                0 => {}
                1 => bytes.insert(0, b'*'),
                2 => bytes.splice(0..0, *b"*3\r\n$3\r\nSET\r\n$").for_each(drop),
                _ => bytes = format!("*{}\r\n${}\r\n", random.below(1 << 40), random.below(1 << 40)).into_bytes(),
            }
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                Err(error) => panic!("round {round}: neither an answer nor an end: {error}"),
            }
        }
    });
}

fn number_seed() -> u64 {
    common::number("BASALT_GARBAGE_SEED", 1)
}

#[test]
fn thousands_of_connections() {
    let (_dir, server) = start("thousands");
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let files: usize = line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX);
    let count = files.saturating_sub(100).min(4_000);
    let port = server.port();
    others_are_served(&server, &format!("{count} connections"), |_| {
        let mut connections: Vec<_> = (0..count).map(|_| Connection::open(port).unwrap()).collect();
        for (n, connection) in connections.iter_mut().enumerate() {
            connection.send(&Connection::encode(&["SET", &format!("c{n}"), &n.to_string()])).unwrap();
        }
        for connection in &mut connections {
            assert_eq!(connection.read().unwrap(), Value::ok());
        }
        for (n, connection) in connections.iter_mut().enumerate() {
            assert_eq!(connection.call(&format!("GET c{n}")), Value::bulk(n.to_string()));
        }
    });
}

/// Those who write, each with an fsync to wait for, are answered by a thread beside the event loop (docs/adr/0020). One of
/// them reads nothing until its socket takes no more.
#[test]
fn writers_are_answered_in_order_though_one_reads_late() {
    const WRITERS: usize = 40;
    const LATE: usize = 2_500;
    let _shared = MACHINE.read();
    let dir = Dir::new("in-order");
    let setup = Setup::new(&dir.join("data")).with("--durability", "sync").with("--workers", "1");
    let server = Server::start(&setup);
    let value = |n: usize| format!("{n}{}", ".".repeat(n * 7 % 9_000));
    let mut late = server.connect();
    assert_eq!(late.call("CLIENT SETNAME late"), Value::ok());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = Done(&is_over);
        for writer in 0..WRITERS {
            let (mut connection, is_over) = (server.connect(), &is_over);
            scope.spawn(move || {
                let (request, at_once) = (Connection::encode(&["INCR", &format!("writer{writer}")]), 1 + writer % 4);
                let mut answers = 0;
                while !is_over.load(Ordering::SeqCst) {
                    connection.send(&request.repeat(at_once)).unwrap();
                    for _ in 0..at_once {
                        answers += 1;
                        assert_eq!(connection.read().unwrap(), Value::Int(answers), "writer {writer}");
                    }
                }
                // Nothing is lost at the end.
                connection.send(&[request.as_slice(), b"QUIT\r\n"].concat()).unwrap();
                assert_eq!(connection.read().unwrap(), Value::Int(answers + 1), "writer {writer}");
                assert_eq!(connection.read().unwrap(), Value::ok(), "writer {writer}");
                assert!(connection.read().is_err(), "writer {writer}: closed");
            });
        }
        let (mut requests, mut pace) = (late.stream().try_clone().unwrap(), server.connect());
        requests.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        scope.spawn(move || {
            for n in 0..LATE {
                requests.write_all(&Connection::encode(&["SET", "late", &value(n), "GET"])).unwrap();
                // An answer a turn, or so: of many at once the event loop itself would be the sender.
                pace.call("INCR pace");
            }
        });
        let mut operator = server.connect();
        eventually("its answers pile up", Duration::from_secs(30), || {
            let clients = operator.call("CLIENT LIST").text();
            let line = clients.lines().find(|line| line.contains("name=late ")).unwrap().to_owned();
            (!line.contains(" omem=0 ")).then_some(())
        });
        assert_eq!(late.read().unwrap(), Value::NilBulk);
        for n in 1..LATE {
            assert!(late.read().unwrap() == Value::bulk(value(n - 1)), "answer {n}");
        }
        drop(done);
    });
}

#[test]
fn clients_that_vanish_under_load() {
    let (_dir, server) = start("vanish");
    let port = server.port();
    others_are_served(&server, "500 clients that vanish with requests under way", |_| {
        let requests = Connection::encode(&["INCR", "vanish"]).repeat(100);
        for _ in 0..500 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(&requests).unwrap();
        }
    });
    let connected = server.connect().call("INFO clients").text();
    assert!(connected.contains("connected_clients:"), "{connected}");
}

/// Entries are applied in their order: of scripts, one client has few under way.
#[test]
fn writes_of_others_come_between_the_scripts_of_one_client() {
    let _shared = MACHINE.read();
    let (_dir, server) = start("long-writes");
    let (mut one, mut other) = (server.connect(), server.connect());
    one.patience(Duration::from_secs(120));
    other.patience(Duration::from_secs(120));
    const TIMES: usize = 200;
    let script = "for i = 1, 300000 do local square = i * i end return redis.call('INCR', KEYS[1])";
    let done = |connection: &mut Connection| -> usize {
        let runs = connection.call("GET {a}runs");
        runs.bytes().map_or(0, |_| runs.text().parse().unwrap())
    };
    one.send(&Connection::encode(&["EVAL", script, "1", "{a}runs"]).repeat(TIMES)).unwrap();
    eventually("the first is made", Duration::from_secs(60), || (done(&mut other) > 0).then_some(()));
    assert_eq!(other.call("SET {a}other 1"), Value::ok());
    assert!(done(&mut other) < TIMES, "all were made before the write of another client");
    for n in 1..=TIMES as i64 {
        assert_eq!(one.read().unwrap(), Value::Int(n));
    }
}
