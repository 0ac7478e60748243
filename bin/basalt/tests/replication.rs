//! A store of three nodes, as its clients see it while nodes die, stand still and come back.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, Connection, Dir, Nodes, Random, Value, announce, eventually, number, passing, slot};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a store that elects: far more than it takes, for machines that do something else too.
const FAILOVER: Duration = Duration::from_secs(30);
/// So many more operations show that something goes on.
const PROGRESS: u64 = 100;
/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(30);

/// They share few cores, and elections need some: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

/// Tells threads to stop when it goes, even by a panic, so that waiting for them ends.
#[derive(Default)]
struct Stop(AtomicBool);

impl Stop {
    fn asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

fn text(value: &Value) -> Option<String> {
    value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// All keys of a SCAN, in order.
fn scan(connection: &mut Connection, options: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = connection.call(&format!("SCAN {cursor} {options}"));
        found.extend(page.items()[1].items().iter().filter_map(text));
        cursor = text(&page.items()[0]).unwrap();
        if cursor == "0" {
            found.sort_unstable();
            return found;
        }
    }
}

#[test]
fn any_node_serves_the_whole_store() {
    let _alone = alone();
    let dir = Dir::new("whole");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "6")]);
    nodes.wait_spread();
    let keys: BTreeSet<String> = (0..60).map(|n| format!("key{n:02}")).collect();
    let mut connections: Vec<Connection> = (0..3).map(|n| nodes.connect(n)).collect();
    // Where it is not led it is refused, with the slot and the place; there it is taken.
    let mut led = [0; 3];
    for key in &keys {
        let leader = nodes.leader(0, key);
        led[leader] += 1;
        for (n, connection) in connections.iter_mut().enumerate() {
            let moved = format!("MOVED {} 127.0.0.1:{}", slot(key), nodes.port(leader));
            let expected = if n == leader { Value::ok() } else { Value::Error(moved) };
            assert_eq!(connection.call(&format!("SET {key} {key}")), expected, "{key} at node {n}");
        }
    }
    assert!(led.iter().all(|&count| count > 0), "leaders are not spread: {led:?}");
    let mut seen = Vec::new();
    for (n, connection) in connections.iter_mut().enumerate() {
        // What the store as a whole answers.
        let rows = connection.call("KV.RANGE - + LIMIT 100");
        let found: Vec<String> = rows.items()[1].items().iter().filter_map(|row| text(&row.items()[0])).collect();
        assert!(found.iter().eq(&keys), "node {n}: {rows:?}");
        assert_eq!(connection.call("DBSIZE STORE"), Value::Int(60), "node {n}");
        assert!(scan(connection, "COUNT 7 STORE").iter().eq(&keys), "node {n}");
        // What it leads itself: libraries put the answers of all nodes together.
        let own = scan(connection, "COUNT 7");
        let listed: BTreeSet<String> = connection.call("KEYS *").items().iter().filter_map(text).collect();
        assert!(own.len() == led[n] && listed.iter().eq(&own), "node {n}: {own:?} and {listed:?}");
        assert_eq!(connection.call("DBSIZE"), Value::Int(own.len() as i64));
        // A transaction answers the same.
        let requests = ["DBSIZE", "SCAN 0 COUNT 1000", "KEYS *", "DBSIZE STORE"];
        let plain: Vec<Value> = requests.iter().map(|request| connection.call(request)).collect();
        assert_eq!(connection.call("MULTI"), Value::ok());
        requests.iter().for_each(|request| drop(connection.call(request)));
        assert_eq!(connection.call("EXEC").items(), plain, "node {n}");
        seen.extend(own);
        // And what its replicas answer once any will do.
        assert_eq!(connection.call("READONLY"), Value::ok());
        for key in &keys {
            eventually("a follower has what was written", SOON, || {
                (text(&connection.call(&format!("GET {key}"))).as_ref() == Some(key)).then_some(())
            });
        }
        assert_eq!(connection.call("READWRITE"), Value::ok());
        let elsewhere = keys.iter().find(|key| nodes.leader(0, key) != n).unwrap();
        assert!(connection.call(&format!("GET {elsewhere}")).text().starts_with("MOVED "));
    }
    seen.sort_unstable();
    assert!(seen.iter().eq(&keys), "each key once: {seen:?}");
    for (n, connection) in connections.iter_mut().enumerate() {
        let mut client = nodes.client();
        keys.iter().for_each(|key| assert_eq!(client.call(SOON, &["SET", key, "again"]), Value::ok()));
        assert_eq!(connection.call("FLUSHALL"), Value::ok(), "node {n}");
        assert_eq!(connection.call("DBSIZE STORE"), Value::Int(0), "node {n}");
        assert_eq!(client.call(SOON, &["GET", "key00"]), Value::NilBulk);
    }
}

