//! Databases beyond 0 of a cluster's clients.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Server, Setup, Value, basalt, eventually, text};
use std::collections::BTreeSet;
use std::time::Duration;

/// A connection to the leader of each key's shard, in that database.
struct Cluster<'a> {
    nodes: &'a Nodes,
    database: u16,
    connections: Vec<Connection>,
}

impl<'a> Cluster<'a> {
    fn open(nodes: &'a Nodes, up: impl IntoIterator<Item = usize>, database: u16) -> Self {
        let open = |n: usize| {
            let mut connection = nodes.connect(n);
            connection.patience(Duration::from_secs(30));
            assert_eq!(connection.call(&format!("SELECT {database}")), Value::ok());
            connection
        };
        Self { nodes, database, connections: up.into_iter().map(open).collect() }
    }

    /// What is answered, wherever that is.
    fn call(&mut self, request: &str) -> Value {
        let mut answers = Vec::new();
        for connection in &mut self.connections {
            let answer = connection.call(request);
            if !matches!(&answer, Value::Error(text) if text.starts_with("MOVED ")) {
                return answer;
            }
            answers.push(answer);
        }
        panic!("database {}: no node of {} answers {request}: {answers:?}", self.database, self.nodes.count());
    }

    fn sum(&mut self, request: &str) -> i64 {
        self.connections.iter_mut().map(|connection| connection.call(request).int()).sum()
    }

    /// All keys that SCAN finds at all nodes.
    fn scan(&mut self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for connection in &mut self.connections {
            let mut cursor = "0".to_owned();
            loop {
                let answer = connection.call(&format!("SCAN {cursor} COUNT 7"));
                found.extend(answer.items()[1].items().iter().map(Value::text));
                cursor = answer.items()[0].text();
                if cursor == "0" {
                    break;
                }
            }
        }
        found
    }
}

fn names(count: usize) -> BTreeSet<String> {
    (0..count).map(|i| format!("key{i}")).collect()
}

/// Each database has its own keys under the same names, at the nodes that lead the slots of the names; a node's death loses none.
#[test]
fn three_nodes_have_the_keys_of_each_database_where_their_slots_are() {
    let dir = Dir::new("cluster-databases");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "6")]);
    nodes.wait_spread();
    for database in [0, 1, 7] {
        let mut cluster = Cluster::open(&nodes, 0..3, database);
        for name in names(100) {
            assert_eq!(cluster.call(&format!("SET {name} {database}")), Value::ok());
        }
    }
    for database in [0, 1, 7] {
        let mut cluster = Cluster::open(&nodes, 0..3, database);
        assert_eq!(cluster.scan(), names(100), "database {database}");
        assert_eq!(cluster.sum("DBSIZE"), 100, "database {database}");
        let slot = common::slot("key5");
        assert_eq!(cluster.call(&format!("CLUSTER COUNTKEYSINSLOT {slot}")).int(), 1);
        assert!(cluster.call("MSET key1 x key2 y").text().starts_with("CROSSSLOT"));
    }
    // INFO tells of what the node leads.
    let info = nodes.connect(0).call("INFO keyspace").text();
    for line in ["db0:keys=", "db1:keys=", "db7:keys="] {
        assert!(info.contains(line), "{info}");
    }
    // FLUSHDB is about one database, at all nodes.
    let mut seven = Cluster::open(&nodes, 0..3, 7);
    assert_eq!(seven.connections[1].call("FLUSHDB"), Value::ok());
    assert_eq!(seven.sum("DBSIZE"), 0);
    for database in [0, 1] {
        assert_eq!(Cluster::open(&nodes, 0..3, database).sum("DBSIZE"), 100);
    }
    nodes.kill(2);
    let mut one = Cluster::open(&nodes, 0..2, 1);
    for name in names(100) {
        let get = format!("GET {name}");
        eventually(&name, Duration::from_secs(30), || {
            one.connections.iter_mut().map(|node| node.call(&get)).find(|answer| *answer == Value::bulk("1"))
        });
    }
    assert_eq!(one.scan(), names(100));
    nodes.spawn(2);
    nodes.wait_whole();
    assert_eq!(Cluster::open(&nodes, 0..3, 1).scan(), names(100));
    // The counts are kept.
    nodes.kill_all();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    assert_eq!(Cluster::open(&nodes, 0..3, 1).sum("DBSIZE"), 100);
    assert_eq!(Cluster::open(&nodes, 0..3, 0).sum("DBSIZE"), 100);
}

/// Keys of a database that INFO tells of, and those with an expiry.
fn in_info(connection: &mut Connection, database: u16) -> (u64, u64) {
    let info = connection.call("INFO keyspace").text();
    let start = format!("db{database}:keys=");
    let line = info.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("0,expires=0,");
    let numbers: Vec<u64> = line.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    (numbers[0], numbers[1])
}

