//! What one node asks another about its replicas, and the answers.

use super::error::{AdminError, Answer, decode};
use super::shards;
use crate::api::ShardWriter;
use crate::peers::call_node;
use crate::shared::NodeShared;
use serde_json::Value;
use std::sync::Arc;
use vocab::{NodeId, ShardId};

/// A question to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeQuery {
    /// The replicas that the node has.
    Replicas,
    /// What a comparison has found there.
    Digest(u64),
}

impl NodeQuery {
    /// Asks a node, which may be this one. A node without a link is not waited for.
    pub(super) fn ask(self, store: &Arc<NodeShared>, node: NodeId) -> Answer {
        if node == store.node() {
            return Ok(self.answer(store));
        }
        if !store.peers.is_up(node) {
            return Err(AdminError::Unavailable("it cannot be talked to".to_owned()));
        }
        let comparison;
        let args: &[&[u8]] = match self {
            Self::Replicas => &[b"KV.ADMIN", b"REPLICAS"],
            Self::Digest(number) => {
                comparison = number.to_string();
                &[b"KV.ADMIN", b"DIGEST", comparison.as_bytes()]
            }
        };
        decode(&call_node(store, node, ShardId::META, args).map_err(AdminError::Unavailable)?)
    }

    /// Answers it about this node.
    pub(super) fn answer(self, store: &Arc<NodeShared>) -> Value {
        match self {
            Self::Replicas => shards::replicas_here(store),
            Self::Digest(comparison) => store.digests.found(comparison),
        }
    }
}

/// Has all replicas of a shard take a snapshot of the same moment, if this node leads it.
pub(super) fn mark(store: &Arc<NodeShared>, shard: ShardId, comparison: &[u8]) -> Answer {
    let comparison = std::str::from_utf8(comparison).ok().and_then(|text| text.parse().ok());
    let comparison = comparison.ok_or_else(|| AdminError::Usage("MARK comparison".to_owned()))?;
    if !store.known().handle(shard).is_some_and(|handle| handle.serving()) {
        return Err(AdminError::Unavailable(format!("this node does not lead shard {shard}")));
    }
    let marked = ShardWriter::new(store.clone()).mark(shard, comparison);
    marked.map(|()| Value::Null).map_err(|text| AdminError::of_reply(&text))
}
