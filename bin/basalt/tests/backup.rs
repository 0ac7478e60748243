//! Backups: of one moment while a store of three nodes is written to, by file, and into a store of another shape.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, FakeBucket, Nodes, Server, Setup, Value, eventually, free_port, slot};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pairs of counters in different shards: a client raises the first of a pair, then the second.
const PAIRS: usize = 4;
/// Functions of the store.
const LIBRARY: &str = "#!lua name=of_backup\n\
    redis.register_function('field', function(keys, args) return redis.call('HGET', keys[1], args[1]) end)";
/// For one request.
const LIMIT: Duration = Duration::from_secs(5);

fn ctl(arguments: &[&str]) -> Result<String, String> {
    ctl_with(&[], arguments)
}

fn ctl_with(environment: &[(&str, String)], arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.arg("ctl").args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stdout) + &text(&output.stderr)) }
}

fn take(port: u16, place: &str) -> serde_json::Value {
    let said = ctl(&["backup", "take", "--to", place, "--node", &format!("127.0.0.1:{port}"), "--json"]).unwrap();
    serde_json::from_str(&said).unwrap()
}

fn restored(dir: &Dir, name: &str, place: &str) -> Server {
    let server = Server::start(&Setup::bare(&dir.join(name)).with("--shards", "7"));
    let node = server.address();
    ctl(&["restore", "--from", place, "--node", &node]).unwrap();
    server
}

fn names(pair: usize) -> (String, String) {
    (format!("first{pair}"), format!("second{pair}"))
}

/// Has a store keep a user; how it lists it.
fn keep_user(nodes: &Nodes) -> String {
    let mut client = nodes.client();
    let rules = ["on", ">secret", "~sm\u{e4}ll", "~small", "-@all", "+hget", "(%R~large +@read)"];
    let rules = [&["ACL", "SETUSER", "app"][..], &rules].concat();
    // Once all nodes have been heard of.
    eventually("the user", Duration::from_secs(20), || (client.call(LIMIT, &rules) == Value::ok()).then_some(()));
    client.call(LIMIT, &["ACL", "LIST"]).items()[0].text()
}

/// A store has that user, with its password.
fn has_user(server: &Server, listed: &str) {
    let found = server.connect().call("ACL LIST").items()[0].text();
    assert_eq!(found, listed.replace("on #", "on sanitize-payload #"));
    assert_eq!(server.connect().call("AUTH app secret"), Value::ok());
}

