//! `basalt import`: a Redis that is written to meanwhile, and its files, into a store; and back, by DUMP and RESTORE.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{
    Connection, Dir, Nodes, Random, Redis, Server, Setup, Value, eventually, fill, free_port, signal, slot, text,
};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

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
            format!("XADD trimmed MAXLEN ~ 2 LIMIT 10 * field {n}"),
            format!("SORT queue{a} BY weight* STORE ordered{b}"),
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
    let (source, node) = (format!("redis://127.0.0.1:{}", server.port()), nodes.address(0));
    let import = import(&[&source, "--node", &node, "--json"]);
    change(&mut redis, 300);
    redis.call("SET end here");
    let mut client = nodes.client();
    eventually("the last write is there", LIMIT, || {
        matches!(client.attempt(&["GET", "end"]), Some(Value::Bulk(_))).then_some(())
    });
    signal(import.id(), "-TERM");
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
    // A key that expires at another time is not what it is at the source, and one more is not there at all.
    client.call(LIMIT, &["SET", "other", "key"]);
    assert_eq!(client.call(LIMIT, &["PEXPIREAT", "late299", "4000000000000"]).int(), 1);
    let verified = self::import(&[&source, "--node", &node, "--json", "--no-follow", "--verify", "all"]);
    let (_, verified) = ended(verified);
    assert_eq!(verified["problems"], 2, "{verified}");
}

/// A database of the store lies in one slot, another one elsewhere: MOVE and COPY cannot be repeated as they are.
#[test]
fn keys_that_go_to_another_database_are_followed() {
    let dir = Dir::new("import-moved");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    let ask = |connection: &mut Connection, requests: &str| {
        requests.split("; ").map(|request| connection.call(request)).last().unwrap()
    };
    ask(&mut redis, "CONFIG SET appendonly yes; SET first here; SET a 1; SET b 2; SELECT 3; SET c 3 EX 10000; SET d 4");
    let (port, other_port) = (free_port(), free_port());
    let listening = |name: &str, port: u16| {
        let setup = Setup::new(&dir.join(name)).with("--durability", "nosync");
        Server::start(&setup.with("--database-listen", &format!("127.0.0.1:{port}")))
    };
    let (basalt, one) = (listening("all", port), listening("one", other_port));
    let source = format!("redis://127.0.0.1:{}", server.port());
    let followers = [
        import(&[&source, "--node", &basalt.address(), "--databases", "--json"]),
        import(&[&format!("{source}/3"), "--node", &one.address(), "--into-database", "3", "--json"]),
    ];
    let (mut all, mut only) = (Connection::open(port).unwrap(), Connection::open(other_port).unwrap());
    only.call("SELECT 3");
    eventually("the copy is there", LIMIT, || (all.call("EXISTS first").int() == 1).then_some(()));
    eventually("the copy is there", LIMIT, || (only.call("EXISTS d").int() == 1).then_some(()));
    ask(
        &mut redis,
        "SELECT 0; MOVE a 3; COPY b e DB 5; COPY b f DB 0; SELECT 3; MOVE c 4; COPY d d DB 0; SET end here",
    );
    for connection in [&mut all, &mut only] {
        connection.call("SELECT 3");
        eventually("the last write is there", LIMIT, || (connection.call("EXISTS end").int() == 1).then_some(()));
    }
    for database in [0, 3, 4, 5] {
        let select = format!("SELECT {database}");
        redis.call(&select);
        all.call(&select);
        for key in ["a", "b", "c", "d", "e", "f"] {
            let expected = redis.call(&format!("GET {key}"));
            assert_eq!(all.call(&format!("GET {key}")), expected, "{key} of {database}");
            if database == 3 {
                assert_eq!(only.call(&format!("GET {key}")), expected, "{key} of {database}");
            }
        }
    }
    let expiry = "SELECT 4; PEXPIRETIME c";
    let expires_at = ask(&mut redis, expiry).int();
    assert!(expires_at > 0);
    assert_eq!(ask(&mut all, expiry).int(), expires_at, "a key that was read again expires when it does at the source");
    for import in followers {
        signal(import.id(), "-TERM");
        let (output, result) = ended(import);
        assert!(output.status.success() && result["problems"] == 0, "{output:?}");
    }
    for basalt in [&basalt, &one] {
        let keyspace = basalt.connect().call("INFO keyspace").text();
        assert!(!keyspace.contains("db"), "cluster clients have none of these keys: {keyspace}");
    }
    // A file cannot be asked again: what was not repeated is told.
    let (file, node) = (server.file("appendonlydir"), basalt.address());
    let (output, result) = ended(import(&[&file, "--node", &node, "--databases", "--replace", "--json"]));
    assert!(result["problems"].as_u64().unwrap() > 0 && output.status.code() == Some(1), "{output:?}");
}

