//! The store changes shape while it serves: nodes join, die, are emptied, rebuilt and restarted, and no client notices.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, Dir, Nodes, Value, announce, eventually};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(60);
/// For how long a client asks again before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two writes of one client: it is to notice everything, and to leave the processors to the nodes.
const PAUSE: Duration = Duration::from_millis(4);

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
        thread::sleep(PAUSE);
    }
    written
}

/// Asks again until it is so; fails when that takes too long.
fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let mut asked = Instant::now();
    eventually(what, SOON, || {
        // Nodes have better to do than to answer this.
        thread::sleep(Duration::from_millis(50).saturating_sub(asked.elapsed()));
        asked = Instant::now();
        probe()
    })
}

/// The store as the director sees it, once it does.
fn picture(nodes: &Nodes, verb: &str) -> Option<Json> {
    nodes.admin(&[verb]).filter(|answer| answer["complete"] != Json::Bool(false))
}

fn node(nodes: &Nodes, n: usize) -> Option<Json> {
    let all = picture(nodes, "NODES")?;
    all["nodes"].as_array()?.iter().find(|node| node["client_address"] == nodes.address(n)).cloned()
}

/// The same, for one that the store has.
fn known(nodes: &Nodes, n: usize) -> Json {
    until(&format!("node {n} is told of"), || node(nodes, n))
}

fn count(nodes: &Nodes, n: usize, what: &str) -> u64 {
    known(nodes, n)[what].as_u64().unwrap()
}

fn shards(nodes: &Nodes) -> Vec<Json> {
    until("the shards are told of", || picture(nodes, "SHARDS")?["shards"].as_array().cloned())
}

fn plan(nodes: &Nodes, number: u64) -> Option<Json> {
    nodes.admin(&["PLAN", "SHOW", &number.to_string()])
}

fn wait_for(nodes: &Nodes, number: u64) {
    let mut last = Json::Null;
    let begun = Instant::now();
    let done = until(&format!("plan {number} is done"), || {
        last = plan(nodes, number)?;
        assert!(last["state"] != "failed" && last["state"] != "cancelled", "{last}");
        assert!(begun.elapsed() < SOON - Duration::from_secs(2), "plan {number} does not end: {last}");
        (last["state"] == "done").then(|| last.clone())
    });
    announce(&format!("plans: {} {} took {:.1?}", done["kind"], done["about"], begun.elapsed()));
}

/// Waits until the newest plan of that kind is done.
fn wait_for_kind(nodes: &Nodes, kind: &str) {
    let number = until(&format!("there is a plan {kind}"), || {
        let plans = nodes.admin(&["PLAN", "LIST"])?;
        plans["plans"].as_array()?.iter().rfind(|plan| plan["kind"] == kind)?["id"].as_u64()
    });
    wait_for(nodes, number);
}

/// Begins a plan by `ctl` and waits until it is done.
fn make(nodes: &Nodes, words: &[&str]) {
    wait_for(nodes, nodes.plan(words));
}

fn set(nodes: &Nodes, name: &str, value: &str) {
    let set = nodes.admin(&["SETTINGS", "SET", name, value]);
    assert!(set.is_some(), "{name} cannot be set to {value}");
}

/// As many moves at once as may be: what is tested is that they are made, not how gently.
fn hurry(nodes: &Nodes) {
    set(nodes, "moves-per-source", "16");
    set(nodes, "moves-per-node", "16");
}

/// Every shard has all its replicas, sound and up, and nothing is under way.
fn wait_until_whole(nodes: &Nodes) {
    until("every shard is well, and no plan is open", || {
        let plans = picture(nodes, "STATUS")?["plans"].as_array()?.len();
        let all = picture(nodes, "SHARDS")?;
        let well = all["shards"].as_array()?.iter().all(|shard| shard["state"] == "ok" && shard["plan"].is_null());
        (well && plans == 0).then_some(())
    });
}

