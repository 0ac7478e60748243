//! Which versions of the protocol other nodes speak: nodes of an older release cannot read the newest entries.

use node::{Bounding, Pops, Rules};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::NodeId;

/// The first version of the protocol between nodes whose speakers read entries of format 2.
const SECOND_FORMAT: u16 = 3;
/// The first version whose speakers keep changes of the map, and read messages that carry them.
const MAP_CHANGES: u16 = 4;
/// The first version whose speakers read maps with users.
const USERS: u16 = 6;
/// The first version whose speakers pop members of large sets together.
const TOGETHER: u16 = 8;
/// The first version whose speakers judge how many keys clients' commands leave databases with.
const KEY_BOUNDS: u16 = 9;
/// The first version whose speakers go on with the members that the entry before has popped from.
const GOING_ON: u16 = 10;
/// The first version whose speakers read reports with problems.
const PROBLEMS: u16 = 11;
/// The first version whose speakers judge that of the commands of nodes, too.
const BOUNDS_OF_ALL: u16 = 12;

/// The first version whose speakers keep long strings in pieces.
const PIECES: u16 = 14;
/// The first version whose speakers know `Rules::Later`.
const LATER_RULES: u16 = 15;

/// The versions that links have reported. A leader writes entries that all members of its shard can read.
#[derive(Default)]
pub(crate) struct EntryFormats {
    /// Whether any node speaks an older version: read for every entry.
    any_old: AtomicBool,
    /// The nodes that have had a link, and the version that each spoke last.
    spoken: Mutex<BTreeMap<NodeId, u16>>,
}

impl EntryFormats {
    /// A link to `node` has come up and speaks this version of the protocol.
    pub(crate) fn heard(&self, node: NodeId, version: u16) {
        let mut spoken = self.spoken.lock();
        spoken.insert(node, version);
        self.any_old.store(spoken.values().any(|version| *version < MAP_CHANGES), Ordering::Release);
    }

    /// Whether a node reads entries of format 2. True for a node without a link so far.
    pub(crate) fn reads_second(&self, node: NodeId) -> bool {
        self.speaks(node, SECOND_FORMAT)
    }

    /// Whether a node knows changes of the map, in messages and in entries. True for a node without a link so far.
    pub(crate) fn knows_map_changes(&self, node: NodeId) -> bool {
        self.speaks(node, MAP_CHANGES)
    }

    /// How a node pops members of large sets. One that was never heard of may know none of it.
    pub(crate) fn pops(&self, node: NodeId) -> Pops {
        match self.spoken(node) {
            Some(GOING_ON..) => Pops::GoingOn,
            Some(TOGETHER..) => Pops::Together,
            _ => Pops::Alone,
        }
    }

    /// The newest rules that a node evaluates commands by; this one knows all. One that was never heard of may know none of them; and
    /// while any node does not know them, a replica may move there.
    pub(crate) fn rules(&self, node: NodeId, own: NodeId) -> Rules {
        let spoken = self.spoken.lock();
        if node != own && !spoken.contains_key(&node) {
            return Rules::First;
        }
        let of = |version: &u16| match version {
            LATER_RULES.. => Rules::Later,
            PIECES.. => Rules::Pieces,
            _ => Rules::First,
        };
        spoken.values().map(of).min().unwrap_or(Rules::NEWEST)
    }

    /// Of which commands a node judges how many keys they leave databases with. One that was never heard of may do so of none.
    pub(crate) fn bounding(&self, node: NodeId) -> Bounding {
        match self.spoken(node) {
            Some(BOUNDS_OF_ALL..) => Bounding::OfAll,
            Some(KEY_BOUNDS..) => Bounding::OfClients,
            _ => Bounding::None,
        }
    }

    /// Whether a node reads reports with problems. One that was never heard of may not.
    pub(crate) fn reads_problems(&self, node: NodeId) -> bool {
        self.spoken(node).is_some_and(|version| version >= PROBLEMS)
    }

    /// The version that a node speaks, if it has had a link.
    pub(crate) fn spoken(&self, node: NodeId) -> Option<u16> {
        self.spoken.lock().get(&node).copied()
    }

    /// Whether a node reads maps with users; none for a node without a link so far.
    pub(crate) fn knows_users(&self, node: NodeId) -> Option<bool> {
        self.spoken(node).map(|version| version >= USERS)
    }

    fn speaks(&self, node: NodeId, version: u16) -> bool {
        let is_older = || {
            let spoken = self.spoken.lock();
            spoken.get(&node).is_some_and(|spoken| *spoken < version)
        };
        !self.any_old.load(Ordering::Acquire) || !is_older()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_as_old_until_it_comes_back_newer() {
        let formats = EntryFormats::default();
        let of = |node: u64| (formats.reads_second(NodeId(node)), formats.knows_map_changes(NodeId(node)));
        assert_eq!(of(1), (true, true));
        for (node, version) in [(1, 2), (2, 3), (3, 4)] {
            formats.heard(NodeId(node), version);
        }
        assert_eq!([1, 2, 3].map(of), [(false, false), (true, false), (true, true)]);
        formats.heard(NodeId(1), 4);
        assert_eq!([1, 2].map(of), [(true, true), (true, false)]);
        assert_eq!([1, 2, 9].map(|node| formats.spoken(NodeId(node))), [Some(4), Some(3), None]);
        formats.heard(NodeId(3), 6);
        assert_eq!([2, 3, 9].map(|node| formats.knows_users(NodeId(node))), [Some(false), Some(true), None]);
        formats.heard(NodeId(3), TOGETHER);
        assert_eq!([2, 3, 9].map(|node| formats.bounding(NodeId(node))), [Bounding::None; 3]);
        formats.heard(NodeId(3), KEY_BOUNDS);
        formats.heard(NodeId(5), BOUNDS_OF_ALL);
        let bounding = [2, 3, 9, 5].map(|node| formats.bounding(NodeId(node)));
        assert_eq!(bounding, [Bounding::None, Bounding::OfClients, Bounding::None, Bounding::OfAll]);
        formats.heard(NodeId(1), GOING_ON);
        formats.heard(NodeId(4), PROBLEMS);
        assert_eq!([1, 4, 9].map(|node| formats.reads_problems(NodeId(node))), [false, true, false]);
        let rules = |formats: &EntryFormats| [7, 6, 9].map(|node| formats.rules(NodeId(node), NodeId(7)));
        assert_eq!(rules(&formats), [Rules::First; 3]);
        let newer = EntryFormats::default();
        newer.heard(NodeId(6), LATER_RULES);
        assert_eq!(rules(&newer), [Rules::Later, Rules::Later, Rules::First]);
        newer.heard(NodeId(5), PIECES);
        assert_eq!(rules(&newer), [Rules::Pieces, Rules::Pieces, Rules::First], "a replica may move to an older node");
        newer.heard(NodeId(5), PIECES - 1);
        assert_eq!(rules(&newer), [Rules::First; 3]);
        let pops = [2, 3, 9, 1].map(|node| formats.pops(NodeId(node)));
        assert_eq!(pops, [Pops::Alone, Pops::Together, Pops::Alone, Pops::GoingOn]);
    }
}
