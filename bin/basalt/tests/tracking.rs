//! CLIENT TRACKING on one node and on three.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Connection, Dir, Nodes, Server, Setup, Value, eventually};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A client of RESP3 that has its reads tracked.
fn tracked(mut connection: Connection, options: &str) -> Connection {
    connection.call("HELLO 3");
    assert_eq!(connection.call(&format!("CLIENT TRACKING ON {options}")).text(), "OK");
    connection
}

/// The next thing that comes, which is a push.
fn pushed(connection: &mut Connection) -> String {
    let value = connection.read().unwrap();
    assert!(matches!(value, Value::Push(_)), "{value:?}");
    value.words()
}

/// Waits until clients have been told of all that was written so far: they read a key that was never written, of the same
/// shard, and it is written then. A client that reads earlier than that may be told once too often.
fn settled<'a>(readers: impl IntoIterator<Item = &'a mut Connection>, writer: &mut Connection, key: &str) {
    let mut readers: Vec<&mut Connection> = readers.into_iter().collect();
    for reader in &mut readers {
        reader.call(&format!("GET {key}"));
    }
    writer.call(&format!("SET {key} 1"));
    for reader in readers {
        assert_eq!(pushed(reader), format!("invalidate {key}"));
    }
}

#[test]
fn a_client_is_told_of_what_it_has_read() {
    let dir = Dir::new("tracking");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--workers", "2"));
    // Connections are spread over both workers.
    let mut readers: Vec<Connection> = (0..4).map(|_| tracked(server.connect(), "")).collect();
    let mut writer = server.connect();
    writer.call("SET {t}a 1");
    writer.call("HSET {t}h f 1");
    settled(&mut readers, &mut writer, "{t}first");
    for reader in &mut readers {
        assert_eq!(reader.call("GET {t}a").text(), "1");
        reader.call("HGETALL {t}h");
        reader.call("GET {t}nosuch");
    }
    let info = writer.call("INFO").text();
    for line in ["tracking_clients:4", "tracking_total_keys:3", "tracking_total_items:12"] {
        assert!(info.contains(line), "{line}: {info}");
    }
    writer.call("SET {t}a 2");
    writer.call("SET {t}a 3");
    writer.call("HSET {t}h g 1");
    writer.call("SET {t}nosuch 1 PX 20");
    for reader in &mut readers {
        let mut heard: Vec<String> = (0..3).map(|_| pushed(reader)).collect();
        heard.sort();
        assert_eq!(heard, ["invalidate {t}a", "invalidate {t}h", "invalidate {t}nosuch"]);
        assert_eq!(reader.call("PING").text(), "PONG", "once is enough");
    }
    // A key that expires; reads of it count, and so do those within a transaction.
    let reader = &mut readers[0];
    writer.call("SET {t}e 1 PX 200");
    for request in ["MULTI", "GET {t}e", "EXEC"] {
        reader.call(request);
    }
    assert_eq!(pushed(reader), "invalidate {t}e");
    // Its own change comes behind the answer.
    settled([&mut *reader], &mut writer, "{t}second");
    reader.call("GET {t}a");
    assert_eq!(reader.call("DEL {t}a").int(), 1);
    assert_eq!(pushed(reader), "invalidate {t}a");
    reader.call("CLIENT TRACKING OFF");
    assert_eq!(reader.call("CLIENT TRACKING ON NOLOOP").text(), "OK");
    reader.call("MGET {x}1 {x}2");
    reader.call("SET {x}1 own");
    writer.call("SET {x}2 other");
    assert_eq!(pushed(reader), "invalidate {x}2");
    // A script that writes has read it, and a function.
    writer.call("SET {x}1 1");
    assert_eq!(pushed(reader), "invalidate {x}1");
    let library = "#!lua name=l\nredis.register_function('f', function(k) redis.call('SET', k[1], 1); return redis.call('GET', k[2]) end)";
    assert_eq!(writer.try_call(&["FUNCTION", "LOAD", library]).unwrap().text(), "l");
    for script in
        ["EVAL redis.call('SET',KEYS[1],1)return(redis.call('GET',KEYS[2])) 2 {x}1 {x}2", "FCALL f 2 {x}1 {x}2"]
    {
        assert_eq!(reader.call(script).text(), "other");
        assert!(writer.call("INFO stats").text().contains("tracking_total_keys:1\r\n"), "{script}");
        writer.call("MSET {x}1 other {x}2 other");
        assert_eq!(pushed(reader), "invalidate {x}2", "{script}");
    }
    // All is gone, and the table is bounded.
    reader.call("GET {t}a");
    writer.call("FLUSHALL");
    assert_eq!(pushed(reader), "invalidate nil");
    (0..5).for_each(|n| _ = reader.call(&format!("GET k{n}")));
    writer.call("CONFIG SET tracking-table-max-keys 2");
    (0..3).for_each(|_| assert!(pushed(reader).starts_with("invalidate k")));
    assert_eq!(reader.call("PING").text(), "PONG");
}

