//! Databases: the listener on which a store is a Redis without cluster mode.

mod common;

use common::{Connection, Dir, Nodes, Server, Setup, Value, free_port, replay};
use std::path::Path;
use std::time::Duration;

/// What the transcripts say of a Redis without cluster mode holds for Redis and for Basalt.
#[test]
fn transcripts_hold_for_a_plain_redis_as_well() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/databases");
    let dir = Dir::new("databases");
    let port = free_port();
    let server = Server::start(&Setup::new(&dir.join("data")).with("--database-listen", &format!("127.0.0.1:{port}")));
    let peer = Server::start_plain_peer(&Setup::new(&dir.join("peer")));
    let mut paths: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no transcript");
    let mut differences = Vec::new();
    // The peer last: where the answers are rewritten, they are its.
    for (who, port) in [("basalt", port), ("redis-server", peer.port())] {
        for path in &paths {
            assert_eq!(Connection::open(port).unwrap().call("FLUSHALL"), Value::ok());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            differences.extend(replay(path, port).into_iter().map(|line| format!("{who}: {name} {line}")));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    drop(server);
}

/// The nodes of a store with a listener for databases each, and its ports.
fn three_nodes(dir: &Dir) -> (Nodes, Vec<u16>) {
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let own: Vec<_> =
        ports.iter().map(|port| vec![("--database-listen".to_owned(), format!("127.0.0.1:{port}"))]).collect();
    (Nodes::start_with(dir, 3, &[("--shards", "6")], &own), ports)
}

/// Every node answers for every database, whichever node leads it.
#[test]
fn any_node_answers_as_a_plain_redis() {
    let dir = Dir::new("databases-of-three");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/databases");
    let mut paths: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut differences = Vec::new();
    for port in &ports {
        for path in &paths {
            assert_eq!(Connection::open(*port).unwrap().call("FLUSHALL"), Value::ok());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            differences.extend(replay(path, *port).into_iter().map(|line| format!("{port}: {name} {line}")));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Requests in a pipeline are answered in their order, and a client at another node hears of a node's death as a pause.
#[test]
fn a_dead_leader_is_a_pause_for_clients_of_other_nodes() {
    let dir = Dir::new("databases-dead-leader");
    let (mut nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    // The slot of database 0 is 0, as is that of this key.
    let leader = nodes.leader(0, "{06S}");
    let other = (leader + 1) % 3;
    let mut connection = Connection::open(ports[other]).unwrap();
    connection.patience(Duration::from_secs(30));
    for i in 0..1000 {
        connection.send(&Connection::encode(&["SET", &format!("key{i}"), &i.to_string()])).unwrap();
        connection.send(&Connection::encode(&["GET", &format!("key{i}")])).unwrap();
    }
    for i in 0..1000 {
        assert_eq!(connection.read().unwrap(), Value::ok());
        assert_eq!(connection.read().unwrap(), Value::bulk(i.to_string()));
    }
    assert_eq!(connection.call("WATCH key1"), Value::ok());
    nodes.kill(leader);
    // What only reads is made again; keys that were watched at the dead node count as changed.
    for i in 0..100 {
        assert_eq!(connection.call(&format!("GET key{i}")), Value::bulk(i.to_string()), "after {i}");
    }
    assert_eq!(connection.call("MULTI"), Value::ok());
    assert_eq!(connection.call("SET key1 changed").text(), "QUEUED");
    assert_eq!(format!("{:?}", connection.call("EXEC")), "*-1");
    assert_eq!(connection.call("GET key1"), Value::bulk("1"));
    assert_eq!(connection.call("MSET key1 a key2 b"), Value::ok());
    assert_eq!(connection.call("DBSIZE").int(), 1000);
}