/// Waits until `count` has grown by [`PROGRESS`].
fn wait_for_progress(what: &str, count: &AtomicU64) {
    let wanted = count.load(Ordering::Acquire) + PROGRESS;
    eventually(what, SOON, || (count.load(Ordering::Acquire) >= wanted).then_some(()));
}

/// Writes keys of its own until told to stop; answers those that were acknowledged.
fn write_until(stop: &Stop, mut client: Client, name: usize, count: &AtomicU64) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if stop.asked() {
            break;
        }
        let key = format!("w{name}:{n}");
        if client.try_for(FAILOVER, &["SET", &key, &key]) == Some(Value::ok()) {
            acknowledged.push(key);
            count.fetch_add(1, Ordering::AcqRel);
        }
    }
    acknowledged
}

/// Reads through one node's replicas until told to stop, and counts them; the longest wait.
fn read_until(stop: &Stop, mut connection: Connection, key: &str, count: &AtomicU64) -> Duration {
    assert_eq!(connection.call("READONLY"), Value::ok());
    let mut longest = Duration::ZERO;
    while !stop.asked() {
        let asked = Instant::now();
        assert_eq!(text(&connection.call(&format!("GET {key}"))).as_deref(), Some("here"));
        longest = longest.max(asked.elapsed());
        count.fetch_add(1, Ordering::AcqRel);
    }
    longest
}

fn check_all(nodes: &Nodes, acknowledged: &[String], when: &str) {
    let mut client = nodes.client();
    for key in acknowledged {
        assert_eq!(text(&client.call(SOON, &["GET", key])).as_ref(), Some(key), "{when}");
    }
}

#[test]
fn a_killed_node_costs_seconds_and_no_acknowledged_write() {
    let _alone = alone();
    let dir = Dir::new("failover");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "6")]);
    nodes.wait_spread();
    let mut client = nodes.client();
    let victim = 1;
    let (probed, kept) = (nodes.key_led_by(victim, "probed"), nodes.key_led_by(victim, "kept"));
    assert_eq!(client.call(SOON, &["SET", &kept, "here"]), Value::ok());
    let mut followers: Vec<Connection> = [0, 2].map(|n| nodes.connect(n)).into();
    for follower in &mut followers {
        follower.call("READONLY");
        eventually("a follower has what was written", SOON, || {
            (follower.call(&format!("GET {kept}")) == Value::bulk("here")).then_some(())
        });
    }
    let stop = &Stop::default();
    let (written, read) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let kept = &kept;
    let mut acknowledged = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|name| (name, nodes.client()))
            .map(|(name, client)| scope.spawn(move || write_until(stop, client, name, written)))
            .collect();
        let readers: Vec<_> =
            followers.into_iter().map(|reader| scope.spawn(move || read_until(stop, reader, kept, read))).collect();
        let running = StopOnDrop(stop);
        wait_for_progress("all write", written);
        wait_for_progress("all read", read);
        nodes.kill(victim);
        let died = Instant::now();
        // Reads of any replica go on while the dead node's shards have no leader yet.
        let before = read.load(Ordering::Acquire);
        assert_eq!(client.call(FAILOVER, &["SET", &probed, "x"]), Value::ok());
        let resumed = died.elapsed();
        let meanwhile = read.load(Ordering::Acquire) - before;
        assert!(meanwhile >= PROGRESS, "{meanwhile} reads with `any` in {resumed:?} without a leader");
        wait_for_progress("all write again", written);
        drop(running);
        let longest = readers.into_iter().map(|reader| reader.join().unwrap()).max();
        announce(&format!("replication: {meanwhile} reads with `any` meanwhile, the longest {longest:?}"));
        announce(&format!("replication: writes resumed {resumed:?} after the kill"));
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    announce(&format!("replication: {} acknowledged writes", acknowledged.len()));
    acknowledged.push(probed);
    assert_eq!(client.call(SOON, &["SET", "probed", "probed"]), Value::ok());
    let probed = acknowledged.pop().unwrap();
    assert_eq!(client.call(SOON, &["GET", &probed]), Value::bulk("x"));
    check_all(&nodes, &acknowledged, "two of three nodes");

    nodes.spawn(victim);
    nodes.wait_whole();
    nodes.wait_spread();
    // The node that was killed leads again, if other shards than before.
    nodes.key_led_by(victim, "again");
    check_all(&nodes, &acknowledged, "after the return");

    nodes.kill_all();
    let began = Instant::now();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    announce(&format!("replication: all nodes served {:?} after a start of all", began.elapsed()));
    check_all(&nodes, &acknowledged, "after a start of all");
    assert_eq!(client.call(SOON, &["SET", "last", "word"]), Value::ok());
}

