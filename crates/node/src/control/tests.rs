//! A map that cannot be kept is not published.
#![allow(clippy::unwrap_used)]

use super::{Action, Control, Shape};
use crate::peer_protocol::PeerMessage;
use crate::test_nodes::node_info;
use cluster::{Change, MadeChange, Map, MapUpdate, NodeInfo};
use std::collections::BTreeSet;
use std::sync::Arc;
use vocab::limits::MAP_ASKS_MAX;
use vocab::{Moment, NodeId, ShardId, StoreId};

const SHAPE: Shape = Shape { shards: 4, replication_factor: 2 };

/// A node with its shell, whose disk may be full.
struct Node {
    control: Control,
    kept: Option<Arc<Map>>,
    is_full: bool,
    /// Stores whose maps it was to keep.
    stores: BTreeSet<StoreId>,
    ticks: u64,
}

impl Node {
    fn new(id: u64) -> Self {
        let control = Control::new(node_info(id), SHAPE, None, Arc::default(), id);
        Self { control, kept: None, is_full: true, stores: BTreeSet::new(), ticks: 0 }
    }

    fn act(&mut self, actions: Vec<Action>) -> Vec<PeerMessage> {
        let mut sent = Vec::new();
        for action in actions {
            match action {
                Action::Send(_, message) => sent.push(message),
                Action::Adopt(MapUpdate { map, .. }) => {
                    self.stores.insert(map.store);
                    if self.is_full {
                        self.control.not_kept(map, self.kept.clone());
                        return sent;
                    }
                    self.kept = Some(map);
                }
                _ => {}
            }
        }
        sent
    }

    fn receive(&mut self, from: u64, message: &PeerMessage) -> Vec<PeerMessage> {
        let mut actions = Vec::new();
        self.control.receive(NodeId(from), message, Moment::default(), &mut actions);
        self.act(actions)
    }

    fn run(&mut self, ticks: u64) -> Vec<PeerMessage> {
        let mut sent = Vec::new();
        for _ in 0..ticks {
            self.ticks += 1;
            let now = Moment { wall_ms: self.ticks * 50, mono_us: self.ticks * 50_000 };
            let mut actions = Vec::new();
            self.control.tick(now, &[], &mut actions);
            sent.extend(self.act(actions));
        }
        sent
    }
}

fn of_map(message: &PeerMessage) -> bool {
    use PeerMessage::{Bootstrap, BootstrapDone, Map, MapChanges};
    matches!(message, Bootstrap { .. } | BootstrapDone { .. } | Map(_) | MapChanges { .. })
}

#[test]
fn a_first_map_is_kept_before_anybody_hears_of_it() {
    let (mut first, mut second) = (Node::new(1), Node::new(2));
    let join = second.run(20).into_iter().find(|message| matches!(message, PeerMessage::Join { .. })).unwrap();
    first.receive(2, &join);
    first.control.init().unwrap();
    assert!(!first.run(100).iter().any(of_map) && first.control.map().is_none());
    assert!(!first.receive(2, &PeerMessage::MapAsked { epoch: 0 }).iter().any(of_map));
    assert_eq!(first.stores.len(), 1, "it draws one store only");
    first.is_full = false;
    let sent = first.run(40);
    let map = sent.iter().find(|message| matches!(message, PeerMessage::Bootstrap { .. })).unwrap();
    assert_eq!(first.kept.as_ref(), first.control.map());
    // The other one says that it has it once it has.
    assert!(!second.receive(1, map).iter().any(of_map) && second.control.map().is_none());
    second.is_full = false;
    second.run(20);
    assert_eq!(second.kept, first.kept);
    assert!(matches!(second.receive(1, map)[..], [PeerMessage::BootstrapDone { .. }]));
    assert!(second.stores == first.stores && first.stores.len() == 1);
}

#[test]
fn a_newer_map_that_cannot_be_kept_is_tried_again() {
    let map = Arc::new(cluster::initial_map(StoreId(7), &[node_info(1), node_info(2)], 4, 2).unwrap());
    let mut newer = Map::clone(&map);
    cluster::apply(&mut newer, &Change::RegisterNode(node_info(3))).unwrap();
    let newer = Arc::new(newer);
    let mut node = Node::new(1);
    node.kept = Some(map.clone());
    node.control = Control::new(node_info(1), SHAPE, Some(map.clone()), Arc::default(), 1);
    let mut actions = Vec::new();
    node.control.map_applied(MapUpdate::whole(newer.clone()), &mut actions);
    assert!(node.act(actions).is_empty());
    assert_eq!(node.control.map(), Some(&map));
    node.is_full = false;
    node.run(20);
    assert_eq!((node.control.map(), &node.kept), (Some(&newer), &Some(newer.clone())));
}

/// A store of so many nodes, each with the first map. Node 1 leads the metadata group.
struct Store {
    map: Map,
    nodes: Vec<Node>,
}

impl Store {
    fn new(nodes: u64) -> Self {
        let infos: Vec<NodeInfo> = (1..=nodes).map(node_info).collect();
        let map = Arc::new(cluster::initial_map(StoreId(7), &infos, 4, 2).unwrap());
        let node = |id: u64| {
            let mut node = Node::new(id);
            (node.kept, node.is_full) = (Some(map.clone()), false);
            node.control = Control::new(node_info(id), SHAPE, Some(map.clone()), Arc::default(), id);
            node
        };
        let mut store = Self { map: Map::clone(&map), nodes: (1..=nodes).map(node).collect() };
        store.lead();
        store
    }

