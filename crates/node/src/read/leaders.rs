//! The leader cache: which node leads a shard, by the newest term that this node has heard of.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::NodeId;

/// The leader of one shard, as far as this node has heard. Many threads read it without a lock.
///
/// Invariant: `term` never falls. Within a term the leader changes only between "none" and one node.
#[derive(Debug, Default)]
pub struct LeaderCell {
    /// The node that leads; 0: none is known.
    node: AtomicU64,
    /// The node that led last; 0: none ever.
    last: AtomicU64,
    /// The term of the newest news.
    term: AtomicU64,
    /// Held while the three change together.
    change: Mutex<()>,
}

impl LeaderCell {
    /// The node that leads, if one is known.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        Some(self.node.load(Ordering::Acquire)).filter(|&node| node != 0).map(NodeId)
    }

    /// The node that led last, even if it does no more.
    #[must_use]
    pub fn last(&self) -> Option<NodeId> {
        Some(self.last.load(Ordering::Acquire)).filter(|&node| node != 0).map(NodeId)
    }

    /// The term of the newest news.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::Acquire)
    }

    /// News of a term; older ones are ignored. True if the leader has changed.
    pub fn learn(&self, node: Option<NodeId>, term: u64) -> bool {
        let _change = self.change.lock();
        let known = self.term.load(Ordering::Acquire);
        let now = node.map_or(0, |node| node.0);
        if term < known || (term == known && now == 0 && self.node.load(Ordering::Acquire) == 0) {
            return false;
        }
        self.term.store(term, Ordering::Release);
        if now != 0 {
            self.last.store(now, Ordering::Release);
        }
        self.node.swap(now, Ordering::AcqRel) != now
    }

    /// That node does not answer any more: what it led has no leader until another one is heard of.
    pub fn lost(&self, node: NodeId) {
        let _change = self.change.lock();
        if self.node.load(Ordering::Acquire) == node.0 {
            self.node.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_the_newest_term_count() {
        enum News {
            Learn(u64, u64, bool),
            Lost(u64),
        }
        use News::{Learn, Lost};
        // News (node 0: none), whether they change the leader; then node, last and term.
        let steps = [
            (Learn(0, 1, false), (0, 0, 1)),
            (Learn(3, 2, true), (3, 3, 2)),
            (Learn(3, 2, false), (3, 3, 2)),
            (Learn(4, 1, false), (3, 3, 2)),
            (Learn(0, 1, false), (3, 3, 2)),
            (Lost(4), (3, 3, 2)),
            (Lost(3), (0, 3, 2)),
            (Learn(3, 2, true), (3, 3, 2)),
            // The same node in a newer term: it is the leader that was known.
            (Learn(3, 4, false), (3, 3, 4)),
            (Learn(0, 5, true), (0, 3, 5)),
            (Learn(3, 4, false), (0, 3, 5)),
            (Learn(6, 5, true), (6, 6, 5)),
        ];
        let cell = LeaderCell::default();
        for (i, (news, expected)) in steps.into_iter().enumerate() {
            match news {
                Learn(node, term, changes) => {
                    let node = (node != 0).then_some(NodeId(node));
                    assert_eq!(cell.learn(node, term), changes, "step {i}");
                }
                Lost(node) => cell.lost(NodeId(node)),
            }
            let number = |node: Option<NodeId>| node.map_or(0, |node| node.0);
            assert_eq!((number(cell.node()), number(cell.last()), cell.term()), expected, "step {i}");
        }
    }
}