/// What empties databases of a source empties those of the store, if all keys there are the source's.
#[test]
fn databases_that_are_emptied_or_exchanged_are_followed() {
    let dir = Dir::new("import-emptied");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    let mut ask = |requests: &str| requests.split("; ").map(|request| redis.call(request)).last().unwrap();
    ask("SET a 1; SELECT 1; SET b 1; SELECT 2; SET c 1");
    let port = free_port();
    let setup = Setup::new(&dir.join("all")).with("--durability", "nosync");
    let all = Server::start(&setup.with("--database-listen", &format!("127.0.0.1:{port}")));
    let own = Server::start(&Setup::new(&dir.join("own")).with("--durability", "nosync"));
    let mut client_of_own = own.connect();
    client_of_own.call("SET own key");
    let (source, state) = (format!("redis://127.0.0.1:{}", server.port()), dir.join("state"));
    let (asks, state) = (["--json", "--follow-flushes"], state.to_str().unwrap());
    let followers = [
        import(&[&[source.as_str(), "--node", &all.address(), "--databases", "--state", state], &asks[..]].concat()),
        import(&[&[source.as_str(), "--node", &own.address()], &asks[..]].concat()),
    ];
    let mut client = Connection::open(port).unwrap();
    let mut keys_of = |database: u32| {
        client.call(&format!("SELECT {database}"));
        let mut found = keys(&mut client);
        found.sort();
        found.join(" ")
    };
    let mut are = |expected: [&str; 3]| {
        eventually("the databases are those of the source", LIMIT, || {
            (0..).zip(expected).all(|(database, of)| keys_of(database) == of).then_some(())
        });
    };
    are(["a", "b", "c"]);
    eventually("the copy is there", LIMIT, || (client_of_own.call("EXISTS a").int() == 1).then_some(()));
    ask("SELECT 1; FLUSHDB; SET d 1; SET e 1");
    are(["a", "d e", "c"]);
    ask("SWAPDB 0 2; SELECT 0; SET f 1");
    are(["c f", "d e", "a"]);
    let [following, ended_by_all] = followers;
    // Keys of cluster clients, of which the store had one.
    let (output, result) = ended(ended_by_all);
    let problem = result["first_problems"][0].as_str().unwrap();
    assert!(output.status.code() == Some(1) && problem.contains("not known that the store had no keys"), "{output:?}");
    // Redis ends copies that are under way.
    eventually("the copy has ended", LIMIT, || {
        let told = ask("INFO replication").text();
        (told.contains("connected_slaves:1") && told.contains("state=online")).then_some(())
    });
    ask("SELECT 2; FLUSHALL; SET end here");
    are(["", "", "end"]);
    signal(following.id(), "-TERM");
    let (output, result) = ended(following);
    assert!(output.status.success() && result["problems"] == 0, "{output:?}");
    assert_eq!(count_of(&mut client_of_own, "own a"), 2, "what is not known to be the source's stays");
}

/// How many of these keys there are, whatever their slots.
fn count_of(client: &mut Connection, keys: &str) -> i64 {
    keys.split(' ').map(|key| client.call(&format!("EXISTS {key}")).int()).sum()
}

fn is_followed(redis: &mut Connection) {
    eventually("the copy has ended", LIMIT, || {
        redis.call("INFO replication").text().contains("state=online").then_some(())
    });
}

