//! What `ctl` shows, from canned answers.
#![allow(clippy::unwrap_used)]

use super::{events, map, nodes, plan_table, settings, shards, status, top, verify};
use serde_json::{Value, json};

fn node(id: &str, port: u16, state: &str) -> Value {
    json!({
        "id": id, "client_address": format!("h:{port}"), "peer_address": format!("h:{}", port + 10_000), "zone": "a",
        "capacity": 1, "state": state, "silent_ms": 0, "leaving": false, "replicas": 3, "broken": 0, "leaders": 1,
        "leads_nothing": false,
        "bytes": 1_500_000, "keys": 20_000, "ops_per_s": 12_345.6, "commands": 100, "errors": 4, "clients": 5,
        "disk_bytes": 1, "disk_free_bytes": 50_000_000_000u64, "can_write": true, "rss_bytes": 80_000_000,
        "cpu_us": 3_000_000, "started_ms": 1_000_000, "version": "0.1.0",
        "transfers": [{"shard": 1, "peer": "x", "inbound": true, "bytes": 1, "bytes_approx": 2, "rate": 3_000_000}],
    })
}

fn plan() -> Value {
    json!({
        "id": 7, "kind": "drain-node", "about": "bb", "state": "running", "began_ms": 1_000, "ended_ms": 0,
        "detail": "asked for", "steps_done": 3, "steps_now": 1, "steps_left": 4, "bytes_moved": 1_000_000_000,
        "bytes_left": 2_000_000_000u64, "rate": 200_000_000, "eta_s": 10, "waits_for": null,
    })
}

fn status() -> Value {
    json!({
        "store": "ab", "epoch": 9, "at_ms": 91_000_000, "asked": "aa", "directed_by": "aa", "complete": true,
        "healthy": false, "problems": ["node bb (h:7001) is silent for 4 s"], "replication_factor": 3, "shards": 2,
        "slots": 16384, "slots_led": 16384, "under_replicated": 1, "without_leader": 0, "without_majority": 0,
        "keys": 20_000, "bytes": 3_000_000, "ops_per_s": 12_346.0,
        "zones": [{"name": "a", "nodes": 2, "up": 1}],
        "nodes": [node("aa", 7000, "up"), node("bb", 7001, "silent")], "plans": [plan()], "settings": {},
    })
}

#[test]
fn one_screen_has_it_all() {
    let expected = "\
store ab: NOT WELL
  ! node bb (h:7001) is silent for 4 s
nodes   1 of 2 up; zones a 1/2
shards  2 with 3 replicas each wanted, of which each has 2 at most: there are no more nodes; 16384 of 16384 slots have leaders; 1 under-replicated; map 9
data    3.0 MB, 20.0k keys; 12.3k commands/s

node    zone  state   leads  replicas    data   keys  ops/s  clients   memory  disk free  since  version  id
h:7000  a     up          1         3  1.5 MB  20.0k  12.3k        5  80.0 MB    50.0 GB  1d 1h  0.1.0    aa
h:7001  a     silent      1         3  1.5 MB  20.0k  12.3k        5  80.0 MB    50.0 GB  1d 1h  0.1.0    bb

plan  kind        about   state     steps   moved    left        rate  done in  detail
   7  drain-node  h:7001  running  3 of 8  1.0 GB  2.0 GB  200.0 MB/s      10s  asked for
";
    assert_eq!(status::screen(&status(), false), expected);
    assert!(status::screen(&status(), true).contains("\x1b[1;31mNOT WELL"));
    let none = json!({"store": null, "healthy": false, "problems": ["there is no store yet"], "nodes": []});
    assert!(status::screen(&none, false).starts_with("no store\n  ! there is no store yet\n"));
}

#[test]
fn nodes_that_need_a_look_say_so() {
    let mut answer = json!({"at_ms": 91_000_000, "nodes": [node("aa", 7000, "up"), node("bb", 7001, "up")]});
    assert!(nodes::is_well(&answer["nodes"][0]) && !nodes::is_well(&node("cc", 7002, "silent")));
    for (field, value) in [("can_write", json!(false)), ("clock_is_off", json!(true)), ("broken", json!(1))] {
        let mut unwell = node("cc", 7002, "up");
        unwell[field] = value;
        assert!(!nodes::is_well(&unwell), "{field}");
    }
    answer["nodes"][0]["can_write"] = json!(false);
    answer["nodes"][1]["leaving"] = json!(true);
    let shown = nodes::table(&answer, false);
    assert!(shown.contains("no writes") && shown.contains("leaving"), "{shown}");
}

#[test]
fn top_makes_rates_of_two_looks() {
    let (before, mut now) = (status(), status());
    now["at_ms"] = json!(91_002_000);
    now["nodes"][0]["cpu_us"] = json!(4_000_000);
    now["nodes"][0]["errors"] = json!(8);
    let shown = top::picture(&before, &now, false);
    let line = shown.lines().find(|line| line.starts_with("h:7000")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..6], ["h:7000", "up", "12.3k", "2", "50%", "80.0"], "{shown}");
    assert!(line.ends_with("3.0 MB/s"), "{shown}");
    assert_eq!(
        top::line(&now),
        "1970-01-02 01:16:42Z NOT WELL; 1 of 2 nodes up; 12.3k commands/s; 3.0 MB; 1 shards under-replicated, 0 without \
         leader; 1 plans"
    );
}

