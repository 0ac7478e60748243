//! What goes over the wire, byte for byte, in transcripts that a reader of the protocol can check.

mod common;

use common::{Dir, Server, Setup, replay};
use std::path::Path;

/// Those of `common` hold for Redis 7.0 as well; those of `basalt` are Basalt's own.
#[test]
fn transcripts_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let kinds: &[&str] =
        if std::env::var_os("BASALT_BLACKBOX_PEER").is_some() { &["common"] } else { &["common", "basalt"] };
    let dir = Dir::new("transcripts");
    let server = Server::start(&Setup::new(&dir.join("data")));
    let mut differences = Vec::new();
    for kind in kinds {
        let mut paths: Vec<_> =
            std::fs::read_dir(root.join(kind)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "no transcript in {kind}");
        for path in paths {
            assert_eq!(server.connect().call("FLUSHALL"), common::Value::ok());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            differences.extend(replay(&path, server.port()).into_iter().map(|line| format!("{kind}/{name} {line}")));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// What one shard does whole, where it has the whole store; it holds for Redis 7.0 as well.
#[test]
fn a_store_of_one_shard_is_emptied_in_a_transaction() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/one-shard/flush.txt");
    let dir = Dir::new("one-shard");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--shards", "1"));
    let differences = replay(&path, server.port());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