/// The old Redis may be cleaned up while the application uses the store already: nothing is removed unless that was asked for.
#[test]
fn what_is_emptied_is_removed_only_if_that_was_asked_for() {
    let dir = Dir::new("import-cleaned-up");
    let Some(server) = Redis::start(&dir) else { return };
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (mut redis, mut client) = (server.connect(), basalt.connect());
    redis.call("SET a 1");
    let (source, node, state) = (format!("redis://127.0.0.1:{}", server.port()), basalt.address(), dir.join("state"));
    let arguments = [source.as_str(), "--node", &node, "--json", "--state", state.to_str().unwrap()];
    let following = import(&arguments);
    eventually("the copy is there", LIMIT, || (client.call("EXISTS a").int() == 1).then_some(()));
    is_followed(&mut redis);
    redis.call("SET b 1");
    redis.call("FLUSHALL");
    let (output, result) = ended(following);
    let told = result["first_problems"][0].as_str().unwrap();
    assert!(output.status.code() == Some(1) && told.contains("give --follow-flushes"), "{output:?}");
    assert_eq!(count_of(&mut client, "a b"), 2, "what was told before is there");

    // The same command goes on with it.
    let following = import(&[&arguments[..], &["--follow-flushes"]].concat());
    eventually("it is emptied", LIMIT, || (client.call("DBSIZE").int() == 0).then_some(()));
    redis.call("SET soon 1 EX 3000");
    eventually("it follows", LIMIT, || (client.call("EXISTS soon").int() == 1).then_some(()));
    redis.call("FLUSHALL");
    eventually("it is emptied again", LIMIT, || (client.call("DBSIZE").int() == 0).then_some(()));
    drop(server);
    let (output, _) = ended(following);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("are removed from the store"), "{output:?}");
    assert!(!said.contains("thousand years late"), "no expiry is put off of what was removed: {output:?}");
}

/// An import that was to end and lacked nothing is one whose store an application may use.
#[test]
fn what_was_cut_over_is_not_emptied() {
    let dir = Dir::new("import-cut-over");
    let Some(server) = Redis::start(&dir) else { return };
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (mut redis, mut client) = (server.connect(), basalt.connect());
    redis.call("SET a 1");
    // A field that the store does not take: the state is kept.
    redis.call(&format!("HSET left {} 1", "x".repeat(40_000)));
    let (source, node, state) = (format!("redis://127.0.0.1:{}", server.port()), basalt.address(), dir.join("state"));
    let arguments =
        [source.as_str(), "--node", &node, "--json", "--follow-flushes", "--state", state.to_str().unwrap()];
    let (output, result) = ended(import(&[&arguments[..], &["--cut-over"]].concat()));
    assert!(output.status.code() == Some(1) && result["problems"] == 1 && state.exists(), "{output:?}");
    client.call("SET application 1");
    redis.call("FLUSHALL");
    let (output, result) = ended(import(&arguments));
    let told = result["first_problems"].to_string();
    assert!(output.status.code() == Some(1) && told.contains("not known that the store had no keys"), "{output:?}");
    assert_eq!(count_of(&mut client, "a application"), 2);
}

/// A replica passes its master's stream on: which database that is about is told with the copy alone.
#[test]
fn a_replica_is_taken_over() {
    let dir = Dir::new("import-replica");
    let Some(master) = Redis::start(&dir) else { return };
    let replica = Redis::start(&dir).unwrap();
    let (mut redis, mut second) = (master.connect(), replica.connect());
    second.call(&format!("REPLICAOF 127.0.0.1 {}", master.port()));
    eventually("the replica has the master", LIMIT, || {
        second.call("INFO replication").text().contains("master_link_status:up").then_some(())
    });
    redis.call("SELECT 3");
    redis.call("SET first here");
    second.call("SELECT 3");
    eventually("the replica has the key", LIMIT, || (second.call("EXISTS first").int() == 1).then_some(()));
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let source = format!("redis://127.0.0.1:{}/3", replica.port());
    let following = import(&[&source, "--node", &basalt.address(), "--json"]);
    let mut client = basalt.connect();
    eventually("the copy is there", LIMIT, || (client.call("EXISTS first").int() == 1).then_some(()));
    redis.call("SET second here");
    eventually("it is followed", LIMIT, || (client.call("EXISTS second").int() == 1).then_some(()));
    signal(following.id(), "-TERM");
    let (output, result) = ended(following);
    assert!(output.status.success() && result["other_databases"] == 0, "{output:?}");
}

