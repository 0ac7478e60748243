//! Which node should lead which shard: in proportion to capacity, as far as the places of replicas allow, with few hand-overs.

use crate::map::Map;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use vocab::{NodeId, ShardId};

/// The node that is to lead each shard, among the voters on `alive` nodes. A shard without such a voter is left out.
///
/// The present leader stays, unless a node leads at least one shard more or less than its part (by capacity) and that
/// can be helped. A shard without a leader gets the voter whose node leads least; of equals, the first. The metadata group is
/// moved only off a node that is gone.
#[must_use]
pub fn leaders_wanted(
    map: &Map,
    alive: &BTreeSet<NodeId>,
    leaders: &BTreeMap<ShardId, NodeId>,
) -> BTreeMap<ShardId, NodeId> {
    let mut balance = Balance::new(map, alive, leaders);
    balance.fill();
    balance.level();
    let mut wanted: BTreeMap<ShardId, NodeId> = balance.wanted().collect();
    if let Some(meta) = map.shards.get(&ShardId::META) {
        let may = |node: &NodeId| alive.contains(node) && meta.voters().any(|replica| replica.node == *node);
        let stays = leaders.get(&ShardId::META).copied().filter(may);
        if let Some(node) = stays.or_else(|| meta.voters().map(|replica| replica.node).find(may)) {
            wanted.insert(ShardId::META, node);
        }
    }
    wanted
}

/// Shards and nodes by their indexes in these lists.
struct Balance {
    shards: Vec<ShardId>,
    /// For each shard: the nodes that may lead it.
    voters: Vec<Vec<u32>>,
    /// For each shard: the node that leads it.
    leader: Vec<Option<u32>>,
    nodes: Vec<NodeId>,
    /// For each node: the shards that it may lead.
    may_lead: Vec<Vec<u32>>,
    weights: Vec<i128>,
    /// For each node: how many more shards it leads than its part, times `unit`.
    excess: Vec<i128>,
    /// One shard.
    unit: i128,
}

impl Balance {
    fn new(map: &Map, alive: &BTreeSet<NodeId>, leaders: &BTreeMap<ShardId, NodeId>) -> Self {
        let nodes: Vec<NodeId> = map.nodes.keys().copied().filter(|node| alive.contains(node)).collect();
        let indexes: BTreeMap<NodeId, u32> = nodes.iter().copied().zip(0..).collect();
        let mut balance = Self {
            shards: Vec::with_capacity(map.shards.len()),
            voters: Vec::with_capacity(map.shards.len()),
            leader: Vec::with_capacity(map.shards.len()),
            may_lead: vec![Vec::new(); nodes.len()],
            weights: nodes.iter().map(|node| i128::from(map.nodes[node].capacity)).collect(),
            excess: vec![0; nodes.len()],
            nodes,
            unit: 1,
        };
        for (id, shard) in map.data_shards() {
            let voters: Vec<u32> = shard.voters().filter_map(|replica| indexes.get(&replica.node).copied()).collect();
            if voters.is_empty() {
                continue;
            }
            let index = balance.shards.len() as u32;
            voters.iter().for_each(|&node| balance.may_lead[node as usize].push(index));
            let now = leaders.get(&id).and_then(|node| indexes.get(node)).copied();
            balance.leader.push(now.filter(|node| voters.contains(node)));
            balance.voters.push(voters);
            balance.shards.push(id);
        }
        balance.weigh();
        balance
    }

    /// The number of shards that each node should lead, minus those that it leads.
    fn weigh(&mut self) {
        // A node that may lead nothing has no part.
        for (weight, may_lead) in self.weights.iter_mut().zip(&self.may_lead) {
            if may_lead.is_empty() {
                *weight = 0;
            }
        }
        if self.weights.iter().all(|weight| *weight == 0) {
            self.weights.fill(1);
        }
        self.unit = self.weights.iter().sum::<i128>().max(1);
        let shards = self.shards.len() as i128;
        for (excess, weight) in self.excess.iter_mut().zip(&self.weights) {
            *excess = -shards * weight;
        }
        for node in self.leader.iter().flatten() {
            self.excess[*node as usize] += self.unit;
        }
    }

    /// Gives each shard without a leader one: shards with the fewest voters first, since they have the least choice.
    fn fill(&mut self) {
        let mut orphans: Vec<usize> = (0..self.shards.len()).filter(|&shard| self.leader[shard].is_none()).collect();
        orphans.sort_by_key(|&shard| self.voters[shard].len());
        for shard in orphans {
            let node = self.voters[shard].iter().copied().min_by_key(|&node| self.excess[node as usize]);
            let node = node.expect("shards without a voter were left out");
            self.leader[shard] = Some(node);
            self.excess[node as usize] += self.unit;
        }
    }

    /// Hands leaders on until no node is a whole shard off its part, or it cannot be helped.
    fn level(&mut self) {
        let mut stuck = vec![false; self.nodes.len()];
        loop {
            let open = (0..self.nodes.len()).filter(|&node| !stuck[node]);
            let Some(worst) = open.max_by_key(|&node| (self.excess[node].abs(), std::cmp::Reverse(node))) else {
                return;
            };
            if self.excess[worst].abs() < self.unit {
                return;
            }
            match self.path(worst) {
                // Each path lowers the sum of the squares, so this ends.
                Some(path) => path.into_iter().for_each(|(shard, from, to)| {
                    self.leader[shard as usize] = Some(to);
                    self.excess[from as usize] -= self.unit;
                    self.excess[to as usize] += self.unit;
                }),
                None => stuck[worst] = true,
            }
        }
    }

    /// The shortest chain of hand-overs (shard, from, to) from `worst` to a node that comes closer to its part by it.
    fn path(&self, worst: usize) -> Option<Vec<(u32, u32, u32)>> {
        let gives = self.excess[worst] > 0;
        let helps = |other: usize| {
            let gap = self.excess[worst] - self.excess[other];
            if gives { gap > self.unit } else { -gap > self.unit }
        };
        // By which shard, and from or to which node, a node was reached.
        let mut reached: Vec<Option<(u32, u32)>> = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([worst as u32]);
        let mut best: Option<u32> = None;
        while let Some(node) = queue.pop_front() {
            for &shard in &self.may_lead[node as usize] {
                let leader = self.leader[shard as usize].expect("filled before");
                let next: &[u32] = match (gives, leader == node) {
                    (true, true) => &self.voters[shard as usize],
                    (false, false) => &[leader],
                    _ => continue,
                };
                for &other in next {
                    if other as usize == worst || other == node || reached[other as usize].is_some() {
                        continue;
                    }
                    reached[other as usize] = Some((shard, node));
                    queue.push_back(other);
                    let gain = |node: u32| if gives { -self.excess[node as usize] } else { self.excess[node as usize] };
                    if helps(other as usize) && best.is_none_or(|best| gain(other) > gain(best)) {
                        best = Some(other);
                    }
                }
            }
            if best.is_some() {
                break;
            }
        }
        let mut path = Vec::new();
        let mut at = best?;
        while let Some((shard, node)) = reached[at as usize] {
            path.push(if gives { (shard, node, at) } else { (shard, at, node) });
            at = node;
        }
        Some(path)
    }

    fn wanted(&self) -> impl Iterator<Item = (ShardId, NodeId)> {
        self.shards
            .iter()
            .zip(&self.leader)
            .filter_map(|(shard, leader)| Some((*shard, self.nodes[(*leader)? as usize])))
    }
}