/// What `ctl` says and its exit code, asked of the nodes that run.
fn ctl(nodes: &Nodes, words: &[&str]) -> (i32, String) {
    let output = nodes.run_ctl(words);
    (output.status.code().unwrap(), common::text(&output))
}

/// All replicas of all shards hold the same, and where the rules want them.
fn verify(nodes: &Nodes) {
    let (code, said) = ctl(nodes, &["verify"]);
    assert_eq!(code, 0, "{said}");
}

/// Each has a store of its own.
const SCENARIOS: [(&str, fn()); 5] = [
    (
        "a_node_joins_and_others_are_emptied_moved_replaced_and_removed",
        a_node_joins_and_others_are_emptied_moved_replaced_and_removed,
    ),
    ("zones_are_kept_to_and_one_may_go", zones_are_kept_to_and_one_may_go),
    (
        "what_a_dead_node_held_is_made_anew_and_it_returns_with_nothing",
        what_a_dead_node_held_is_made_anew_and_it_returns_with_nothing,
    ),
    ("damage_is_named_and_rebuilt", damage_is_named_and_rebuilt),
    (
        "nodes_are_restarted_one_after_the_other_and_no_request_fails",
        nodes_are_restarted_one_after_the_other_and_no_request_fails,
    ),
];

/// All at the same time: what they do most is wait. `BASALT_PLANS=zones` runs those with that in their names.
#[test]
fn stores_change_shape_while_they_serve() {
    let chosen = std::env::var("BASALT_PLANS").unwrap_or_default();
    let begin = |(name, scenario): &(&'static str, fn())| {
        let (name, scenario) = (*name, *scenario);
        let run = move || {
            let began = Instant::now();
            scenario();
            announce(&format!("plans: {name}: {:.1?}", began.elapsed()));
        };
        (name, thread::Builder::new().name(name.to_owned()).spawn(run).unwrap())
    };
    let begun: Vec<_> = SCENARIOS.iter().filter(|(name, _)| name.contains(&chosen)).map(begin).collect();
    assert!(!begun.is_empty(), "BASALT_PLANS={chosen} chooses nothing");
    let failed: Vec<&str> = begun.into_iter().filter_map(|(name, thread)| thread.join().err().map(|_| name)).collect();
    assert!(failed.is_empty(), "{failed:?}: see above");
}

fn a_node_joins_and_others_are_emptied_moved_replaced_and_removed() {
    let dir = Dir::new("plans-join");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "4")]);
    under_load(&mut nodes, |nodes| {
        let began = Instant::now();
        let joined = nodes.join(&dir);
        until("the new node has a shard", || {
            let node = node(nodes, joined)?;
            (node["replicas"].as_u64()? > 0 && node["keys"].as_u64()? > 0).then_some(())
        });
        announce(&format!("plans: first shard on the new node after {:.1?}", began.elapsed()));
        wait_for_kind(nodes, "add-node");
        hurry(nodes);
        wait_until_whole(nodes);
        for n in 0..4 {
            let replicas = count(nodes, n, "replicas");
            assert!((3..=5).contains(&replicas), "node {n} has {replicas} of 15 replicas");
        }
        pause_resume_and_cancel(nodes);
        move_one(nodes);
        make(nodes, &["set-replication-factor", "1"]);
        assert!(
            shards(nodes).iter().filter(|of| of["id"] != 0).all(|of| of["replicas"].as_array().unwrap().len() == 1)
        );
        make(nodes, &["set-replication-factor", "3"]);
        wait_until_whole(nodes);
        assert!(shards(nodes).iter().all(|of| of["replicas"].as_array().unwrap().len() == 3));
        make(nodes, &["remove-node", &nodes.address(1)]);
        until("it is forgotten", || (picture(nodes, "NODES")?["nodes"].as_array()?.len() == 3).then_some(()));
        // It would join again, were it not told that it is to hold nothing.
        nodes.stop(1);
        set(nodes, "auto-rebalance", "no");
        let second = nodes.join(&dir);
        known(nodes, second);
        make(nodes, &["replace-node", &nodes.address(2), &nodes.address(second)]);
        until("it is forgotten", || (picture(nodes, "NODES")?["nodes"].as_array()?.len() == 3).then_some(()));
        assert_eq!(count(nodes, second, "replicas"), 5);
        make(nodes, &["balance-leaders"]);
        wait_until_whole(nodes);
        verify(nodes);
    });
}

