//! Commands that wait for elements and entries: order of service, ends of waits, and what becomes of them when leaders move or die.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Client, Connection, Dir, Nodes, Server, Setup, Value, announce, eventually};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(40);
const KIB: u64 = 1024;

fn send(connection: &mut Connection, words: &str) {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    connection.send(&Connection::encode(&arguments)).unwrap();
}

fn wait_for_blocked(client: &mut Connection, count: usize) {
    eventually("clients wait", SOON, || {
        let info = client.call("INFO clients").text();
        info.contains(&format!("blocked_clients:{count}\r\n")).then_some(())
    });
}

fn strings(value: &Value) -> Vec<String> {
    value.items().iter().map(Value::text).collect()
}

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    let dir = Dir::new("blocking-order");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let mut client = server.connect();
    let mut waiting: Vec<Connection> = Vec::new();
    for n in 0..20 {
        let mut connection = server.connect();
        // What is sent behind it waits too.
        send(&mut connection, "BLPOP {q}a {q}b 0");
        send(&mut connection, &format!("SET {{q}}{n} after"));
        waiting.push(connection);
        wait_for_blocked(&mut client, n + 1);
    }
    let list = client.call("CLIENT LIST").text();
    assert_eq!(list.lines().filter(|line| line.contains(" flags=b ") && line.contains(" cmd=blpop ")).count(), 20);
    assert_eq!(client.call("EXISTS {q}0 {q}1 {q}19"), Value::Int(0));
    client.call("RPUSH {q}a 0 1 2 3 4");
    client.call("MULTI");
    client.call("RPUSH {q}b 5 6 7");
    client.call("RPUSH {q}x 8 9");
    client.call("RENAME {q}x {q}y");
    client.call("EXEC");
    client.call("COPY {q}y {q}b");
    for n in 10..20 {
        client.call(&format!("RPUSH {{q}}a {n}"));
    }
    for (n, connection) in waiting.iter_mut().enumerate() {
        let key = if (5..10).contains(&n) { "{q}b" } else { "{q}a" };
        assert_eq!(strings(&connection.read().unwrap()), [key.to_owned(), n.to_string()]);
        assert_eq!(connection.read().unwrap(), Value::ok());
    }
    assert_eq!(client.call("EXISTS {q}a {q}b"), Value::Int(0));
    wait_for_blocked(&mut client, 0);
    assert!(server.stop());
}

