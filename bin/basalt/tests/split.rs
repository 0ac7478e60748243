//! Shards that become two while they serve, and while their nodes are killed: no request fails, and every row is there once.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, Connection, Dir, Nodes, Random, Value, eventually, slot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(40);
const KEYS: u64 = 600;
/// Keys that stay as they are.
const FIXED: usize = 100;

/// What a writer's keys hold; two values where it is not known which.
type Held = BTreeMap<String, Vec<String>>;

/// Writes and reads keys of its own until it is told to stop; each read must see the last write.
fn work(client: &mut Client, stop: &AtomicBool, writer: u64, count: &AtomicU64) -> Held {
    let (mut held, mut random) = (Held::new(), Random::new(writer));
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let key = format!("key{}-{writer}", random.below(KEYS));
        if random.below(2) == 0
            && let Some(values) = held.get(&key)
        {
            let read = client.call(SOON, &["GET", &key]).text();
            assert!(values.contains(&read), "{key} of slot {} is {read}, not {values:?}", slot(&key));
            continue;
        }
        number += 1;
        let value = format!("{number}");
        client.call(SOON, &["SET", &key, &value]);
        held.insert(key, vec![value]);
        count.fetch_add(1, Ordering::AcqRel);
    }
    held
}

/// Waits until the writers have written a good deal more.
fn wait_for_writes(written: &AtomicU64) {
    let wanted = written.load(Ordering::Acquire) + KEYS / 2;
    eventually("all write", SOON, || (written.load(Ordering::Acquire) >= wanted).then_some(()));
}

/// Requests of a client that follows redirections and does not retry anything.
fn work_once(connection: &mut Connection, stop: &AtomicBool) -> u64 {
    let (mut random, mut requests) = (Random::new(77), 0);
    while !stop.load(Ordering::Acquire) {
        let key = format!("once{}", random.below(KEYS));
        let answer = connection.try_call(&["SET", &key, "x"]).unwrap();
        assert_eq!(answer, Value::ok(), "{key} of slot {}", slot(&key));
        assert_eq!(connection.try_call(&["GET", &key]).unwrap().text(), "x", "{key} of slot {}", slot(&key));
        requests += 2;
    }
    requests
}

/// Walks over the keys of a node, all of which were there before; how often.
fn walk(connection: &mut Connection, stop: &AtomicBool) -> u64 {
    let mut walks = 0;
    while !stop.load(Ordering::Acquire) {
        let answer = connection.call("KEYS fixed*");
        // Where the tree could not be forked in time, it is not known.
        assert!(!answer.is_error() || answer.text().starts_with("TRYAGAIN"), "{answer:?}");
        if !answer.is_error() {
            assert_eq!(answer.items().len(), FIXED, "after {walks}");
            walks += 1;
        }
    }
    walks
}

/// Shards that have slots: not the map's, nor one whose split is under way.
fn shards(nodes: &Nodes) -> usize {
    let Some(map) = nodes.admin(&["MAP"]) else { return 0 };
    let has_slots = |shard: &&serde_json::Value| shard["slots"].as_array().is_some_and(|slots| !slots.is_empty());
    map["shards"].as_array().map_or(0, |shards| shards.iter().filter(has_slots).count())
}

fn wait_for_plan(nodes: &Nodes, plan: u64) {
    eventually("the plan is done", SOON, || {
        let one = nodes.admin(&["PLAN", "SHOW", &plan.to_string()])?;
        assert!(one["state"] != "failed" && one["state"] != "cancelled", "{one}");
        (one["state"] == "done").then_some(())
    });
}

