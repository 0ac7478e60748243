//! Runs the commands that other nodes send here about a shard.

use super::admin;
use super::backup::backup_call;
use crate::embedded::Caller;
use crate::shared::NodeShared;
use std::sync::Arc;
use vocab::ShardId;

/// Runs a command on this node's replica of a shard, if it leads; answers one RESP3 frame.
pub(crate) fn run_peer_command(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
    match args.first() {
        Some(name) if name.eq_ignore_ascii_case(b"KV.ADMIN") => admin::serve(store, shard, args),
        Some(name) if name.eq_ignore_ascii_case(b"KV.BACKUP") => backup_call(store, shard, args),
        _ => Caller::new(store.clone()).call_shard(shard, args),
    }
}