#[test]
fn a_backup_is_of_one_moment_and_fits_any_shape() {
    let dir = Dir::new("backup");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "6")]);
    let mut client = nodes.client();
    client.call(LIMIT, &["SET", "expiring", "soon", "PX", "100000000"]);
    client.call(LIMIT, &["SET", "gone", "soon", "PX", "1"]);
    client.call(LIMIT, &["HSET", "small", "a", "1", "b", "2"]);
    client.call(LIMIT, &["PEXPIRE", "small", "100000000"]);
    for chunk in 0..20 {
        let mut words = vec!["HSET".to_owned(), "large".to_owned()];
        words.extend((0..100).flat_map(|i| [format!("field{}", chunk * 100 + i), "x".repeat(100)]));
        client.call(LIMIT, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    client.call(LIMIT, &["FUNCTION", "LOAD", LIBRARY]);
    let app = keep_user(&nodes);
    let sha = client.call(LIMIT, &["SCRIPT", "LOAD", "return redis.call('HGET', KEYS[1], 'b')"]).text();
    let place = dir.join("backups").display().to_string();
    let stop = AtomicBool::new(false);
    let rounds: Vec<serde_json::Value> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..PAIRS)
            .map(|pair| {
                let (mut client, (first, second), stop) = (nodes.client(), names(pair), &stop);
                scope.spawn(move || {
                    let mut count = 0i64;
                    while !stop.load(Ordering::Relaxed) {
                        for key in [&first, &second] {
                            let answer = client.call(LIMIT, &["SET", key, &count.to_string()]);
                            assert_eq!(answer, Value::ok(), "{key}: a client noticed the backup");
                        }
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let first = |pair: usize| nodes.client().call(LIMIT, &["GET", &names(pair).1]);
        eventually("all write", Duration::from_secs(20), || {
            (0..PAIRS).all(|pair| first(pair).bytes().is_some()).then_some(())
        });
        let rounds = (0..3).map(|n| take(nodes.port(n), &place)).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(writers.into_iter().all(|writer| writer.join().unwrap() > 1));
        rounds
    });
    let list: serde_json::Value =
        serde_json::from_str(&ctl(&["backup", "list", "--at", &place, "--json"]).unwrap()).unwrap();
    assert_eq!(list.as_array().unwrap().len(), rounds.len());
    for (n, round) in rounds.iter().enumerate() {
        let server = Server::start(&Setup::bare(&dir.join(&format!("restored-{n}"))).with("--shards", "7"));
        let node = server.address();
        let id = round["backup"].as_str().unwrap();
        ctl(&["restore", "--from", &place, "--backup", id, "--node", &node]).unwrap();
        let mut connection = server.connect();
        for pair in 0..PAIRS {
            let (first, second) = names(pair);
            let mut read = |key: &str| connection.call(&format!("GET {key}")).text().parse::<i64>().unwrap();
            let (first, second) = (read(&first), read(&second));
            assert!(second <= first && first <= second + 1, "backup {n}, pair {pair}: {first} and {second}");
        }
        let ttl = connection.call("PTTL expiring").int();
        assert!((90_000_000..=100_000_000).contains(&ttl), "{ttl}");
        assert!((90_000_000..=100_000_000).contains(&connection.call("PTTL small").int()));
        assert_eq!(connection.call("EXISTS gone"), Value::Int(0));
        assert_eq!(connection.call("HLEN large"), Value::Int(2000));
        assert_eq!(connection.call("FCALL field 1 small a"), Value::bulk("1"));
        // The script reads the field `b`.
        assert_eq!(connection.call(&format!("EVALSHA {sha} 1 small")), Value::bulk("2"));
        has_user(&server, &app);
        assert_eq!(connection.call("DBSIZE"), Value::Int(3 + 2 * PAIRS as i64));
        let again = ctl(&["restore", "--from", &place, "--node", &node]).unwrap_err();
        assert!(again.contains("restore into an empty one"), "{again}");
    }
}

/// The new shard's slots are the old one's in the map for about a second after the new one has them.
#[test]
fn a_backup_has_all_keys_while_shards_are_split() {
    const KEYS: u64 = 400;
    let dir = Dir::new("backup-split");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "1")]);
    let mut client = nodes.client();
    (0..KEYS).for_each(|i| assert_eq!(client.call(LIMIT, &["SET", &format!("key{i}"), "v"]), Value::ok()));
    let place = dir.join("backups").display().to_string();
    let mut taken = 0;
    let mut take = || {
        let node = nodes.address(taken % 3);
        let said = eventually("a backup is taken", Duration::from_secs(60), || {
            let said = ctl(&["backup", "take", "--to", &place, "--node", &node, "--json"]);
            said.map_err(|text| assert!(text.contains("TRYAGAIN"), "{text}")).ok()
        });
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["rows"], KEYS, "backup {taken}: {said}");
        taken += 1;
    };
    for shard in ["1", "1", "2"] {
        let plan = nodes.plan(&["split-shard", shard]).to_string();
        let mut state = String::new();
        while state != "done" {
            let shown = nodes.admin(&["PLAN", "SHOW", &plan]).unwrap_or_default();
            state = shown["state"].as_str().unwrap_or_default().to_owned();
            assert!(state != "failed" && state != "cancelled", "{shown}");
            take();
        }
    }
}

/// A payload of RESTORE: a hash with a field that expires later than any other command takes.
fn hash_with_a_late_field() -> Vec<u8> {
    let least = 1u64.to_le_bytes();
    let body = [&[24][..], &least, &[1, 0x81], &u64::MAX.to_be_bytes(), &[1, b'f', 1, b'v']].concat();
    rdb::seal(body, 12)
}

/// A payload of RESTORE: a stream whose last id is before one that was deleted, as XSETID could make it before Redis 7.2.
fn stream_that_was_set_back() -> Vec<u8> {
    let id = |ms| rdb::StreamId { ms, seq: 0 };
    let stream = rdb::Stream { last_id: id(3), max_deleted_id: id(5), added: 1, ..rdb::Stream::default() };
    rdb::write_dump(&rdb::Value::Stream(Box::new(stream))).unwrap()
}

