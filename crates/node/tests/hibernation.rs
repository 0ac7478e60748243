//! Three nodes and a shard: who may say how old its replica is when nothing is said in the group, and who leads one that
//! was just split off.
#![allow(clippy::unwrap_used)]

use cluster::{Map, NodeInfo, Split};
use node::multi_raft::{BULK_BYTES_MIN, MultiRaft, TICK_MS};
use node::peer_protocol::{Order, PeerMessage};
use node::session::Acks;
use node::tracking::Registers;
use node::{Answers, Effects, EncodedCommand, Shard, ShardHandle, SnapshotTask, SplitTask, Ticket, Write};
use replica::{DiskHealth, LogStore, LogWrite, Members, MemoryLog, Replica};
use resp::Proto;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
use vocab::{Moment, NodeId, PlanId, ReplicaId, ShardId, Slot, StoreId};

const SHARD: ShardId = ShardId(1);
const BEAT_TICKS: u64 = 4;

#[derive(Default)]
struct Outbox {
    sent: Vec<(NodeId, PeerMessage)>,
    answers: usize,
}

impl Answers for Outbox {
    fn answer(&mut self, _ticket: &Ticket, reply: &[u8]) {
        assert_eq!(reply, b"+OK\r\n");
        self.answers += 1;
    }
}

impl Effects for Outbox {
    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.sent.push((to, message));
    }
    fn not_leader(&mut self, _shard: ShardId, ticket: &Ticket) {
        panic!("request {} was not led", ticket.sequence);
    }
    fn led(&mut self, _shard: ShardId, _leader: Option<NodeId>, _term: u64) {}
    fn readable(&mut self, _shard: ShardId) {}
    fn sealed(&mut self, _shard: ShardId) {}
    fn snapshot_wanted(&mut self, _task: SnapshotTask) {}
    fn split(&mut self, _task: SplitTask) {}
    fn split_ended(&mut self, _child: ShardId) {}
    fn members(&mut self, _shard: ShardId, _index: u64, _members: Members) {}
    fn map(&mut self, _update: cluster::MapUpdate) {}
}

struct Node {
    core: MultiRaft,
    log: Arc<MemoryLog>,
    outbox: Outbox,
}

/// Three nodes with a clock, and links that may be cut.
struct World {
    nodes: Vec<Node>,
    ticks: u64,
    /// From and to.
    cut: BTreeSet<(usize, usize)>,
    /// Nodes whose event loops are within one step: they do nothing, and what is sent to them is lost.
    still: BTreeSet<usize>,
}

fn id_of(at: usize) -> NodeId {
    NodeId(at as u64 + 1)
}

impl World {
    fn map() -> Map {
        let info = |at: usize| NodeInfo {
            id: id_of(at),
            peer_address: format!("peer{at}:1"),
            client_host: format!("host{at}"),
            client_port: 1,
            zone: String::new(),
            capacity: 1,
        };
        cluster::initial_map(StoreId(1), &[0, 1, 2].map(info), 1, 3).unwrap()
    }

    fn new(dir: &Path) -> Self {
        let map = Arc::new(Self::map());
        Self::with(dir, map, |core, shard| core.adopt(shard, true, Moment::default()))
    }

    /// Each node takes its replica by `adopt`, or keeps it for later.
    fn with(dir: &Path, map: Arc<Map>, mut adopt: impl FnMut(&mut MultiRaft, Shard)) -> Self {
        let resources = SharedResources::new(StorageOptions::default());
        let open = |at: usize| {
            let replica = map.shards[&SHARD].replica_on(id_of(at)).unwrap().id;
            let voters: Vec<ReplicaId> = map.shards[&SHARD].replicas.iter().map(|replica| replica.id).collect();
            let log = Arc::new(MemoryLog::default());
            let store: Arc<dyn LogStore> = log.clone();
            Replica::bootstrap(&*store, SHARD, replica, &voters, &[]).unwrap();
            let tree = open_engine(EngineKind::Memory, &dir.join(at.to_string()), &resources).unwrap();
            let view = ShardHandle::open(SHARD, (0, 16383), tree, Arc::new(RowCache::new(1 << 16))).unwrap();
            let state = store.state(SHARD).unwrap().unwrap();
            let replica = Replica::open(store, SHARD, state, 0, None, at as u64).unwrap();
            let shard = Shard::new(view, replica, Arc::new(DiskHealth::default())).unwrap();
            let mut core = MultiRaft::new(id_of(at), Arc::default());
            core.map_changed(map.clone());
            adopt(&mut core, shard);
            Node { core, log, outbox: Outbox::default() }
        };
        Self { nodes: [0, 1, 2].map(open).into(), ticks: 20, cut: BTreeSet::new(), still: BTreeSet::new() }
    }

