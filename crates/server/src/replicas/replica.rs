//! One replica whose tree is open: its Raft group, from the log.

use super::patience::patiently;
use crate::shared::NodeShared;
use node::{Shard, ShardHandle};
use replica::{LogStore, Replica};
use std::sync::Arc;
use vocab::Prng;

/// Opens the replica of a tree whose group the log knows.
pub(super) fn open_replica(store: &NodeShared, handle: &Arc<ShardHandle>) -> Result<Shard, String> {
    let id = handle.id();
    let seed = Prng::new(store.node().0 ^ u64::from(id.0)).next_u64();
    patiently(store, id, || {
        let state = store.log.state(id)?.ok_or_else(|| format!("the log forgot shard {id}"))?;
        let (applied, installed) = (handle.engine().flushed_index(), handle.snapshot_point()?);
        let log: Arc<dyn LogStore> = store.log.clone();
        let replica = Replica::open(log, id, state, applied, installed.as_ref(), seed)?;
        Ok(Shard::new(handle.clone(), replica, store.health.clone())?)
    })
}