fn done(arguments: &[&str]) -> String {
    let output = basalt(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What is divided, saved and written out has the keys of each database, and counts them.
#[test]
fn splits_backups_and_exports_have_each_database() {
    const DATABASES: [u16; 3] = [0, 1, 15];
    let dir = Dir::new("cluster-databases-kept");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3")]);
    nodes.wait_spread();
    for database in DATABASES {
        let mut cluster = Cluster::open(&nodes, 0..3, database);
        for (i, name) in names(100).iter().enumerate() {
            let expiry = if i % 4 == 0 { " PX 900000000" } else { "" };
            assert_eq!(cluster.call(&format!("SET {name} {database}{expiry}")), Value::ok());
        }
    }
    let check = |nodes: &Nodes, when: &str| {
        for database in DATABASES {
            let mut cluster = Cluster::open(nodes, 0..3, database);
            // While a shard changes its leader, two nodes or none count it.
            eventually(&format!("database {database} is counted {when}"), Duration::from_secs(60), || {
                let of_node = |node: &mut Connection| (node.call("DBSIZE").int(), in_info(node, database));
                let counts: Vec<_> = cluster.connections.iter_mut().map(of_node).collect();
                let sums = counts.iter().fold((0, 0, 0), |sums, (size, (keys, expiring))| {
                    (sums.0 + size, sums.1 + keys, sums.2 + expiring)
                });
                (sums == (100, 100, 25)).then_some(())
            });
            assert_eq!(cluster.scan(), names(100), "database {database} {when}");
        }
    };
    check(&nodes, "at first");
    let split = nodes.run_ctl(&["plan", "apply", "split-all", "--wait"]);
    assert!(split.status.success(), "{}", text(&split));
    nodes.wait_whole();
    check(&nodes, "after the splits");
    nodes.kill_all();
    (0..3).for_each(|n| nodes.spawn(n));
    nodes.wait_whole();
    check(&nodes, "after a start");
    let has_all = |server: &Server, when: &str| {
        // Keys of such a database begin them, however they are named: nodes of earlier releases cannot read those.
        let begun = server.connect().call("KV.ADMIN SETTINGS GET cluster-database-layout").text();
        assert!(begun.contains(r#""set":true"#), "{when}: {begun}");
        for database in DATABASES {
            let mut client = server.connect();
            assert_eq!(client.call(&format!("SELECT {database}")), Value::ok());
            assert_eq!((client.call("DBSIZE").int(), in_info(&mut client, database)), (100, (100, 25)), "{when}");
            assert_eq!(client.call("GET key7").text(), database.to_string(), "{when}");
        }
    };
    let (backup, lines) = (dir.join("backup"), dir.join("all.ndjson"));
    let (backup, lines) = (backup.to_str().unwrap(), lines.to_str().unwrap());
    let node = nodes.address(0);
    done(&["ctl", "backup", "take", "--to", backup, "--node", &node]);
    let restored = Server::start(&Setup::bare(&dir.join("restored")).with("--shards", "7"));
    done(&["ctl", "restore", "--from", backup, "--node", &restored.address()]);
    has_all(&restored, "restored");
    let exported = done(&["export", lines, "--node", &node, "--json"]);
    assert!(exported.contains("300"), "{exported}");
    let imported = Server::start(&Setup::new(&dir.join("imported")));
    done(&["import", lines, "--databases", "--node", &imported.address()]);
    has_all(&imported, "imported");
    let exported = done(&["export", lines, "--node", &node, "--cluster-database", "15", "--force", "--json"]);
    assert!(exported.contains("100") && !exported.contains("300"), "{exported}");
    let found = std::fs::read_to_string(lines).unwrap();
    let of_15 = found.lines().filter(|line| line.contains(r#""cluster_database":15"#));
    assert_eq!(of_15.count(), 100);
}

/// Databases of both listeners have nothing to do with each other.
#[test]
fn databases_of_both_listeners_are_apart() {
    let dir = Dir::new("cluster-databases-apart");
    let port = common::free_port();
    let setup = Setup::new(&dir.join("data")).with("--database-listen", &format!("127.0.0.1:{port}"));
    let server = Server::start(&setup);
    let (mut cluster, mut plain) = (server.connect(), Connection::open(port).unwrap());
    for connection in [&mut cluster, &mut plain] {
        assert_eq!(connection.call("SELECT 1"), Value::ok());
    }
    cluster.call("SET k of-cluster");
    plain.call("SET k of-database");
    plain.call("SET other x");
    assert_eq!((cluster.call("GET k").text(), plain.call("GET k").text()), ("of-cluster".into(), "of-database".into()));
    assert_eq!((cluster.call("DBSIZE").int(), plain.call("DBSIZE").int()), (1, 2));
    assert!(plain.call("INFO keyspace").text().contains("db1:keys=2,"));
    let info = cluster.call("INFO keyspace").text();
    assert!(info.contains("db1:keys=1,") && !info.contains("db0"), "{info}");
    assert_eq!(cluster.call("FLUSHDB"), Value::ok());
    assert_eq!((cluster.call("DBSIZE").int(), plain.call("DBSIZE").int()), (0, 2));
    cluster.call("SET k again");
    // What removes a part of the keys is for nodes.
    assert_eq!(plain.call("KV.REMOVE k 100").text(), "ERR this command is for other nodes");
    assert_eq!((cluster.call("DBSIZE").int(), plain.call("DBSIZE").int()), (1, 2));
    assert_eq!(plain.call("FLUSHALL"), Value::ok());
    assert_eq!((cluster.call("DBSIZE").int(), plain.call("DBSIZE").int()), (1, 0));
    assert_eq!(cluster.call("SELECT 0"), Value::ok());
    assert_eq!(cluster.call("DBSIZE").int(), 0);
}

/// `cluster-databases` says how many there are; with 1, as in Redis, there is no other.
#[test]
fn a_setting_says_how_many_there_are() {
    let dir = Dir::new("cluster-databases-setting");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--set", "cluster-databases=1"));
    let mut client = server.connect();
    assert_eq!(client.call("SELECT 1").text(), "ERR SELECT is not allowed in cluster mode");
    assert_eq!(client.call("SELECT 0"), Value::ok());
}