    fn now(&self) -> Moment {
        let ms = self.ticks * TICK_MS;
        Moment { wall_ms: 1_700_000_000_000 + ms, mono_us: ms * 1000 }
    }

    fn view(&self, at: usize) -> &Arc<ShardHandle> {
        self.nodes[at].core.shard(SHARD).unwrap().handle()
    }

    fn leader(&self) -> Option<usize> {
        let serving = |at: usize| self.nodes[at].core.shard(SHARD).filter(|shard| shard.handle().serving());
        (0..3).filter_map(|at| Some((serving(at)?.replica().term(), at))).max().map(|(_, at)| at)
    }

    fn deliver(&mut self, from: usize, to: usize, message: PeerMessage) {
        if !self.cut.contains(&(from, to)) && !self.still.contains(&to) {
            let now = self.now();
            let Node { core, outbox, .. } = &mut self.nodes[to];
            core.receive(id_of(from), message, now, outbox);
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let (now, beats) = (self.now(), self.ticks.is_multiple_of(BEAT_TICKS));
        for at in (0..3).filter(|at| !self.still.contains(at)).collect::<Vec<_>>() {
            let Node { core, outbox, .. } = &mut self.nodes[at];
            core.tick(now, outbox);
            for to in (0..3).filter(|to| *to != at && beats) {
                self.deliver(at, to, PeerMessage::Beat { sent_us: now.mono_us, wall_ms: now.wall_ms });
            }
        }
        self.settle();
    }

    /// Everything happens that needs no time.
    fn settle(&mut self) {
        let now = self.now();
        loop {
            let mut quiet = true;
            for at in (0..3).filter(|at| !self.still.contains(at)).collect::<Vec<_>>() {
                let Node { core, log, outbox } = &mut self.nodes[at];
                let mut write = LogWrite::default();
                let logging = core.pump(now, &mut write, outbox);
                log.write(write, true).unwrap();
                core.logged(&logging, outbox);
                core.apply(now, outbox);
                core.validate();
                quiet &= !core.is_busy() && outbox.sent.is_empty();
                for (to, message) in std::mem::take(&mut outbox.sent) {
                    self.deliver(at, to.0 as usize - 1, message);
                }
            }
            if quiet {
                break;
            }
        }
    }

    fn run(&mut self, ms: u64) {
        (0..ms / TICK_MS).for_each(|_| self.tick());
    }

    fn set(&mut self, at: usize) {
        let ticket = Ticket {
            worker: 0,
            connection: 0,
            generation: 0,
            sequence: 1,
            proto: Proto::Resp2,
            slot: Slot(0),
            wider: None,
            sync: true,
            acks: Acks::Majority,
            reply_bytes: 0,
            may_wait: false,
            registers: Registers::Nothing,
            early: None,
        };
        let Node { core, outbox, .. } = &mut self.nodes[at];
        let write = Write::Command(EncodedCommand::new(&[b"SET", b"k", b"v"]));
        assert!(core.submit(SHARD, &write, &[], ticket, outbox));
        let before = outbox.answers;
        self.run(200);
        assert_eq!(self.nodes[at].outbox.answers, before + 1, "not acknowledged");
    }

    fn lag_ms(&self, at: usize) -> u64 {
        self.view(at).freshness().lag_ms(self.now().wall_ms).unwrap_or(u64::MAX)
    }

    /// All replicas have been quiet for a while.
    fn hibernate(&mut self) {
        self.run(6_000);
        assert_eq!(self.nodes.iter().map(|node| node.core.awake()).sum::<usize>(), 0, "awake");
    }
}

#[test]
fn a_follower_that_hibernates_does_not_take_a_node_that_leads_no_more_for_its_leader() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(dir.path());
    world.run(2_000);
    let leader = world.leader().unwrap();
    let (follower, next) = ((leader + 1) % 3, (leader + 2) % 3);
    world.set(leader);
    world.hibernate();
    // The lead changes hands where this follower does not hear of it; the old leader still sends heartbeats.
    world.cut.extend([(follower, next), (next, follower)]);
    world.deliver(next, leader, PeerMessage::Order { shard: SHARD, order: Order::Transfer { to: id_of(next) } });
    world.run(500);
    assert_eq!(world.leader(), Some(next));
    world.set(next);
    world.run(3_000);
    let applied = |at: usize| world.view(at).engine().applied_index();
    assert!(applied(follower) < applied(next), "it was told");
    assert!(world.lag_ms(follower) >= 3_000, "it takes itself for {} ms old", world.lag_ms(follower));
    // Nor does it help to ask: it cannot be known.
    world.view(follower).freshness().want();
    world.run(500);
    assert!(world.lag_ms(follower) >= 3_500, "it takes itself for {} ms old", world.lag_ms(follower));
}