#[test]
fn a_leader_that_stood_still_answers_nothing_old() {
    let _alone = alone();
    let dir = Dir::new("paused");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    // It stands still until the others have written without it; longer, if asked for.
    let pause = Duration::from_secs(number("BASALT_PAUSE_SECONDS", 0));
    for round in 0..4 {
        let victim = round % 3;
        nodes.wait_spread();
        let key = nodes.key_led_by(victim, "k");
        let (old, new) = (format!("old{round}"), format!("new{round}"));
        let mut client = nodes.client();
        assert_eq!(client.call(SOON, &["SET", &key, &old]), Value::ok());
        let mut waiting: Vec<Connection> = (0..8).map(|_| nodes.connect(victim)).collect();
        let busy: Vec<Connection> = (0..2).map(|_| nodes.connect(victim)).collect();
        let get = Connection::encode(&["GET", &key]);
        let (stop, read) = (Stop::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            // It is in the midst of reads when it stops.
            for mut connection in busy {
                let (stop, key, read) = (&stop, &key, &read);
                scope.spawn(move || {
                    while !stop.asked() {
                        connection.call(&format!("GET {key}"));
                        read.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
            let _running = StopOnDrop(&stop);
            wait_for_progress("it reads", &read);
            let stopped = Instant::now();
            nodes.server(victim).signal("-STOP");
            assert_eq!(client.call(FAILOVER, &["SET", &key, &new]), Value::ok());
            announce(&format!("replication: round {round}: overwritten {:?} after the stop", stopped.elapsed()));
            // All of these are asked after the overwrite was acknowledged.
            waiting.iter_mut().for_each(|connection| connection.send(&get).unwrap());
            thread::sleep(pause.saturating_sub(stopped.elapsed()));
            nodes.server(victim).signal("-CONT");
            for connection in &mut waiting {
                check_not_old(&connection.read().unwrap(), &new, round);
            }
            for _ in 0..PROGRESS {
                for connection in &mut waiting {
                    check_not_old(&connection.call(&format!("GET {key}")), &new, round);
                }
            }
        });
    }
}

fn check_not_old(answer: &Value, new: &str, round: usize) {
    let fine = match answer {
        Value::Error(text) => text.starts_with("MOVED ") || passing(text),
        answer => text(answer).as_deref() == Some(new),
    };
    assert!(fine, "round {round}: {answer:?}");
}

#[test]
fn a_minority_takes_no_writes_and_answers_no_reads_that_might_be_old() {
    let _alone = alone();
    let dir = Dir::new("minority");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let key = nodes.key_led_by(0, "k");
    let mut client = nodes.client();
    assert_eq!(client.call(SOON, &["SET", &key, "before"]), Value::ok());
    nodes.kill(1);
    nodes.kill(2);
    let died = Instant::now();
    let mut connection = nodes.connect(0);
    eventually("linearizable reads are refused", SOON, || {
        connection.call(&format!("GET {key}")).is_error().then_some(())
    });
    announce(&format!("replication: reads refused {:?} after the majority died", died.elapsed()));
    for words in [format!("GET {key}"), format!("SET {key} after"), "KV.RANGE - +".to_owned()] {
        let answer = connection.call(&words);
        assert!(answer.is_error() && passing(&answer.text()), "{words}: {answer:?}");
    }
    connection.call("READONLY");
    assert_eq!(connection.call(&format!("GET {key}")), Value::bulk("before"));
    nodes.spawn(2);
    assert_eq!(client.call(SOON, &["SET", &key, "later"]), Value::ok());
    assert_eq!(client.call(SOON, &["GET", &key]), Value::bulk("later"));
}

/// How many of so many reads that ask for so little lag a node refuses.
fn refused(connection: &mut Connection, asked: u64, lag_ms: u64, mut between: impl FnMut()) -> u64 {
    let mut refused = 0;
    for _ in 0..asked {
        between();
        let answer = connection.call(&format!("KV.GET k LAG {lag_ms}"));
        match &answer {
            Value::Error(e) => {
                assert!(e.starts_with("STALE ") || passing(e), "{answer:?}");
                refused += 1;
            }
            _ => assert_ne!(answer, Value::NilBulk),
        }
        // Spread over the time in which a group goes to rest and followers are told.
        thread::sleep(Duration::from_millis(5));
    }
    refused
}

#[test]
fn followers_know_how_old_they_are() {
    let _alone = alone();
    let dir = Dir::new("lag");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "1")]);
    let mut client = nodes.client();
    assert_eq!(client.call(SOON, &["SET", "k", "v"]), Value::ok());
    let leader = nodes.leader(0, "k");
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut connection = nodes.connect(follower);
    eventually("a follower learns how old it is", SOON, || {
        (!matches!(connection.call("KV.GET k LAG 1000"), Value::Error(_))).then_some(())
    });
    // While it is written, and then while nothing happens and the group goes to rest.
    let mut n = 0;
    let write = || {
        n += 1;
        assert_eq!(client.call(SOON, &["SET", "other", &n.to_string()]), Value::ok());
    };
    const READS: u64 = 400;
    let busy = refused(&mut connection, READS, 1000, write);
    let idle = refused(&mut connection, 2 * READS, 1000, || {});
    let near = refused(&mut connection, READS / 2, 350, || {});
    announce(&format!(
        "replication: {busy} of {READS} reads with LAG 1000 refused while it is written, {idle} of {} while nothing is, \
         {near} of {} with LAG 350",
        2 * READS,
        READS / 2
    ));
    assert!(busy + idle <= 3 * READS / 20, "{busy} {idle}");
    // No leader tells it any more.
    nodes.kill(leader);
    nodes.kill(other);
    eventually("a follower that is alone knows that it may be old", SOON, || {
        matches!(connection.call("KV.GET k LAG 1000"), Value::Error(_)).then_some(())
    });
    // The node looks for a leader before it refuses, which takes a while.
    const ALONE: u64 = 5;
    assert_eq!(refused(&mut connection, ALONE, 1000, || {}), ALONE, "it answers again");
}

