//! The nodes that this node has links to, and nodes of other stores that have tried to reach it.

use crate::os::now_ms;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use vocab::NodeId;

/// For how long a node of another store is reported after it was last heard of, in ms. Nodes try to meet more often.
const STRANGE_FOR_MS: u64 = 60_000;
/// How many nodes of other stores are remembered.
const STRANGERS_MAX: usize = 16;

/// A node of another store.
struct Stranger {
    /// When it was last heard of, in ms since the epoch.
    heard_ms: u64,
    /// Why this node has no link to it.
    why: String,
}

/// The link to a node.
#[derive(Clone, Copy)]
struct Up {
    /// Since when, in ms since the epoch.
    since_ms: u64,
    encrypted: bool,
}

/// The nodes that this node has links to, and strangers.
#[derive(Default)]
pub(crate) struct PeerRegistry {
    up: RwLock<BTreeMap<NodeId, Up>>,
    /// Nodes of other stores, by their address.
    strangers: RwLock<BTreeMap<String, Stranger>>,
}

impl PeerRegistry {
    pub(crate) fn up(&self, node: NodeId, encrypted: bool) {
        self.up.write().insert(node, Up { since_ms: now_ms(), encrypted });
    }

    /// How many links there are, and how many of these are encrypted.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let up = self.up.read();
        (up.len(), up.values().filter(|up| up.encrypted).count())
    }

    pub(crate) fn down(&self, node: NodeId) {
        self.up.write().remove(&node);
    }

    /// Notes a node of another store; true if it was not known.
    pub(crate) fn stranger(&self, about: String, why: String) -> bool {
        let mut strangers = self.strangers.write();
        if strangers.len() >= STRANGERS_MAX && !strangers.contains_key(&about) {
            strangers.pop_first();
        }
        strangers.insert(about, Stranger { heard_ms: now_ms(), why }).is_none()
    }

    /// Nodes of other stores that were heard of in the last minute: their address, and why there is no link.
    pub(crate) fn strangers(&self) -> Vec<(String, String)> {
        let since_ms = now_ms().saturating_sub(STRANGE_FOR_MS);
        let strangers = self.strangers.read();
        let recent = strangers.iter().filter(|(_, stranger)| stranger.heard_ms >= since_ms);
        recent.map(|(about, stranger)| (about.clone(), stranger.why.clone())).collect()
    }

    /// The nodes that this node has links to.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.up.read().keys().copied().collect()
    }

    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.up.read().contains_key(&node)
    }

    /// Whether the link to a node is encrypted.
    pub(crate) fn is_encrypted(&self, node: NodeId) -> bool {
        self.up.read().get(&node).is_some_and(|up| up.encrypted)
    }

    /// Since when a node has a link, in ms since the epoch.
    pub(crate) fn since_ms(&self, node: NodeId) -> Option<u64> {
        self.up.read().get(&node).map(|up| up.since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_and_go_and_the_oldest_names_of_strangers_make_room() {
        let registry = PeerRegistry::default();
        registry.up(NodeId(2), false);
        registry.up(NodeId(1), true);
        registry.down(NodeId(2));
        assert_eq!((registry.nodes(), registry.counts()), (vec![NodeId(1)], (1, 1)));
        assert!(registry.is_up(NodeId(1)) && registry.since_ms(NodeId(1)).is_some());
        assert!(!registry.is_up(NodeId(2)) && registry.since_ms(NodeId(2)).is_none());
        for n in 0..STRANGERS_MAX + 1 {
            assert!(registry.stranger(format!("node {n:02}"), "another store".to_owned()));
        }
        assert!(!registry.stranger("node 05".to_owned(), "another secret".to_owned()), "it is known");
        let strangers = registry.strangers();
        assert_eq!(strangers.len(), STRANGERS_MAX);
        assert_eq!(strangers[0].0, "node 01", "the first by name has made room");
        assert!(strangers.contains(&("node 05".to_owned(), "another secret".to_owned())));
    }
}