/// A plan is begun, paused, waited for without success, taken up again; another is given up, and the node takes its part again.
fn pause_resume_and_cancel(nodes: &Nodes) {
    let (code, said) = ctl(nodes, &["plan", "apply", "drain-node", &nodes.address(1), "--dry-run"]);
    assert!(code == 0 && said.contains("replicas come, go or move"), "{said}");
    // One step at a time, so that it can be met in the middle.
    set(nodes, "moves-per-node", "1");
    set(nodes, "moves-per-source", "1");
    let number = nodes.plan(&["drain-node", &nodes.address(1)]);
    let id = number.to_string();
    until("a step is under way", || (plan(nodes, number)?["steps_now"].as_u64()? > 0).then_some(()));
    assert_eq!(ctl(nodes, &["plan", "pause", &id]).0, 0);
    until("what was under way has ended", || (plan(nodes, number)?["steps_now"] == 0).then_some(()));
    let held = count(nodes, 1, "replicas");
    assert!(held > 0, "there was nothing left to pause");
    let (code, said) = ctl(nodes, &["plan", "wait", &id, "--timeout", "1s"]);
    assert!(code == 3 && said.contains("paused"), "{code}: {said}");
    assert_eq!(count(nodes, 1, "replicas"), held, "nothing moves while it is paused");
    hurry(nodes);
    assert_eq!(ctl(nodes, &["plan", "resume", &id]).0, 0);
    let (code, said) = ctl(nodes, &["plan", "wait", &id]);
    assert!(code == 0 && said.contains("done"), "{code}: {said}");
    let drained = known(nodes, 1);
    assert_eq!((drained["replicas"].as_u64(), drained["leaders"].as_u64()), (Some(0), Some(0)));
    until("its files are gone", || {
        let left = std::fs::read_dir(nodes.dir(1).join("shards")).unwrap().count();
        (left == 0).then_some(())
    });
    make(nodes, &["add-node", &nodes.address(1)]);
    assert!(count(nodes, 1, "replicas") >= 3);
    let number = nodes.plan(&["drain-node", &nodes.address(0)]);
    assert_eq!(ctl(nodes, &["plan", "cancel", &number.to_string()]).0, 0);
    let (code, said) = ctl(nodes, &["plan", "wait", &number.to_string()]);
    assert!(code == 1 && said.contains("cancelled"), "{code}: {said}");
    assert_eq!(known(nodes, 0)["leaving"], false);
    wait_until_whole(nodes);
}

/// A replica goes where it is told to.
fn move_one(nodes: &Nodes) {
    let all = shards(nodes);
    let nodes_of = |shard: &Json| -> Vec<String> {
        shard["replicas"].as_array().unwrap().iter().map(|of| of["node"].as_str().unwrap().to_owned()).collect()
    };
    let ids: Vec<String> = (0..4).map(|n| known(nodes, n)["id"].as_str().unwrap().to_owned()).collect();
    let shard = all.last().unwrap();
    let (number, held) = (&shard["id"], nodes_of(shard));
    let id = number.to_string();
    let to = ids.iter().find(|id| !held.contains(id)).unwrap();
    make(nodes, &["move-shard", &id, &held[0], to]);
    let now = shards(nodes);
    let held_now = nodes_of(now.iter().find(|shard| shard["id"] == *number).unwrap());
    assert!(held_now.contains(to) && !held_now.contains(&held[0]), "{held:?} became {held_now:?}");
}