#[test]
fn a_leader_at_rest_whose_majority_dies_leads_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(dir.path());
    world.run(2_000);
    let leader = world.leader().unwrap();
    let leads = |world: &World| world.nodes[leader].core.shard(SHARD).unwrap().replica().is_leader();
    let dies = |world: &mut World, node: usize| {
        world.cut.extend((0..3).filter(|other| *other != node).flat_map(|other| [(node, other), (other, node)]));
    };
    world.set(leader);
    world.hibernate();
    dies(&mut world, (leader + 1) % 3);
    world.run(10_000);
    assert!(leads(&world), "two of three live");
    dies(&mut world, (leader + 2) % 3);
    world.run(10_000);
    assert!(!leads(&world), "no client has written, and it is alone");
}

#[test]
fn who_asks_a_follower_at_rest_how_old_it_is_is_told_soon() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(dir.path());
    world.run(2_000);
    let leader = world.leader().unwrap();
    let follower = (leader + 1) % 3;
    world.set(leader);
    for _ in 0..2 {
        world.hibernate();
        assert!(world.lag_ms(follower) > 1_000, "no read has asked");
        world.view(follower).freshness().want();
        world.run(100);
        assert!(world.lag_ms(follower) <= 100, "{} ms", world.lag_ms(follower));
    }
    world.hibernate();
    assert_eq!(world.leader(), Some(leader), "it was elected again for that");
}

/// Whose event loop is within one step for three seconds, and whether the leader keeps its place.
#[test]
fn who_is_slow_because_of_large_requests_is_not_taken_for_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (of_leader, of_followers) = (true, false);
    for (n, (rests, is_leader, is_bulk, is_link_up, keeps)) in [
        (false, of_leader, false, true, false),
        (false, of_leader, true, true, true),
        (false, of_leader, true, false, false),
        (true, of_leader, false, true, false),
        (true, of_leader, true, true, true),
        (true, of_leader, true, false, false),
        (false, of_followers, false, true, false),
        (false, of_followers, true, true, true),
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new(&dir.path().join(n.to_string()));
        world.run(2_000);
        let leader = world.leader().unwrap();
        world.set(leader);
        if rests {
            world.hibernate();
        }
        let term = |world: &World| world.nodes[leader].core.shard(SHARD).unwrap().replica().term();
        let before = term(&world);
        let now = world.now();
        for at in 0..3 {
            let core = &mut world.nodes[at].core;
            core.note_bulk(if is_bulk { BULK_BYTES_MIN } else { BULK_BYTES_MIN - 1 }, now);
            if !is_link_up && at != leader {
                core.link_down(id_of(leader));
            }
        }
        world.still = (0..3).filter(|at| (*at == leader) == is_leader).collect();
        world.run(3_000);
        world.still.clear();
        world.run(3_000);
        let is_kept = term(&world) == before && (rests || world.leader() == Some(leader));
        assert_eq!(is_kept, keeps, "case {n}: term {} after {before}", term(&world));
    }
}

#[test]
fn who_leads_a_part_that_was_split_off_has_the_votes_of_those_that_make_theirs_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut map = World::map();
    map.splits.insert(SHARD, Split { plan: PlanId(1), parent: ShardId(9), slots: vec![(0, 16383)] });
    let mut parts = Vec::new();
    let mut world = World::with(dir.path(), Arc::new(map), |_, shard| parts.push(shard));
    for (at, leads) in [(1, true), (0, false)] {
        assert_eq!(world.leader(), None);
        let now = world.now();
        world.nodes[at].core.adopt_child(parts.remove(at), leads, now);
        world.settle();
    }
    // No time has passed, and the first voter has not stood.
    assert_eq!(world.leader(), Some(1));
}
