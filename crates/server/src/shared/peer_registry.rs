//! The nodes that this one can talk to, and those that it must not.

use crate::store::now_ms;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use vocab::NodeId;

/// For how long it is told of a node of another store after it was last heard of, in ms: nodes try to meet more often.
const STRANGE_FOR_MS: u64 = 60_000;
/// Of how many such nodes.
const STRANGERS_MAX: usize = 16;

/// See the module's words.
#[derive(Default)]
pub(crate) struct Neighbours {
    /// Since when, in ms since the epoch.
    up: RwLock<BTreeMap<NodeId, u64>>,
    /// Of nodes of other stores, by where they are: when they were last heard of, and what is wrong.
    strangers: RwLock<BTreeMap<String, (u64, String)>>,
}

impl Neighbours {
    pub(crate) fn up(&self, node: NodeId) {
        self.up.write().unwrap_or_else(PoisonError::into_inner).insert(node, now_ms());
    }

    pub(crate) fn down(&self, node: NodeId) {
        self.up.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
    }

    /// A node of another store wants to be talked to; true if that is news.
    pub(crate) fn stranger(&self, about: String, why: String) -> bool {
        let mut strangers = self.strangers.write().unwrap_or_else(PoisonError::into_inner);
        if strangers.len() >= STRANGERS_MAX && !strangers.contains_key(&about) {
            strangers.pop_first();
        }
        strangers.insert(about, (now_ms(), why)).is_none()
    }

    /// Nodes of other stores that were heard of lately: where they are, and what is wrong.
    pub(crate) fn strangers(&self) -> Vec<(String, String)> {
        let since_ms = now_ms().saturating_sub(STRANGE_FOR_MS);
        let strangers = self.strangers.read().unwrap_or_else(PoisonError::into_inner);
        let lately = strangers.iter().filter(|(_, (at_ms, _))| *at_ms >= since_ms);
        lately.map(|(about, (_, why))| (about.clone(), why.clone())).collect()
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