fn zones_are_kept_to_and_one_may_go() {
    let dir = Dir::new("plans-zones");
    let zone = |name: &str| vec![("--zone".to_owned(), name.to_owned())];
    let own = [zone("a"), zone("a"), zone("b"), zone("b"), zone("c")];
    let mut nodes = Nodes::start_with(&dir, 5, &[("--shards", "3")], &own);
    hurry(&nodes);
    let in_zones = |nodes: &Nodes| -> Vec<usize> {
        let zones: BTreeMap<String, String> = (0..5)
            .map(|n| known(nodes, n))
            .map(|of| (of["id"].as_str().unwrap().to_owned(), of["zone"].as_str().unwrap().to_owned()))
            .collect();
        let of = |shard: &Json| {
            let held = shard["replicas"].as_array().unwrap().iter();
            held.map(|of| zones[of["node"].as_str().unwrap()].clone()).collect::<BTreeSet<_>>().len()
        };
        shards(nodes).iter().filter(|shard| shard["id"] != 0).map(of).collect()
    };
    (0..5).for_each(|n| drop(known(&nodes, n)));
    until("each shard is in three zones", || (in_zones(&nodes) == [3, 3, 3]).then_some(()));
    wait_until_whole(&nodes);
    under_load(&mut nodes, |nodes| {
        make(nodes, &["set-replication-factor", "5"]);
        assert!(shards(nodes).iter().all(|of| of["replicas"].as_array().unwrap().len() == 5));
        make(nodes, &["set-replication-factor", "3"]);
        wait_until_whole(nodes);
        assert_eq!(in_zones(nodes), [3, 3, 3]);
        // Two nodes are in c now, and one in b.
        make(nodes, &["change-zone", &nodes.address(3), "c"]);
        wait_until_whole(nodes);
        assert_eq!((in_zones(nodes), known(nodes, 3)["zone"].as_str()), (vec![3, 3, 3], Some("c")));
        verify(nodes);
        // A whole zone goes: nothing stops, and nothing is made anew where a zone would have two.
        nodes.kill(3);
        nodes.kill(4);
        until("all shards are led again", || {
            let status = picture(nodes, "STATUS")?;
            (status["slots_led"] == 16384 && status["without_leader"] == 0).then_some(())
        });
    });
}

fn what_a_dead_node_held_is_made_anew_and_it_returns_with_nothing() {
    let dir = Dir::new("plans-death");
    let mut nodes = Nodes::start(&dir, 4, &[("--shards", "4")]);
    hurry(&nodes);
    set(&nodes, "failure-timeout-ms", "2000");
    // Three make the store, and not always the same: the fourth takes its part a little later.
    until("it holds something that can be lost", || (node(&nodes, 2)?["replicas"].as_u64()? > 2).then_some(()));
    wait_until_whole(&nodes);
    under_load(&mut nodes, |nodes| {
        nodes.kill(2);
        let began = Instant::now();
        wait_for_kind(nodes, "repair");
        wait_until_whole(nodes);
        announce(&format!("plans: whole again {:.1?} after the kill", began.elapsed()));
        assert!(began.elapsed() >= Duration::from_secs(2));
        // What it remembers is of replicas that do not count any more.
        nodes.spawn(2);
        until("it is given something again", || (node(nodes, 2)?["replicas"].as_u64()? >= 3).then_some(()));
        wait_until_whole(nodes);
    });
    unsafe_recovery(&mut nodes);
}

