//! The store changes shape while it serves: nodes join, die, are emptied, rebuilt and restarted, and no client notices.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, Dir, Nodes, Value, announce, eventually};
use serde_json::Value as Json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(60);
/// For how long a client asks again before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nodes take processors: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(value: &Value) -> Option<String> {
    value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Writes keys of its own while something is done, and reads each back; panics if one is refused for good or lost.
fn under_load(nodes: &mut Nodes, what: impl FnOnce(&mut Nodes)) {
    let stop = AtomicBool::new(false);
    let clients: Vec<Client> = (0..2).map(|_| nodes.client()).collect();
    let written: Vec<String> = thread::scope(|scope| {
        let load = |(name, client): (usize, Client)| {
            let stop = &stop;
            scope.spawn(move || write_until(stop, client, name))
        };
        let writers: Vec<_> = clients.into_iter().enumerate().map(load).collect();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| what(nodes)));
        stop.store(true, Ordering::Release);
        let written = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written
    });
    announce(&format!("plans: {} writes", written.len()));
    let mut client = nodes.client();
    for key in &written {
        assert_eq!(text(&client.call(SOON, &["GET", key])).as_ref(), Some(key));
    }
}

fn write_until(stop: &AtomicBool, mut client: Client, name: usize) -> Vec<String> {
    let mut written = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let key = format!("w{name}:{}", written.len());
        assert_eq!(client.try_for(PATIENCE, &["SET", &key, &key]), Some(Value::ok()), "{key}");
        written.push(key);
    }
    written
}

/// The store as the director sees it, once it does.
fn picture(nodes: &Nodes, words: &[&str]) -> Option<Json> {
    nodes.ctl(words).filter(|answer| answer["complete"] != Json::Bool(false))
}

fn node(nodes: &Nodes, n: usize) -> Option<Json> {
    let all = picture(nodes, &["nodes"])?;
    all["nodes"].as_array()?.iter().find(|node| node["client_address"] == nodes.address(n)).cloned()
}

fn wait_for_plan(nodes: &Nodes, kind: &str) {
    eventually(&format!("the plan {kind} is done"), SOON, || {
        let plans = nodes.ctl(&["plan", "list"])?;
        let plan = plans["plans"].as_array()?.iter().rfind(|plan| plan["kind"] == kind)?.clone();
        assert!(plan["state"] != "failed" && plan["state"] != "cancelled", "{plan}");
        (plan["state"] == "done").then_some(())
    });
}

/// Every shard has all its replicas, sound and up.
fn wait_until_whole(nodes: &Nodes) {
    eventually("every shard is well", SOON, || {
        let all = picture(nodes, &["shards"])?;
        all["shards"].as_array()?.iter().all(|shard| shard["state"] == "ok" && shard["plan"].is_null()).then_some(())
    });
}

#[test]
fn a_node_joins_and_another_is_emptied_and_removed() {
    let _alone = alone();
    let dir = Dir::new("plans-join");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "8")]);
    let mut joined = 0;
    under_load(&mut nodes, |nodes| {
        let began = Instant::now();
        joined = nodes.join(&dir);
        eventually("the new node has a shard", SOON, || {
            let node = node(nodes, joined)?;
            (node["replicas"].as_u64()? > 0 && node["keys"].as_u64()? > 0).then_some(())
        });
        announce(&format!("plans: first shard on the new node after {:?}", began.elapsed()));
        wait_for_plan(nodes, "add-node");
        announce(&format!("plans: even after {:?}", began.elapsed()));
        wait_until_whole(nodes);
        for n in 0..4 {
            let replicas = node(nodes, n).unwrap()["replicas"].as_u64().unwrap();
            assert!((5..=8).contains(&replicas), "node {n} has {replicas} of 27 replicas");
        }
        nodes.plan(&["drain-node", &nodes.address(1)]);
        wait_for_plan(nodes, "drain-node");
        let drained = node(nodes, 1).unwrap();
        assert_eq!((drained["replicas"].as_u64(), drained["leaders"].as_u64()), (Some(0), Some(0)));
        eventually("its files are gone", SOON, || {
            let left = std::fs::read_dir(nodes.dir(1).join("shards")).unwrap().count();
            (left == 0).then_some(())
        });
        nodes.plan(&["remove-node", &nodes.address(1)]);
        wait_for_plan(nodes, "remove-node");
        wait_until_whole(nodes);
    });
    assert!(node(&nodes, 1).is_none(), "it is forgotten");
}

