//! A map that cannot be kept is not published.
#![allow(clippy::unwrap_used)]

use super::*;

fn info(id: u64) -> NodeInfo {
    NodeInfo {
        id: NodeId(id),
        peer_address: format!("10.0.0.{id}:17000"),
        client_host: format!("10.0.0.{id}"),
        client_port: 7000,
        zone: String::new(),
        capacity: 1,
    }
}

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
        let control = Control::new(info(id), Shape { shards: 4, replication_factor: 2 }, None, Arc::default(), id);
        Self { control, kept: None, is_full: true, stores: BTreeSet::new(), ticks: 0 }
    }

    fn act(&mut self, actions: Vec<Action>) -> Vec<PeerMessage> {
        let mut sent = Vec::new();
        for action in actions {
            match action {
                Action::Send(_, message) => sent.push(message),
                Action::Adopt(map) => {
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
    matches!(message, PeerMessage::Bootstrap { .. } | PeerMessage::BootstrapDone { .. } | PeerMessage::Map(_))
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
    let map = Arc::new(Map::initial(StoreId(7), &[info(1), info(2)], 4, 2).unwrap());
    let mut newer = (*map).clone();
    newer.apply(&Change::RegisterNode(info(3))).unwrap();
    let newer = Arc::new(newer);
    let mut node = Node::new(1);
    node.kept = Some(map.clone());
    node.control = Control::new(info(1), node.control.shape, Some(map.clone()), Arc::default(), 1);
    let mut actions = Vec::new();
    node.control.map_applied(&newer, &mut actions);
    assert!(node.act(actions).is_empty());
    assert_eq!(node.control.map(), Some(&map));
    node.is_full = false;
    node.run(20);
    assert_eq!((node.control.map(), &node.kept), (Some(&newer), &Some(newer.clone())));
}