/// The majority of everything is destroyed, the map's too; the store goes on with what is left, and what comes back from the
/// dead does no harm.
fn unsafe_recovery(nodes: &mut Nodes) {
    set(nodes, "failure-timeout-ms", "600000");
    let meta = shards(nodes).swap_remove(0);
    let ids: Vec<&str> = meta["replicas"].as_array().unwrap().iter().map(|of| of["node"].as_str().unwrap()).collect();
    let numbers: Vec<usize> = (0..4).filter(|n| ids.contains(&known(nodes, *n)["id"].as_str().unwrap())).collect();
    let (first, second) = (numbers[0], numbers[1]);
    let mut client = nodes.client();
    (0..100).for_each(|n| assert_eq!(client.call(SOON, &["SET", &format!("kept{n}"), "x"]), Value::ok()));
    nodes.kill(first);
    nodes.kill(second);
    until("it is told what is lost, and what for", || {
        let (code, said) = ctl(nodes, &["status"]);
        let names = [first, second].iter().all(|gone| said.contains(&nodes.address(*gone)));
        let lost =
            said.contains("have lost their majority") && said.contains("the metadata group (shard 0) has no leader");
        (code == 1 && lost && names).then_some(())
    });
    let unwell: Vec<String> = nodes.admin(&["SHARDS"]).unwrap()["shards"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|shard| shard["state"] == "no-majority")
        .map(|shard| shard["id"].to_string())
        .collect();
    let all: Vec<&str> = unwell.iter().map(String::as_str).collect();
    assert_eq!(all[0], "0");
    let recover = |nodes: &Nodes, words: &[&str]| ctl(nodes, &[&["plan", "unsafe-recover"], words].concat());
    assert!(recover(nodes, &["1"]).1.contains("nothing can be planned without it"));
    let (code, said) = recover(nodes, &all);
    assert!(
        code == 2 && said.contains("ACKNOWLEDGED WRITES MAY BE LOST") && said.contains("must never come back"),
        "{said}"
    );
    let (code, said) =
        recover(nodes, &[&["--all"][..], &["--accept-data-loss", "--reason", "a test", "--wait"]].concat());
    assert_eq!(code, 0, "{said}");
    let removals = [first, second].map(|gone| nodes.plan(&["remove-node", &nodes.address(gone)]));
    removals.into_iter().for_each(|number| wait_for(nodes, number));
    until("all is well", || (ctl(nodes, &["status"]).0 == 0).then_some(()));
    assert!(ctl(nodes, &["events", "--kind", "plan"]).1.contains("unsafe-recover"), "it is on record");
    // One that was given up comes back with all that it had.
    nodes.spawn(first);
    until("it has learned that it holds nothing", || {
        let left = std::fs::read_dir(nodes.dir(first).join("shards")).ok()?.count();
        (left == 0).then_some(())
    });
    (0..100).for_each(|n| assert_eq!(text(&client.call(SOON, &["GET", &format!("kept{n}")])).as_deref(), Some("x")));
    // The others do not answer a node that is not in the map.
    nodes.kill(first);
    verify(nodes);
}

fn damage_is_named_and_rebuilt() {
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
        until("the damage is told of", || {
            let shards = shards(nodes);
            let replicas = shards.iter().flat_map(|shard| shard["replicas"].as_array().unwrap());
            let broken: Vec<&str> = replicas.filter_map(|replica| replica["broken"].as_str()).collect();
            (broken.len() == 1 && broken[0].contains(&damaged)).then_some(())
        });
        assert_eq!(count(nodes, 1, "replicas"), 5, "the others serve");
        make(nodes, &["rebuild", &nodes.address(1)]);
        wait_until_whole(nodes);
    });
    // The same for all that it has: one command.
    nodes.stop(1);
    damage_the_log(&nodes, 1);
    under_load(&mut nodes, |nodes| {
        nodes.spawn_with(1, "--rebuild");
        until("its replicas are made anew", || {
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

fn nodes_are_restarted_one_after_the_other_and_no_request_fails() {
    let dir = Dir::new("plans-rolling");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    under_load(&mut nodes, |nodes| {
        for n in 0..3 {
            let began = Instant::now();
            let (code, said) = ctl(nodes, &["drain-leaders", &nodes.address(n)]);
            announce(&format!("plans: node {n} drained after {:.1?}", began.elapsed()));
            assert!(code == 0 && said.contains("leads nothing: restart it now"), "{code}: {said}");
            assert_eq!(count(nodes, n, "leaders"), 0);
            nodes.stop(n);
            nodes.spawn(n);
            wait_for_kind(nodes, "drain-leaders");
            wait_until_whole(nodes);
            announce(&format!("plans: node {n} is back after {:.1?}", began.elapsed()));
        }
    });
}
