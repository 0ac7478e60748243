//! The first map of a store: slots divided evenly, replicas spread over zones and nodes by capacity.

use super::leaders::leaders_wanted;
use super::shares::{meta_replicas, scatter, shares, zone_max};
use crate::error::MapError;
use crate::map::Map;
use crate::node_info::NodeInfo;
use crate::shard_info::{ReplicaInfo, ShardInfo};
use std::collections::{BTreeMap, BTreeSet};
use vocab::limits::REPLICATION_FACTOR_MAX;
use vocab::{Epoch, NodeId, ReplicaId, SLOT_COUNT, ShardId, StoreId};

/// The first map of a store with these nodes. The replicas of a shard have the ids 1 to `replication_factor`, or as
/// many as there are nodes; the first is the one that leads, so that leaders are spread from the start. The metadata
/// group is on the first nodes, or the first of different zones.
pub fn initial_map(store: StoreId, nodes: &[NodeInfo], shards: u32, replication_factor: u32) -> Result<Map, MapError> {
    let invalid = |what: String| Err(MapError::Invalid(what));
    if !(1..=u32::from(SLOT_COUNT)).contains(&shards) {
        return invalid(format!("a store begins with 1 to {SLOT_COUNT} shards"));
    }
    if !(1..=REPLICATION_FACTOR_MAX).contains(&replication_factor) {
        return invalid(format!("a replication factor is 1 to {REPLICATION_FACTOR_MAX}"));
    }
    let able: Vec<&NodeInfo> = nodes.iter().filter(|node| node.capacity > 0).collect();
    if able.is_empty() {
        return invalid("no node has any capacity".to_owned());
    }
    let mut map = Map {
        store,
        epoch: Epoch(1),
        nodes: nodes.iter().map(|node| (node.id, node.clone())).collect::<BTreeMap<_, _>>().into(),
        replication_factor,
        ..Map::default()
    };
    if map.nodes.len() != nodes.len() {
        return invalid("two nodes have the same id".to_owned());
    }
    map.shards.insert(ShardId::META, shard_on(Vec::new(), &meta_nodes(&able, replication_factor)));
    let mut deal = Deal::new(&able, shards, replication_factor as usize);
    for number in 1..=shards {
        let slots = vec![(first_slot(number, shards), first_slot(number + 1, shards) - 1)];
        map.shards.insert(ShardId(number), shard_on(slots, &deal.next(u64::from(number))));
    }
    let alive: BTreeSet<NodeId> = map.nodes.keys().copied().collect();
    for (id, leader) in leaders_wanted(&map, &alive, &BTreeMap::new()) {
        let mut shard = map.shards.get_mut(&id).expect("a leader is wanted for shards of the map");
        let mut on: Vec<NodeId> = shard.replicas.iter().map(|replica| replica.node).collect();
        on.sort_by_key(|node| *node != leader);
        *shard = shard_on(std::mem::take(&mut shard.slots), &on);
    }
    map.number_shards();
    map.validate()?;
    Ok(map)
}

/// Of `shards` shards, where the one of that number begins.
fn first_slot(number: u32, shards: u32) -> u16 {
    ((number - 1) * u32::from(SLOT_COUNT)).div_ceil(shards) as u16
}

fn shard_on(slots: Vec<(u16, u16)>, nodes: &[NodeId]) -> ShardInfo {
    let replica =
        |(id, node): (u64, &NodeId)| ReplicaInfo { id: ReplicaId(id), node: *node, learner: false, member: true };
    let replicas = (1..).zip(nodes).map(replica).collect();
    ShardInfo { slots, replicas, next_replica: nodes.len() as u64 + 1, members_index: 0 }
}

fn meta_nodes(able: &[&NodeInfo], replication_factor: u32) -> Vec<NodeId> {
    let count = meta_replicas(able.len(), replication_factor);
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for node in able {
        *zones.entry(&node.zone).or_default() += 1;
    }
    let most = zone_max(&zones.values().copied().collect::<Vec<_>>(), count);
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut on = Vec::with_capacity(count);
    for node in able {
        let taken = taken.entry(&node.zone).or_default();
        if on.len() < count && *taken < most {
            *taken += 1;
            on.push(node.id);
        }
    }
    on
}

/// Deals replicas to nodes, shard after shard, so that in the end each node has its share.
struct Deal {
    zones: Vec<DealZone>,
    replicas: usize,
    zone_max: usize,
    shards_left: i64,
}

struct DealZone {
    left: i64,
    nodes: Vec<DealNode>,
    taken: usize,
}

struct DealNode {
    id: NodeId,
    left: i64,
    is_taken: bool,
}

impl Deal {
    fn new(able: &[&NodeInfo], shards: u32, replication_factor: usize) -> Self {
        let replicas = replication_factor.min(able.len());
        let mut by_zone: BTreeMap<&str, Vec<&NodeInfo>> = BTreeMap::new();
        for node in able {
            by_zone.entry(&node.zone).or_default().push(node);
        }
        let sizes: Vec<usize> = by_zone.values().map(Vec::len).collect();
        let zone_max = zone_max(&sizes, replicas);
        let shards = u64::from(shards);
        let weigh = |nodes: &Vec<&NodeInfo>| nodes.iter().map(|node| u128::from(node.capacity)).collect::<Vec<_>>();
        let weights: Vec<u128> = by_zone.values().map(|nodes| weigh(nodes).iter().sum()).collect();
        let caps: Vec<u64> = sizes.iter().map(|&size| size.min(zone_max) as u64 * shards).collect();
        let of_zones = shares(replicas as u64 * shards, &weights, &caps);
        let zones = by_zone.values().zip(of_zones).map(|(nodes, share)| {
            let of_nodes = shares(share, &weigh(nodes), &vec![shards; nodes.len()]);
            let nodes = nodes.iter().zip(of_nodes);
            let nodes = nodes.map(|(node, left)| DealNode { id: node.id, left: left as i64, is_taken: false });
            DealZone { left: share as i64, nodes: nodes.collect(), taken: 0 }
        });
        Self { zones: zones.collect(), replicas, zone_max, shards_left: shards as i64 }
    }

    /// The nodes of the next shard.
    fn next(&mut self, seed: u64) -> Vec<NodeId> {
        for zone in &mut self.zones {
            zone.taken = 0;
            zone.nodes.iter_mut().for_each(|node| node.is_taken = false);
        }
        let nodes = (0..self.replicas).map(|_| self.take(seed)).collect();
        self.shards_left -= 1;
        nodes
    }

    /// One more node for the shard. The zone that has most left to take goes first, and in it the node that has: so none
    /// is left at the end with more than there are shards. Each further replica in one zone stands back by as many as a
    /// replica in every shard that is left would use up.
    fn take(&mut self, seed: u64) -> NodeId {
        let (zone_max, shards_left) = (self.zone_max, self.shards_left);
        let open = self.zones.iter_mut().enumerate().filter(|(_, zone)| zone.taken < zone_max.min(zone.nodes.len()));
        let want = |zone: &DealZone| zone.left + zone.taken as i64 - zone.taken as i64 * shards_left;
        let (_, zone) = open
            .max_by_key(|(i, zone)| (want(zone), scatter(seed, *i as u64)))
            .expect("zone_max leaves room for every replica");
        let node = zone
            .nodes
            .iter_mut()
            .filter(|node| !node.is_taken)
            .max_by_key(|node| (node.left, scatter(seed, node.id.0)))
            .expect("the zone has a node that is not taken");
        node.is_taken = true;
        node.left -= 1;
        zone.taken += 1;
        zone.left -= 1;
        node.id
    }
}
