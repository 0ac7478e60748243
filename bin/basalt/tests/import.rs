//! `basalt import`: a Redis that is written to meanwhile, and its files, into a store; and back, by DUMP and RESTORE.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Random, Server, Setup, Value, eventually, free_port, installed, skip};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A Redis by itself, of which no key's slot matters.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    fn start(dir: &Dir) -> Option<Self> {
        if !installed("redis-server") {
            skip("redis", "redis-server is not installed");
            return None;
        }
        let (port, data) = (free_port(), dir.join("redis"));
        std::fs::create_dir_all(&data).unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(&data);
        command.args(["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Self { child, port };
        eventually("redis-server listens", LIMIT, || Connection::open(port).ok());
        Some(redis)
    }

    fn connect(&self) -> Connection {
        Connection::open(self.port).unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A test that failed has said so already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn import(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.arg("import").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ended(import: Child) -> (Output, serde_json::Value) {
    let output = import.wait_with_output().unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (output.clone(), json.unwrap_or_else(|e| panic!("{e}: {output:?}")))
}

/// Keys of every type, small and large.
fn fill(redis: &mut Connection) {
    for n in 0..300 {
        for words in [
            format!("SET string{n} {n}"),
            format!("SET late{n} {} PX 100000000", "x".repeat(n + 1)),
            format!("RPUSH list a{n} {n} {}", "y".repeat(n % 90 + 1)),
            format!("SADD numbers {n}"),
            format!("SADD few {}", n % 5),
            format!("SADD words w{n}"),
            format!("ZADD sorted {n}.5 m{n}"),
            format!("ZADD fewer {n} m{}", n % 7),
            format!("HSET hash f{n} {n}"),
            format!("HSET small f{} {n}", n % 3),
            format!("XADD stream {n}-1 field {n} other v"),
            format!("PFADD log e{n}"),
            format!("SETBIT bits {} 1", n * 7),
        ] {
            assert!(!redis.call(&words).is_error(), "{words}");
        }
    }
    redis.call("XGROUP CREATE stream group 0");
    redis.call("XREADGROUP GROUP group one COUNT 5 STREAMS stream >");
}

/// Writes that are not the same when they are made twice or in another order, some over keys of several slots.
fn change(redis: &mut Connection, rounds: u64) {
    let mut random = Random::new(31);
    for n in 0..rounds {
        let (a, b) = (random.below(20), random.below(20));
        for words in [
            format!("INCR counter{a}"),
            format!("APPEND text{b} {n},"),
            format!("RPUSH queue{a} {n}"),
            format!("RPOPLPUSH queue{b} queue{a}"),
            format!("MSET string{a} {n} string{b} {n}"),
            format!("SUNIONSTORE union{a} words numbers"),
            format!("SADD union{a} {n}"),
            format!("RENAME union{a} union{b}"),
            format!("ZINCRBY sorted {n} m{a}"),
            format!("DEL late{a} late{b}"),
            format!("EVAL return(redis.call('incrby',KEYS[1],ARGV[1])) 1 counter{b} {n}"),
            format!("XADD stream * field {n}"),
        ] {
            redis.call(&words);
        }
        redis.call("MULTI");
        redis.call(&format!("HINCRBY hash f{a} 1"));
        redis.call(&format!("LPUSH list {n}"));
        redis.call("EXEC");
    }
}

fn keys(redis: &mut Connection) -> Vec<String> {
    redis.call("KEYS *").items().iter().map(Value::text).collect()
}

/// What Basalt dumps is given to Redis, which then compares it with what it had itself.
fn compare(redis: &mut Connection, dump: &mut dyn FnMut(&str) -> Value) -> usize {
    let keys = keys(redis);
    for key in &keys {
        let Value::Bulk(dumped) = dump(key) else { panic!("{key} is not there") };
        // A digest tells whether a key expires.
        let ttl = if redis.call(&format!("PTTL {key}")).int() > 0 { &b"100000"[..] } else { b"0" };
        let restored = redis.try_call(&[&b"RESTORE"[..], b"back", ttl, &dumped, b"REPLACE"]).unwrap();
        assert_eq!(restored, Value::ok(), "{key}: Redis does not take it");
        let digests = redis.call(&format!("DEBUG DIGEST-VALUE {key} back"));
        assert_eq!(digests.items()[0], digests.items()[1], "{key}");
    }
    redis.call("DEL back");
    keys.len()
}

#[test]
fn a_redis_that_is_written_to_is_taken_over() {
    let dir = Dir::new("import-live");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    fill(&mut redis);
    let nodes = Nodes::start(&dir, 3, &[("--durability", "nosync")]);
    let (source, node) = (format!("redis://127.0.0.1:{}", server.port), nodes.address(0));
    let import = import(&[&source, "--node", &node, "--json"]);
    change(&mut redis, 300);
    redis.call("SET end here");
    let mut client = nodes.client();
    eventually("the last write is there", LIMIT, || {
        matches!(client.attempt(&["GET", "end"]), Some(Value::Bulk(_))).then_some(())
    });
    let end = Command::new("kill").args(["-TERM", &import.id().to_string()]).status().unwrap();
    assert!(end.success());
    let (output, result) = ended(import);
    assert!(output.status.success(), "{output:?}");
    assert!(result["commands"].as_u64().unwrap() > 0 || result["keys"].as_u64().unwrap() > 600, "{result}");
    let count = compare(&mut redis, &mut |key| client.call(LIMIT, &["DUMP", key]));
    assert!(count > 600, "{count} keys");
    let ttl = client.call(LIMIT, &["PTTL", "late299"]).int();
    let there = redis.call("PTTL late299").int();
    assert!((ttl - there).abs() < 60_000 && ttl > 0, "{ttl} and {there}");
    let (_, verified) = ended(self::import(&[&source, "--node", &node, "--json", "--no-follow", "--verify", "200"]));
    assert_eq!((&verified["compared"], &verified["problems"]), (&200.into(), &0.into()), "{verified}");
    assert_eq!(verified["present"], verified["keys"], "what is there is left: {verified}");
}

#[test]
fn files_of_redis_are_read() {
    let dir = Dir::new("import-files");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    redis.call("CONFIG SET appendonly yes");
    fill(&mut redis);
    redis.call("SELECT 3");
    redis.call("SET other database");
    redis.call("SELECT 0");
    change(&mut redis, 0);
    assert_eq!(redis.call("SAVE"), Value::ok());
    let file = |name: &str| {
        let place = redis_path(&mut server.connect());
        Path::new(&place).join(name).display().to_string()
    };
    let (rdb, aof) = (file("dump.rdb"), file("appendonlydir"));
    for source in [&rdb, &aof] {
        let setup =
            Setup::new(&dir.join(if *source == rdb { "of-rdb" } else { "of-aof" })).with("--durability", "nosync");
        let basalt = Server::start(&setup);
        let node = format!("127.0.0.1:{}", basalt.port());
        let (output, result) = ended(import(&[source, "--node", &node, "--json", "--dry-run"]));
        assert!(output.status.success() && result["written"] == 0, "{output:?}");
        let (output, result) = ended(import(&[source, "--node", &node, "--json"]));
        assert!(output.status.success(), "{output:?}");
        assert!(result["other_databases"].as_u64().unwrap() > 0, "{result}");
        let mut client = basalt.connect();
        let count = compare(&mut redis, &mut |key| client.call(&format!("DUMP {key}")));
        assert!(count > 600, "{count} keys");
        assert!(basalt.stop());
    }
    // A file that is cut off is told, with what was read.
    let bytes = std::fs::read(&rdb).unwrap();
    let torn = dir.join("torn.rdb");
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    let (output, result) = ended(import(&[torn.to_str().unwrap(), "--json", "--dry-run"]));
    assert!(!output.status.success() && result["problems"] == 1, "{output:?}");
}

fn redis_path(redis: &mut Connection) -> String {
    redis.call("CONFIG GET dir").items()[1].text()
}
