//! Publish and subscribe on one node and on three.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Connection, Dir, Nodes, Server, Setup, Value, eventually};
use std::io::{ErrorKind, Write};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A client that speaks a version of the protocol.
fn client(nodes: &Nodes, n: usize, version: u8) -> Connection {
    let mut connection = nodes.connect(n);
    if version == 3 {
        connection.call("HELLO 3");
    }
    connection
}

/// The next that comes, as words; a push if and only if the client speaks RESP3.
fn next(connection: &mut Connection, version: u8) -> String {
    let value = connection.read().unwrap();
    assert_eq!(matches!(value, Value::Push(_)), version == 3, "{value:?}");
    value.words()
}

fn subscribe(connection: &mut Connection, request: &str, version: u8) {
    connection.send(format!("{request}\r\n").as_bytes()).unwrap();
    for (n, name) in request.split(' ').skip(1).enumerate() {
        let word = request.split(' ').next().unwrap().to_lowercase();
        assert_eq!(next(connection, version), format!("{word} {name} {}", n + 1));
    }
}

#[test]
fn messages_reach_all_nodes_in_order_and_are_counted() {
    let dir = Dir::new("pubsub-order");
    let mut nodes = Nodes::start(&dir, 3, &[("--workers", "2"), ("--shards", "3")]);
    // Two of each protocol at each node: over both workers.
    let mut subscribers = Vec::new();
    for n in 0..3 {
        for version in [2, 3, 2, 3] {
            let mut connection = client(&nodes, n, version);
            subscribe(&mut connection, "SUBSCRIBE news other", version);
            subscribers.push((connection, version));
        }
    }
    let mut by_pattern = client(&nodes, 1, 3);
    subscribe(&mut by_pattern, "PSUBSCRIBE n*", 3);
    // Each confirmation has come: a message that is published anywhere reaches all.
    let mut publishers: Vec<Connection> = (0..3).map(|n| client(&nodes, n, 2)).collect();
    for (n, publisher) in publishers.iter_mut().enumerate() {
        assert_eq!(publisher.call(&format!("PUBLISH news from{n}")).int(), 13, "at node {n}");
    }
    for (connection, version) in &mut subscribers {
        let mut heard: Vec<String> = (0..3).map(|_| next(connection, *version)).collect();
        heard.sort();
        assert_eq!(heard, ["message news from0", "message news from1", "message news from2"]);
    }
    (0..3).for_each(|_| _ = next(&mut by_pattern, 3));
    // Pipelines of three publishers at once, alternately to a channel that is heard everywhere and to one that is heard once.
    let mut alone = client(&nodes, 2, 3);
    subscribe(&mut alone, "SUBSCRIBE alone", 3);
    publish_pipelines(&mut publishers);
    subscribers.iter_mut().for_each(|(connection, version)| hear_in_order(connection, *version));
    hear_in_order(&mut alone, 3);
    hear_in_order(&mut by_pattern, 3);
    // A message that goes to other nodes in pieces keeps its place.
    let large = "x".repeat(1 << 20);
    let requests = [&large[..], "behind"].map(|message| Connection::encode(&["PUBLISH", "alone", message]));
    publishers[0].send(&requests.concat()).unwrap();
    assert_eq!(next(&mut alone, 3).len(), "message alone ".len() + large.len());
    assert_eq!(next(&mut alone, 3), "message alone behind");
    (0..2).for_each(|_| assert_eq!(publishers[0].read().unwrap().int(), 1));
    // What ended is not told to anyone, and costs no other node anything.
    for (connection, version) in &mut subscribers {
        connection.send(b"UNSUBSCRIBE\r\n").unwrap();
        assert_eq!(next(connection, *version), "unsubscribe news 1");
        assert_eq!(next(connection, *version), "unsubscribe other 0");
        assert_eq!(connection.call("PING").text(), "PONG");
    }
    assert_eq!(publishers[0].call("PUBLISH other x").int(), 0);
    a_node_dies_and_comes_back(&mut nodes, &mut publishers, &mut alone);
}

/// How many messages each publisher sends to each of two channels.
const MESSAGES: usize = 300;