#[test]
fn what_a_dead_node_held_is_made_anew_and_it_returns_with_nothing() {
    let _alone = alone();
    let dir = Dir::new("plans-death");
    let mut nodes = Nodes::start(&dir, 4, &[("--shards", "6")]);
    assert!(nodes.ctl(&["settings", "set", "failure-timeout-ms", "3000"]).is_some());
    under_load(&mut nodes, |nodes| {
        nodes.kill(2);
        let began = Instant::now();
        wait_for_plan(nodes, "repair");
        wait_until_whole(nodes);
        announce(&format!("plans: whole again {:?} after the kill", began.elapsed()));
        assert!(began.elapsed() >= Duration::from_secs(3));
        // What it remembers is of replicas that nobody counts any more.
        nodes.spawn(2);
        eventually("it is given something again", SOON, || (node(nodes, 2)?["replicas"].as_u64()? >= 4).then_some(()));
        wait_until_whole(nodes);
    });
}

#[test]
fn damage_is_named_and_rebuilt() {
    let _alone = alone();
    let dir = Dir::new("plans-rebuild");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "4")]);
    let mut client = nodes.client();
    for n in 0..200 {
        assert_eq!(client.call(SOON, &["SET", &format!("key{n}"), &"x".repeat(2000)]), Value::ok());
    }
    nodes.stop(1);
    let damaged = damage_a_tree(&nodes, 1);
    under_load(&mut nodes, |nodes| {
        nodes.spawn(1);
        eventually("the damage is told of", SOON, || {
            let shards = picture(nodes, &["shards"])?;
            let replicas = shards["shards"].as_array()?.iter().flat_map(|shard| shard["replicas"].as_array().unwrap());
            let broken: Vec<&str> = replicas.filter_map(|replica| replica["broken"].as_str()).collect();
            (broken.len() == 1 && broken[0].contains(&damaged)).then_some(())
        });
        assert!(node(nodes, 1).unwrap()["replicas"].as_u64() == Some(5), "the others serve");
        nodes.plan(&["rebuild", &nodes.address(1)]);
        wait_for_plan(nodes, "rebuild");
        wait_until_whole(nodes);
    });
    // The same for all that it has: one command.
    nodes.stop(1);
    damage_the_log(&nodes, 1);
    under_load(&mut nodes, |nodes| {
        nodes.spawn_with(1, "--rebuild");
        eventually("its replicas are made anew", SOON, || {
            let node = node(nodes, 1)?;
            (node["broken"] == 0 && node["keys"].as_u64()? >= 200).then_some(())
        });
        wait_until_whole(nodes);
    });
    let mut connection = nodes.connect(1);
    connection.call("READONLY");
    for n in 0..200 {
        let read = || (connection.call(&format!("STRLEN key{n}")) == Value::Int(2000)).then_some(());
        eventually("it has everything again", SOON, read);
    }
}

/// Flips a byte in a table's file of some data shard; answers the folder's name, which the report names.
fn damage_a_tree(nodes: &Nodes, n: usize) -> String {
    let shards = nodes.dir(n).join("shards");
    let mut folders = vec![shards.join("2")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("current")) {
                std::fs::write(&entry, b"damaged").unwrap();
                return "shards/2".to_owned();
            }
        }
    }
    panic!("no file of the tree found in {}", shards.display());
}

fn damage_the_log(nodes: &Nodes, n: usize) {
    for entry in std::fs::read_dir(nodes.dir(n).join("log")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() && std::fs::metadata(&entry).unwrap().len() > 100 {
            let mut bytes = std::fs::read(&entry).unwrap();
            bytes[..100].fill(0xAA);
            std::fs::write(&entry, bytes).unwrap();
        }
    }
}

#[test]
fn nodes_are_restarted_one_after_the_other_and_no_request_fails() {
    let _alone = alone();
    let dir = Dir::new("plans-rolling");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "6")]);
    nodes.wait_spread();
    under_load(&mut nodes, |nodes| {
        for n in 0..3 {
            nodes.plan(&["drain-leaders", &nodes.address(n)]);
            eventually("it leads nothing", SOON, || (node(nodes, n)?["leaders"] == 0).then_some(()));
            nodes.stop(n);
            nodes.spawn(n);
            wait_for_plan(nodes, "drain-leaders");
            wait_until_whole(nodes);
        }
    });
    nodes.wait_spread();
}
