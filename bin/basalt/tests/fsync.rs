//! What is on the disk when, and what happens when an fsync fails: seen, and made to fail, from outside by strace.
//! Skipped, and said so, where strace is not installed or may not attach.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Server, Setup, Value, eventually, installed, skip};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// strace on a server, with what it has seen.
struct Trace {
    child: Child,
    output: PathBuf,
}

impl Trace {
    /// None, and it is said why, if there can be no trace here.
    fn attach(server: &Server, dir: &Path, inject: Option<&str>) -> Option<Self> {
        if !installed("strace") {
            skip("strace", "strace is not installed");
            return None;
        }
        let output = dir.join("trace");
        let said = dir.join("trace.messages");
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-s", "8192", "-e", "trace=fdatasync,pwrite64", "-o"]).arg(&output);
        if let Some(inject) = inject {
            command.args(["-e", &format!("inject={inject}")]);
        }
        command.args(["-p", &server.pid().to_string()]);
        let mut child = command.stdin(Stdio::null()).stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
        let attached = eventually("strace attaches", PATIENCE, || {
            let words = std::fs::read_to_string(&said).unwrap_or_default();
            if child.try_wait().unwrap().is_some() { Some(false) } else { words.contains("attached").then_some(true) }
        });
        if !attached {
            skip("strace", "strace may not attach");
            return None;
        }
        Some(Self { child, output })
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// System calls on log files, in order, by name.
    fn of_log(&self) -> Vec<String> {
        let text = self.text();
        let lines = text.lines().filter(|line| line.contains(".raftlog>"));
        lines.filter_map(|line| Some(line.split_once('(')?.0.split_whitespace().last()?.to_owned())).collect()
    }

    /// Whether an fsync of the log is over that began after a write with `part` in it was over.
    fn is_on_disk(&self, part: &str) -> bool {
        // Of each thread, what its call in a log file is of, while it is under way.
        let mut calls: HashMap<&str, Call> = HashMap::new();
        let mut written = false;
        let text = self.text();
        for line in text.lines() {
            let (thread, call) = line.split_once(' ').unwrap_or_default();
            if call.contains(".raftlog>") {
                let of = match call {
                    _ if call.contains("pwrite64(") && call.contains(part) => Call::Write,
                    _ if call.contains("fdatasync(") && written => Call::Fsync,
                    _ => Call::Other,
                };
                calls.insert(thread, of);
            }
            if call.ends_with("<unfinished ...>") {
                continue;
            }
            match calls.remove(thread) {
                Some(Call::Write) => written = true,
                Some(Call::Fsync) if call.ends_with("= 0") => return true,
                _ => {}
            }
        }
        false
    }
}

enum Call {
    /// Of what is looked for.
    Write,
    /// Begun after that.
    Fsync,
    Other,
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Asked to end, so that it lets the server go on.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// With as many workers as fsync together, or with one, which may fsync itself.
fn start(dir: &Dir, durability: &str, workers: u8) -> (Setup, Server) {
    let workers = workers.to_string();
    let setup = Setup::new(&dir.join("data")).with("--durability", durability).with("--workers", &workers);
    let server = Server::start(&setup);
    (setup, server)
}

#[test]
fn an_unsynced_write_is_soon_on_disk_even_if_nothing_follows() {
    let dir = Dir::new("fsync-idle");
    let (_, server) = start(&dir, "nosync", 4);
    let Some(trace) = Trace::attach(&server, dir.path(), None) else { return };
    assert_eq!(server.connect().call("SET k v"), Value::ok());
    eventually("the log is fsynced", PATIENCE, || {
        let calls = trace.of_log();
        let written = calls.iter().position(|call| call == "pwrite64")?;
        calls[written..].iter().any(|call| call == "fdatasync").then_some(())
    });
}

/// Writes of several workers share an fsync, and so do writes of several clients; each must have one nevertheless. Writes
/// alone: what is written beside reads is written by the kernel, where strace does not see it.
#[test]
fn what_is_answered_with_sync_is_on_disk() {
    for workers in [1, 4] {
        let dir = Dir::new(&format!("fsync-company-{workers}"));
        let (_, server) = start(&dir, "sync", workers);
        // So many that it is known how long an fsync takes and how often there is one.
        let rounds = if workers == 1 { 60 } else { 15 };
        let Some(trace) = Trace::attach(&server, dir.path(), None) else { return };
        let connections: Vec<_> = (0..12).map(|_| server.connect()).collect();
        std::thread::scope(|scope| {
            for (writer, mut connection) in connections.into_iter().enumerate() {
                let trace = &trace;
                scope.spawn(move || {
                    for i in 0..rounds {
                        let key = format!("k{writer}:{i}.");
                        assert_eq!(connection.call(&format!("SET {key} v")), Value::ok());
                        assert!(trace.is_on_disk(&key), "{key} was answered without an fsync");
                    }
                });
            }
        });
    }
}

/// The kill of a process takes nothing that was answered, whatever was asked for: `nosync` writes among `sync` ones.
#[test]
fn what_is_answered_without_sync_outlives_the_process() {
    let dir = Dir::new("fsync-mixed");
    let (setup, mut server) = start(&dir, "sync", 1);
    for round in 0..5 {
        let port = server.port();
        std::thread::scope(|scope| {
            for writer in 0..6 {
                scope.spawn(move || {
                    let mut connection = Connection::open(port).unwrap();
                    let durability = if writer == 0 { "nosync" } else { "sync" };
                    for i in 0..40 {
                        let write = format!("KV.PUT k{round}:{writer}:{i} v DURABILITY {durability}");
                        assert!(!connection.call(&write).is_error(), "{write}");
                    }
                });
            }
        });
        server.kill();
        server = Server::start(&setup);
        let mut connection = server.connect();
        for (writer, i) in (0..6).flat_map(|writer| (0..40).map(move |i| (writer, i))) {
            assert_eq!(connection.call(&format!("GET k{round}:{writer}:{i}")), Value::bulk("v"), "{writer}, {i}");
        }
    }
}

#[test]
fn a_slow_fsync_is_a_latency_event() {
    let dir = Dir::new("fsync-slow");
    let (_, server) = start(&dir, "sync", 4);
    let mut connection = server.connect();
    assert_eq!(connection.call("CONFIG SET latency-monitor-threshold 50"), Value::ok());
    let Some(_trace) = Trace::attach(&server, dir.path(), Some("fdatasync:delay_exit=100000")) else { return };
    assert_eq!(connection.call("SET k v"), Value::ok());
    let latest = eventually("the event is noted", PATIENCE, || {
        let events = connection.call("LATENCY LATEST");
        let fsync = events.items().iter().find(|event| event.items()[0] == Value::bulk("fsync"));
        fsync.map(|event| event.items()[2].int())
    });
    assert!(latest >= 100, "{latest} ms");
    assert!(!connection.call("LATENCY HISTORY fsync").items().is_empty());
    assert!(connection.call("LATENCY DOCTOR").text().contains("fsync"));
}

/// A node alone that replays its log reads files of which calls are interrupted: it makes them again.
#[test]
fn a_replay_waits_out_calls_that_are_interrupted() {
    let dir = Dir::new("fsync-interrupted");
    let (setup, server) = start(&dir, "nosync", 1);
    let mut connection = server.connect();
    let key = |i: usize| format!("key{i:05}");
    let value = "v".repeat(200);
    for keys in (0..20_000).collect::<Vec<_>>().chunks(1000) {
        keys.iter().for_each(|i| connection.send(&Connection::encode(&["SET", &key(*i), &value])).unwrap());
        keys.iter().for_each(|_| assert_eq!(connection.read().unwrap(), Value::ok()));
    }
    // From then on they are in files, and what comes is in the log alone.
    assert!(server.stop());
    let server = Server::start(&setup);
    let mut connection = server.connect();
    let appended = || (0..20_000).step_by(40);
    appended().for_each(|i| assert_eq!(connection.call(&format!("APPEND {} end", key(i))).int(), 203));
    server.kill();
    if !installed("strace") {
        return skip("strace", "strace is not installed");
    }
    let trace = dir.join("trace").to_string_lossy().into_owned();
    let inject = "inject=pread64:error=EINTR:when=25+25";
    let traced = setup.under(["strace", "-D", "-f", "-o", &trace, "-e", "trace=pread64", "-e", inject]);
    let server = match Server::try_start(&traced) {
        Err(messages) if messages.contains("ptrace") => return skip("strace", &messages),
        started => started.unwrap(),
    };
    let mut connection = server.connect();
    let expected = Value::bulk(format!("{value}end"));
    appended().for_each(|i| assert_eq!(connection.call(&format!("GET {}", key(i))), expected));
    // A walk over all rows goes on where it was, in either order.
    assert_eq!(connection.call("KEYS *").items().len(), 20_000);
    let page = connection.call("KV.RANGE - + KEYS REVERSE LIMIT 10000");
    let falling: Vec<Value> = (10_000..20_000).rev().map(|i| Value::bulk(key(i))).collect();
    assert!(page.items()[1].items() == falling, "{:?}", &page.items()[1].items()[..3]);
    assert!(std::fs::read_to_string(&trace).unwrap().contains("(INJECTED)"), "no call was interrupted");
    assert!(server.stop());
}

#[test]
fn a_failed_fsync_poisons_the_store_until_restart() {
    for durability in ["sync", "nosync"] {
        let dir = Dir::new("fsync-fails");
        let (setup, server) = start(&dir, durability, if durability == "sync" { 1 } else { 4 });
        let mut connection = server.connect();
        for i in 0..100 {
            assert_eq!(connection.call(&format!("SET before{i} {i}")), Value::ok());
        }
        // Its fsync is one of all that is before it in the log.
        assert!(!connection.call("KV.PUT last v DURABILITY sync").is_error());
        let Some(trace) = Trace::attach(&server, dir.path(), Some("fdatasync:error=EIO:when=1")) else { return };
        let refused = eventually("writes are refused", PATIENCE, || {
            let answer = connection.call("SET during v");
            assert!(durability == "nosync" || answer.is_error(), "a write whose fsync failed was answered {answer:?}");
            answer.is_error().then(|| answer.text())
        });
        assert!(refused.contains("fsync"), "{refused}");
        drop(trace);
        // It would succeed now; that must not be believed.
        let mut others: Vec<Connection> = (0..8).map(|_| server.connect()).collect();
        for (i, other) in others.iter_mut().enumerate() {
            assert!(other.call(&format!("SET after{i} v")).text().contains("until this node is restarted"));
            assert_eq!(other.call(&format!("GET before{i}")), Value::bulk(i.to_string()));
        }
        assert!(connection.call("INFO").text().contains("disk_state:poisoned"));
        assert!(server.stop());
        let server = Server::start(&setup);
        let mut connection = server.connect();
        for i in 0..100 {
            assert_eq!(connection.call(&format!("GET before{i}")), Value::bulk(i.to_string()));
            assert_eq!(connection.call(&format!("GET after{i}")), Value::NilBulk);
        }
        assert_eq!(connection.call("SET again v"), Value::ok());
    }
}