#[test]
fn what_single_commands_make_is_restored_and_takes_the_place_of_what_is_there() {
    let dir = Dir::new("backup-edges");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "3"));
    let mut client = server.connect();
    for line in ["SADD set a b", "HSET hash f 1", "ZADD sorted 1 m", "RPUSH list 1 2 3"] {
        assert!(!client.call(line).is_error(), "{line}");
    }
    for (key, payload) in [("late", hash_with_a_late_field()), ("back", stream_that_was_set_back())] {
        let request = [b"RESTORE".to_vec(), key.into(), b"0".to_vec(), payload];
        client.send(&Connection::encode(&request)).unwrap();
        assert_eq!(client.read().unwrap(), Value::ok(), "{key}");
    }
    // Longer than one request may be, in the end.
    let long = "v".repeat(1 << 20);
    for field in 0..40 {
        assert_eq!(client.call(&format!("HSET long {field} {long}")), Value::Int(1));
    }
    let place = dir.join("place").display().to_string();
    take(server.port(), &place);
    ctl(&["backup", "verify", "--at", &place]).unwrap();
    let copy = restored(&dir, "copy", &place);
    let mut there = copy.connect();
    let facts = |client: &mut Connection| -> Vec<String> {
        let lines = [
            "SMEMBERS set",
            "HGETALL hash",
            "ZRANGE sorted 0 -1 WITHSCORES",
            "LRANGE list 0 -1",
            "HLEN long",
            "TTL hash",
        ];
        let mut facts: Vec<String> = lines.iter().map(|line| client.call(line).words()).collect();
        let stream = client.call("XINFO STREAM back").words();
        // What is told of deleted entries is not before the last id any more.
        facts.push(stream.contains("last-generated-id 3-0").to_string());
        facts.push(client.call("HGET late f").words());
        facts
    };
    let expected = facts(&mut client);
    assert_eq!(expected[6..], ["true", "v"]);
    assert_eq!(facts(&mut there), expected);
    for line in [
        "CONFIG SET client-query-buffer-limit 4mb",
        "SADD set c",
        "HSET hash g 2",
        "EXPIRE hash 60",
        "DEL sorted",
        "SET sorted text",
        "RPUSH list 4",
        "SET other 1",
    ] {
        assert!(!there.call(line).is_error(), "{line}");
    }
    ctl(&["restore", "--from", &place, "--node", &copy.address(), "--into-existing"]).unwrap();
    assert_eq!(facts(&mut there), expected);
    assert_eq!(there.call("GET other"), Value::bulk("1"), "other keys stay");
}

/// Each node leads some of what is counted and restored, so that each is told of others.
#[test]
fn a_store_of_several_nodes_is_restored_through_each_of_them() {
    let dir = Dir::new("backup-nodes");
    let (nodes, ports) = Nodes::start_with_databases(&dir, &[("--shards", "6")]);
    let mut client = nodes.client();
    let keys: Vec<String> = (0..30).map(|i| format!("key{i}")).collect();
    keys.iter().for_each(|key| assert_eq!(client.call(LIMIT, &["SET", key, key]), Value::ok()));
    let mut databases = Connection::open(ports[0]).unwrap();
    for number in 0..16 {
        assert_eq!(databases.call(&format!("SELECT {number}")), Value::ok());
        assert_eq!(databases.call(&format!("SET of{number} {number}")), Value::ok());
    }
    client.call(LIMIT, &["FUNCTION", "LOAD", LIBRARY]);
    let app = keep_user(&nodes);
    let place = dir.join("backups").display().to_string();
    assert_eq!(take(nodes.port(1), &place)["rows"], 46);
    ctl(&["backup", "verify", "--at", &place]).unwrap();
    for n in 0..nodes.count() {
        for port in [nodes.port(0), ports[0]] {
            assert_eq!(Connection::open(port).unwrap().call("FLUSHALL"), Value::ok());
        }
        assert_eq!(nodes.connect(0).call("ACL DELUSER app"), Value::Int(1));
        let said = ctl(&["restore", "--from", &place, "--node", &nodes.address(n), "--json"]).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((said["rows"].as_u64(), said["keys"].as_u64()), (Some(46), Some(46)), "node {n}: {said}");
        keys.iter().for_each(|key| assert_eq!(client.call(LIMIT, &["GET", key]), Value::bulk(key)));
        let mut databases = Connection::open(ports[n]).unwrap();
        for number in 0..16 {
            assert_eq!(databases.call(&format!("SELECT {number}")), Value::ok());
            assert_eq!(databases.call(&format!("GET of{number}")), Value::bulk(number.to_string()));
            assert_eq!(databases.call("DBSIZE"), Value::Int(1));
        }
        // What is the default stands there since.
        let listed = nodes.connect(0).call("ACL LIST").items()[0].text().replace(" sanitize-payload", "");
        assert_eq!(listed, app);
        let again = ctl(&["restore", "--from", &place, "--node", &nodes.address(n), "--json"]).unwrap_err();
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_eq!(again["exit_code"], 1);
        assert!(again["error"].as_str().unwrap().contains("the store holds 46 keys"), "{again}");
    }
}

