//! 1,000 nodes and 100,000 shards, without sockets: what a change of the map costs. docs/PERFORMANCE.md has the figures; run
//! with `--nocapture` for those of this machine. Bounds are asserted on bytes only.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use super::map_rows::MapRows;
use crate::control::director::Director;
use crate::control::{Action, Control, Shape};
use crate::peer_protocol::{LeaderReport, MemberReport, NodeFigures, NodeReport, PeerMessage, ReplicaReport};
use cluster::placement::{Observed, leaders_wanted, next_moves};
use cluster::{Change, MadeChange, Map, MapFiles, MapUpdate, MapWrite, NodeInfo, PlanKind, Routes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use vocab::{Moment, NodeId, PlanId, Prng, ReplicaId, ShardId, StoreId};

const NODES: u64 = 1000;
const SHARDS: u32 = 100_000;
/// Shards of a first map, at most; the others own no slots.
const FIRST_SHARDS: u32 = 10_000;
/// Changes that are sent to all nodes.
const CHANGES: u64 = 24;
/// Changes that the metadata group keeps.
const KEPT_CHANGES: u64 = 2000;

fn info(id: u64) -> NodeInfo {
    NodeInfo {
        id: NodeId(id),
        peer_address: format!("10.0.{}.{}:17000", id / 256, id % 256),
        client_host: format!("10.0.{}.{}", id / 256, id % 256),
        client_port: 7000,
        zone: format!("zone-{}", id % 5),
        capacity: 100,
    }
}

fn large() -> Map {
    let nodes: Vec<NodeInfo> = (1..=NODES).map(info).collect();
    let mut map = cluster::initial_map(StoreId(1), &nodes, FIRST_SHARDS, 3).unwrap();
    for number in FIRST_SHARDS + 1..=SHARDS {
        let mut shard = map.shards[&ShardId(number % FIRST_SHARDS + 1)].clone();
        shard.slots.clear();
        map.shards.insert(ShardId(number), shard);
    }
    map.next_shard = SHARDS + 1;
    map.validate().unwrap();
    map
}

/// The changes that a move of one replica after another makes: a step begins, the group's members change twice, the step
/// ends.
struct Moves {
    prng: Prng,
    at: u64,
    shard: ShardId,
}

impl Moves {
    fn new(map: &mut Map) -> Self {
        let begin = Change::BeginPlan { id: PlanId(1), kind: PlanKind::Rebalance, at_ms: 1, detail: String::new() };
        cluster::apply(map, &begin).unwrap();
        Self { prng: Prng::new(1), at: 0, shard: ShardId(1) }
    }

    fn next(&mut self, map: &mut Map) -> MadeChange {
        let plan = PlanId(1);
        if self.at.is_multiple_of(4) {
            self.shard = ShardId(1 + self.prng.below(u64::from(SHARDS)) as u32);
        }
        let (shard, info) = (self.shard, map.shards[&self.shard].clone());
        let ids: Vec<ReplicaId> = info.replicas.iter().map(|replica| replica.id).collect();
        let change = match self.at % 4 {
            0 => {
                let free = |node: &NodeId| info.replica_on(*node).is_none();
                let node = std::iter::repeat_with(|| NodeId(1 + self.prng.below(NODES))).find(free).unwrap();
                let add = Some((ReplicaId(info.next_replica), node));
                Change::BeginStep { plan, shard, add, remove: Some(ids[0]) }
            }
            1 => Change::SetReplicas { shard, members_index: self.at + 10, voters: ids, learners: Vec::new() },
            2 => Change::SetReplicas {
                shard,
                members_index: self.at + 10,
                voters: ids[1..].to_vec(),
                learners: Vec::new(),
            },
            _ => Change::EndStep { plan, shard, done: true },
        };
        self.at += 1;
        assert!(cluster::apply(map, &change).unwrap().changed, "{change:?}");
        MadeChange { epoch: map.epoch, bytes: change.encode().into() }
    }
}

/// One node, and the bytes that it has written of maps.
struct Node {
    control: Control,
    files: MapFiles,
    written: usize,
}

impl Node {
    /// Does what is to be done; answers the messages about the map that it sends, and to whom, if not to all.
    fn act(&mut self, actions: Vec<Action>) -> Vec<(Option<NodeId>, PeerMessage)> {
        let mut sent = Vec::new();
        for action in actions {
            match action {
                Action::Send(to, message) if is_of_map(&message) => sent.push((to, message)),
                Action::Adopt(update) => {
                    let write = self.files.write(&update);
                    let (MapWrite::Whole(bytes) | MapWrite::Append(bytes)) = &write;
                    self.written += bytes.len();
                    self.files.written(&write, true);
                }
                _ => {}
            }
        }
        sent
    }
}

fn is_of_map(message: &PeerMessage) -> bool {
    use PeerMessage::{Bootstrap, Map, MapAsked, MapChanges};
    matches!(message, Bootstrap { .. } | Map(_) | MapAsked { .. } | MapChanges { .. })
}

fn bytes_of(message: &PeerMessage) -> usize {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.len()
}

/// How long something took, in ms, and what came of it.
fn timed<T>(what: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let done = what();
    (begun.elapsed().as_secs_f64() * 1000.0, done)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Each change reaches 1,000 nodes; some miss it, and ask. No map is sent or written whole.
#[test]
fn a_change_costs_its_own_bytes_on_the_network_and_on_disks() {
    let mut map = large();
    let mut moves = Moves::new(&mut map);
    let whole_bytes = map.encode().len();
    let first = Arc::new(map.clone());
    let mut nodes = nodes(&first, whole_bytes);
    nodes[0].control.tick(Moment::default(), &[(ShardId::META, 1)], &mut Vec::new());
    let mut prng = Prng::new(2);
    let (mut sent_bytes, mut change_bytes) = (0, 0);
    let (ms, ()) = timed(|| {
        for _ in 0..CHANGES {
            let made = moves.next(&mut map);
            change_bytes += made.bytes.len();
            let mut actions = Vec::new();
            let update = MapUpdate { map: Arc::new(map.clone()), changes: vec![made] };
            nodes[0].control.map_applied(update, &mut actions);
            let sent = nodes[0].act(actions);
            let [(None, message)] = &sent[..] else { panic!("{} messages", sent.len()) };
            sent_bytes += bytes_of(message) * (NODES as usize - 1);
            for at in 1..nodes.len() {
                // One of fifty is lost.
                if prng.below(50) > 0 {
                    sent_bytes += exchange(&mut nodes, 0, at, message);
                }
            }
        }
        sent_bytes += catch_up(&mut nodes, &map);
    });
    let newest = |node: &Node| node.control.map().is_some_and(|known| known.epoch == map.epoch);
    assert!(nodes.iter().all(newest), "{} have the newest map", nodes.iter().filter(|node| newest(node)).count());
    assert!([1, 400, 999].iter().all(|at| **nodes[*at].control.map().unwrap() == map));
    let written: usize = nodes.iter().map(|node| node.written).sum();
    let per_change = |bytes: usize| bytes as f64 / CHANGES as f64;
    println!(
        "map: {NODES} nodes, {SHARDS} shards, {whole_bytes} bytes whole; a change: {:.0} bytes",
        per_change(change_bytes)
    );
    println!(
        "a change on the network: {:.0} bytes to all nodes, {:.1} to one",
        per_change(sent_bytes),
        per_change(sent_bytes) / NODES as f64
    );
    println!(
        "a change on disk: {:.1} bytes a node; {:.2} ms a node and change",
        per_change(written) / NODES as f64,
        ms / (CHANGES * NODES) as f64
    );
    assert!(
        sent_bytes < 4 * change_bytes * NODES as usize,
        "{sent_bytes} bytes were sent for changes of {change_bytes}"
    );
    assert!(written < 3 * change_bytes * NODES as usize, "{written} bytes were written for changes of {change_bytes}");
}

/// Nodes that have this map, and have written it whole.
fn nodes(map: &Arc<Map>, whole_bytes: usize) -> Vec<Node> {
    let shape = Shape { shards: 1, replication_factor: 3 };
    let node = |id| {
        let control = Control::new(info(id), shape, Some(map.clone()), Arc::default(), id);
        let mut files = MapFiles::default();
        files.written(&MapWrite::Whole(vec![0; whole_bytes]), true);
        Node { control, files, written: 0 }
    };
    (1..=NODES).map(node).collect()
}

/// Time passes until every node has asked for what it has missed; the bytes that are sent for that.
fn catch_up(nodes: &mut [Node], map: &Map) -> usize {
    let mut sent_bytes = 0;
    for ticks in 1..=1200 {
        for at in 0..nodes.len() {
            let mut actions = Vec::new();
            let now = Moment { wall_ms: ticks * 50, mono_us: ticks * 50_000 };
            nodes[at].control.tick(now, &[], &mut actions);
            for (to, message) in nodes[at].act(actions) {
                let to = to.unwrap().0 as usize - 1;
                sent_bytes += bytes_of(&message) + exchange(nodes, at, to, &message);
            }
        }
        if nodes.iter().all(|node| node.control.map().unwrap().epoch == map.epoch) {
            break;
        }
    }
    sent_bytes
}

/// Brings a message, and the answers to it and to those; the bytes of the answers.
fn exchange(nodes: &mut [Node], from: usize, to: usize, message: &PeerMessage) -> usize {
    let mut under_way = vec![(from, to, message.clone())];
    let mut bytes = 0;
    while let Some((from, to, message)) = under_way.pop() {
        let mut actions = Vec::new();
        nodes[to].control.receive(NodeId(from as u64 + 1), &message, Moment::default(), &mut actions);
        for (receiver, answer) in nodes[to].act(actions) {
            bytes += bytes_of(&answer);
            under_way.push((to, receiver.unwrap().0 as usize - 1, answer));
        }
    }
    bytes
}

/// What the metadata group's tree writes: the change, and now and then the whole map.
#[test]
fn the_metadata_group_writes_a_row_for_a_change() {
    let before = resident_bytes();
    let mut map = large();
    let after = resident_bytes();
    let mut moves = Moves::new(&mut map);
    let (mut rows, _) = MapRows::begin(&map);
    let (mut written, mut change_bytes) = (0, 0);
    let mut kept: Vec<Arc<Map>> = Vec::new();
    let (ms, ()) = timed(|| {
        for _ in 0..KEPT_CHANGES {
            let made = moves.next(&mut map);
            change_bytes += made.bytes.len();
            let writes = rows.keep(&map, Some(&made));
            written += writes
                .iter()
                .map(|(key, value)| key.len() + value.as_ref().map_or(0, |value| value.len()))
                .sum::<usize>();
            if kept.len() < 200 {
                kept.push(Arc::new(map.clone()));
            }
        }
    });
    let maps_bytes = resident_bytes().saturating_sub(after);
    println!(
        "memory: {} MB for a map, {:.1} KB more for each newer one",
        after.saturating_sub(before) >> 20,
        maps_bytes as f64 / kept.len() as f64 / 1024.0
    );
    println!(
        "a change in the metadata group: {:.1} bytes written, {:.3} ms",
        written as f64 / KEPT_CHANGES as f64,
        ms / KEPT_CHANGES as f64
    );
    assert!(written < 2 * change_bytes, "{written} bytes were written for changes of {change_bytes}");
}

/// What is looked at anew when the map changes, or a few times a second.
#[test]
fn a_large_store_is_looked_at_in_little_more_than_linear_time() {
    let mut map = large();
    let mut moves = Moves::new(&mut map);
    let (whole_ms, routes) = timed(|| Routes::from(&map));
    let mut routes = routes;
    let (change_ms, ()) = timed(|| {
        for _ in 0..100 {
            moves.next(&mut map);
            routes = routes.following(&map);
        }
    });
    println!("routes: {whole_ms:.1} ms whole, {:.3} ms for a change, the change included", change_ms / 100.0);
    let (held_ms, held) = timed(|| (1..=NODES).map(|node| map.replicas_on(NodeId(node)).count()).sum::<usize>());
    println!("what all nodes hold: {held_ms:.1} ms for {held} replicas");
    let alive: BTreeSet<NodeId> = map.nodes.keys().copied().collect();
    let (leaders_ms, leaders) = timed(|| leaders_wanted(&map, &alive, &BTreeMap::new()));
    let (moves_ms, wanted) = timed(|| next_moves(&map, &Observed::default()));
    println!("placement: leaders {leaders_ms:.0} ms, moves {moves_ms:.0} ms ({} of them)", wanted.len());
    let map = Arc::new(map);
    let mut director = Director::new();
    let at = |ms: u64| Moment { wall_ms: ms, mono_us: ms * 1000 };
    let (report_ms, ()) = timed(|| {
        for ms in [1000, 3000] {
            map.nodes.keys().for_each(|node| director.report(*node, report(&map, *node, &leaders), at(ms)));
        }
    });
    let (first_ms, _) = timed(|| director.tick(at(5000), &map));
    let (tick_ms, actions) = timed(|| director.tick(at(5200), &map));
    let (status_ms, status) = timed(|| director.status(&map, at(5200)));
    println!(
        "director: {:.2} ms a report, first look {first_ms:.0} ms, another {tick_ms:.0} ms, status {status_ms:.0} ms",
        report_ms / 2000.0
    );
    assert!(actions.len() < 1000 && status.shards.len() == map.shards.len());
}

fn report(map: &Map, node: NodeId, leaders: &BTreeMap<ShardId, NodeId>) -> NodeReport {
    let replicas = map.replicas_on(node).map(|(shard, replica)| {
        let members = map.shards[&shard].voters().map(|voter| MemberReport {
            id: voter.id,
            votes: true,
            active: true,
            matched: 9,
        });
        let leads = leaders.get(&shard) == Some(&node);
        ReplicaReport {
            shard,
            replica: replica.id,
            bytes: 1 << 20,
            is_halved: false,
            keys: 1000,
            applied: 9,
            last: 9,
            last_term: 1,
            term: 1,
            leads: leads.then(|| LeaderReport { index: 1, joint: false, members: members.collect() }),
            division: None,
            broken: None,
        }
    });
    let figures = NodeFigures { can_write: true, ..NodeFigures::default() };
    NodeReport { figures, replicas: replicas.collect(), transfers: Vec::new() }
}