fn publish_pipelines(publishers: &mut [Connection]) {
    for (n, publisher) in publishers.iter_mut().enumerate() {
        let mut requests = Vec::new();
        for i in 0..MESSAGES {
            requests.extend(Connection::encode(&["PUBLISH", "news", &format!("{n} {i}")]));
            requests.extend(Connection::encode(&["PUBLISH", "alone", &format!("{n} {i}")]));
        }
        publisher.send(&requests).unwrap();
    }
    for publisher in publishers {
        for _ in 0..MESSAGES {
            assert_eq!((publisher.read().unwrap().int(), publisher.read().unwrap().int()), (13, 1));
        }
    }
}

/// Those of each of three publishers come in its order.
fn hear_in_order(connection: &mut Connection, version: u8) {
    let mut expected = [0; 3];
    for _ in 0..3 * MESSAGES {
        let heard = next(connection, version);
        let numbers: Vec<usize> = heard.rsplit(' ').take(2).map(|number| number.parse().unwrap()).collect();
        let (i, n) = (numbers[0], numbers[1]);
        assert_eq!(i, expected[n], "of publisher {n}");
        expected[n] += 1;
    }
}

fn a_node_dies_and_comes_back(nodes: &mut Nodes, publishers: &mut [Connection], alone: &mut Connection) {
    // A node dies: its subscribers are not counted, and the others go on.
    nodes.kill(1);
    eventually("the dead node is not asked", PATIENCE, || {
        (publishers[0].call("PUBLISH news x").int() == 0).then_some(())
    });
    assert_eq!(publishers[2].call("PUBLISH alone x").int(), 1);
    assert_eq!(next(alone, 3), "message alone x");
    // It comes back, and is told what the others listen to; its own clients subscribe again.
    nodes.spawn(1);
    nodes.wait_whole();
    let mut back = client(nodes, 1, 2);
    eventually("it knows of the subscriber", PATIENCE, || (back.call("PUBLISH alone y").int() == 1).then_some(()));
    assert_eq!(next(alone, 3), "message alone y");
    subscribe(&mut back, "SUBSCRIBE again", 2);
    eventually("the others know of it", PATIENCE, || (publishers[0].call("PUBLISH again z").int() == 1).then_some(()));
    assert_eq!(next(&mut back, 2), "message again z");
}

#[test]
fn channels_of_a_slot_are_heard_at_its_leader() {
    let dir = Dir::new("pubsub-slots");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let channel = nodes.key_led_by(1, "channel");
    let (mut here, mut there) = (client(&nodes, 1, 3), client(&nodes, 0, 2));
    let refused = there.call(&format!("SSUBSCRIBE {channel}")).text();
    assert!(refused.starts_with(&format!("MOVED {} ", common::slot(&channel))), "{refused}");
    assert!(there.call(&format!("SPUBLISH {channel} x")).text().starts_with("MOVED "));
    assert!(here.call("SSUBSCRIBE a b").text().starts_with("CROSSSLOT "));
    subscribe(&mut here, &format!("SSUBSCRIBE {channel}"), 3);
    let mut publisher = client(&nodes, 1, 2);
    assert_eq!(publisher.call(&format!("SPUBLISH {channel} hello")).int(), 1);
    assert_eq!(next(&mut here, 3), format!("smessage {channel} hello"));
    assert_eq!(publisher.call("PUBSUB SHARDCHANNELS").words(), channel);
    // Leadership goes to another node: the subscriber is told.
    assert!(nodes.run_ctl(&["drain-leaders", &nodes.address(1)]).status.success());
    assert_eq!(next(&mut here, 3), format!("sunsubscribe {channel} 0"));
    assert_eq!(publisher.call("PUBSUB SHARDCHANNELS").words(), "");
    nodes.kill_all();
}

#[test]
fn a_transaction_publishes_after_its_writes_and_counts_the_store() {
    let dir = Dir::new("pubsub-exec");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "1")]);
    let leader = nodes.leader(0, "x");
    let other = (leader + 1) % 3;
    let mut listener = client(&nodes, other, 3);
    subscribe(&mut listener, "SUBSCRIBE news", 3);
    let mut connection = client(&nodes, leader, 2);
    for request in ["MULTI", "SET x 1", "PUBLISH news written", "GET x"] {
        connection.call(request);
    }
    assert_eq!(connection.call("EXEC").words(), "OK 1 1");
    assert_eq!(next(&mut listener, 3), "message news written");
    // A message follows the writes before it on its connection.
    let mut reader = client(&nodes, leader, 2);
    for i in 0..100 {
        connection.send(format!("SET x {i}\r\nPUBLISH news {i}\r\n").as_bytes()).unwrap();
        assert_eq!(next(&mut listener, 3), format!("message news {i}"));
        assert_eq!(reader.call("GET x").text(), i.to_string());
        assert_eq!((connection.read().unwrap().words(), connection.read().unwrap().int()), ("OK".to_owned(), 1));
    }
    nodes.kill_all();
}