/// Up to which entry the log of a node's first data shard is cut, and its last entry.
fn log_of(nodes: &Nodes, n: usize) -> Option<(u64, u64)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    let output = command.arg("inspect").arg(nodes.dir(n)).args(["--live", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let shard = report["shards"].as_array()?.iter().find(|shard| shard["shard"] == 1)?.clone();
    Some((shard["log"]["truncated"].as_u64()?, shard["log"]["last"].as_u64()?))
}

#[test]
fn a_follower_far_behind_gets_a_snapshot() {
    let _alone = alone();
    let dir = Dir::new("behind");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "1"), ("--memory", "32M")]);
    let mut client = nodes.client();
    assert_eq!(client.call(SOON, &["SET", "first", "x"]), Value::ok());
    let leader = nodes.leader(0, "first");
    let (victim, other) = ((leader + 1) % 3, (leader + 2) % 3);
    nodes.kill(victim);
    let last = log_of(&nodes, victim).unwrap().1;
    // More than a group keeps of its log for one that lacks it.
    let mut random = Random::new(7);
    let large: String = (0..1 << 20).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
    let mut written = 0;
    eventually("the logs are cut beyond what the node has", Duration::from_secs(120), || {
        for _ in 0..10 {
            let key = format!("large{written}");
            assert_eq!(client.call(SOON, &["SET", &key, &large]), Value::ok());
            written += 1;
        }
        let cut = |n: usize| log_of(&nodes, n).is_some_and(|(truncated, _)| truncated > last + 1);
        (cut(leader) && cut(other)).then_some(())
    });
    announce(&format!("replication: logs cut after {written} MiB"));
    let began = Instant::now();
    nodes.spawn(victim);
    nodes.wait_whole();
    let mut connection = nodes.connect(victim);
    connection.call("READONLY");
    let newest = format!("large{}", written - 1);
    eventually("the node has what was written without it", SOON, || {
        (connection.call(&format!("STRLEN {newest}")) == Value::Int(1 << 20)).then_some(())
    });
    announce(&format!("replication: caught up by snapshot within {:?}", began.elapsed()));
    let messages = std::fs::read_to_string(nodes.messages(victim)).unwrap();
    assert!(messages.contains("has taken a snapshot"), "it caught up, but not by a snapshot:\n{messages}");
    for n in 0..written {
        assert_eq!(connection.call(&format!("STRLEN large{n}")), Value::Int(1 << 20), "large{n}");
    }
    assert_eq!(client.call(SOON, &["SET", "after", "all"]), Value::ok());
    eventually("it follows again", SOON, || (connection.call("GET after") == Value::bulk("all")).then_some(()));
}