/// What is asked for, and what `ctl` makes of it: its exit code, and words that it says.
#[test]
fn commands_on_backups_tell_what_is_missing() {
    let dir = Dir::new("backup-missing");
    let place = dir.join("backups").display().to_string();
    let (empty, none) = (dir.join("empty").display().to_string(), dir.join("none").display().to_string());
    std::fs::create_dir(&empty).unwrap();
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "1"));
    take(server.port(), &place);
    // A port that is free now is not listened at.
    let nowhere = format!("127.0.0.1:{}", free_port());
    for (arguments, code, words) in [
        (&["backup", "take", "--to", &place, "--node", &nowhere][..], 3, "--node names another"),
        (&["restore", "--from", &place, "--node", &nowhere], 3, "--node names another"),
        (&["restore", "--from", &none, "--node", &nowhere], 1, "no such directory"),
        (&["backup", "verify", "--at", &none], 1, "no such directory"),
        (&["backup", "remove", "--at", &none, "--keep", "1"], 1, "no such directory"),
        (&["backup", "remove", "--at", &empty, "--keep", "1"], 1, "none would stay"),
        (&["backup", "remove", "--at", &empty, "--keep", "1", "--even-all"], 0, "0 backups stay"),
        (&["backup", "remove", "--at", &place, "--keep", "1"], 0, "1 backups stay"),
        (&["events", "--kind", "nope", "--node", &nowhere], 2, "possible values"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        let output = command.arg("ctl").args(arguments).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert!(!Path::new(&none).exists());
}

/// The manifest of a backup that was taken with a user and functions, and what becomes of one that is not as it was written.
#[test]
fn a_manifest_that_was_changed_is_no_backup() {
    let dir = Dir::new("backup-manifest");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "2"));
    let mut connection = server.connect();
    assert_eq!(connection.call("SET k v"), Value::ok());
    assert_eq!(connection.call("ACL SETUSER app on >secret ~app +get"), Value::ok());
    connection.send(&Connection::encode(&["FUNCTION", "LOAD", LIBRARY])).unwrap();
    assert_eq!(connection.read().unwrap(), Value::bulk("of_backup"));
    let place = dir.join("backups").display().to_string();
    let id = take(server.port(), &place)["backup"].as_str().unwrap().to_owned();
    let path = Path::new(&place).join("backups").join(format!("{id}.json"));
    let whole = std::fs::read_to_string(&path).unwrap();
    let users = serde_json::from_str::<serde_json::Value>(&whole).unwrap()["users"].clone();
    assert!(users["app"].is_string(), "{whole}");
    let damages: [&dyn Fn(&mut serde_json::Value); 5] = [
        &|manifest| manifest["users"] = serde_json::json!({}),
        &|manifest| _ = manifest["shards"].as_array_mut().unwrap().pop(),
        &|manifest| manifest["shards"][0]["slots"] = "0-1".into(),
        &|manifest| manifest["programs"]["functions"] = "00".into(),
        &|manifest| manifest["epoch"] = 99.into(),
    ];
    for damage in damages {
        let mut manifest: serde_json::Value = serde_json::from_str(&whole).unwrap();
        damage(&mut manifest);
        let checksum = manifest.as_object_mut().unwrap().remove("checksum").unwrap();
        let text = serde_json::to_string_pretty(&manifest).unwrap();
        let text = text.strip_suffix("\n}").unwrap();
        std::fs::write(&path, format!("{text},\n  \"checksum\": {checksum}\n}}")).unwrap();
        let list = ctl(&["backup", "list", "--at", &place]).unwrap_err();
        assert!(list.contains("CANNOT BE READ: torn") && list.contains("checksum"), "{list}");
        for command in [&["backup", "verify", "--at", &place][..], &["restore", "--from", &place, "--into-existing"]] {
            let refused = ctl(&[command, &["--node", &server.address()]].concat()).unwrap_err();
            assert!(refused.contains("no backup that can be read"), "{refused}");
        }
        let refused = ctl(&["backup", "remove", "--at", &place, "--keep", "1"]).unwrap_err();
        assert!(refused.contains("nothing is removed"), "{refused}");
    }
    // As an earlier release wrote it, and then with functions that cannot be loaded.
    let mut manifest: serde_json::Value = serde_json::from_str(&whole).unwrap();
    manifest.as_object_mut().unwrap().remove("checksum");
    std::fs::write(&path, serde_json::to_string_pretty(&manifest).unwrap()).unwrap();
    ctl(&["backup", "verify", "--at", &place]).unwrap();
    let functions = manifest["programs"]["functions"].as_str().unwrap();
    manifest["programs"]["functions"] = format!("{}00", &functions[..functions.len() - 2]).into();
    std::fs::write(&path, serde_json::to_string_pretty(&manifest).unwrap()).unwrap();
    let damaged = ctl(&["backup", "verify", "--at", &place]).unwrap_err();
    assert!(damaged.contains("the functions cannot be loaded"), "{damaged}");
}

