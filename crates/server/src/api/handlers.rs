//! What runs the commands that need the server itself, rather than a shard's rows.

use crate::shared::NodeShared;
use resp::Reply;
use std::sync::Arc;
use vocab::ShardId;

/// Runs a command on a thread of the pool, which may wait.
pub(super) type PoolHandler = fn(&Arc<NodeShared>, &[&[u8]], &mut Reply);

/// Runs a command that another node has sent, about that shard; answers one RESP3 frame.
pub(super) type CallHandler = fn(&Arc<NodeShared>, ShardId, &[&[u8]]) -> Vec<u8>;
