//! A rolling upgrade under load: three nodes run the binary of a commit before, and are started with this one's in turn.
//!
//! BASALT_BEFORE names that binary; without it `cargo xtask before` builds one, in `target/before`.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, Dir, Nodes, Value, announce, eventually, skip};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(60);
const WRITERS: usize = 4;
/// So many more writes show that a store of two versions works.
const PROGRESS: u64 = 400;

/// Writes by a script what replicas of two releases could see differently.
const SCRIPT: [&str; 4] = ["EVAL", "return redis.call('SET', KEYS[1], redis.REDIS_VERSION)", "1", "scripted"];

/// Tells the writers to stop, also if the test has failed: they are waited for.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn binary_before() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("before").join("basalt");
    let named = std::env::var_os("BASALT_BEFORE").map(PathBuf::from);
    named.or_else(|| built.exists().then_some(built))
}

/// Behind so many bits those lie that writers set: the string is a long one, which releases keep in different ways.
const BITS_BEFORE: i64 = 400_000;

/// Raises counters of its own, and sets a bit of a string for every fourth; answers how far each was acknowledged, and how many bits are set.
fn count_until(stop: &AtomicBool, mut client: Client, writer: usize, written: &AtomicU64) -> Vec<(String, i64)> {
    let mut bits = (format!("bits:{writer}"), 0);
    let mut counters: Vec<(String, i64)> = (0..50).map(|n| (format!("w{writer}:{n}"), 0)).collect();
    let (mut n, count) = (0, counters.len());
    while !stop.load(Ordering::Acquire) {
        let (key, value) = &mut counters[n % count];
        let next = (*value + 1).to_string();
        assert_eq!(client.call(SOON, &["SET", key, &next]), Value::ok());
        (n, *value) = (n + 1, *value + 1);
        if n % 4 == 0 {
            let offset = (BITS_BEFORE + 7 * bits.1).to_string();
            // Where a node has stopped meanwhile, it may have been made before it was asked again.
            let was_set = client.call(SOON, &["SETBIT", &bits.0, &offset, "1"]);
            assert!(matches!(was_set, Value::Int(0 | 1)), "{was_set:?}");
            bits.1 += 1;
        }
        written.fetch_add(1, Ordering::AcqRel);
    }
    counters.push(bits);
    counters
}

#[test]
fn nodes_are_upgraded_in_turn_while_the_store_is_written() {
    let Some(before) = binary_before() else {
        return skip("before", "BASALT_BEFORE names no binary, and `cargo xtask before` has built none");
    };
    let dir = Dir::new("upgrade");
    let mut nodes = Nodes::start_of(&dir, 3, &[("--shards", "6")], &before);
    nodes.wait_spread();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |what: &str| {
        let wanted = written.load(Ordering::Acquire) + PROGRESS;
        eventually(what, SOON, || (written.load(Ordering::Acquire) >= wanted).then_some(()));
    };
    let counters: Vec<(String, i64)> = thread::scope(|scope| {
        let (stop, written) = (&stop, &written);
        let stop_at_end = StopAtEnd(stop);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| (writer, nodes.client()))
            .map(|(writer, client)| scope.spawn(move || count_until(stop, client, writer, written)))
            .collect();
        progress("the old store is written");
        for n in 0..nodes.count() {
            nodes.stop(n);
            nodes.runs_from_now(n, Path::new(env!("CARGO_BIN_EXE_basalt")));
            nodes.spawn(n);
            nodes.wait_whole();
            // The node takes its share, so nodes of both versions lead and follow each other.
            nodes.wait_spread();
            progress("a store of two versions is written");
            let mut client = nodes.client();
            if n + 1 < nodes.count() {
                // A program before may know scripts; one that does not must never see one.
                let answer = client.call(SOON, &SCRIPT);
                let is_refused = ["once every node", "unknown command"].iter().any(|why| answer.text().contains(why));
                assert!(answer == Value::ok() || is_refused, "{answer:?}");
                // Likewise of keys of databases beyond 0, which this node would begin.
                let answer = nodes.connect(n).call("SELECT 1");
                assert!(answer == Value::ok() || answer.text().contains("once every node"), "{answer:?}");
            } else {
                eventually("databases beyond 0 are begun", SOON, || {
                    (nodes.connect(n).call("SELECT 1") == Value::ok()).then_some(())
                });
                let info = client.call(SOON, &["INFO", "server"]).text();
                let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap().to_owned();
                eventually("scripts run by the newest rules", SOON, || {
                    let has_run = client.call(SOON, &SCRIPT) == Value::ok();
                    (has_run && client.call(SOON, &["GET", "scripted"]).text() == version).then_some(())
                });
            }
        }
        drop(stop_at_end);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    announce(&format!("upgrade: {} writes", written.load(Ordering::Acquire)));
    let check = |nodes: &Nodes, when: &str| {
        let mut client = nodes.client();
        for (key, value) in counters.iter().filter(|(_, value)| *value > 0) {
            let (command, expected) = match key.starts_with("bits:") {
                true => ("BITCOUNT", Value::Int(*value)),
                false => ("GET", Value::bulk(value.to_string())),
            };
            assert_eq!(client.call(SOON, &[command, key]), expected, "{key}, {when}");
        }
    };
    check(&nodes, "after the upgrade");
    let verify = nodes.run_ctl(&["verify"]);
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
    nodes.kill_all();
    (0..nodes.count()).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    check(&nodes, "after a start of all");
}
