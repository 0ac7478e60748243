//! A store for a demonstration: on free ports, in a directory of its own, and gone when it is dropped.

use super::options::DemoOptions;
use crate::cluster::{Lifetime, LocalStore, StoreShape, Trouble, wait_until_healthy};
use bench::report::RUNS;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// The ports that are tried first; those for other nodes follow those for clients.
const FIRST_PORT: u16 = 7000;
const PORTS_TRIED: u16 = 200;

/// Fields drop in order: the nodes are gone before their directory is removed.
pub struct Stage {
    /// The store.
    pub store: LocalStore,
    _dir: TempDir,
}

impl Stage {
    /// Starts a store. None if it is to stop meanwhile.
    pub fn set(options: &DemoOptions, stop: &AtomicBool) -> Result<Option<Self>, Trouble> {
        let port = free_ports(options.nodes).ok_or_else(|| "no ports are free for the nodes".to_owned())?;
        let shape = StoreShape {
            nodes: Some(options.nodes),
            shards: Some(options.shards.to_string()),
            port: Some(port),
            peer_port: Some(port + options.nodes),
            http_port: Some(0),
            durability: Some(options.durability.clone()),
            set: options.set.clone(),
            ..StoreShape::default()
        };
        let roster = shape.fresh()?;
        let dir = directory().map_err(|e| format!("no directory can be made for the data: {e}"))?;
        let store = LocalStore::create(&dir.path().join("store"), roster)?;
        let mut stage = Self { store, _dir: dir };
        for number in stage.store.numbers() {
            stage.store.start(number, Lifetime::Ours)?;
        }
        if !wait_until_healthy(&mut stage.store, stop)? {
            return Ok(None);
        }
        // The node that made the store is not to make another when it comes back.
        stage.store.change(|roster| roster.made = true)?;
        Ok(Some(stage))
    }
}

/// Among the runs, where the disk is more often a real one than where the system keeps temporary files.
fn directory() -> std::io::Result<TempDir> {
    let named = || tempfile::Builder::new().prefix("demo-").tempdir_in(RUNS);
    std::fs::create_dir_all(RUNS).and_then(|()| named()).or_else(|_| tempfile::tempdir())
}

/// The first of `2 * nodes` free ports in a row.
fn free_ports(nodes: u16) -> Option<u16> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut candidates = (0..PORTS_TRIED).map(|step| FIRST_PORT + step * 2 * nodes.min(100));
    candidates.find(|first| (*first..first + 2 * nodes).all(is_free))
}