/// What scripts of a transaction read that only reads is told of as well, declared or not.
#[test]
fn what_the_scripts_of_a_transaction_read_is_told() {
    let dir = Dir::new("tracking-transaction");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--workers", "2"));
    let mut reader = tracked(server.connect(), "");
    let mut writer = server.connect();
    let library = "#!lua name=l\nredis.register_function{function_name='f', flags={'no-writes'}, \
                   callback=function(k) return redis.call('GET', '{t}b') end}";
    assert_eq!(writer.try_call(&["FUNCTION", "LOAD", library]).unwrap().text(), "l");
    writer.call("MSET {t}a 1 {t}b 1");
    settled([&mut reader], &mut writer, "{t}first");
    let marked = "#!lua flags=no-writes\nreturn redis.call('GET', '{t}b')";
    for script in [
        ["EVAL_RO", "return redis.call('GET', '{t}b')", "1", "{t}a"],
        ["EVAL", marked, "1", "{t}a"],
        ["FCALL", "f", "1", "{t}a"],
        ["FCALL_RO", "f", "1", "{t}a"],
    ] {
        // With a command that is not the shard's, the transaction's answer is made elsewhere.
        for also in ["GET {t}c", "PING"] {
            reader.call("MULTI");
            assert_eq!(reader.try_call(&script).unwrap().text(), "QUEUED");
            reader.call(also);
            assert_eq!(reader.call("EXEC").items()[0].text(), "1", "{script:?}");
            writer.call("SET {t}b 1");
            assert_eq!(pushed(&mut reader), "invalidate {t}b", "{script:?}, {also}");
            writer.call("SET {t}a 1");
            // What might write goes through the log, and tells what it has read alone; others tell what they declare, too.
            if script[0].ends_with("_RO") {
                assert_eq!(pushed(&mut reader), "invalidate {t}a", "{script:?}, {also}");
            }
            assert_eq!(reader.call("PING").text(), "PONG", "once is enough");
        }
        writer.call("SET {t}c 1");
        assert_eq!(pushed(&mut reader), "invalidate {t}c");
    }
}

#[test]
fn prefixes_and_other_connections_are_told() {
    let dir = Dir::new("tracking-bcast");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--workers", "2"));
    let mut writer = server.connect();
    let mut by_prefix = tracked(server.connect(), "BCAST PREFIX a: PREFIX b:");
    let mut listener = server.connect();
    let id = listener.call("CLIENT ID").int();
    listener.call("SUBSCRIBE __redis__:invalidate");
    let mut old = server.connect();
    assert_eq!(old.call(&format!("CLIENT TRACKING ON REDIRECT {id}")).text(), "OK");
    assert_eq!(old.call("CLIENT GETREDIR").int(), id);
    old.call("GET a:1{t}");
    writer.call("MSET a:1{t} 1 a:2{t} 2 c:1{t} 3");
    assert_eq!(pushed(&mut by_prefix), "invalidate a:1{t} a:2{t}");
    assert_eq!(listener.read().unwrap().words(), "message __redis__:invalidate a:1{t}");
    assert!(by_prefix.call("CLIENT TRACKINGINFO").words().contains("bcast"));
    assert!(writer.call("INFO stats").text().contains("tracking_total_prefixes:2"));
    // The other connection is gone.
    old.call("HELLO 3");
    old.call("GET c:1{t}");
    drop(listener);
    eventually("the listener is gone", PATIENCE, || {
        (!writer.call("CLIENT LIST").text().contains(&format!("id={id} "))).then_some(())
    });
    writer.call("SET c:1{t} 4");
    assert_eq!(pushed(&mut old), format!("tracking-redir-broken {id}"));
    drop(by_prefix);
    eventually("its prefixes are gone", PATIENCE, || {
        writer.call("INFO stats").text().contains("tracking_total_prefixes:0").then_some(())
    });
}

#[test]
fn a_client_that_cannot_be_sure_forgets_all() {
    let dir = Dir::new("tracking-nodes");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    let (key, other) = (nodes.key_led_by(1, "key"), nodes.key_led_by(0, "key"));
    let mut reader = tracked(nodes.connect(1), "");
    let mut elsewhere = tracked(nodes.connect(0), "");
    reader.call(&format!("GET {key}"));
    elsewhere.call(&format!("GET {other}"));
    // Leadership goes to another node.
    assert!(nodes.run_ctl(&["drain-leaders", &nodes.address(1)]).status.success());
    assert_eq!(pushed(&mut reader), "invalidate nil");
    assert_eq!(reader.call("PING").text(), "PONG");
    // A follower that has answered tells of changes, too.
    let mut follower = tracked(nodes.connect(1), "");
    follower.call("READONLY");
    follower.call(&format!("GET {key}"));
    let mut writer = nodes.client();
    writer.call(PATIENCE, &["SET", &key, "1"]);
    assert_eq!(pushed(&mut follower), format!("invalidate {key}"));
    assert_eq!(elsewhere.call("PING").text(), "PONG", "its shard is where it was");
    nodes.kill_all();
}