/// Reads that take any replica's answer, from the moment on at which a node that was killed takes connections again: it may
/// refuse, and may not have gone back to what it was long ago.
#[test]
fn a_node_that_comes_back_answers_with_no_less_than_it_had() {
    let _alone = alone();
    let dir = Dir::new("replayed");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3"), ("--durability", "nosync")]);
    nodes.wait_spread();
    let mut client = nodes.client();
    let large = "x".repeat(1 << 20);
    let written = number("BASALT_REPLAY_MIB", 60);
    for n in 0..written {
        assert_eq!(client.call(SOON, &["SET", &format!("large{n}"), &large]), Value::ok());
    }
    // What is committed is written down with later entries.
    for n in 0..20 {
        assert_eq!(client.call(SOON, &["SET", &format!("small{n}"), "v"]), Value::ok());
    }
    nodes.kill(2);
    nodes.spawn(2);
    let port = nodes.port(2);
    let mut connection = eventually("it takes connections", SOON, || Connection::open(port).ok());
    let (mut answered, mut refused) = (0, 0);
    while answered < 3 * written {
        match connection.try_call(&["READONLY"]).and_then(|_| {
            let key = format!("large{}", (answered + refused) % written);
            connection.try_call(&["STRLEN", &key])
        }) {
            Ok(Value::Int(length)) => {
                assert_eq!(length, 1 << 20, "after {answered} answers and {refused} refusals");
                answered += 1;
            }
            Ok(Value::Error(_)) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    announce(&format!("replication: {refused} reads refused while the log was applied again"));
}

/// With one replica a shard, the death of a node leaves shards without a leader. What is about the store as a whole waits for
/// them; what is about other shards does not wait with it, however many requests do.
#[test]
fn what_waits_for_a_shard_without_a_leader_keeps_nothing_else_waiting() {
    const WAITING: usize = 40;
    let _alone = alone();
    let dir = Dir::new("leaderless");
    let mut nodes = Nodes::start(&dir, 2, &[("--shards", "4"), ("--replication-factor", "1")]);
    let mut connection = nodes.connect(0);
    // A store may be made before all nodes have come; then they are given their part.
    eventually("the other node leads shards, and keeps them", SOON, || {
        let is_elsewhere = (0..50).any(|n| connection.call(&format!("GET {n}")).text().starts_with("MOVED "));
        let plans = nodes.admin(&["STATUS"])?["plans"].as_array()?.len();
        (is_elsewhere && plans == 0).then_some(())
    });
    let key = nodes.key_led_by(0, "key");
    assert_eq!(connection.call(&format!("SET {key} value")), Value::ok());
    nodes.kill(1);
    let mut waiting: Vec<Connection> = (0..WAITING).map(|_| nodes.connect(0)).collect();
    for other in &mut waiting {
        other.send(&Connection::encode(&["DBSIZE", "STORE"])).unwrap();
    }
    eventually("the node has all of them", SOON, || {
        (connection.call("CLIENT LIST").text().matches("cmd=dbsize").count() == WAITING).then_some(())
    });
    assert_eq!(connection.call("DBSIZE"), Value::Int(1));
    assert_eq!(connection.call("KEYS *").items().len(), 1);
    assert_eq!(connection.call("SCAN 0").items()[1].items().len(), 1);
    let is_answered = |other: &Connection| {
        other.stream().set_nonblocking(true).unwrap();
        other.stream().peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    };
    let answered = waiting.iter().filter(|other| is_answered(other)).count();
    assert!(answered < WAITING / 2, "{answered} of {WAITING} were answered before");
}

/// Commands that go by slices or by a thread write in the shard of their keys, as others do.
#[test]
fn wait_tells_of_what_copy_and_store_commands_have_written() {
    let _alone = alone();
    let dir = Dir::new("replication-wait");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    for n in 0..3 {
        let tag = nodes.key_led_by(n, "k");
        let mut client = nodes.connect(n);
        for command in [
            "SET {}a 1",
            "COPY {}a {}b",
            "COPY {}a {}b",
            "SADD {}s 1 2",
            "SUNIONSTORE {}t {}s",
            "ZUNIONSTORE {}z 1 {}s",
            "SORT {}s STORE {}l",
            "GEOADD {}g 1 1 m",
            "GEOSEARCHSTORE {}h {}g FROMMEMBER m BYRADIUS 1 m",
            "SET {}a 2",
        ] {
            let reply = client.call(&command.replace("{}", &format!("{{{tag}}}"))).words();
            assert!(reply == "OK" || reply.parse::<u32>().is_ok(), "{command}: {reply}");
            // Without a timeout: an answer of fewer would never come.
            assert_eq!(client.call("WAIT 2 0").words(), "2", "{command}");
        }
    }
    // Of all shards that a node leads.
    let mut client = nodes.connect(0);
    assert_eq!(client.call("FLUSHALL").words(), "OK");
    assert_eq!(client.call("WAIT 2 0").words(), "2");
    nodes.kill_all();
}

/// An answer that does not wait for followers says nothing of them: a WAIT behind it counts those that have the write.
#[test]
fn wait_counts_no_follower_that_lacks_what_was_answered_at_once() {
    let _alone = alone();
    let dir = Dir::new("replication-early");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let key = nodes.key_led_by(0, "k");
    let mut client = nodes.connect(0);
    assert_eq!(client.call(&format!("SET {key} before")), Value::ok());
    assert_eq!(client.call("WAIT 2 0"), Value::Int(2));
    assert_eq!(client.call("KV.DURABILITY NONE"), Value::ok());
    for value in ["one", "two", "three"] {
        assert_eq!(client.call(&format!("SET {key} {value}")), Value::ok());
        assert_eq!(client.call("WAIT 2 0"), Value::Int(2), "{value}");
    }
    (1..3).for_each(|n| nodes.server(n).signal("-STOP"));
    let answer = client.call(&format!("SET {key} after"));
    // On a machine that does much else the leader may have noticed already that it is alone.
    assert!(answer == Value::ok() || passing(&answer.text()), "{answer:?}");
    if answer == Value::ok() {
        assert_eq!(client.call("WAIT 2 100"), Value::Int(0));
    }
    (1..3).for_each(|n| nodes.server(n).signal("-CONT"));
}

/// What a client asks for holds of all commands: of those too that a thread runs, or that are made of several writes.
#[test]
fn acks_of_all_are_waited_for_whatever_command_writes() {
    let _alone = alone();
    let dir = Dir::new("replication-acks");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let tag = nodes.key_led_by(0, "k");
    let named = |line: &str| line.replace("{}", &format!("{{{tag}}}"));
    let mut client = nodes.connect(0);
    let members: Vec<String> = (0..10_000).map(|i| i.to_string()).collect();
    let large = named(&format!("SADD {{}}large {}", members.join(" ")));
    let prepared = ["SET {}a 1", "SADD {}s 1 2", "ZADD {}z 1 m", "GEOADD {}g 1 1 m", "RPUSH {}l 2 1"];
    for line in prepared.iter().map(|line| named(line)).chain([large]) {
        assert!(!client.call(&line).is_error(), "{line:.40}");
    }
    assert_eq!(client.call("WAIT 2 0"), Value::Int(2));
    nodes.server(1).signal("-STOP");
    let lines = [
        "SET {}a 2",
        "COPY {}a {}b",
        "COPY {}large {}copy",
        "SUNIONSTORE {}t {}s",
        "SUNIONSTORE {}u {}large {}s",
        "ZUNIONSTORE {}y 1 {}z",
        "ZRANGESTORE {}x {}z 0 -1",
        "GEOSEARCHSTORE {}h {}g FROMMEMBER m BYRADIUS 1 m",
        "GEORADIUS {}g 1 1 1 m STORE {}i",
        "SORT {}l STORE {}m",
    ];
    thread::scope(|scope| {
        for line in lines {
            let (mut client, line) = (nodes.connect(0), named(line));
            scope.spawn(move || {
                assert_eq!(client.call("KV.DURABILITY ALL"), Value::ok());
                let answer = client.call(&line);
                assert!(answer.text().starts_with("NOREPLICAS the write is made"), "{line}: {answer:?}");
            });
        }
    });
    nodes.server(1).signal("-CONT");
    assert_eq!(client.call(&named("SCARD {}copy")), Value::Int(10_000));
    assert_eq!(client.call(&named("SCARD {}u")), Value::Int(10_000));
}
