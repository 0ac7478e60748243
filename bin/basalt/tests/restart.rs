//! What a restart keeps: everything that was answered, and quickly.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, announce, eventually, number};
use std::time::{Duration, Instant};

const ENGINES: [&str; 2] = ["lsm", "memory"];

fn setup(dir: &Dir, engine: &str) -> Setup {
    Setup::new(&dir.join("data")).with("--engine", engine)
}

/// Ends the server as `how` says and starts it again.
fn restart(server: Server, setup: &Setup, how: &str) -> Server {
    match how {
        "kill" => server.kill(),
        _ => assert!(server.stop(), "SIGTERM ended it badly"),
    }
    Server::start(setup)
}

#[test]
fn everything_is_as_it_was() {
    for engine in ENGINES {
        let dir = Dir::new(&format!("restart-{engine}"));
        let setup = setup(&dir, engine);
        let mut server = Server::start(&setup);
        let mut connection = server.connect();
        assert_eq!(connection.call("SET forever 1"), Value::ok());
        assert_eq!(connection.call("SET long 1 EX 10000"), Value::ok());
        assert_eq!(connection.call("SET short 1 PX 1"), Value::ok());
        let mut fields = vec!["HSET".to_owned(), "spread".to_owned()];
        fields.extend((0..1_000).flat_map(|n| [format!("field{n}"), n.to_string()]));
        assert_eq!(connection.try_call(&fields).unwrap(), Value::Int(1_000));
        assert_eq!(connection.call("HSET packed a 1 b 2"), Value::Int(2));
        let version = connection.call("KV.PUT versioned x").int();
        for how in ["kill", "kill", "stop", "kill", "stop"] {
            server = restart(server, &setup, how);
            let mut connection = server.connect();
            let context = format!("{engine}, after a {how}");
            assert_eq!(connection.call("GET forever"), Value::bulk("1"), "{context}");
            assert_eq!(connection.call("TTL forever"), Value::Int(-1), "{context}");
            let ttl = connection.call("TTL long").int();
            assert!((9_000..=10_000).contains(&ttl), "{context}: TTL {ttl}");
            assert_eq!(connection.call("GET short"), Value::NilBulk, "{context}");
            assert_eq!(connection.call("HLEN spread"), Value::Int(1_000), "{context}");
            assert_eq!(connection.call("HGET spread field999"), Value::bulk("999"), "{context}");
            assert_eq!(connection.call("HMGET packed a b").items(), [Value::bulk("1"), Value::bulk("2")], "{context}");
            let expected = Value::Array(vec![Value::bulk("x"), Value::Int(version)]);
            assert_eq!(connection.call("KV.GET versioned"), expected, "{context}: the version has changed");
            // What has expired is collected in the background.
            let what = format!("{context}: DBSIZE is 5");
            eventually(&what, Duration::from_secs(10), || (connection.call("DBSIZE") == Value::Int(5)).then_some(()));
        }
        let later = server.connect().call("KV.PUT versioned y").int();
        assert!(later > version, "{engine}: versions went from {version} back to {later}");
    }
}

#[test]
fn what_was_removed_stays_removed() {
    for engine in ENGINES {
        let dir = Dir::new(&format!("removed-{engine}"));
        let setup = setup(&dir, engine);
        let mut server = Server::start(&setup);
        for how in ["kill", "stop", "kill"] {
            let mut connection = server.connect();
            for n in 0..200 {
                assert_eq!(connection.call(&format!("SET key{n} value")), Value::ok());
            }
            assert_eq!(connection.call("HSET hash a 1"), Value::Int(1));
            assert_eq!(connection.call("FLUSHALL"), Value::ok());
            assert_eq!(connection.call("SET after 1"), Value::ok());
            server = restart(server, &setup, how);
            let mut connection = server.connect();
            assert_eq!(connection.call("DBSIZE"), Value::Int(1), "{engine}, after a {how}");
            assert_eq!(connection.call("KEYS *").items(), [Value::bulk("after")], "{engine}, after a {how}");
            assert_eq!(connection.call("DEL after"), Value::Int(1));
            server = restart(server, &setup, how);
            assert_eq!(server.connect().call("DBSIZE"), Value::Int(0), "{engine}, after DEL and a {how}");
        }
    }
}

#[test]
fn a_long_log_is_replayed_and_says_so() {
    let megabytes = number("BASALT_RESTART_MB", 64);
    let dir = Dir::new("replay");
    let setup = Setup::new(&dir.join("data")).with("--memory", "2G").with("--durability", "nosync");
    let server = Server::start(&setup);
    let mut connection = server.connect();
    let value = Random::new(1).bytes(8 * 1024);
    let count = megabytes * 128;
    for first in (0..count).step_by(128) {
        for n in first..first + 128 {
            let set = Connection::encode(&[b"SET".as_slice(), format!("key{n}").as_bytes(), &value]);
            connection.send(&set).unwrap();
        }
        for _ in 0..128 {
            assert_eq!(connection.read().unwrap(), Value::ok());
        }
    }
    server.kill();
    let begun = Instant::now();
    let server = Server::start(&setup);
    let took = begun.elapsed();
    announce(&format!("restart: {megabytes} MB of log in {took:?}"));
    assert!(server.messages().contains("replay"), "it does not say what it does:\n{}", server.messages());
    assert_eq!(server.connect().call("DBSIZE"), Value::Int(count as i64));
}

#[test]
fn a_store_keeps_its_shape() {
    let dir = Dir::new("shape");
    let data = dir.join("data");
    let server = Server::start(&Setup::bare(&data).with("--shards", "3"));
    let mut connection = server.connect();
    for n in 0..100 {
        assert_eq!(connection.call(&format!("SET key{n} {n}")), Value::ok());
    }
    let name = connection.call("CLUSTER MYID");
    server.kill();
    let server = Server::start(&Setup::bare(&data).with("--shards", "7"));
    let mut connection = server.connect();
    for n in 0..100 {
        assert_eq!(connection.call(&format!("GET key{n}")), Value::bulk(n.to_string()));
    }
    assert_eq!(connection.call("CLUSTER MYID"), name);
    server.kill();
    let refused = Server::try_start(&Setup::bare(&data).with("--engine", "memory")).err();
    assert!(refused.is_some_and(|messages| messages.contains("--engine")), "another engine opened the store");
}