#[test]
fn only_what_changed_is_written_again_and_damage_is_found() {
    let dir = Dir::new("backup-files");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "2"));
    let mut connection = server.connect();
    let value = "v".repeat(1000);
    for i in 0..20_000 {
        connection.send(&Connection::encode(&["SET", &format!("key{i:06}"), &value])).unwrap();
        if i % 500 == 499 {
            (0..500).for_each(|_| assert_eq!(connection.read().unwrap(), Value::ok()));
        }
    }
    let place = dir.join("backups").display().to_string();
    let first = take(server.port(), &place);
    assert!(first["new_files"].as_u64().unwrap() >= 8, "{first}");
    assert_eq!(take(server.port(), &place)["new_files"], 0);
    connection.call("SET key000000 other");
    let third = take(server.port(), &place);
    assert!((1..=2).contains(&third["new_files"].as_u64().unwrap()), "{third}");
    assert_eq!(third["rows"], 20_000);

    let kept = ctl(&["backup", "remove", "--at", &place, "--keep", "1"]).unwrap();
    assert!(kept.contains("removed 2 backups"), "{kept}");
    ctl(&["backup", "verify", "--at", &place]).unwrap();
    let events =
        |port: u16, kind: &str| ctl(&["events", "--kind", kind, "--node", &format!("127.0.0.1:{port}")]).unwrap();
    let told = events(server.port(), "backup");
    assert!(told.matches("was taken to").count() == 3 && told.contains("20000 rows"), "{told}");
    let copy = restored(&dir, "copy", &place);
    let told = events(copy.port(), "restore");
    assert!(told.contains("is being restored: 20000 rows") && told.contains("is restored"), "{told}");
    assert_eq!(copy.connect().call("DBSIZE"), Value::Int(20_000));
    assert_eq!(copy.connect().call("GET key000000"), Value::bulk("other"));

    // Files that are empty, cut short or changed are found, and the next backup writes them again: all are whole then.
    let damages: [fn(Vec<u8>) -> Vec<u8>; 3] = [
        |_| Vec::new(),
        |bytes| bytes[..bytes.len() - 1].to_vec(),
        |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            bytes
        },
    ];
    for damage in damages {
        let file = std::fs::read_dir(Path::new(&place).join("files")).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&file, damage(std::fs::read(&file).unwrap())).unwrap();
        let damaged = ctl(&["backup", "verify", "--at", &place]).unwrap_err();
        assert!(damaged.contains("is damaged"), "{damaged}");
        let again = take(server.port(), &place);
        assert_eq!((again["mended_files"].as_u64(), again["new_files"].as_u64()), (Some(1), Some(1)), "{again}");
        ctl(&["backup", "verify", "--at", &place]).unwrap();
        let id = third["backup"].as_str().unwrap();
        ctl(&["backup", "verify", "--at", &place, "--backup", id]).unwrap();
    }
}

