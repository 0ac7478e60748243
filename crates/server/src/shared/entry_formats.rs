//! Which nodes are of a release that cannot read entries of format 2.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::NodeId;

/// The first version of the protocol between nodes whose speakers read entries of format 2.
const SECOND_FORMAT: u16 = 3;

/// What the links have told. A leader writes entries that all members of its shard read.
#[derive(Default)]
pub(crate) struct EntryFormats {
    /// Whether there is such a node: read for every entry.
    any_old: AtomicBool,
    old: Mutex<BTreeSet<NodeId>>,
}

impl EntryFormats {
    /// A link to `node` has come up, over which that version of the protocol is spoken.
    pub(crate) fn heard(&self, node: NodeId, version: u16) {
        let mut old = self.old.lock();
        if version < SECOND_FORMAT {
            old.insert(node);
        } else {
            old.remove(&node);
        }
        self.any_old.store(!old.is_empty(), Ordering::Release);
    }

    /// Whether a node reads entries of format 2. One that was never heard of does.
    pub(crate) fn reads_second(&self, node: NodeId) -> bool {
        let is_old = || self.old.lock().contains(&node);
        !self.any_old.load(Ordering::Acquire) || !is_old()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_as_old_until_it_comes_back_newer() {
        let (formats, a, b) = (EntryFormats::default(), NodeId(1), NodeId(2));
        assert!(formats.reads_second(a));
        formats.heard(a, 2);
        formats.heard(b, 3);
        assert!(!formats.reads_second(a) && formats.reads_second(b));
        formats.heard(a, 3);
        assert!(formats.reads_second(a));
    }
}
