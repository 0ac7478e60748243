//! The store as it will be once the moves that are decided so far are done.

use super::observed::{Move, NodeState, Observed, Why};
use super::shares::{meta_replicas, shares, zone_max};
use crate::map::Map;
use crate::shard_info::ShardInfo;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, ReplicaId, ShardId};

/// A node, by its index in [`Projection::nodes`].
pub(super) type NodeIndex = u32;

pub(super) struct Projection {
    pub(super) nodes: Vec<ProjectedNode>,
    pub(super) shards: Vec<ProjectedShard>,
    /// Nodes that may receive, by how full they are and then by index.
    order: BTreeSet<(i64, NodeIndex)>,
    pub(super) moves: Vec<Move>,
}

pub(super) struct ProjectedNode {
    pub(super) id: NodeId,
    pub(super) zone: usize,
    pub(super) state: NodeState,
    /// It answers.
    answers: bool,
    /// The bytes that it should hold.
    part: u64,
    load: u64,
    /// Places of the shards that it holds.
    pub(super) shards: Vec<u32>,
}

pub(super) struct ProjectedShard {
    pub(super) id: ShardId,
    pub(super) size: u64,
    pub(super) replicas: Vec<ProjectedReplica>,
    /// How many it is to have.
    pub(super) wanted: usize,
    /// How many of them a zone may hold.
    pub(super) zone_max: usize,
    /// Some replica is coming or going as it is.
    pub(super) is_busy: bool,
    /// Voters that live beyond those that a majority takes; below 0, the shard has no majority.
    pub(super) spare: i64,
}

#[derive(Clone, Copy)]
pub(super) struct ProjectedReplica {
    /// None for one that a move brings.
    pub(super) id: Option<ReplicaId>,
    pub(super) node: NodeIndex,
}

impl Projection {
    pub(super) fn new(map: &Map, observed: &Observed) -> Self {
        let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
        for node in map.nodes.values() {
            let number = zones.len();
            zones.entry(&node.zone).or_insert(number);
        }
        let nodes = map.nodes.values().map(|node| ProjectedNode {
            id: node.id,
            zone: zones[node.zone.as_str()],
            state: observed.state(node),
            answers: !observed.down.contains(&node.id) && !observed.lost.contains(&node.id),
            part: 0,
            load: 0,
            shards: Vec::new(),
        });
        let nodes: Vec<ProjectedNode> = nodes.collect();
        let mut projection = Self { nodes, shards: Vec::new(), order: BTreeSet::new(), moves: Vec::new() };
        let sizes = projection.zone_sizes(map, zones.len());
        projection.add_shards(map, observed, &sizes);
        projection.set_parts(map, &sizes);
        for index in 0..projection.nodes.len() as NodeIndex {
            if projection.node(index).state == NodeState::Able {
                projection.order.insert((projection.fullness(index), index));
            }
        }
        projection
    }

    /// How many nodes each zone has that count. One that does not answer and holds nothing makes no zone to spread over: what
    /// has to move now would wait for it.
    fn zone_sizes(&self, map: &Map, zones: usize) -> Vec<usize> {
        let mut sizes = vec![0; zones];
        let holds = |node: &ProjectedNode| map.replicas_on(node.id).next().is_some();
        let counts = |node: &&ProjectedNode| node.state.counts() && (node.state == NodeState::Able || holds(node));
        self.nodes.iter().filter(counts).for_each(|node| sizes[node.zone] += 1);
        sizes
    }

    fn add_shards(&mut self, map: &Map, observed: &Observed, sizes: &[usize]) {
        let indexes: BTreeMap<NodeId, NodeIndex> = map.nodes.keys().copied().zip(0..).collect();
        // A lost node still counts here: where there is no other, room is kept for it.
        let count = map.nodes.values().filter(|node| !observed.leaves(node)).count();
        let of_data = (map.replication_factor as usize).min(count);
        let of_meta = meta_replicas(count, map.replication_factor);
        let (zone_max_data, zone_max_meta) = (zone_max(sizes, of_data), zone_max(sizes, of_meta));
        let usual = observed.usual_bytes();
        for (id, shard) in &map.shards {
            let is_meta = *id == ShardId::META;
            let index = self.shards.len() as u32;
            let size = if is_meta { 0 } else { observed.bytes.get(id).copied().unwrap_or(usual).max(1) };
            let replicas = shard.replicas.iter().map(|r| ProjectedReplica { id: Some(r.id), node: indexes[&r.node] });
            let replicas: Vec<ProjectedReplica> = replicas.collect();
            for replica in &replicas {
                let node = &mut self.nodes[replica.node as usize];
                node.shards.push(index);
                node.load += size;
            }
            self.shards.push(ProjectedShard {
                id: *id,
                size,
                replicas,
                wanted: if is_meta { of_meta } else { of_data },
                zone_max: if is_meta { zone_max_meta } else { zone_max_data },
                is_busy: shard.replicas.iter().any(|replica| {
                    let is_lost = self.node(indexes[&replica.node]).state == NodeState::Lost;
                    !is_lost && (replica.learner || !replica.member)
                }),
                spare: self.spare(shard, &indexes),
            });
        }
    }