/// A bucket's objects are proved by size and tag, and read only where no tag was noted.
#[test]
fn a_bucket_proves_what_it_reuses_without_reading_it() {
    let dir = Dir::new("backup-bucket");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "1"));
    server.connect().call("SET k v");
    let (bucket, place) = (FakeBucket::start(), "s3://backups/here");
    let environment = bucket.environment();
    let node = format!("127.0.0.1:{}", server.port());
    let take = || {
        let said = ctl_with(&environment, &["backup", "take", "--to", place, "--node", &node, "--json"]).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let read = bucket.take_read().iter().filter(|name| name.contains("/files/")).count();
        (said["new_files"].as_u64().unwrap(), said["mended_files"].as_u64().unwrap(), read)
    };
    let damage = |folder: &str, damage: &dyn Fn(&mut Vec<u8>)| {
        let mut objects = bucket.objects();
        objects.iter_mut().filter(|(name, _)| name.contains(folder)).for_each(|(_, object)| damage(object));
    };
    let verify = || ctl_with(&environment, &["backup", "verify", "--at", place]);
    assert_eq!(take(), (1, 0, 0));
    assert_eq!(take(), (0, 0, 0));
    // As many bytes, and other ones.
    damage("/here/files/", &|object| *object.last_mut().unwrap() ^= 1);
    verify().unwrap_err();
    bucket.take_read();
    assert_eq!(take(), (1, 1, 1));
    damage("/here/files/", &|object| object.truncate(3));
    assert_eq!(take(), (1, 1, 0));
    // As an earlier version noted it.
    damage("/here/backups/", &|object| {
        let mut manifest: serde_json::Value = serde_json::from_slice(object).unwrap();
        manifest.as_object_mut().unwrap().remove("checksum").unwrap();
        for file in manifest["shards"].as_array_mut().unwrap().iter_mut().flat_map(|one| one["files"].as_array_mut()) {
            file.iter_mut().for_each(|file| _ = file["stored"].as_object_mut().unwrap().remove("tag"));
        }
        *object = serde_json::to_vec_pretty(&manifest).unwrap();
    });
    assert_eq!(take(), (0, 0, 1));
    assert_eq!(take(), (0, 0, 0));
    verify().unwrap();
    let kept = ctl_with(&environment, &["backup", "remove", "--at", place, "--keep", "1"]).unwrap();
    assert!(kept.contains("removed 5 backups and 0 files"), "{kept}");
}

#[test]
fn a_torn_manifest_hides_no_other_and_unfinished_files_go() {
    let dir = Dir::new("backup-torn");
    let server = Server::start(&Setup::bare(&dir.join("data")).with("--shards", "2"));
    server.connect().call("SET k v");
    let place = dir.join("backups").display().to_string();
    let ids: Vec<String> = (0..3).map(|_| take(server.port(), &place)["backup"].as_str().unwrap().to_owned()).collect();
    let manifest = |id: &str| Path::new(&place).join("backups").join(format!("{id}.json"));
    let whole = std::fs::read(manifest(&ids[2])).unwrap();
    for torn in [&b"{}"[..], b"", &whole[..whole.len() / 2]] {
        std::fs::write(manifest(&ids[2]), torn).unwrap();
        let list = ctl(&["backup", "list", "--at", &place]).unwrap_err();
        assert!(ids.iter().all(|id| list.contains(id.as_str())), "{list}");
        assert_eq!(list.matches("CANNOT BE READ: torn").count(), 1, "{list}");
        let json = ctl(&["backup", "list", "--at", &place, "--json"]).unwrap_err();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(json[1]["rows"] == 1 && json[2]["damage"].is_string(), "{json}");
        let verify = ctl(&["backup", "verify", "--at", &place]).unwrap_err();
        assert!(verify.contains(&format!("backup {}: all 1 rows are there", ids[1])), "{verify}");
    }
    let copy = restored(&dir, "copy", &place);
    assert_eq!(copy.connect().call("GET k"), Value::bulk("v"));
    // It is newer than all that can be read, so nothing that it may need is removed.
    let kept = ctl(&["backup", "remove", "--at", &place, "--keep", "1", "--json"]).unwrap_err();
    assert!(kept.contains(&ids[2]) && manifest(&ids[2]).exists() && !manifest(&ids[0]).exists(), "{kept}");
    let unfinished =
        [Path::new(&place).join("files/abc-1.unfinished"), Path::new(&place).join("backups/x-1.unfinished")];
    unfinished.iter().for_each(|path| std::fs::write(path, "half").unwrap());
    take(server.port(), &place);
    assert!(unfinished.iter().all(|path| !path.exists()));
    let json = ctl(&["backup", "remove", "--at", &place, "--keep", "1", "--dry-run", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["torn"][0].as_str(), json["backups"][0].as_str()), (Some(&*ids[2]), Some(&*ids[1])), "{json}");
    let removed = ctl(&["backup", "remove", "--at", &place, "--keep", "1"]).unwrap();
    assert!(removed.contains("removed 2 backups (1 of them torn)"), "{removed}");
    ctl(&["backup", "verify", "--at", &place]).unwrap();
}

