//! Keys one by one between Basalt and Redis: MIGRATE either way, and `redis-cli --cluster import`.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Redis, Server, Setup, Value, fill, free_port, run};

fn digest(redis: &mut Connection) -> String {
    redis.call("DEBUG DIGEST").text()
}

/// Many keys at a time.
fn migrate(from: &mut Connection, to: &str, options: &str, keys: &[String]) {
    for some in keys.chunks(100) {
        let words = to.split(' ').chain([""]).chain(options.split(' ')).chain(["KEYS"]);
        let request: Vec<&str> = words.chain(some.iter().map(String::as_str)).collect();
        assert_eq!(from.try_call(&request).unwrap(), Value::ok());
    }
}

#[test]
fn keys_go_to_a_redis_and_come_back() {
    let dir = Dir::new("migrate");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    fill(&mut redis);
    let (expected, count) = (digest(&mut redis), redis.call("DBSIZE").int());
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let basalt = Server::start(&Setup::new(&dir.join("data")).with("--database-listen", &listen));
    let mut here = Connection::open(port).unwrap();
    let there = format!("MIGRATE 127.0.0.1 {}", server.port());

    // From Redis into a database, one by one and many at a time.
    let keys: Vec<String> = redis.call("KEYS *").items().iter().map(Value::text).collect();
    let to = format!("MIGRATE 127.0.0.1 {port}");
    for key in &keys[..10] {
        assert_eq!(redis.call(&format!("{to} {key} 2 5000")), Value::ok(), "{key}");
    }
    migrate(&mut redis, &to, "2 5000", &keys[10..]);
    assert_eq!(redis.call("DBSIZE").int(), 0);
    here.call("SELECT 2");
    assert_eq!(here.call("DBSIZE").int(), count);

    // A copy leaves the key; a key that is there is refused, and replaced if that is said.
    assert_eq!(here.call(&format!("{there} hash 0 5000 COPY")), Value::ok());
    let refused = here.call(&format!("{there} hash 0 5000")).text();
    assert!(refused.starts_with("ERR Target instance replied with error: BUSYKEY"), "{refused}");
    assert_eq!(here.call("EXISTS hash").int(), 1, "it was not taken, so it is here");
    assert_eq!(here.call(&format!("{there} hash 0 5000 REPLACE")), Value::ok());
    assert_eq!(here.call("EXISTS hash").int(), 0);
    assert_eq!(here.call(&format!("{there} hash 0 5000")).text(), "NOKEY");
    let unreachable = here.call(&format!("MIGRATE 127.0.0.1 {} list 0 100", free_port())).text();
    assert!(unreachable.starts_with("IOERR"), "{unreachable}");

    // All of them back, with a password.
    redis.call("CONFIG SET requirepass secret");
    let denied = here.call(&format!("{there} list 0 5000")).text();
    assert!(denied.contains("NOAUTH"), "{denied}");
    let keys: Vec<String> = here.call("KEYS *").items().iter().map(Value::text).collect();
    let ends = here.call("TIME").items()[0].text().parse::<i64>().unwrap() * 1000 + 1_000_000;
    assert_eq!(here.call(&format!("SET expires v PXAT {ends}")), Value::ok());
    assert_eq!(here.call(&format!("{there} expires 0 5000 AUTH secret")), Value::ok());
    assert_eq!(redis.call("PEXPIRETIME expires").int(), ends, "to the millisecond");
    assert_eq!(redis.call("DEL expires").int(), 1);
    migrate(&mut here, &there, "0 5000 AUTH2 default secret", &keys);
    assert_eq!(here.call("DBSIZE").int(), 0);
    assert_eq!(digest(&mut redis), expected);
    assert!(basalt.stop());
}

/// `redis-cli --cluster import` takes the keys of a Redis to the nodes that lead their slots.
#[test]
fn redis_cli_imports_into_the_cluster() {
    let dir = Dir::new("migrate-import");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    fill(&mut redis);
    let count = redis.call("DBSIZE").int();
    let nodes = Nodes::start(&dir, 3, &[("--durability", "nosync"), ("--shards", "6")]);
    nodes.wait_spread();
    let from = format!("127.0.0.1:{}", server.port());
    let words = ["--cluster", "import", &nodes.address(0), "--cluster-copy", "--cluster-from", &from];
    let output = run("redis-cli", &words);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(nodes.connect(0).call("DBSIZE STORE").int(), count, "{output:?}");
}
