//! Which versions of the protocol other nodes speak: nodes of an older release cannot read the newest entries.

use super::script_engine::script_engine;
use cluster::Map;
use node::{Bounding, EngineVersion, Pops, Rules};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
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
/// The first version whose speakers know `Rules::Fourth`.
const FOURTH_RULES: u16 = 16;
/// The first version whose speakers read the terms of last entries in reports.
const LAST_TERMS: u16 = 16;

/// The versions that links have reported. A leader writes entries that all members of its shard can read.
///
/// Invariant: `least` is the lowest version of `others`, where one that has not been heard of counts as `required`, and `u16::MAX` if there
/// are none.
pub(crate) struct EntryFormats {
    /// Whether any node speaks an older version: read for every entry.
    any_old: AtomicBool,
    /// The lowest version that is spoken by the other nodes of the map: read for every entry.
    least: AtomicU16,
    heard: Mutex<Heard>,
}

/// What is known of nodes.
#[derive(Default)]
struct Heard {
    /// Those that have had a link, and the version that each spoke last.
    spoken: BTreeMap<NodeId, u16>,
    /// The nodes of the map but this one.
    others: Vec<NodeId>,
    /// The lowest version that any of them may speak.
    required: u16,
}

impl Heard {
    fn least(&self) -> u16 {
        self.others.iter().map(|node| self.spoken.get(node).copied().unwrap_or(self.required)).min().unwrap_or(u16::MAX)
    }
}

/// The lowest version that a node of a store with that map may speak, as far as rules go by it; 0: any. Scripts are evaluated by newer rules only
/// once all nodes are known to know them, and no older node has a link from then on.
fn required(map: &Map) -> u16 {
    match script_engine(map) {
        Some(EngineVersion::Seventh) => FOURTH_RULES,
        Some(EngineVersion::Sixth) => LATER_RULES,
        Some(EngineVersion::Fifth) => PIECES,
        Some(EngineVersion::First | EngineVersion::Second | EngineVersion::Third | EngineVersion::Fourth) | None => 0,
    }
}

impl Default for EntryFormats {
    fn default() -> Self {
        Self { any_old: AtomicBool::new(false), least: AtomicU16::new(u16::MAX), heard: Mutex::default() }
    }
}

impl EntryFormats {
    /// A link to `node` has come up and speaks this version of the protocol.
    pub(crate) fn heard(&self, node: NodeId, version: u16) {
        let mut heard = self.heard.lock();
        heard.spoken.insert(node, version);
        self.any_old.store(heard.spoken.values().any(|version| *version < MAP_CHANGES), Ordering::Release);
        self.least.store(heard.least(), Ordering::Release);
    }

    /// There is a newer map, which `own` goes by. To be told before shards are told: a node that comes into the map may be given a replica.
    pub(crate) fn map_changed(&self, map: &Map, own: NodeId) {
        let mut heard = self.heard.lock();
        heard.others = map.nodes.keys().copied().filter(|node| *node != own).collect();
        heard.required = required(map);
        self.least.store(heard.least(), Ordering::Release);
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

    /// The newest rules by which all nodes of the map evaluate commands: a replica may move to any of them, also to one that is down now. One
    /// that was not heard of since this process began knows those that the map requires.
    pub(crate) fn rules(&self) -> Rules {
        match self.least.load(Ordering::Acquire) {
            FOURTH_RULES.. => Rules::Fourth,
            LATER_RULES.. => Rules::Later,
            PIECES.. => Rules::Pieces,
            _ => Rules::First,
        }
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

    /// Whether a node reads reports with the terms of last entries. One that was never heard of may not.
    pub(crate) fn reads_last_terms(&self, node: NodeId) -> bool {
        self.spoken(node).is_some_and(|version| version >= LAST_TERMS)
    }

    /// The version that a node speaks, if it has had a link.
    pub(crate) fn spoken(&self, node: NodeId) -> Option<u16> {
        self.heard.lock().spoken.get(&node).copied()
    }

    /// Whether a node reads maps with users; none for a node without a link so far.
    pub(crate) fn knows_users(&self, node: NodeId) -> Option<bool> {
        self.spoken(node).map(|version| version >= USERS)
    }

    fn speaks(&self, node: NodeId, version: u16) -> bool {
        let is_older = || {
            let heard = self.heard.lock();
            heard.spoken.get(&node).is_some_and(|spoken| *spoken < version)
        };
        !self.any_old.load(Ordering::Acquire) || !is_older()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::ENGINE_SETTING;
    use cluster::NodeInfo;

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
        let pops = [2, 3, 9, 1].map(|node| formats.pops(NodeId(node)));
        assert_eq!(pops, [Pops::Alone, Pops::Together, Pops::Alone, Pops::GoingOn]);
        for (version, reads) in [(LAST_TERMS - 1, false), (LAST_TERMS, true)] {
            formats.heard(NodeId(4), version);
            assert_eq!(formats.reads_last_terms(NodeId(4)), reads);
        }
        assert!(!formats.reads_last_terms(NodeId(9)));
    }

    #[test]
    fn rules_are_those_of_all_nodes_of_the_map() {
        let formats = EntryFormats::default();
        let map_with = |ids: &[u64], engine: Option<u8>| {
            let mut map = Map::default();
            map.settings.extend(engine.map(|engine| (ENGINE_SETTING.to_owned(), engine.to_string())));
            for id in ids.iter().copied() {
                let (peer_address, client_host) = (format!("n{id}:1"), format!("n{id}"));
                let info = NodeInfo {
                    id: NodeId(id),
                    peer_address,
                    client_host,
                    client_port: 1,
                    zone: String::new(),
                    capacity: 1,
                };
                map.nodes.insert(info.id, info);
            }
            formats.map_changed(&map, NodeId(7));
            formats.rules()
        };
        let map_of = |ids: &[u64]| map_with(ids, None);
        let heard = |node: u64, version: u16| {
            formats.heard(NodeId(node), version);
            formats.rules()
        };
        assert_eq!(formats.rules(), Rules::NEWEST, "no map");
        assert_eq!(map_of(&[7]), Rules::NEWEST, "a node alone");
        assert_eq!(heard(5, PIECES), Rules::NEWEST, "one that wants to join, and is in no map");
        assert_eq!(map_of(&[6, 7]), Rules::First, "one that was not heard of, though it holds no replica yet");
        assert_eq!(heard(6, FOURTH_RULES), Rules::Fourth);
        assert_eq!(map_of(&[5, 6, 7]), Rules::Pieces, "a replica may move to an older node");
        assert_eq!([heard(5, LATER_RULES), heard(5, PIECES - 1)], [Rules::Later, Rules::First]);
        assert_eq!(heard(6, LATER_RULES), Rules::First);
        assert_eq!(map_of(&[6, 7]), Rules::Later, "one that was removed does not count");
        assert_eq!(map_of(&[6, 7, 8]), Rules::First);
        let silent = [4, 5, 6, 7].map(|engine| map_with(&[7, 8], Some(engine)));
        assert_eq!(silent, [Rules::First, Rules::Pieces, Rules::Later, Rules::Fourth], "the map requires these");
        assert_eq!(map_with(&[6, 7, 8], Some(7)), Rules::Later, "one that was heard of tells more than the map");
        assert_eq!(map_of(&[6, 7, 8]), Rules::First);
        assert_eq!(heard(8, FOURTH_RULES + 1), Rules::Later);
    }
}