    fn spare(&self, shard: &ShardInfo, indexes: &BTreeMap<NodeId, NodeIndex>) -> i64 {
        let lives = |node: &NodeId| self.node(indexes[node]).answers;
        let voters = shard.voters().count() as i64;
        let living = shard.voters().filter(|replica| lives(&replica.node)).count() as i64;
        living - (voters / 2 + 1)
    }

    /// What each node should hold: by capacity, as far as the rules about nodes and zones allow.
    fn set_parts(&mut self, map: &Map, sizes: &[usize]) {
        let data = || self.shards.iter().filter(|shard| shard.id != ShardId::META);
        let Some(any) = data().next() else { return };
        let (wanted, zone_max) = (any.wanted, any.zone_max);
        let once: u64 = data().map(|shard| shard.size).sum();
        let weight =
            |node: &ProjectedNode| if node.state.counts() { u128::from(map.nodes[&node.id].capacity) } else { 0 };
        let mut weights = vec![0u128; sizes.len()];
        self.nodes.iter().for_each(|node| weights[node.zone] += weight(node));
        let caps: Vec<u64> = sizes.iter().map(|&size| once.saturating_mul(size.min(zone_max) as u64)).collect();
        let of_zones = shares(once.saturating_mul(wanted as u64), &weights, &caps);
        for (zone, share) in of_zones.into_iter().enumerate() {
            let indexes: Vec<usize> = (0..self.nodes.len()).filter(|&index| self.nodes[index].zone == zone).collect();
            let weights: Vec<u128> = indexes.iter().map(|&index| weight(&self.nodes[index])).collect();
            let parts = shares(share, &weights, &vec![once; indexes.len()]);
            indexes.into_iter().zip(parts).for_each(|(index, part)| self.nodes[index].part = part);
        }
    }

    pub(super) fn node(&self, index: NodeIndex) -> &ProjectedNode {
        &self.nodes[index as usize]
    }

    /// How far the node is above its part, in millionths of it.
    pub(super) fn fullness(&self, index: NodeIndex) -> i64 {
        let node = self.node(index);
        let above = i128::from(node.load) - i128::from(node.part);
        i64::try_from(above * 1_000_000 / i128::from(node.part.max(1))).unwrap_or(i64::MAX)
    }

    /// Bytes above its part.
    pub(super) fn above(&self, index: NodeIndex) -> f64 {
        let node = self.node(index);
        node.load as f64 - node.part as f64
    }

    pub(super) fn part(&self, index: NodeIndex) -> f64 {
        self.node(index).part.max(1) as f64
    }

    /// Nodes that may receive, the emptiest first.
    pub(super) fn by_fullness(&self) -> impl DoubleEndedIterator<Item = NodeIndex> {
        self.order.iter().map(|(_, index)| *index)
    }

    /// Whether `node` may take a replica of `shard` in the place of the one that `from` has, if any has.
    pub(super) fn fits(&self, shard: u32, node: NodeIndex, from: Option<NodeIndex>) -> bool {
        let shard = &self.shards[shard as usize];
        let zone = self.node(node).zone;
        let others = || shard.replicas.iter().filter(|replica| Some(replica.node) != from);
        let stays = |index: NodeIndex| self.node(index).state.counts();
        let in_zone = others().filter(|replica| stays(replica.node) && self.node(replica.node).zone == zone).count();
        shard.replicas.iter().all(|replica| replica.node != node) && in_zone < shard.zone_max
    }

    /// Takes a move for done.
    pub(super) fn decide(&mut self, shard: u32, from: Option<ProjectedReplica>, to: Option<NodeIndex>, why: Why) {
        let size = self.shards[shard as usize].size;
        if let Some(from) = from {
            let id = from.id.expect("only a replica that is there already is removed");
            self.shards[shard as usize].replicas.retain(|replica| replica.id != Some(id));
            self.load(from.node, |load| load - size);
            let held = &mut self.nodes[from.node as usize].shards;
            let at = held.iter().position(|held| *held == shard).expect("the node holds what it gives");
            held.swap_remove(at);
        }
        if let Some(to) = to {
            self.shards[shard as usize].replicas.push(ProjectedReplica { id: None, node: to });
            self.load(to, |load| load + size);
            self.nodes[to as usize].shards.push(shard);
        }
        let node = to.map(|to| self.node(to).id);
        let shard = self.shards[shard as usize].id;
        self.moves.push(Move { shard, remove: from.and_then(|from| from.id), add: node, why });
    }

    fn load(&mut self, index: NodeIndex, change: impl FnOnce(u64) -> u64) {
        let was_there = self.order.remove(&(self.fullness(index), index));
        let node = &mut self.nodes[index as usize];
        node.load = change(node.load);
        if was_there {
            self.order.insert((self.fullness(index), index));
        }
    }
}