#[test]
fn waits_end_when_they_are_to() {
    let dir = Dir::new("blocking-ends");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let (mut client, mut waits) = (server.connect(), server.connect());
    assert_eq!(waits.call("BLPOP a 0.01"), Value::NilArray);
    assert_eq!(waits.call("BLMOVE a{1} b{1} LEFT RIGHT 0.01"), Value::NilArray);
    for (command, error) in [
        ("BLPOP a -1", "ERR timeout is negative"),
        ("BLPOP a x", "ERR timeout is not a float or out of range"),
        ("BRPOP a 0x7FFFFFFFFFFFFFFF", "ERR timeout is out of range"),
    ] {
        assert_eq!(waits.call(command), Value::Error(error.to_owned()), "{command}");
    }
    let id = waits.call("CLIENT ID").int();
    assert_eq!(client.call(&format!("CLIENT UNBLOCK {id}")), Value::Int(0), "it does not wait");
    for (how, expected) in [
        ("", Value::NilArray),
        (" TIMEOUT", Value::NilArray),
        (" ERROR", Value::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".to_owned())),
    ] {
        send(&mut waits, "BLPOP a 0");
        wait_for_blocked(&mut client, 1);
        assert_eq!(client.call(&format!("CLIENT UNBLOCK {id}{how}")), Value::Int(1));
        assert_eq!(waits.read().unwrap(), expected);
        wait_for_blocked(&mut client, 0);
    }
    // Within a transaction it does not wait.
    for words in ["MULTI", "BLPOP a 0", "BRPOPLPUSH a{1} b{1} 0", "LPUSH a 1", "BLPOP a 0"] {
        waits.call(words);
    }
    assert_eq!(format!("{:?}", waits.call("DISCARD")), "+OK");
    for words in ["MULTI", "BLPOP a 0", "LPUSH a 1", "BLPOP a 0"] {
        waits.call(words);
    }
    assert_eq!(format!("{:?}", waits.call("EXEC")), "[*-1 :1 [\"a\" \"1\"]]");
    // One that is gone takes nothing.
    let mut gone = server.connect();
    send(&mut gone, "BLPOP a 0");
    wait_for_blocked(&mut client, 1);
    drop(gone);
    wait_for_blocked(&mut client, 0);
    client.call("RPUSH a kept");
    assert_eq!(client.call("LRANGE a 0 -1"), Value::Array(vec![Value::bulk("kept")]));
    // Nor one that is killed, whatever it has sent behind it.
    let mut killed = server.connect();
    let id = killed.call("CLIENT ID").int();
    send(&mut killed, "BLPOP other 0");
    send(&mut killed, "PING");
    wait_for_blocked(&mut client, 1);
    assert_eq!(client.call(&format!("CLIENT KILL ID {id}")), Value::Int(1));
    assert!(killed.read().is_err());
    wait_for_blocked(&mut client, 0);
    client.call("RPUSH other kept");
    assert_eq!(client.call("LLEN other"), Value::Int(1));
    // One that waits for a list does not get what is none.
    send(&mut waits, "BLPOP kind 0");
    wait_for_blocked(&mut client, 1);
    client.call("SET kind string");
    client.call("DEL kind");
    client.call("RPUSH kind list");
    assert_eq!(strings(&waits.read().unwrap()), ["kind", "list"]);
    assert!(server.stop());
}

#[test]
fn readers_of_a_stream_all_get_what_comes_behind_their_ids() {
    let dir = Dir::new("blocking-streams");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let (mut client, mut one, mut other) = (server.connect(), server.connect(), server.connect());
    client.call("XADD s{q} 5 f old");
    // An id that has something behind it does not wait.
    assert_eq!(format!("{:?}", one.call("XREAD BLOCK 0 STREAMS s{q} 0")), r#"[["s{q}" [["5-0" ["f" "old"]]]]]"#);
    send(&mut one, "XREAD BLOCK 0 STREAMS t{q} s{q} $ $");
    send(&mut other, "XREAD COUNT 1 BLOCK 60000 STREAMS s{q} 5");
    wait_for_blocked(&mut client, 2);
    // What adds nothing wakes no client, nor does another type.
    for words in ["XDEL s{q} 5", "SET t{q} string", "DEL t{q}"] {
        client.call(words);
    }
    client.call("MULTI");
    client.call("XADD s{q} 6 f new");
    client.call("XADD s{q} 7 f newer");
    client.call("EXEC");
    let whole = r#"[["s{q}" [["6-0" ["f" "new"]] ["7-0" ["f" "newer"]]]]]"#;
    assert_eq!(format!("{:?}", one.read().unwrap()), whole);
    assert_eq!(format!("{:?}", other.read().unwrap()), r#"[["s{q}" [["6-0" ["f" "new"]]]]]"#);
    wait_for_blocked(&mut client, 0);
    // The end is that of the moment at which the wait begins, whatever becomes of the stream.
    send(&mut one, "XREAD BLOCK 0 STREAMS s{q} $");
    wait_for_blocked(&mut client, 1);
    for words in ["DEL s{q}", "XADD s{q} 7 f before", "XADD s{q} 8 f behind"] {
        client.call(words);
    }
    assert_eq!(format!("{:?}", one.read().unwrap()), r#"[["s{q}" [["8-0" ["f" "behind"]]]]]"#);
    for (command, error) in [
        ("XREAD BLOCK -1 STREAMS s $", "ERR timeout is negative"),
        ("XREAD BLOCK x STREAMS s $", "ERR timeout is not an integer or out of range"),
        (
            "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option",
        ),
    ] {
        assert_eq!(one.call(command), Value::Error(error.to_owned()), "{command}");
    }
    for words in ["MULTI", "XREAD BLOCK 0 STREAMS s{q} $", "XADD s{q} 9 f v", "XREAD BLOCK 0 STREAMS s{q} 8"] {
        one.call(words);
    }
    assert_eq!(format!("{:?}", one.call("EXEC")), r#"[*-1 "9-0" [["s{q}" [["9-0" ["f" "v"]]]]]]"#);
    assert_eq!(one.call("XREAD BLOCK 10 STREAMS s{q} $"), Value::NilArray);
    one.call("HELLO 3");
    assert_eq!(one.call("XREAD BLOCK 10 STREAMS s{q} $"), Value::Null);
    send(&mut one, "XREAD BLOCK 0 STREAMS s{q} $");
    wait_for_blocked(&mut client, 1);
    client.call("XADD s{q} 10 f v");
    assert_eq!(format!("{:?}", one.read().unwrap()), r#"{"s{q}" [["10-0" ["f" "v"]]]}"#);
    assert!(server.stop());
}

#[test]
fn consumers_that_wait_share_what_comes_and_are_told_of_the_end_of_their_group() {
    let dir = Dir::new("blocking-groups");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let (mut client, mut one, mut other) = (server.connect(), server.connect(), server.connect());
    client.call("XGROUP CREATE s g $ MKSTREAM");
    send(&mut one, "XREADGROUP GROUP g one COUNT 1 BLOCK 0 STREAMS s >");
    wait_for_blocked(&mut client, 1);
    send(&mut other, "XREADGROUP GROUP g other BLOCK 60000 STREAMS s >");
    wait_for_blocked(&mut client, 2);
    client.call("XADD s 1 f a");
    assert_eq!(format!("{:?}", one.read().unwrap()), r#"[["s" [["1-0" ["f" "a"]]]]]"#);
    wait_for_blocked(&mut client, 1);
    client.call("XADD s 2 f b");
    assert_eq!(format!("{:?}", other.read().unwrap()), r#"[["s" [["2-0" ["f" "b"]]]]]"#);
    // What is pending is answered at once.
    let pending = "XREADGROUP GROUP g one BLOCK 0 STREAMS s 0";
    assert_eq!(format!("{:?}", one.call(pending)), r#"[["s" [["1-0" ["f" "a"]]]]]"#);
    assert_eq!(one.call("XREADGROUP GROUP g one BLOCK 10 STREAMS s >"), Value::NilArray);
    let gone = "NOGROUP No such key or consumer group: the stream key no longer exists";
    let no_group = "NOGROUP the consumer group this client was blocked on no longer exists";
    for (how, error) in [
        ("DEL s", gone),
        ("SET s string", gone),
        ("FLUSHALL", gone),
        ("XGROUP DESTROY s g", no_group),
        ("RENAME {s}t s", no_group),
    ] {
        for words in ["DEL s", "XGROUP CREATE s g $ MKSTREAM", "XADD {s}t * f v"] {
            client.call(words);
        }
        send(&mut one, "XREADGROUP GROUP g one BLOCK 0 STREAMS s >");
        wait_for_blocked(&mut client, 1);
        client.call(how);
        assert_eq!(one.read().unwrap(), Value::Error(error.to_owned()), "{how}");
        wait_for_blocked(&mut client, 0);
    }
    assert!(server.stop());
}

#[test]
fn consumers_that_wait_with_claim_are_given_what_others_do_not_acknowledge() {
    let dir = Dir::new("blocking-claim");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let (mut client, mut one, mut other) = (server.connect(), server.connect(), server.connect());
    for words in ["XGROUP CREATE s g $ MKSTREAM", "XADD s 1 f a", "XREADGROUP GROUP g gone STREAMS s >"] {
        client.call(words);
    }
    let is_given = |connection: &mut Connection| {
        let entry = format!("{:?}", connection.read().unwrap());
        assert!(entry.starts_with(r#"[["s" [["1-0" ["f" "a"] "#), "{entry}");
    };
    send(&mut one, "XREADGROUP GROUP g one CLAIM 700 BLOCK 0 STREAMS s >");
    is_given(&mut one);
    // In their order, and only as many as there is to give.
    send(&mut one, "XREADGROUP GROUP g one COUNT 1 CLAIM 3600000 BLOCK 0 STREAMS s >");
    wait_for_blocked(&mut client, 1);
    send(&mut other, "XREADGROUP GROUP g other COUNT 1 CLAIM 3600000 BLOCK 0 STREAMS s >");
    wait_for_blocked(&mut client, 2);
    for connection in [&mut one, &mut other] {
        assert_eq!(client.call("XNACK s g FAIL IDS 1 1"), Value::Int(1));
        is_given(connection);
    }
    wait_for_blocked(&mut client, 0);
    assert!(server.stop());
}

#[test]
fn thousands_wait_with_little_memory() {
    const CLIENTS: usize = 8_000;
    let dir = Dir::new("blocking-many");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let mut client = server.connect();
    let mut connections: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
    // As much is written as the commands that wait will write, so that their log and memtable count before.
    for (n, connection) in connections.iter_mut().enumerate() {
        assert_eq!(connection.call(&format!("SET warm{} {n}", n % 100)), Value::ok());
    }
    let (before, threads_before) = (server.resident_bytes(), threads(&server));
    for (n, connection) in connections.iter_mut().enumerate() {
        send(connection, &format!("BLPOP queue{} 0", n % 100));
    }
    wait_for_blocked(&mut client, CLIENTS);
    let grown = server.resident_bytes().saturating_sub(before) / CLIENTS as u64;
    announce(&format!("blocking: {grown} bytes a client that waits"));
    assert!(grown < KIB, "{grown} bytes a client that waits");
    // Threads for flushes and the like come and go.
    assert!(threads(&server) < threads_before + 8, "no thread for each of {CLIENTS} clients");
    let elements: BTreeSet<String> = (0..CLIENTS / 100).map(|element| element.to_string()).collect();
    for n in 0..100 {
        let mut push = vec!["RPUSH".to_owned(), format!("queue{n}")];
        push.extend(elements.iter().cloned());
        client.try_call(&push).unwrap();
    }
    // Commands of different connections were sent without a wait in between: they may begin to wait in any order.
    let mut given: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (n, connection) in connections.iter_mut().enumerate() {
        let [queue, element]: [String; 2] = strings(&connection.read().unwrap()).try_into().unwrap();
        assert_eq!(queue, format!("queue{}", n % 100));
        assert!(given.entry(queue).or_default().insert(element), "an element was given twice");
    }
    assert!(given.values().all(|given| *given == elements), "an element was not given");
    assert!(server.stop());
}

/// How many threads a server has.
fn threads(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().count()
}

/// What consumers have got, and how often.
type Got = BTreeMap<String, u64>;

/// Takes elements until it is told to stop. Answers how many requests had no answer: each may have taken one.
fn consume(client: &mut Client, queue: &str, stop: &AtomicBool, count: &AtomicU64) -> (Got, u64) {
    let (mut got, mut unknown) = (Got::new(), 0);
    while !stop.load(Ordering::Acquire) {
        match client.attempt(&["BLPOP", queue, "0.3"]) {
            Some(Value::Array(items)) => {
                *got.entry(items[1].text()).or_default() += 1;
                count.fetch_add(1, Ordering::AcqRel);
            }
            Some(Value::NilArray) => {}
            Some(Value::Error(text)) if text.starts_with("UNBLOCKED") || text.starts_with("CLUSTERDOWN") => {}
            _ => unknown += 1,
        }
    }
    (got, unknown)
}

/// Pushes numbers until it is told to stop. Answers those that were acknowledged, and those that may be there.
fn produce(client: &mut Client, queue: &str, stop: &AtomicBool, name: u64) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut pushed, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let element = format!("{name}-{number}");
        match client.attempt(&["RPUSH", queue, &element]) {
            Some(Value::Int(_)) => _ = pushed.insert(element),
            _ => _ = unknown.insert(element),
        }
    }
    (pushed, unknown)
}

#[test]
fn no_element_is_lost_or_given_twice_when_the_leader_is_killed() {
    const CONSUMERS: u64 = 4;
    let dir = Dir::new("blocking-failover");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let victim = 1;
    let queue = &nodes.key_led_by(victim, "queue");
    let (stop, stop_all) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let count = &AtomicU64::new(0);
    let (got, lost, pushed, maybe) = thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| nodes.client())
            .map(|mut client| scope.spawn(move || consume(&mut client, queue, stop_all, count)))
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|name| (name, nodes.client()))
            .map(|(name, mut client)| scope.spawn(move || produce(&mut client, queue, stop, name)))
            .collect();
        let progress = |what: &str| {
            let wanted = count.load(Ordering::Acquire) + 300;
            eventually(what, SOON, || (count.load(Ordering::Acquire) >= wanted).then_some(()));
        };
        progress("elements are taken");
        nodes.kill(victim);
        progress("elements are taken without the node");
        nodes.spawn(victim);
        nodes.wait_whole();
        progress("elements are taken with it");
        stop.store(true, Ordering::Release);
        let produced: Vec<_> = producers.into_iter().map(|producer| producer.join().unwrap()).collect();
        let mut client = nodes.client();
        eventually("the queue is empty", SOON, || (client.call(SOON, &["LLEN", queue]) == Value::Int(0)).then_some(()));
        stop_all.store(true, Ordering::Release);
        let (mut got, mut lost) = (Got::new(), 0);
        for consumer in consumers {
            let (taken, unknown) = consumer.join().unwrap();
            taken.into_iter().for_each(|(element, times)| *got.entry(element).or_default() += times);
            lost += unknown;
        }
        let pushed: BTreeSet<String> = produced.iter().flat_map(|(pushed, _)| pushed.iter().cloned()).collect();
        let maybe: BTreeSet<String> = produced.iter().flat_map(|(_, unknown)| unknown.iter().cloned()).collect();
        (got, lost, pushed, maybe)
    });
    announce(&format!("blocking: {} elements taken, {lost} requests without an answer", got.len()));
    assert!(got.values().all(|times| *times == 1), "an element was given twice");
    assert!(got.keys().all(|element| pushed.contains(element) || maybe.contains(element)));
    let missing = pushed.iter().filter(|element| !got.contains_key(*element)).count() as u64;
    assert!(missing <= lost, "{missing} elements are missing, and {lost} requests had no answer");
}

#[test]
fn clients_that_wait_follow_the_leader() {
    let dir = Dir::new("blocking-moves");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let from = 1;
    let queue = nodes.key_led_by(from, "queue");
    let mut waits = nodes.connect(from);
    waits.patience(SOON);
    send(&mut waits, &format!("BLPOP {queue} 0"));
    let mut reads = nodes.connect(from);
    reads.patience(SOON);
    let read = format!("XREAD BLOCK 0 STREAMS {{{queue}}}stream $");
    send(&mut reads, &read);
    wait_for_blocked(&mut nodes.connect(from), 2);
    let elsewhere = nodes.connect(from + 1).call(&read).text();
    assert!(elsewhere.starts_with("MOVED "), "{elsewhere}");
    nodes.ctl(&["drain-leaders", &nodes.address(from)]);
    for connection in [&mut waits, &mut reads] {
        let reply = connection.read().unwrap().text();
        assert!(reply.starts_with("MOVED ") || reply.starts_with("UNBLOCKED "), "{reply}");
    }
    wait_for_blocked(&mut nodes.connect(from), 0);
    let mut client = nodes.client();
    client.call(SOON, &["RPUSH", &queue, "kept"]);
    assert_eq!(client.call(SOON, &["LLEN", &queue]), Value::Int(1));
}
