//! `basalt export`, and the way back: a store's keys in a file of Redis's, and in lines of JSON, are what they were.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Redis, Server, Setup, Value, basalt, eventually, fill, free_port, run};
use std::path::Path;
use std::time::{Duration, Instant};

fn done(arguments: &[&str]) -> serde_json::Value {
    let output = basalt(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// Keys that are more than a page, and keys of bytes that are no text.
fn fill_large(redis: &mut Connection) {
    for chunk in 0..40 {
        let numbers: Vec<String> = (chunk * 250..chunk * 250 + 250).map(|n| n.to_string()).collect();
        let twice = |n: &String| format!("{n} m{n}");
        let padded = |n: &String| format!("f{n} {n}{}", "v".repeat(300));
        for words in [
            format!("RPUSH large:list {}", numbers.join(" ")),
            format!("SADD large:set {}", numbers.join(" m")),
            format!("ZADD large:zset {}", numbers.iter().map(twice).collect::<Vec<_>>().join(" ")),
            format!("HSET large:hash {}", numbers.iter().map(padded).collect::<Vec<_>>().join(" ")),
        ] {
            assert!(!redis.call(&words).is_error(), "{words}");
        }
    }
    for n in 1..2000 {
        redis.call(&format!("XADD large:stream {n}-0 field {n} other v{n}"));
    }
    redis.call("XGROUP CREATE large:stream group 5-0");
    redis.call("XREADGROUP GROUP group one COUNT 300 STREAMS large:stream >");
    redis.call("XDEL large:stream 7-0 1999-0");
    redis.call("PEXPIRE large:hash 90000000");
    let bytes: Vec<u8> = (0..=255).collect();
    redis.try_call(&[&b"SET"[..], &bytes, &bytes]).unwrap();
    redis.try_call(&[&b"HSET"[..], b"bytes", &bytes, b"\xff\xfe", b"\xff", b"\"\n\\"]).unwrap();
    redis.try_call(&[&b"ZADD"[..], b"scores", b"inf", &bytes, b"-inf", b"b", b"0.1", b"c", b"1e300", b"d"]).unwrap();
}

/// What a Redis holds: its own digest, and of each database when keys expire and what is pending.
fn contents(redis: &mut Connection, databases: &[u64]) -> Vec<String> {
    let mut found = vec![redis.call("DEBUG DIGEST").text()];
    for database in databases {
        redis.call(&format!("SELECT {database}"));
        let mut keys: Vec<Vec<u8>> =
            redis.call("KEYS *").items().iter().map(|key| key.bytes().unwrap().to_vec()).collect();
        keys.sort();
        for key in keys {
            let at = redis.try_call(&[&b"PEXPIRETIME"[..], &key]).unwrap().int();
            found.push(format!("{database} {} {at}", key.escape_ascii()));
            if redis.try_call(&[&b"TYPE"[..], &key]).unwrap().text() == "stream" {
                let name = String::from_utf8(key).unwrap();
                for words in [format!("XPENDING {name} group - + 10000"), format!("XINFO GROUPS {name}")] {
                    // How long an entry has been idle changes.
                    let reply = redis.call(&words);
                    let pending = reply.items().iter().map(|item| {
                        let parts = item.items().iter().enumerate();
                        parts.filter(|(at, _)| *at != 2).map(|(_, part)| part.words()).collect::<Vec<_>>().join(",")
                    });
                    found.push(pending.collect::<Vec<_>>().join(";"));
                }
            }
        }
    }
    redis.call("SELECT 0");
    found
}

/// A Redis with small and large keys, what it holds, and the file of it.
fn filled(dir: &Dir) -> Option<(Redis, Vec<String>, String)> {
    let server = Redis::start(dir)?;
    let mut redis = server.connect();
    fill(&mut redis);
    fill_large(&mut redis);
    let (expected, rdb) = (contents(&mut redis, &[0]), server.save());
    Some((server, expected, rdb))
}

#[test]
fn databases_go_from_redis_to_redis_and_nothing_changes() {
    let dir = Dir::new("export-databases");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    fill(&mut redis);
    fill_large(&mut redis);
    redis.call("SELECT 3");
    redis.call("SET other database PX 80000000");
    redis.call("SELECT 0");
    redis
        .try_call(&["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"])
        .unwrap();
    let expected = contents(&mut redis, &[0, 3]);
    let rdb = server.save();

    let start = |name: &str| Server::start(&Setup::new(&dir.join(name)).with("--durability", "nosync"));
    let (first, second) = (start("first"), start("second"));
    done(&["import", &rdb, "--databases", "--node", &first.address(), "--json"]);
    let (out, lines) = (dir.join("out.rdb"), dir.join("out.ndjson"));
    let (out, lines) = (out.to_str().unwrap(), lines.to_str().unwrap());
    let told = done(&["export", out, "--node", &first.address(), "--json"]);
    assert_eq!(told["bytes"], std::fs::metadata(out).unwrap().len(), "{told}");
    done(&["export", lines, "--node", &first.address(), "--json"]);

    // What is there is not written over, and an export of one database has nothing else.
    let refused = basalt(&["export", out, "--node", &first.address()]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = done(&["export", out, "--node", &first.address(), "--json", "--force", "--database", "3"]);
    assert_eq!(told["keys"], 1, "{told}");
    done(&["export", out, "--node", &first.address(), "--json", "--force"]);

    done(&["import", lines, "--databases", "--node", &second.address(), "--json"]);
    let again = dir.join("again.rdb");
    let again = again.to_str().unwrap();
    done(&["export", again, "--node", &second.address(), "--json"]);
    for file in [out, again] {
        let back = Redis::start_with(&dir, Some(Path::new(file))).unwrap();
        let mut back = back.connect();
        assert_eq!(contents(&mut back, &[0, 3]), expected, "{file}");
        assert_eq!(back.call("FCALL f 0"), Value::Int(1), "{file}");
    }

    // A file that was cut off is told.
    let text = std::fs::read(lines).unwrap();
    let torn = dir.join("torn.ndjson");
    std::fs::write(&torn, &text[..text.len() / 2]).unwrap();
    let output = basalt(&["import", torn.to_str().unwrap(), "--databases", "--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn keys_of_three_nodes_are_as_of_one_moment_and_go_back() {
    let dir = Dir::new("export-nodes");
    let Some((_server, expected, rdb)) = filled(&dir) else { return };
    let nodes = Nodes::start(&dir, 3, &[("--durability", "nosync"), ("--shards", "6")]);
    let node = nodes.address(0);
    done(&["import", &rdb, "--node", &node, "--json"]);
    // Standard output may be the export.
    let output = basalt(&["export", "-", "--format", "rdb", "--node", &node, "--quiet"]);
    assert!(output.status.success(), "{:?}", String::from_utf8_lossy(&output.stderr));
    let out = dir.join("out.rdb");
    std::fs::write(&out, &output.stdout).unwrap();
    let back = Redis::start_with(&dir, Some(&out)).unwrap();
    assert_eq!(contents(&mut back.connect(), &[0]), expected);

    // Commands as redis-cli --pipe takes them, into a database.
    let commands = dir.join("commands.txt");
    let text = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\nINCRBY n 5\r\n*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\nx\r\n";
    std::fs::write(&commands, text).unwrap();
    done(&["import", commands.to_str().unwrap(), "--into-database", "9", "--node", &node, "--json"]);
    let told = done(&["export", out.to_str().unwrap(), "--force", "--database", "9", "--node", &node, "--json"]);
    assert_eq!(told["keys"], 3, "{told}");
    let back = Redis::start_with(&dir, Some(&out)).unwrap();
    let mut back = back.connect();
    back.call("SELECT 9");
    assert_eq!((back.call("GET a"), back.call("GET n")), (Value::bulk("\r\n"), Value::bulk("5")));
}

/// A store may have keys that are one to a Redis, and fields that expire, which Redis 7.0 does not know.
#[test]
fn what_a_redis_cannot_hold_is_told() {
    let dir = Dir::new("export-refused");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--database-listen", &listen));
    let node = server.address();
    Connection::open(port).unwrap().call("SET k of-the-database");
    let mut client = server.connect();
    client.call("SET k of-the-cluster");
    client.call("HSET h a 1 b 2");
    client.call("HPEXPIRE h 5000000 FIELDS 1 a");
    let out = dir.join("out.rdb");
    let out = out.to_str().unwrap();
    let refused = basalt(&["export", out, "--node", &node]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("--cluster-keys"), "{told}");
    assert!(!Path::new(out).exists());
    let output = basalt(&["export", out, "--node", &node, "--cluster-keys", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["problems"]), (Some(1), &1.into()), "{told}");
    let told = done(&["export", out, "--node", &node, "--cluster-keys", "--rdb-version", "12", "--force", "--json"]);
    assert_eq!((&told["keys"], &told["problems"]), (&2.into(), &0.into()));
    let lines = dir.join("all.ndjson");
    assert_eq!(done(&["export", lines.to_str().unwrap(), "--node", &node, "--json"])["keys"], 3);
}

/// After SWAPDB, files have the numbers that clients use.
#[test]
fn exchanged_databases_are_written_by_their_numbers() {
    let dir = Dir::new("export-swapped");
    if Redis::start(&dir).is_none() {
        return;
    }
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--database-listen", &listen));
    let mut client = Connection::open(port).unwrap();
    for words in ["SELECT 3", "SET k was-three", "SELECT 5", "SET k was-five", "SWAPDB 3 5"] {
        assert_eq!(client.call(words), Value::ok(), "{words}");
    }
    let (node, path) = (server.address(), |name: &str| dir.join(name).to_str().unwrap().to_owned());
    done(&["export", &path("all.rdb"), "--node", &node, "--json"]);
    let told = done(&["export", &path("five.rdb"), "--database", "5", "--node", &node, "--json"]);
    assert_eq!(told["keys"], 1, "{told}");
    let copied = run("redis-cli", &["-p", &port.to_string(), "--rdb", &path("copied.rdb")]);
    assert!(copied.status.success(), "{copied:?}");
    for (file, three) in
        [("all.rdb", Value::bulk("was-five")), ("copied.rdb", Value::bulk("was-five")), ("five.rdb", Value::NilBulk)]
    {
        let back = Redis::start_with(&dir, Some(&dir.join(file))).unwrap();
        let mut back = back.connect();
        back.call("SELECT 3");
        assert_eq!(back.call("GET k"), three, "{file}");
        back.call("SELECT 5");
        assert_eq!(back.call("GET k"), Value::bulk("was-three"), "{file}");
    }
    done(&["export", &path("all.ndjson"), "--node", &node, "--json"]);
    let lines = std::fs::read_to_string(path("all.ndjson")).unwrap();
    let line = lines.lines().find(|line| line.contains("was-five")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["database"], 3, "{line}");
    // And they are read into the databases of these numbers, wherever these are.
    done(&["import", &path("all.ndjson"), "--databases", "--replace", "--node", &node, "--json"]);
    done(&[
        "import",
        &path("five.rdb"),
        "--database",
        "5",
        "--into-database",
        "3",
        "--replace",
        "--node",
        &node,
        "--json",
    ]);
    for (database, value) in [("SELECT 3", "was-three"), ("SELECT 5", "was-three")] {
        client.call(database);
        assert_eq!(client.call("GET k"), Value::bulk(value), "{database}");
    }
    assert_eq!(client.call("DBSIZE"), Value::Int(1));
}

/// `redis-cli --rdb`, asked of a node and of a listener for databases.
#[test]
fn redis_cli_copies_the_keys() {
    let dir = Dir::new("export-sync");
    let Some((server, expected, rdb)) = filled(&dir) else { return };
    let (nodes, ports) = Nodes::start_with_databases(&dir, &[("--durability", "nosync"), ("--shards", "6")]);
    nodes.wait_spread();
    let node = nodes.address(0);
    done(&["import", &rdb, "--databases", "--node", &node, "--json"]);
    let library = "#!lua name=l\nredis.register_function('f', function() return 7 end)";
    assert_eq!(nodes.connect(1).try_call(&["FUNCTION", "LOAD", "REPLACE", library]).unwrap(), Value::bulk("l"));
    let copy = |port: u16, name: &str| {
        let path = dir.join(name);
        let output = run("redis-cli", &["-p", &port.to_string(), "--rdb", path.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        Redis::start_with(&dir, Some(&path)).unwrap()
    };
    // Another node than the leader of the database has it, too.
    for (n, port) in ports.iter().enumerate() {
        // A replica may be two seconds behind.
        let mut copies = 0;
        eventually("the copy has all keys", Duration::from_secs(60), || {
            copies += 1;
            let back = copy(*port, &format!("databases-{n}-{copies}.rdb"));
            let back = &mut back.connect();
            assert_eq!(back.call("FCALL f 0"), Value::Int(7));
            (contents(back, &[0]) == expected).then_some(())
        });
    }
    // Nothing is written for longer than a replica may be behind: it asks its leader, which rests, how old it is.
    let (begun, rested) = (Instant::now(), dir.join("rested.rdb"));
    while begun.elapsed() < Duration::from_secs(5) {
        for port in &ports {
            let output = run("redis-cli", &["-p", &port.to_string(), "--rdb", rested.to_str().unwrap()]);
            assert!(output.status.success(), "after {:?}: {output:?}", begun.elapsed());
        }
    }
    // Of the cluster each node has what it leads.
    done(&["import", &rdb, "--node", &node, "--json"]);
    let counts = (0..3).map(|n| copy(nodes.port(n), &format!("node-{n}.rdb")).connect().call("DBSIZE").int());
    assert_eq!(counts.sum::<i64>(), server.connect().call("DBSIZE").int());
    let refused = nodes.connect(0).call("PSYNC ? -1").text();
    assert!(refused.starts_with("NOMASTERLINK"), "{refused}");
}