/// Everything is there once, by every node.
fn check(nodes: &Nodes, held: &Held, others: &BTreeSet<String>) {
    let mut client = nodes.client();
    for (key, values) in held {
        let read = client.call(SOON, &["GET", key]).text();
        assert!(values.contains(&read), "{key} of slot {} is {read}, not {values:?}", slot(key));
    }
    let expected: BTreeSet<String> = held.keys().chain(others).cloned().collect();
    let (mut cursor, mut walked) = ("0".to_owned(), Vec::new());
    loop {
        let answer = client.call(SOON, &["CLUSTERSCAN", &cursor, "COUNT", "97"]);
        cursor = answer.items()[0].text();
        walked.extend(answer.items()[1].items().iter().map(Value::text));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(walked.len(), expected.len(), "a key is walked over twice");
    assert_eq!(walked.into_iter().collect::<BTreeSet<_>>(), expected, "CLUSTERSCAN");
    for n in 0..nodes.count() {
        let mut connection = nodes.connect(n);
        let mut scanned = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let answer = connection.call(&format!("SCAN {cursor} COUNT 97 STORE"));
            cursor = answer.items()[0].text();
            scanned.extend(answer.items()[1].items().iter().map(Value::text));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(scanned.len(), expected.len(), "node {n}: a key is scanned twice");
        assert_eq!(scanned.into_iter().collect::<BTreeSet<_>>(), expected, "node {n}");
        assert_eq!(connection.call("DBSIZE STORE").int(), expected.len() as i64, "node {n}");
    }
}

#[test]
fn no_request_fails_while_a_shard_splits() {
    let dir = Dir::new("split-one");
    let nodes = Nodes::start(&dir, 1, &[("--shards", "1"), ("--replication-factor", "1")]);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut first, mut connection, mut walking) = (nodes.client(), nodes.connect(0), nodes.connect(0));
    let fixed: Vec<String> = (0..FIXED).map(|i| format!("fixed{i}")).collect();
    fixed.iter().for_each(|key| assert_eq!(walking.call(&format!("SET {key} x")), Value::ok()));
    let held = thread::scope(|scope| {
        let writer = scope.spawn(|| work(&mut first, &stop, 1, &written));
        let once = scope.spawn(|| work_once(&mut connection, &stop));
        let walker = scope.spawn(|| walk(&mut walking, &stop));
        wait_for_writes(&written);
        for shard in ["1", "1", "2"] {
            wait_for_plan(&nodes, nodes.plan(&["split-shard", shard]));
        }
        stop.store(true, Ordering::Release);
        assert!(once.join().unwrap() > 0 && walker.join().unwrap() > 0);
        writer.join().unwrap()
    });
    assert_eq!(shards(&nodes), 4, "one was split, then both halves");
    let once = (0..KEYS).map(|n| format!("once{n}"));
    let mut connection = nodes.connect(0);
    let once = once.filter(|key| connection.call(&format!("EXISTS {key}")).int() == 1);
    check(&nodes, &held, &once.chain(fixed).collect());
}

#[test]
fn a_split_survives_a_node_that_is_killed_in_it() {
    let dir = Dir::new("split-kill");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "2")]);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut clients = [nodes.client(), nodes.client()];
    let held = thread::scope(|scope| {
        let (stop, written) = (&stop, &written);
        let writers: Vec<_> =
            (0..).zip(&mut clients).map(|(n, client)| scope.spawn(move || work(client, stop, n, written))).collect();
        for (round, shard) in ["1", "2", "1"].into_iter().enumerate() {
            wait_for_writes(written);
            let before = shards(&nodes);
            let plan = nodes.plan(&["split-shard", shard]);
            // Right after the order, once the map has the new shard without slots, and once that has its slots.
            let listed = || nodes.admin(&["MAP"]).and_then(|map| Some(map["splits"].as_array()?.len())).unwrap_or(0);
            let is_so_far = || round == 0 || shards(&nodes) > before || round == 1 && listed() > 0;
            eventually("the split is so far", SOON, || is_so_far().then_some(()));
            nodes.kill(round);
            nodes.spawn(round);
            wait_for_plan(&nodes, plan);
        }
        stop.store(true, Ordering::Release);
        let mut held = Held::new();
        writers.into_iter().for_each(|writer| held.extend(writer.join().unwrap()));
        held
    });
    nodes.wait_whole();
    assert_eq!(shards(&nodes), 5, "of two, by three splits");
    check(&nodes, &held, &BTreeSet::new());
    // All over again: nothing is replayed wrongly.
    nodes.kill_all();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    check(&nodes, &held, &BTreeSet::new());
}

/// A shard that is asked too often becomes two by itself, where its keys are asked; one hot key alone changes nothing.
#[test]
fn a_shard_splits_by_itself_when_it_is_asked_too_often() {
    let dir = Dir::new("split-load");
    let nodes = Nodes::start(&dir, 1, &[("--shards", "1"), ("--replication-factor", "1")]);
    for (name, value) in [("split-rest-ms", "2000"), ("split-ops", "20")] {
        eventually("it is set", SOON, || nodes.admin(&["SETTINGS", "SET", name, value]).map(drop));
    }
    let mut client = nodes.client();
    let before = shards(&nodes);
    let until = std::time::Instant::now() + Duration::from_secs(12);
    while std::time::Instant::now() < until {
        client.call(SOON, &["SET", "hot", "x"]);
    }
    assert_eq!(shards(&nodes), before, "one key cannot be divided");
    let stop = AtomicBool::new(false);
    let held = thread::scope(|scope| {
        let worker = scope.spawn(|| work(&mut nodes.client(), &stop, 1, &AtomicU64::new(0)));
        eventually("it is split", SOON, || (shards(&nodes) > before).then_some(()));
        stop.store(true, Ordering::Release);
        worker.join().unwrap()
    });
    check(&nodes, &held, &BTreeSet::from(["hot".to_owned()]));
}
