//! Requests of the largest size: they cost no election, and other clients go on.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Random, Value, number};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A request of this size may take its time on a machine that does something else too.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of each SET: four of them are what MULTI may hold.
const VALUE_BYTES: usize = 60_000_000;

/// What a node tells of one of its replicas.
struct Told {
    first_slot: u16,
    leads: bool,
    term: u64,
}

/// What a node tells of all shards.
fn told_by(nodes: &Nodes, n: usize) -> BTreeMap<String, Told> {
    let info = nodes.connect(n).call("INFO basalt").text();
    let shards = info.lines().filter_map(|line| line.strip_prefix("shard")?.split_once(':'));
    let told = |fields: &str| {
        let field = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let first_slot = field("slots")?.split('-').next()?.parse().ok()?;
        Some(Told { first_slot, leads: field("role")? == "leader", term: field("term")?.parse().ok()? })
    };
    shards.filter_map(|(shard, fields)| Some((shard.to_owned(), told(fields)?))).collect()
}

/// The term of each shard, once all nodes tell the same, and the same leader as where they send clients: what INFO tells is a
/// moment old, so that it may be of the term before a hand-over which is known already.
fn terms(nodes: &Nodes) -> BTreeMap<String, u64> {
    common::eventually("all nodes tell the same of all shards", PATIENCE, || {
        let told: Vec<_> = (0..3).map(|n| told_by(nodes, n)).collect();
        let is_known = |(shard, first): (&String, &Told)| {
            let at = |n: usize| told[n].get(shard);
            let is_one = (0..3).all(|n| at(n).is_some_and(|told| told.term == first.term));
            let leader = (0..3).find(|n| at(*n).is_some_and(|told| told.leads));
            is_one && (0..3).all(|n| Some(nodes.leader_of_slot(n, first.first_slot)) == leader)
        };
        let terms = || told[0].iter().map(|(shard, told)| (shard.clone(), told.term)).collect();
        told[0].iter().all(is_known).then(terms)
    })
}

/// Writes and reads a key of its own until it is told to stop; counts what it has done. On a machine that does something
/// else too, it may be told that a request took too long; anything else ends the test.
fn other_client(nodes: &Nodes, n: usize, key: &str, stop: &AtomicBool, done: &AtomicU64) {
    let mut connection = nodes.connect(n);
    connection.patience(PATIENCE);
    let requests = [(format!("SET {key} value"), Value::ok()), (format!("GET {key}"), Value::bulk("value"))];
    connection.call(&requests[0].0);
    while !stop.load(Ordering::Acquire) {
        for (words, expected) in &requests {
            let answer = connection.call(words);
            let is_late =
                answer.is_error() && ["TIMEOUT", "CLUSTERDOWN"].iter().any(|code| answer.text().contains(code));
            assert!(is_late || answer == *expected, "{words}: {answer:?}");
            done.fetch_add(u64::from(!is_late), Ordering::Relaxed);
        }
    }
}

/// Tells the other clients to stop, also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn transaction(connection: &mut Connection, value: &[u8]) {
    assert_eq!(connection.call("MULTI"), Value::ok());
    assert_eq!(connection.call("INCR {t}count"), Value::Simple("QUEUED".into()));
    for n in 0..4 {
        let set = connection.try_call(&[b"SET".as_slice(), format!("{{t}}{n}").as_bytes(), value]).unwrap();
        assert_eq!(set, Value::Simple("QUEUED".into()));
    }
}

#[test]
fn the_largest_transactions_and_values_cost_no_election_and_others_go_on() {
    let dir = Dir::new("large");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "6"), ("--memory", "512M")]);
    nodes.wait_spread();
    let leader = nodes.leader(0, "{t}");
    // A key of another shard, on the same event loop.
    let near = (0..1000).map(|n| format!("near{n}"));
    let far_from_t = |key: &String| common::slot(key) / 2731 != common::slot("{t}") / 2731;
    let near = near.filter(far_from_t).find(|key| nodes.leader(0, key) == leader).unwrap();
    let far = nodes.key_led_by((leader + 1) % 3, "far");
    let before = terms(&nodes);
    assert_eq!(before.len(), 6, "all shards: {before:?}");
    let (stop, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    thread::scope(|scope| {
        let others = [(leader, &near), ((leader + 1) % 3, &far)];
        for ((n, key), done) in others.into_iter().zip(&done) {
            let (nodes, stop) = (&nodes, &stop);
            scope.spawn(move || other_client(nodes, n, key, stop, done));
        }
        let _stop = StopOnDrop(&stop);
        let counts = || done.each_ref().map(|done| done.load(Ordering::Relaxed));
        let mut connection = nodes.connect(leader);
        connection.patience(PATIENCE);
        let value = Random::new(1).bytes(1 << 20).repeat(VALUE_BYTES >> 20);
        for round in 1..=number("BASALT_LARGE_ROUNDS", 2) {
            transaction(&mut connection, &value);
            let begun = counts();
            let answer = connection.call("EXEC");
            assert_eq!(answer.items()[0], Value::Int(round as i64), "{answer:?}");
            let gone_on = counts();
            assert!(begun.iter().zip(&gone_on).all(|(begun, now)| now > begun), "others in round {round}: {gone_on:?}");
        }
        let largest = value.repeat(2)[..64 << 20].to_vec();
        let set = connection.try_call(&[b"SET".as_slice(), b"{t}0", &largest]).unwrap();
        assert_eq!(set, Value::ok());
        assert_eq!(connection.try_call(&["GET", "{t}0"]).unwrap(), Value::Bulk(largest));
    });
    assert_eq!(terms(&nodes), before, "no shard had an election");
}