/// Hears events of keys until each has had so many; answers the events of each key, in their order.
fn hear_events(connection: &mut Connection, keys: &[String], each: usize) -> Vec<String> {
    let mut heard = vec![Vec::new(); keys.len()];
    for _ in 0..each * keys.len() {
        let words = next(connection, 3);
        let (event, key) =
            words.strip_prefix("pmessage __keyevent@0__:* __keyevent@0__:").unwrap().split_once(' ').unwrap();
        heard[keys.iter().position(|other| other == key).unwrap()].push(event.to_owned());
    }
    heard.into_iter().map(|events| events.join(" ")).collect()
}

#[test]
fn each_event_of_a_key_is_heard_once_at_every_node() {
    let dir = Dir::new("pubsub-events");
    let mut nodes = Nodes::start(&dir, 3, &[("--workers", "2"), ("--shards", "3")]);
    nodes.wait_spread();
    let keys: Vec<String> = (0..3).map(|n| nodes.key_led_by(n, "key")).collect();
    let mut clients: Vec<Connection> = (0..3).map(|n| client(&nodes, n, 2)).collect();
    // A setting of the store: asked of one node, it holds at all.
    assert_eq!(clients[1].call("CONFIG SET notify-keyspace-events KExg$").text(), "OK");
    eventually("every node has the setting", PATIENCE, || {
        let has =
            |client: &mut Connection| client.call("CONFIG GET notify-keyspace-events").words().ends_with(" g$xKE");
        clients.iter_mut().all(has).then_some(())
    });
    let mut subscribers: Vec<Connection> = (0..3).map(|n| client(&nodes, n, 3)).collect();
    subscribers.iter_mut().for_each(|subscriber| subscribe(subscriber, "PSUBSCRIBE __keyevent@0__:*", 3));
    let mut of_key = client(&nodes, 0, 3);
    subscribe(&mut of_key, &format!("SUBSCRIBE __keyspace@0__:{}", keys[2]), 3);
    for (client, key) in clients.iter_mut().zip(&keys) {
        // A transaction that is discarded, and a command that fails, tell nothing.
        for request in [
            "SET {} 1",
            "LPUSH {} 1",
            "DEL {}",
            "DEL {}",
            "MULTI",
            "SET {} 2",
            "EXPIRE {} 1000",
            "EXEC",
            "SET {} 3 PX 1",
        ] {
            client.call(&request.replace("{}", key));
        }
    }
    let expected = "set del set expire set expire expired";
    for subscriber in &mut subscribers {
        assert_eq!(hear_events(subscriber, &keys, 7), [expected; 3]);
    }
    for event in expected.split(' ') {
        assert_eq!(next(&mut of_key, 3), format!("message __keyspace@0__:{} {event}", keys[2]));
    }
    // A leader dies: its successor tells what it applies.
    let mut writer = nodes.client();
    nodes.kill(1);
    let (others, key) = (vec![keys[1].clone()], keys[1].clone());
    // A write that is tried again would be two: once the key can be read, there is a leader.
    writer.call(PATIENCE, &["GET", &key]);
    writer.call(PATIENCE, &["SET", &key, "4"]);
    writer.call(PATIENCE, &["PERSIST", &key]);
    writer.call(PATIENCE, &["DEL", &key]);
    for n in [0, 2] {
        let heard = hear_events(&mut subscribers[n], &others, 2);
        assert!(heard == ["set del"], "{heard:?} at node {n}");
    }
    // Back, it knows the setting, and hears.
    nodes.spawn(1);
    nodes.wait_whole();
    let mut asked = client(&nodes, 1, 2);
    eventually("the node has the setting again", PATIENCE, || {
        asked.call("CONFIG GET notify-keyspace-events").words().ends_with(" g$xKE").then_some(())
    });
    let mut back = client(&nodes, 1, 3);
    subscribe(&mut back, "PSUBSCRIBE __keyevent@0__:*", 3);
    writer.call(PATIENCE, &["SET", &key, "5"]);
    assert_eq!(hear_events(&mut back, &others, 1), ["set"]);
    nodes.kill_all();
}