#[test]
fn files_of_redis_are_read() {
    let dir = Dir::new("import-files");
    let Some(server) = Redis::start(&dir) else { return };
    let mut redis = server.connect();
    // What is emptied later is left out.
    redis.call("SET gone before");
    redis.call("CONFIG SET appendonly yes");
    redis.call("SET gone again");
    redis.call("FLUSHALL");
    fill(&mut redis);
    redis.call("SELECT 3");
    redis.call("SET other database");
    redis.call("FLUSHDB");
    redis.call("SET other again");
    redis.call("SELECT 0");
    change(&mut redis, 0);
    let (rdb, aof) = (server.save(), server.file("appendonlydir"));
    for source in [&rdb, &aof] {
        let setup =
            Setup::new(&dir.join(if *source == rdb { "of-rdb" } else { "of-aof" })).with("--durability", "nosync");
        let basalt = Server::start(&setup);
        let node = basalt.address();
        let (output, result) = ended(import(&[source, "--node", &node, "--json", "--dry-run"]));
        assert!(output.status.success() && result["written"] == 0, "{output:?}");
        // There are 16 databases.
        let output = import(&[source, "--node", &node, "--into-database", "16"]).wait_with_output().unwrap();
        assert!(!output.status.success() && text(&output).contains("the store has 16"), "{output:?}");
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

/// An import that is killed and begun again makes nothing twice.
#[test]
fn an_import_goes_on_where_it_was_interrupted() {
    let dir = Dir::new("import-resumed");
    let Some(server) = Redis::start(&dir) else { return };
    let nodes = Nodes::start(&dir, 3, &[("--durability", "nosync")]);
    let node = nodes.address(0);
    let mut client = nodes.client();
    // Commands of a file, each of which counts.
    let (file, state) = (dir.join("commands.txt"), dir.join("state"));
    let (file, state) = (file.to_str().unwrap(), state.to_str().unwrap());
    let text: String = (0..6000).map(|n| format!("INCR c{}\r\nMSET a{n} 1 b{n} 2\r\n", n % 60)).collect();
    std::fs::write(file, text).unwrap();
    let arguments = [file, "--node", &node, "--json", "--state", state];
    let begun = import(&[&arguments[..], &["--rate", "2000"]].concat());
    eventually("some are made", LIMIT, || {
        matches!(client.attempt(&["GET", "c1"]), Some(Value::Bulk(count)) if count.len() > 1).then_some(())
    });
    signal(begun.id(), "-KILL");
    begun.wait_with_output().unwrap();
    assert!(Path::new(state).exists());
    let (output, result) = ended(import(&arguments));
    assert!(output.status.success(), "{result}");
    for n in 0..60 {
        assert_eq!(client.call(LIMIT, &["GET", &format!("c{n}")]), Value::bulk("100"), "c{n}");
    }
    assert!(!Path::new(state).exists(), "there is nothing left to go on with");
    let marks = client.call(LIMIT, &["KEYS", "basalt-import*", "STORE"]);
    assert_eq!(marks.items().len(), 0, "{marks:?}");

    // A running source, which goes on meanwhile.
    let mut redis = server.connect();
    fill(&mut redis);
    let source = format!("redis://127.0.0.1:{}", server.port());
    let arguments = [source.as_str(), "--node", &node, "--json", "--state", state, "--replace"];
    let begun = import(&arguments);
    for round in 0..20 {
        change(&mut redis, 20);
        redis.call(&format!("SET round {round}"));
        if round == 5 {
            eventually("it follows", LIMIT, || {
                matches!(client.attempt(&["GET", "round"]), Some(Value::Bulk(_))).then_some(())
            });
        }
    }
    signal(begun.id(), "-KILL");
    begun.wait_with_output().unwrap();
    change(&mut redis, 50);
    let (output, result) = ended(import(&[&arguments[..], &["--cut-over"]].concat()));
    assert!(output.status.success(), "{result}");
    assert_eq!(result["keys"], 0, "no copy was made again: {result}");
    let count = compare(&mut redis, &mut |key| client.call(LIMIT, &["DUMP", key]));
    assert!(count > 600, "{count} keys");
}

/// All masters of a Redis Cluster are imported.
#[test]
fn a_redis_cluster_is_taken_over() {
    let dir = Dir::new("import-cluster");
    let Some(first) = Redis::start_clustered(&dir) else { return };
    let second = Redis::start_clustered(&dir).unwrap();
    let (mut a, mut b) = (first.connect(), second.connect());
    assert_eq!(a.call("CLUSTER ADDSLOTSRANGE 0 9000"), Value::ok());
    assert_eq!(b.call("CLUSTER ADDSLOTSRANGE 9001 16383"), Value::ok());
    a.call("CLUSTER SET-CONFIG-EPOCH 1");
    b.call("CLUSTER SET-CONFIG-EPOCH 2");
    assert_eq!(a.call(&format!("CLUSTER MEET 127.0.0.1 {} {}", second.port(), second.bus_port())), Value::ok());
    for redis in [&mut a, &mut b] {
        eventually("the cluster is whole", LIMIT, || {
            redis.call("CLUSTER INFO").text().contains("state:ok").then_some(())
        });
    }
    let mut keys = 0;
    for n in 0..500 {
        let key = format!("key{n}");
        let redis = if slot(&key) <= 9000 { &mut a } else { &mut b };
        for words in [format!("SET {key} {n}"), format!("RPUSH {{{key}}}list {n} a")] {
            let reply = redis.call(&words);
            assert!(!reply.is_error(), "{words}: {reply:?}");
            keys += 1;
        }
    }
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (source, node) = (format!("redis://127.0.0.1:{}", first.port()), basalt.address());
    let (output, result) = ended(import(&[&source, "--node", &node, "--json", "--cut-over", "--verify", "100"]));
    assert!(output.status.success(), "{result}");
    assert_eq!((&result["written"], &result["compared"]), (&keys.into(), &200.into()), "{result}");
    assert_eq!(basalt.connect().call("GET key77"), Value::bulk("77"));

    // What a master empties is its own slots.
    let other = Server::start(&Setup::new(&dir.join("other")).with("--durability", "nosync"));
    let following = self::import(&[&source, "--node", &other.address(), "--json", "--follow-flushes"]);
    let mut client = other.connect();
    eventually("the copy is there", LIMIT, || (client.call("DBSIZE").int() == keys).then_some(()));
    eventually("the copy has ended", LIMIT, || {
        b.call("INFO replication").text().contains("state=online").then_some(())
    });
    b.call("FLUSHALL");
    let of_first = a.call("DBSIZE").int();
    eventually("the others are gone", LIMIT, || (client.call("DBSIZE").int() == of_first).then_some(()));
    signal(following.id(), "-TERM");
    let (output, result) = ended(following);
    assert!(output.status.success() && result["problems"] == 0, "{result}");

    // A key that has come to a master which has not its slot.
    let key = (0..).map(|n| format!("moved{n}")).find(|key| slot(key) <= 9000).unwrap();
    let id = a.call("CLUSTER MYID").text();
    assert_eq!(b.call(&format!("CLUSTER SETSLOT {} IMPORTING {id}", slot(&key))), Value::ok());
    b.call("ASKING");
    assert_eq!(b.call(&format!("SET {key} 1")), Value::ok());
    let (output, result) = ended(self::import(&[&source, "--node", &node, "--json", "--cut-over"]));
    let told = result["first_problems"].to_string();
    assert!(output.status.code() == Some(1) && told.contains("slots of the source are moved"), "{result}");
}

/// One element that the store does not take leaves its key out, whatever is written of it, and nothing else.
#[test]
fn a_large_collection_with_an_element_that_is_too_large_is_left_out() {
    let dir = Dir::new("import-element");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let pad = "x".repeat(1000);
    let part = |from: u32| -> Vec<String> { (from..from + 8000).map(|n| format!("{n}{pad}")).collect() };
    let parts = [part(0), part(8000), part(16_000), vec!["y".repeat(40_000)], part(24_000), vec!["z".to_owned()]];
    let last = parts.len() - 1;
    let mut lines: String = parts
        .iter()
        .enumerate()
        .map(|(n, members)| serde_json::json!({ "key": "left", "set": members, "more": n < last }).to_string() + "\n")
        .collect();
    lines += &(serde_json::json!({ "key": "after", "set": ["v"] }).to_string() + "\n");
    let file = dir.join("keys.ndjson");
    std::fs::write(&file, &lines).unwrap();
    let (output, result) = ended(import(&[file.to_str().unwrap(), "--node", &basalt.address(), "--json"]));
    let told = result["first_problems"][0].as_str().unwrap_or_default();
    assert!(output.status.code() == Some(1) && result["problems"] == 1 && told.contains("left"), "{result}");
    let mut client = basalt.connect();
    assert_eq!((client.call("EXISTS left").int(), client.call("SCARD after").int()), (0, 1));
}

/// What is larger than a request may be is told, and what stands behind it is made.
#[test]
fn commands_that_are_too_large_are_told() {
    let dir = Dir::new("import-too-large");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let file = dir.join("history.aof");
    let large = "x".repeat((64 << 20) + 1);
    std::fs::write(&file, log_of(&["SET a 1", &format!("SET a {large}"), "INCR a"])).unwrap();
    let (output, result) = ended(import(&[file.to_str().unwrap(), "--node", &basalt.address(), "--json"]));
    let told = result["first_problems"][0].as_str().unwrap_or_default();
    assert!(output.status.code() == Some(1) && result["problems"] == 1 && told.contains("too large"), "{result}");
    assert_eq!(basalt.connect().call("GET a"), Value::bulk("2"));
}

/// What an import has written went by what the files emptied and exchanged when it began.
#[test]
fn files_that_empty_something_else_do_not_go_on() {
    let dir = Dir::new("import-other-flush");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (node, file, state) = (basalt.address(), dir.join("history.aof"), dir.join("state"));
    let arguments = [file.to_str().unwrap(), "--node", &node, "--json", "--state", state.to_str().unwrap()];
    let whole = log_of(&["SET a 1", "FLUSHALL", "SET b 1"]);
    std::fs::write(&file, whole.clone() + "*1\r\n").unwrap();
    let (output, _) = ended(import(&arguments));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    std::fs::write(&file, whole.clone() + &log_of(&["FLUSHALL", "SET c 1"])).unwrap();
    let (output, result) = ended(import(&arguments));
    let told = result["first_problems"].to_string();
    assert!(output.status.code() == Some(1) && told.contains("elsewhere than when the import began"), "{result}");
    std::fs::write(&file, whole + &log_of(&["SET c 1"])).unwrap();
    let (output, _) = ended(import(&arguments));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count_of(&mut basalt.connect(), "a b c"), 2);
}

/// Values that are larger than a request may be come part by part.
#[test]
fn large_values_are_written_in_parts() {
    let dir = Dir::new("import-large");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let node = basalt.address();
    let pad = "x".repeat(1000);
    let part = |from: u32| -> Vec<String> { (from..from + 8000).map(|n| format!("{n}{pad}")).collect() };
    let mut lines = String::new();
    for (n, more) in [(0, true), (8000, true), (16_000, false)] {
        let fields: Vec<Vec<String>> = part(n).into_iter().map(|text| vec![text, "v".to_owned()]).collect();
        let at = 4_000_000_000_000_u64;
        lines += &serde_json::json!({ "key": "list", "list": part(n), "expire_at_ms": at, "more": more }).to_string();
        lines.push('\n');
        let hash = serde_json::json!({ "key": format!("hash{n}"), "hash": fields });
        lines += &if n == 0 { String::new() } else { hash.to_string() + "\n" };
    }
    // A part of one key must not stand between those of another.
    let file = dir.join("keys.ndjson");
    std::fs::write(&file, &lines).unwrap();
    let (output, _) = ended(import(&[file.to_str().unwrap(), "--node", &node, "--json"]));
    assert!(!output.status.success());
    let lists: String =
        lines.lines().filter(|line| line.contains("\"list\"")).map(|line| line.to_owned() + "\n").collect();
    std::fs::write(&file, lists).unwrap();
    let (output, result) = ended(import(&[file.to_str().unwrap(), "--node", &node, "--json", "--replace"]));
    assert!(output.status.success() && result["written"] == 1, "{result}");
    let mut client = basalt.connect();
    assert_eq!(client.call("LLEN list").int(), 24_000);
    assert_eq!(client.call("LINDEX list -1"), Value::bulk(format!("23999{pad}")));
    assert_eq!(client.call("PEXPIRETIME list").int(), 4_000_000_000_000);
    let (output, result) = ended(import(&[file.to_str().unwrap(), "--node", &node, "--json"]));
    assert!(output.status.success() && result["present"] == 1, "it is left: {result}");
}

/// Commands as an AOF file has them.
fn log_of(commands: &[&str]) -> String {
    let of_one = |command: &&str| {
        let words: Vec<String> = command.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{}", words.len(), words.concat())
    };
    commands.iter().map(of_one).collect()
}

/// Redis expires nothing while it loads a file, so that what is said of an expiry later still finds the key.
#[test]
fn what_has_expired_in_a_history_may_be_extended_later() {
    let dir = Dir::new("import-expired");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (node, mut client) = (basalt.address(), basalt.connect());
    let file = dir.join("history.aof");
    let history = log_of(&[
        "SET a v PXAT 1000",
        "PEXPIREAT a 4000000000000 GT",
        "SET count 5 PXAT 1000",
        "PERSIST count",
        "INCR count",
        "RPUSH list 1",
        "PEXPIREAT list 1000",
        "RPUSH list 2",
        "PERSIST list",
        "SET gone v PXAT 1000",
        "SET {r}a v PXAT 1000",
        "RENAME {r}a {r}b",
        "HSET hash f v g w",
        "HPEXPIREAT hash 1000 FIELDS 2 f g",
        "HPERSIST hash FIELDS 1 f",
    ]);
    let state = dir.join("state");
    let plain = [file.to_str().unwrap(), "--node", &node, "--json"];
    let kept = [&plain[..], &["--state", state.to_str().unwrap()]].concat();
    for arguments in [&plain[..], &kept] {
        // Cut off within its second command, and whole.
        std::fs::write(&file, &history[..history.find("PEXPIREAT").unwrap()]).unwrap();
        let (output, _) = ended(import(arguments));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let put_off = client.call("PEXPIRETIME a").int() > 30_000_000_000_000;
        assert_eq!(put_off, arguments.contains(&"--state"), "it can go on: what comes later may extend it");
        std::fs::write(&file, &history).unwrap();
        let (output, result) = ended(import(arguments));
        assert!(output.status.success() && result["expired"] == 2, "{output:?}");
        assert_eq!(client.call("PEXPIRETIME a").int(), 4_000_000_000_000);
        assert_eq!((client.call("GET count"), client.call("PTTL count").int()), (Value::bulk("6"), -1));
        assert_eq!((client.call("LLEN list").int(), client.call("PTTL list").int()), (2, -1));
        assert_eq!(client.call("EXISTS gone").int() + client.call("EXISTS {r}b").int(), 0);
        assert_eq!((client.call("HGET hash f"), client.call("HLEN hash").int()), (Value::bulk("v"), 1));
        client.call("FLUSHALL");
    }
}

/// Commands that no script can make, and such of very many words, are not made again either.
#[test]
fn commands_without_a_script_are_made_once() {
    let dir = Dir::new("import-beside");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (node, mut client) = (basalt.address(), basalt.connect());
    let elements: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let long = format!("RPUSH list {}", elements.join(" "));
    let whole = log_of(&["EVAL return(redis.call('incr',KEYS[1])) 1 c", "INCR c", &long, "RPUSH list end"]);
    let (file, state) = (dir.join("history.aof"), dir.join("state"));
    let arguments = [file.to_str().unwrap(), "--node", &node, "--json", "--state", state.to_str().unwrap()];
    std::fs::write(&file, whole.clone() + "*1\r\n").unwrap();
    let (output, _) = ended(import(&arguments));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    std::fs::write(&file, &whole).unwrap();
    let (output, _) = ended(import(&arguments));
    assert!(output.status.success(), "{output:?}");
    assert_eq!((client.call("GET c"), client.call("LLEN list").int()), (Value::bulk("2"), 5001));
}

/// What is in a database that gets another number later goes to that one from the beginning.
#[test]
fn exchanged_databases_of_a_history_are_told_apart() {
    let dir = Dir::new("import-exchanged");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (node, mut client) = (basalt.address(), basalt.connect());
    let file = dir.join("history.aof");
    std::fs::write(&file, log_of(&["SELECT 1", "SET a 1", "SWAPDB 0 1", "SET b 1", "SELECT 0", "INCR a"])).unwrap();
    let (output, result) = ended(import(&[file.to_str().unwrap(), "--node", &node, "--json"]));
    assert!(output.status.success() && result["other_databases"] == 1, "{output:?}");
    assert_eq!((client.call("GET a"), client.call("EXISTS b").int()), (Value::bulk("2"), 0));
}

/// Bytes of a value are no commands, whatever its length says.
#[test]
fn a_damaged_history_ends_where_the_damage_is() {
    let dir = Dir::new("import-damaged");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let (node, mut client) = (basalt.address(), basalt.connect());
    client.call("SET important here");
    let file = dir.join("history.aof");
    let history = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n12345\r\nDEL important\r\n";
    std::fs::write(&file, history).unwrap();
    let (output, result) = ended(import(&[file.to_str().unwrap(), "--node", &node, "--json"]));
    assert_eq!((output.status.code(), &result["commands"]), (Some(1), &1.into()), "{output:?}");
    let problem = result["first_problems"][0].as_str().unwrap();
    assert!(problem.contains("history.aof: at byte 31:"), "{problem}");
    assert_eq!(client.call("GET important"), Value::bulk("here"));
}

/// What was written of a large key before an interruption is not taken for one that was there.
#[test]
fn a_large_key_is_begun_anew() {
    let dir = Dir::new("import-begun");
    let basalt = Server::start(&Setup::new(&dir.join("basalt")).with("--durability", "nosync"));
    let node = basalt.address();
    let pad = "x".repeat(1000);
    let line = |from: u32, more: bool| {
        let part: Vec<String> = (from..from + 8000).map(|n| format!("{n}{pad}")).collect();
        serde_json::json!({ "key": "set", "set": part, "more": more }).to_string() + "\n"
    };
    let begun: String = (0..3).map(|n| line(n * 8000, true)).collect();
    let (file, state) = (dir.join("keys.ndjson"), dir.join("state"));
    std::fs::write(&file, &begun).unwrap();
    let arguments = [file.to_str().unwrap(), "--node", &node, "--json", "--state", state.to_str().unwrap()];
    let (output, _) = ended(import(&arguments));
    assert_eq!(output.status.code(), Some(1));
    let mut client = basalt.connect();
    assert_eq!(client.call("SCARD set").int(), 24_000, "a part of it is there");
    std::fs::write(&file, begun + &line(24_000, false)).unwrap();
    let (output, result) = ended(import(&arguments));
    assert!(output.status.success() && result["written"] == 1, "{output:?}");
    assert_eq!(client.call("SCARD set").int(), 32_000);
    let (_, result) = ended(import(&arguments));
    assert_eq!(result["present"], 1, "one that was there is left: {result}");
}
