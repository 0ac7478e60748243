//! Runs the commands that other nodes send here about a shard.

use super::route::server_handlers;
use crate::api::Caller;
use crate::shared::NodeShared;
use resp::table;
use std::sync::Arc;
use vocab::ShardId;

/// Runs a command on this node's replica of a shard, if it leads; answers one RESP3 frame.
pub(crate) fn run_peer_command(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
    let row = args.first().and_then(|name| table::lookup(name));
    match row.and_then(|row| server_handlers(row.id).call) {
        Some(handler) => handler(store, shard, args),
        None => Caller::new(store.clone()).call_shard(shard, args),
    }
}