#[test]
fn reads_that_find_nothing_are_told_if_that_is_asked_for() {
    let dir = Dir::new("pubsub-keymiss");
    let server = Server::start(&Setup::new(&dir.join("data")));
    let (mut listener, mut client) = (server.connect(), server.connect());
    client.call("CONFIG SET notify-keyspace-events Em");
    subscribe(&mut listener, "PSUBSCRIBE *", 2);
    client.call("SET {t}a 1");
    for request in ["GET {t}a", "GET nosuch", "MGET {t}a {t}b"] {
        client.call(request);
    }
    assert_eq!(next(&mut listener, 2), "pmessage * __keyevent@0__:keymiss nosuch");
    assert_eq!(next(&mut listener, 2), "pmessage * __keyevent@0__:keymiss {t}b");
    // What writes and looks up is evaluated in an entry, alone, within a transaction or by a script.
    for request in [
        "GETDEL 1",
        "GETEX 2 PERSIST",
        "SET 3 v GET",
        "SUNIONSTORE {t}d {t}4",
        "OBJECT ENCODING 0",
        "LPOP 0",
        "INCR 0",
        "SET 3 v",
        "MULTI",
        "SET {t}a 2",
        "GET {t}5",
        "EXEC",
        "EVAL redis.call('SET',KEYS[1],'1');redis.call('GET','{t}6') 1 {t}a",
    ] {
        client.call(request);
    }
    let told: Vec<String> = (0..6).map(|_| next(&mut listener, 2)).collect();
    let expected =
        ["1", "2", "3", "{t}4", "{t}5", "{t}6"].map(|key| format!("pmessage * __keyevent@0__:keymiss {key}"));
    assert_eq!(told, expected);
}

#[test]
fn a_monitor_is_shown_what_its_node_runs() {
    let dir = Dir::new("pubsub-monitor");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--workers", "2"));
    let mut monitors = [server.connect(), server.connect()];
    monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.call("MONITOR").text(), "OK"));
    let mut client = server.connect();
    for request in [
        "AUTH secret",
        "SET a 1",
        "NOSUCH",
        "GET",
        "MULTI",
        "INCR a",
        "EXEC",
        "CONFIG GET port",
        "HELLO 3 AUTH default secret",
    ] {
        client.call(request);
    }
    for monitor in &mut monitors {
        for expected in [
            r#""AUTH" "(redacted)""#,
            r#""SET" "a" "1""#,
            r#""MULTI""#,
            r#""INCR" "a""#,
            r#""EXEC""#,
            r#""HELLO" "3" "(redacted)" "(redacted)" "(redacted)""#,
        ] {
            let line = monitor.read().unwrap().text();
            let (_, shown) = line.split_once("] ").unwrap();
            assert_eq!(shown, expected);
        }
    }
    // One that is reset is shown no more.
    assert_eq!(monitors[0].call("RESET").text(), "RESET");
    client.call("GET a");
    assert_eq!(monitors[0].call("PING").text(), "PONG");
}