#[test]
fn shards_name_who_is_behind_and_whom_they_wait_for() {
    let replica = |node: &str, role: &str, state: &str, broken: Value| json!({"id": 1, "node": node, "role": role, "state": state, "applied": 1, "lag": 7, "bytes": 1, "broken": broken});
    let shard = |id: u32, state: &str, leader: Value, waits: Value, replicas: Vec<Value>| {
        json!({"id": id, "slots": [[0, 9], [20, 20]], "leader": leader, "term": 1, "state": state, "wanted": 3,
            "bytes": 1_000, "keys": 5, "waits_for": waits, "plan": null, "replicas": replicas})
    };
    let none = Value::Null;
    let answer = json!({
        "complete": true,
        "nodes": {"aa": "h:7000", "bb": "h:7001", "cc": "h:7002"},
        "shards": [
            shard(0, "ok", json!("aa"), json!([]), vec![replica("aa", "leader", "ok", none.clone())]),
            shard(1, "ok", json!("aa"), json!([]), vec![
                replica("aa", "leader", "ok", none.clone()),
                replica("bb", "voter", "behind", none.clone()),
                replica("cc", "learner", "broken", json!("corrupt data in x")),
            ]),
            shard(2, "no-majority", none.clone(), json!(["cc"]), vec![replica("bb", "voter", "ok", none)]),
        ],
    });
    let expected = "\
shard  slots      state          data  keys  leader  other replicas
    0  (the map)  ok           1.0 kB        h:7000
    1  0-9,20     ok           1.0 kB     5  h:7000  h:7001 (behind by 7), h:7002 (learner, broken)
    2  0-9,20     no-majority  1.0 kB     5  none    h:7001

shard 1 on h:7002: corrupt data in x
shard 2 waits for h:7002
";
    assert_eq!(shards::table(&answer, false), expected);
}

#[test]
fn plans_in_a_table_in_full_and_beforehand() {
    let expected = "\
plan 7: drain-node bb
state    running
detail   asked for
begun    1970-01-01 00:00:01Z
steps    3 of 8, 1 under way
moved    1.0 GB, 2.0 GB left at 200.0 MB/s: done in 10s
";
    assert_eq!(plan_table::one(&plan()), expected);
    let line = plan_table::line(&plan());
    assert_eq!(line, "plan 7 (drain-node): running, 3 of 8 steps, 1.0 GB, 2.0 GB left at 200.0 MB/s: done in 10s");
    let to = json!({"id": "bb", "address": "h:7001"});
    let preview = json!({
        "kind": "remove-node", "about": "aa", "help": "All replicas leave.", "warning": "it is forgotten", "moves": 30,
        "splits": 0, "bytes": 5_000_000_000u64, "seconds": 25,
        "first_moves": [{"shard": 4, "from": {"id": "aa", "address": null}, "to": to, "why": "drain", "bytes": 1_000}],
    });
    let expected = "\
remove-node aa
  All replicas leave.
  Cannot be undone: it is forgotten.
  30 replicas come, go or move: 5.0 GB, at least 25s at the rate that moves may take.

shard  from  to      why      data
    4  aa    h:7001  drain  1.0 kB
and 29 more; --json lists up to 1000
";
    assert_eq!(plan_table::preview(&preview), expected);
}

#[test]
fn events_settings_and_the_map() {
    let answer = json!({"events": [{"number": 12, "at_ms": 1_000, "kind": "failure", "text": "node bb is lost"}]});
    assert_eq!(events::text(&answer, false), "1970-01-01 00:00:01Z      12  failure   node bb is lost\n");
    for (text, seconds) in [("90s", Some(90)), ("2h", Some(7200)), ("1d", Some(86_400)), ("5", None), ("é", None)] {
        assert_eq!(events::ago(text).ok().map(|ago| ago.as_secs()), seconds, "{text}");
    }
    let answer = json!({"settings": [
        {"name": "acks", "value": null, "set": false, "default": null, "values": "one of all", "help": "Who."},
        {"name": "auto-split", "value": "no", "set": true, "default": "yes", "values": "yes or no", "help": "Whether."},
    ]});
    let shown = settings::table(&answer, false);
    assert!(shown.contains("acks        (each node's)  (each node's)  one of all\n"), "{shown}");
    assert!(shown.contains("auto-split  no             yes            yes or no\n"), "{shown}");
    let answer = json!({
        "store": "ab", "epoch": 3, "replication_factor": 2, "settings": {},
        "nodes": [{"id": "aa", "client_address": "h:7000", "peer_address": "h:1", "zone": "", "capacity": 1, "leaving": true}],
        "shards": [{"id": 1, "slots": [[0, 16383]], "replicas": [{"id": 4, "node": "aa", "learner": true, "member": false}]}],
        "steps": [{"shard": 1, "plan": 2, "add": 4, "remove": null}],
        "splits": [],
    });
    let shown = map::text(&answer, false);
    assert!(shown.contains("    1  0-16383  4@h:7000 (coming)\n"), "{shown}");
    assert!(shown.contains("shard 1: replica 4 comes, none goes (plan 2)\n"), "{shown}");
    assert!(shown.contains("leaving"), "{shown}");
}

#[test]
fn what_was_verified_and_what_was_not() {
    let mut state = json!({
        "state": "done", "result": "ok", "began_ms": 1_000, "ended_ms": 66_000, "shards": 4, "shards_done": 4,
        "bytes": 5_000_000, "findings": [], "missing": [],
    });
    let fine = "all is as it should be: 4 of 4 shards compared, 5.0 MB read in 1m 5s, ended 1970-01-01 00:01:06Z\n";
    assert_eq!(verify::report(&state, false), fine);
    state["result"] = json!("wrong");
    state["findings"] = json!([{"kind": "checksum", "shard": 3, "text": "replicas differ"}]);
    state["missing"] = json!(["node bb does not answer"]);
    let expected = "\
what      shard  finding
checksum      3  replicas differ
not looked at: node bb does not answer
something is wrong: 4 of 4 shards compared, 5.0 MB read in 1m 5s, ended 1970-01-01 00:01:06Z
";
    assert_eq!(verify::report(&state, false), expected);
}
