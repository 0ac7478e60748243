//! The nodes that this one can talk to.

use crate::store::now_ms;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use vocab::NodeId;

/// The nodes that this one can talk to, and since when, in ms since the epoch.
#[derive(Default)]
pub(crate) struct Neighbours {
    up: RwLock<BTreeMap<NodeId, u64>>,
}

impl Neighbours {
    pub(crate) fn up(&self, node: NodeId) {
        self.up.write().unwrap_or_else(PoisonError::into_inner).insert(node, now_ms());
    }

    pub(crate) fn down(&self, node: NodeId) {
        self.up.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.up.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.up.read().unwrap_or_else(PoisonError::into_inner).contains_key(&node)
    }

    pub(crate) fn since_ms(&self, node: NodeId) -> Option<u64> {
        self.up.read().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }
}