/// A subscriber that takes nothing is closed; the others get everything meanwhile.
#[test]
fn a_slow_subscriber_is_closed_and_delays_none() {
    let dir = Dir::new("pubsub-slow");
    let setup = Setup::new(&dir.join("data")).with("--set", "client-output-buffer-limit=pubsub 4mb 1mb 60");
    let server = Server::start(&setup);
    let (mut slow, mut quick, mut publisher) = (server.connect(), server.connect(), server.connect());
    slow.call("SUBSCRIBE news");
    quick.call("SUBSCRIBE news");
    let message = "x".repeat(1 << 20);
    let mut closed_after = None;
    for i in 0..64 {
        let receivers = publisher.try_call(&["PUBLISH", "news", &message]).unwrap().int();
        assert_eq!(quick.read().unwrap().items()[2].bytes().unwrap().len(), message.len());
        if receivers == 1 {
            closed_after = Some(i);
            break;
        }
    }
    assert!(closed_after.is_some_and(|after| after >= 4), "{closed_after:?}");
    let info = publisher.call("INFO stats").text();
    assert!(info.contains("client_output_buffer_limit_disconnections:1"), "{info}");
    let gone = loop {
        match slow.read() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(gone.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{gone}");
}

#[test]
fn ten_thousand_subscriptions_of_a_thousand_channels() {
    let dir = Dir::new("pubsub-many");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--workers", "2"));
    let mut subscribers: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
    for (n, subscriber) in subscribers.iter_mut().enumerate() {
        let names: Vec<String> = (0..100).map(|i| format!("channel{}", (n * 10 + i) % 1000)).collect();
        let request: Vec<&str> = std::iter::once("SUBSCRIBE").chain(names.iter().map(String::as_str)).collect();
        subscriber.stream().write_all(&Connection::encode(&request)).unwrap();
        (0..100).for_each(|_| _ = subscriber.read().unwrap());
    }
    let mut publisher = server.connect();
    assert_eq!(publisher.call("PUBSUB CHANNELS").items().len(), 1000);
    let requests: Vec<u8> =
        (0..1000).flat_map(|i| Connection::encode(&["PUBLISH", &format!("channel{i}"), "x"])).collect();
    publisher.send(&requests).unwrap();
    let sum: i64 = (0..1000).map(|_| publisher.read().unwrap().int()).sum();
    assert_eq!(sum, 10_000);
    for subscriber in &mut subscribers {
        (0..100).for_each(|_| assert!(subscriber.read().unwrap().words().ends_with(" x")));
    }
    assert!(publisher.call("INFO clients").text().contains("pubsub_clients:100"));
    drop(subscribers);
    eventually("they are gone", PATIENCE, || publisher.call("PUBSUB CHANNELS").items().is_empty().then_some(()));
}

/// More clients than an event loop tells at a time, and more patterns than it looks at.
#[test]
fn what_is_for_very_many_clients_reaches_each_in_its_order() {
    const CLIENTS: usize = 600;
    const PATTERNS: usize = 1_100;
    let dir = Dir::new("pubsub-very-many");
    let server = Server::start(&Setup::new(dir.path()).with("--workers", "2"));
    let open = || {
        let connection = Connection::open(server.port()).unwrap();
        connection.patience(PATIENCE);
        connection
    };
    let mut publisher = open();
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| open()).collect();
    for client in &mut clients {
        let requests = ["HELLO 3", "CLIENT TRACKING ON", "GET {k}", "SUBSCRIBE news"];
        client.send(format!("{}\r\n", requests.join("\r\n")).as_bytes()).unwrap();
    }
    for client in &mut clients {
        (0..4).for_each(|_| assert!(!client.read().unwrap().is_error()));
    }
    let words: Vec<String> = (0..PATTERNS).map(|n| format!("n*s{n}")).collect();
    let words: Vec<&str> = ["PSUBSCRIBE", "n*"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let mut by_pattern = open();
    by_pattern.call("HELLO 3");
    by_pattern.send(&Connection::encode(&words)).unwrap();
    (0..=PATTERNS).for_each(|_| _ = by_pattern.read().unwrap());
    let requests: Vec<String> = (0..20).map(|n| format!("PUBLISH news {n}\r\nECHO {n}\r\n")).collect();
    publisher.send(requests.concat().as_bytes()).unwrap();
    for n in 0..20 {
        assert_eq!(publisher.read().unwrap().int(), CLIENTS as i64 + 1);
        assert_eq!(publisher.read().unwrap().text(), n.to_string());
    }
    publisher.call("SET {k} 1");
    for client in &mut clients {
        let heard: Vec<String> = (0..21).map(|_| client.read().unwrap().words()).collect();
        let messages: Vec<String> = (0..20).map(|n| format!("message news {n}")).collect();
        let is_message = |word: &&String| word.starts_with("message");
        assert!(heard.iter().filter(is_message).eq(&messages), "{heard:?}");
        assert!(heard.iter().any(|word| word == "invalidate {k}"), "{heard:?}");
    }
    (0..20).for_each(|n| assert_eq!(by_pattern.read().unwrap().words(), format!("pmessage n* news {n}")));
    // They leave at once, and others are served.
    drop(clients);
    assert_eq!(publisher.call("GET {k}").text(), "1");
    eventually("their subscriptions end", PATIENCE, || (publisher.call("PUBLISH news x").int() == 1).then_some(()));
}
