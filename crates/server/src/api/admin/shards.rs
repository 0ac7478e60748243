//! The shards with their replicas; and the replicas that a node really has.

use super::sight::Sight;
use crate::shared::NodeShared;
use node::{ShardHandle, stored_map};
use serde_json::{Value, json};
use std::sync::Arc;
use vocab::ShardId;

pub(super) fn list(sight: &Sight) -> Value {
    let status = &sight.status;
    json!({"complete": sight.directed && status.complete, "nodes": sight.addresses(), "shards": status.shards})
}

/// Of the metadata group's replica, the epoch of the map that it has come to; none for others.
fn map_held(handle: &ShardHandle) -> Option<u64> {
    let stored = || stored_map(handle).ok().flatten().map_or(0, |map| map.epoch.0);
    (handle.id() == ShardId::META).then(stored)
}

/// This node's replicas: what it holds, whatever the map says.
pub(super) fn replicas_here(store: &Arc<NodeShared>) -> Value {
    let known = store.known();
    let replicas: Vec<Value> = known
        .handles()
        .map(|handle| {
            let status = handle.status();
            json!({
                "shard": handle.id().0,
                "leads": handle.serving(),
                "term": status.term,
                "applied": handle.engine().applied_index(),
                "last": status.last,
                "last_term": status.last_term,
                "keys": handle.key_count(),
                "map": map_held(handle),
            })
        })
        .collect();
    let epoch = known.map.as_ref().map_or(0, |map| map.epoch.0);
    let damaged = store.reconcile.all_damaged();
    let damaged: Vec<Value> = damaged.iter().map(|one| json!({"shard": one.shard.0, "why": one.why})).collect();
    json!({"node": store.node().to_string(), "epoch": epoch, "replicas": replicas, "damaged": damaged})
}