/// A client that takes a little of its reply now and then, so that it is never idle for long, until it is closed or told to
/// end.
fn take_slowly(mut stream: TcpStream, end: &AtomicBool) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut bytes = vec![0; 10_000];
    while !end.load(Ordering::Acquire) && stream.read(&mut bytes).is_ok_and(|read| read > 0) {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A replica goes to another node and comes back, though a backup without a reader and a client that is slow still read the
/// one that was there.
#[test]
fn what_is_read_slowly_keeps_no_replica_from_coming_back() {
    let dir = Dir::new("backup-place");
    let nodes = Nodes::start(&dir, 2, &[("--shards", "2"), ("--replication-factor", "1")]);
    assert!(nodes.admin(&["SETTINGS", "SET", "auto-rebalance", "no"]).is_some());
    // A store may be made before all nodes have come; then they are given their part.
    eventually("no plan is under way", Duration::from_secs(30), || {
        (nodes.admin(&["STATUS"])?["plans"].as_array()?.is_empty()).then_some(())
    });
    let (key, value, mut client) = (nodes.key_led_by(0, "hash"), "v".repeat(100_000), nodes.client());
    for field in 0..400 {
        client.call(LIMIT, &["HSET", &key, &field.to_string(), &value]);
    }
    let ids: Vec<String> = eventually("nodes are told of", Duration::from_secs(20), || {
        let all = nodes.admin(&["NODES"])?;
        let id = |n: usize| {
            let mut all = all["nodes"].as_array()?.iter();
            Some(all.find(|node| node["client_address"] == nodes.address(n))?["id"].as_str()?.to_owned())
        };
        (0..2).map(id).collect()
    });
    let shard = eventually("shards are told of", Duration::from_secs(20), || {
        let all = nodes.admin(&["SHARDS"])?;
        let holds =
            |range: &serde_json::Value| (range[0].as_u64()..=range[1].as_u64()).contains(&Some(u64::from(slot(&key))));
        let has_key = |shard: &&serde_json::Value| shard["slots"].as_array().is_some_and(|all| all.iter().any(holds));
        let shard = all["shards"].as_array()?.iter().find(has_key)?;
        (shard["replicas"][0]["node"] == ids[0].as_str()).then(|| shard["id"].to_string())
    });
    let mut slow = TcpStream::connect(("127.0.0.1", nodes.port(0))).unwrap();
    slow.write_all(&Connection::encode(&["HGETALL", &key])).unwrap();
    let mut first = [0];
    slow.read_exact(&mut first).unwrap();
    assert_eq!(first, *b"*");
    assert!(!nodes.connect(0).call("KV.BACKUP BEGIN").is_error());
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| take_slowly(slow, &end));
        let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (from, to) in [(0, 1), (1, 0)] {
                let plan = nodes.plan(&["move-shard", &shard, &ids[from], &ids[to]]).to_string();
                eventually("the replica has moved", Duration::from_secs(50), || {
                    (nodes.admin(&["PLAN", "SHOW", &plan])?["state"] == "done").then_some(())
                });
            }
        }));
        end.store(true, Ordering::Release);
        moved.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(nodes.client().call(LIMIT, &["HLEN", &key]), Value::Int(400));
}
