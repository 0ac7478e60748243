//! kill -9 at random moments under load, restart, compare: no acknowledged write is lost, none is torn or doubled.
//!
//! The gate runs a few rounds; `cargo xtask crash` as many as one likes. A failure prints its seed.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

#[path = "../common/mod.rs"]
mod common;
mod model;

use common::{Connection, Dir, Random, Server, Setup, Value, announce, number};
use model::{Group, Write};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

const WRITERS: u64 = 8;
const GROUPS: u64 = 4;

/// One connection's groups, and what it does to them.
struct Writer {
    random: Random,
    groups: Vec<Group>,
    depth: usize,
}

impl Writer {
    fn new(name: u64, seed: u64) -> Self {
        let groups = (0..GROUPS).map(|group| Group::new(format!("w{name}g{group}"))).collect();
        Self { random: Random::new(seed ^ (name << 32)), groups, depth: 1 << (name % 5) }
    }

    /// Writes until the connection breaks; how many writes were acknowledged.
    fn run(&mut self, port: u16) -> u64 {
        let Ok(mut connection) = Connection::open(port) else { return 0 };
        let mut pending: VecDeque<(usize, usize)> = VecDeque::new();
        let mut acknowledged = 0;
        loop {
            while pending.len() < self.depth {
                let group = self.random.below(GROUPS) as usize;
                let write = Write::random(&mut self.random);
                let (bytes, answers) = write.encode(self.groups[group].tag());
                self.groups[group].sending(write);
                pending.push_back((group, answers));
                if connection.send(&bytes).is_err() {
                    break;
                }
            }
            let Some((group, answers)) = pending.pop_front() else { return acknowledged };
            if read_answers(&mut connection, answers).is_err() {
                return acknowledged;
            }
            self.groups[group].acknowledged();
            acknowledged += 1;
        }
    }
}

/// Reads until the connection breaks: writes that come beside reads are made durable in another way.
fn read_on(port: u16) {
    let Ok(mut connection) = Connection::open(port) else { return };
    while connection.send(b"GET nothing\r\n").is_ok() && connection.read().is_ok() {}
}

/// All answers of one write. An error answer on a sound disk is a failure of the test.
fn read_answers(connection: &mut Connection, answers: usize) -> io::Result<()> {
    for _ in 0..answers {
        let answer = connection.read()?;
        let inner = if let Value::Array(items) = &answer { &items[..] } else { std::slice::from_ref(&answer) };
        assert!(!inner.iter().any(Value::is_error), "a write was answered {answer:?}");
    }
    Ok(())
}

fn setup(dir: &Dir, random: &mut Random, engine: &str) -> Setup {
    let durability = random.pick(&["sync", "nosync"]);
    Setup::new(&dir.join("data")).with("--durability", durability).with("--engine", engine)
}

fn verify(server: &Server, writers: &mut [Writer], context: &str) {
    let mut connection = server.connect();
    let groups = writers.iter_mut().flat_map(|writer| &mut writer.groups);
    let wrong: Vec<String> = groups.filter_map(|group| group.verify(&mut connection).err()).collect();
    assert!(wrong.is_empty(), "{context}: {} groups are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn hunt(engine: &str, rounds: u64, seed: u64) {
    let mut random = Random::new(seed);
    let dir = Dir::new(&format!("crash-{engine}"));
    let mut writers: Vec<Writer> = (0..WRITERS).map(|name| Writer::new(name, random.next())).collect();
    let begun = Instant::now();
    let mut acknowledged = 0;
    for round in 0..rounds {
        let context = format!("{engine}, round {round}, BASALT_CRASH_SEED={seed}");
        if random.below(4) == 0 {
            // Recovery is interrupted too.
            let setup = setup(&dir, &mut random, engine);
            Server::start_and_kill(&setup, Duration::from_millis(random.below(150)));
        }
        let server = Server::start(&setup(&dir, &mut random, engine));
        verify(&server, &mut writers, &context);
        let port = server.port();
        let load = Duration::from_millis(20 + random.below(400));
        let polite = random.below(8) == 0;
        acknowledged += std::thread::scope(|scope| {
            if round % 2 == 0 {
                scope.spawn(move || read_on(port));
            }
            let threads: Vec<_> = writers.iter_mut().map(|writer| scope.spawn(move || writer.run(port))).collect();
            std::thread::sleep(load);
            if polite {
                assert!(server.stop(), "{context}: SIGTERM ended it badly")
            } else {
                server.kill()
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        if round % 50 == 49 {
            announce(&format!("{context}: {acknowledged} writes, {:.0} s", begun.elapsed().as_secs_f64()));
        }
    }
    let server = Server::start(&setup(&dir, &mut random, engine));
    verify(&server, &mut writers, &format!("{engine}, at the end, BASALT_CRASH_SEED={seed}"));
    assert!(acknowledged > rounds * WRITERS, "only {acknowledged} writes were acknowledged in {rounds} rounds");
    announce(&format!("{engine}: {rounds} rounds, {acknowledged} acknowledged writes, none lost"));
}

#[test]
fn no_acknowledged_write_is_lost_on_disk() {
    hunt("lsm", number("BASALT_CRASH_ROUNDS", 10), number("BASALT_CRASH_SEED", 1));
}

#[test]
fn no_acknowledged_write_is_lost_in_memory() {
    hunt("memory", number("BASALT_CRASH_ROUNDS", 10).div_ceil(2), number("BASALT_CRASH_SEED", 2));
}
