//! Databases: the listener on which a store is a Redis without cluster mode.

mod common;

use common::{Connection, Dir, Server, Setup, Value, free_port, replay};
use std::path::Path;

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