    /// Node 1 finds that it leads the metadata group.
    fn lead(&mut self) {
        let mut actions = Vec::new();
        self.nodes[0].control.tick(Moment::default(), &[(ShardId::META, 1)], &mut actions);
    }

    /// Changes the map: what node 1 sends of it to all others.
    fn change(&mut self) -> Vec<PeerMessage> {
        let (name, now) = ("moves-per-node".to_owned(), Some((self.map.epoch.0 % 7 + 1).to_string()));
        let change = Change::Setting { was: self.map.settings.get(&name).cloned(), name, now };
        assert!(cluster::apply(&mut self.map, &change).unwrap().changed);
        let made = MadeChange { epoch: self.map.epoch, bytes: change.encode().into() };
        let mut actions = Vec::new();
        let update = MapUpdate { map: Arc::new(self.map.clone()), changes: vec![made] };
        self.nodes[0].control.map_applied(update, &mut actions);
        self.nodes[0].act(actions).into_iter().filter(of_map).collect()
    }

    fn epoch(&self, node: u64) -> u64 {
        self.nodes[node as usize - 1].control.map().unwrap().epoch.0
    }

    fn receive(&mut self, node: u64, from: u64, message: &PeerMessage) -> Vec<PeerMessage> {
        self.nodes[node as usize - 1].receive(from, message)
    }
}

#[test]
fn a_change_goes_out_as_such_and_what_was_missed_is_asked_for() {
    let mut store = Store::new(3);
    let sent = store.change();
    assert!(matches!(&sent[..], [PeerMessage::MapChanges { first: 2, changes, .. }] if changes.len() == 1), "{sent:?}");
    assert!(store.receive(2, 1, &sent[0]).is_empty());
    assert_eq!((store.epoch(1), store.epoch(2), store.epoch(3)), (2, 2, 1));
    assert_eq!(store.nodes[1].kept.as_deref(), Some(&store.map));
    // Node 3 has missed that one: it asks the sender of the next, and gets both.
    let next = store.change();
    let asked = store.receive(3, 1, &next[0]);
    assert_eq!(asked, [PeerMessage::MapAsked { epoch: 1 }]);
    assert_eq!(store.epoch(3), 1);
    // Any node that has kept them can answer.
    store.receive(2, 1, &next[0]);
    let answer = store.receive(2, 3, &asked[0]);
    assert!(matches!(&answer[..], [PeerMessage::MapChanges { first: 2, changes, .. }] if changes.len() == 2));
    store.receive(3, 2, &answer[0]);
    assert_eq!(store.epoch(3), 3);
    assert!(store.receive(3, 2, &answer[0]).is_empty(), "what comes twice changes nothing");
    assert_eq!(store.nodes[2].kept.as_deref(), Some(&store.map));
}

#[test]
fn the_whole_map_goes_to_who_cannot_follow() {
    let mut store = Store::new(3);
    // A node of a release that knows no changes gets maps.
    store.nodes[0].control.linked(NodeId(3), false, &mut Vec::new());
    let sent = store.change();
    let whole = |message: &PeerMessage| matches!(message, PeerMessage::Map(_));
    assert_eq!(sent.iter().map(whole).collect::<Vec<_>>(), [false, true]);
    assert!(store.receive(1, 3, &PeerMessage::MapAsked { epoch: 1 }).iter().all(whole));
    store.receive(3, 1, &sent[1]);
    assert_eq!(store.epoch(3), 2);
    // Once it comes back newer, it gets changes. A map that came whole does not tell how it was made.
    store.nodes[0].control.linked(NodeId(3), true, &mut Vec::new());
    let next = store.change();
    assert_eq!(next.len(), 1);
    store.receive(3, 1, &next[0]);
    assert!(store.receive(3, 2, &PeerMessage::MapAsked { epoch: 1 }).iter().all(whole));
    assert!(!store.receive(3, 2, &PeerMessage::MapAsked { epoch: 2 }).iter().any(whole));
    // Nor does one of which the changes are forgotten, or that has none.
    assert!(store.receive(1, 2, &PeerMessage::MapAsked { epoch: 0 }).iter().all(whole));
    // Changes that make no sense here, and those of another store.
    let PeerMessage::MapChanges { first, store: of, .. } = next[0] else { panic!("{next:?}") };
    let wrong = |of: u64| PeerMessage::MapChanges { store: of, first: first + 1, changes: vec![vec![1, 99].into()] };
    assert_eq!(store.receive(3, 1, &wrong(of)), [PeerMessage::MapAsked { epoch: 0 }]);
    assert!(store.receive(3, 1, &wrong(of + 1)).is_empty());
}

/// However many nodes there are, a node asks a few for the newest map, and a few answer one that has none.
#[test]
fn asking_is_bounded() {
    let mut store = Store::new(60);
    let asked =
        |sent: Vec<PeerMessage>| sent.iter().filter(|sent| matches!(sent, PeerMessage::MapAsked { .. })).count();
    for node in &mut store.nodes[1..] {
        let asks = asked(node.run(200));
        assert!((10..=20 * MAP_ASKS_MAX).contains(&asks), "{asks} in ten seconds");
    }
    let mut actions = Vec::new();
    (1..=59).for_each(|other| store.nodes[59].control.linked(NodeId(other), true, &mut actions));
    assert!(asked(store.nodes[59].act(actions)) <= MAP_ASKS_MAX);
    let join = Node::new(60).run(20).into_iter().find(|message| matches!(message, PeerMessage::Join { .. })).unwrap();
    let answers: usize = (1..60).map(|node| store.receive(node, 60, &join).len()).sum();
    assert!((1..=20).contains(&answers), "{answers} answer");
}
