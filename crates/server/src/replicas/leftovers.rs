//! What this node has of replicas, on disk and open, and the removal of what the map does not give it any more.
//!
//! Invariant: of a replica that goes, the tree is removed before the log's group. So the log knows what a crash leaves to
//! be of a replica that the map no longer has, and it is never taken for another one's.

use crate::shared::NodeShared;
use node::control::reconcile::{LocalGroup, LocalReplica, Removal};
use replica::{LogStore, LogWrite};
use std::collections::BTreeMap;
use vocab::ShardId;

/// Removes a tree that is not in use, then its group from the log.
pub(super) fn remove(store: &NodeShared, shard: ShardId) -> Result<(), String> {
    store.dir.remove_tree(shard)?;
    if store.log.groups() == [shard] {
        store.dir.forget_groups()?;
    }
    let mut write = LogWrite::default();
    write.remove(shard);
    store.log_threads.write_last(write).map_err(|e| e.to_string())
}

/// What this node has of every shard, on disk and open.
///
/// `closing`: shards whose replica was closed and is still in use.
pub(super) fn local_replicas(
    store: &NodeShared,
    closing: impl Iterator<Item = ShardId>,
) -> BTreeMap<ShardId, LocalReplica> {
    let mut all: BTreeMap<ShardId, LocalReplica> = BTreeMap::new();
    for (replica, handle) in store.known().replicas() {
        let here = all.entry(handle.id()).or_default();
        (here.open, here.group, here.tree) = (Some(replica), LocalGroup::Of(replica), true);
    }
    for shard in store.log.groups() {
        let here = all.entry(shard).or_default();
        if here.open.is_none() {
            here.group = match store.log.state(shard) {
                Ok(state) => state.map_or(LocalGroup::None, |state| LocalGroup::Of(state.replica)),
                Err(_) => LocalGroup::Unreadable,
            };
        }
    }
    for shard in store.dir.trees() {
        all.entry(shard).or_default().tree = true;
    }
    for shard in store.forks.all() {
        all.entry(shard).or_default().forking = true;
    }
    for shard in closing {
        all.entry(shard).or_default().closing = true;
    }
    for damaged in store.reconcile.all_damaged() {
        all.entry(damaged.shard).or_default().damaged = Some(damaged.replica);
    }
    all
}

/// Removes what is left of replicas that the map does not give this node, and that are not open.
pub(super) fn remove_leftovers(store: &NodeShared, removals: &[Removal]) -> Result<(), String> {
    store.dir.remove_gone();
    for &Removal { shard, group } in removals {
        if group {
            log::info!("what is left of a replica of shard {shard} is removed");
            remove(store, shard)?;
        } else {
            log::info!("a tree of shard {shard} without a group is removed");
            store.dir.remove_tree(shard)?;
        }
    }
    Ok(())
}
