//! Tests over the whole crate, and the maps that they share.
#![allow(clippy::unwrap_used)]

mod changes;
mod encoding;
mod initial;
mod kept;
mod leaders;
mod moves;
mod rules;

use crate::{Change, Map, NodeInfo, Plan, PlanKind, PlanState, UserChange};
use std::collections::BTreeSet;
use vocab::{NodeId, PlanId, Prng, ReplicaId, ShardId, Slot, StoreId};

/// Nodes 1, 2, 3 … of a zone and a capacity each.
pub(crate) fn nodes(of: &[(&str, u64)]) -> Vec<NodeInfo> {
    (1..).zip(of).map(|(id, (zone, capacity))| node(id, zone, *capacity)).collect()
}

pub(crate) fn node(id: u64, zone: &str, capacity: u64) -> NodeInfo {
    NodeInfo {
        id: NodeId(id),
        peer_address: format!("10.0.0.{id}:17000"),
        client_host: format!("10.0.0.{id}"),
        client_port: 7000,
        zone: zone.to_owned(),
        capacity,
    }
}

/// Three nodes in three zones, four shards, three replicas of each.
pub(crate) fn small() -> Map {
    crate::initial_map(StoreId(7), &nodes(&[("a", 1), ("b", 1), ("c", 1)]), 4, 3).unwrap()
}

/// The ids of all nodes.
pub(crate) fn all(map: &Map) -> BTreeSet<NodeId> {
    map.nodes.keys().copied().collect()
}

/// A first map of a size, with zones and capacities, that are drawn.
pub(crate) fn drawn(prng: &mut Prng) -> Map {
    let zones = 1 + prng.below(5);
    let of: Vec<(String, u64)> =
        (0..=prng.below(12)).map(|_| (format!("z{}", prng.below(zones)), 50 + prng.below(150))).collect();
    let of: Vec<(&str, u64)> = of.iter().map(|(zone, capacity)| (zone.as_str(), *capacity)).collect();
    crate::initial_map(StoreId(prng.next_u64()), &nodes(&of), 1 + prng.below(64) as u32, 1 + prng.below(5) as u32)
        .unwrap()
}

/// A change that may or may not make sense for `map`.
pub(crate) fn drawn_change(map: &Map, prng: &mut Prng) -> Change {
    let some_node = NodeId(1 + prng.below(map.nodes.len() as u64 + 2));
    let shard = ShardId(prng.below(map.shards.len() as u64 + 1) as u32);
    let known = map.shards.get(&shard).cloned().unwrap_or_default();
    match prng.below(15) {
        14 => {
            let user = |prng: &mut Prng| {
                let name = ["alice", "bob", "alice", "bob", "a b"][prng.below(5) as usize].to_owned();
                let was = map.users.get(&name).map(<[u8]>::to_vec).filter(|_| prng.below(4) > 0);
                let now = (prng.below(3) > 0).then(|| format!("on +get ~{}", prng.below(3)).into_bytes());
                UserChange { name, was, now }
            };
            Change::SetUsers((0..prng.below(3)).map(|_| user(prng)).collect())
        }
        7.. => drawn_plan_change(map, shard, some_node, prng),
        0 => Change::RegisterNode(node(some_node.0, "z0", 100)),
        1 => {
            let was = map.nodes.get(&some_node).cloned().unwrap_or_else(|| node(some_node.0, "z0", 1));
            Change::UpdateNode { was, now: node(some_node.0, "z1", prng.below(3)) }
        }
        2 => Change::ForgetNode(some_node),
        3 => {
            let replica = ReplicaId(known.next_replica - known.next_replica.min(prng.below(2)));
            Change::AddReplica { shard, replica, node: some_node, learner: prng.below(2) == 0 }
        }
        4 => {
            let mut ids: Vec<ReplicaId> = known.replicas.iter().map(|replica| replica.id).collect();
            ids.retain(|_| prng.below(4) > 0);
            let learners = ids.split_off(prng.below(ids.len() as u64 + 1) as usize);
            let members_index = (known.members_index + prng.below(3)).saturating_sub(1);
            Change::SetReplicas { shard, members_index, voters: ids, learners }
        }
        5 => Change::ForgetReplica { shard, replica: ReplicaId(prng.below(known.next_replica + 2)) },
        _ => {
            let name = ["moves-per-source", "moves-per-node", "nosuch"][prng.below(3) as usize].to_owned();
            let was = map.settings.get(&name).cloned().filter(|_| prng.below(4) > 0);
            let now = Some(prng.below(3).to_string()).filter(|_| prng.below(3) > 0);
            Change::Setting { name, was, now }
        }
    }
}

/// A change of plans, steps or splits that may or may not make sense for `map`.
fn drawn_plan_change(map: &Map, shard: ShardId, some_node: NodeId, prng: &mut Prng) -> Change {
    let known = map.shards.get(&shard).cloned().unwrap_or_default();
    let plan = PlanId(map.next_plan.saturating_sub(1 + prng.below(3)));
    let (at_ms, detail) = (prng.below(1 << 40), "because".to_owned());
    let state = |prng: &mut Prng| {
        use PlanState::{Cancelled, Done, Failed, Paused, Running};
        [Running, Running, Paused, Done, Cancelled, Failed][prng.below(6) as usize]
    };
    match prng.below(8) {
        0 | 1 => {
            let id = PlanId(map.next_plan - prng.below(2).min(map.next_plan));
            Change::BeginPlan { id, kind: drawn_kind(shard, some_node, prng), at_ms, detail }
        }
        2 => {
            let was = map.plans.get(&plan).map_or(PlanState::Running, |plan| plan.state);
            Change::SetPlan { id: plan, was, now: state(prng), at_ms, detail }
        }
        3 => {
            let add = (prng.below(4) > 0).then_some((ReplicaId(known.next_replica.max(1)), some_node));
            let remove = known.replicas.first().map(|replica| replica.id).filter(|_| prng.below(3) > 0);
            Change::BeginStep { plan, shard, add, remove }
        }
        4 => {
            let shard = map.steps.keys().next().copied().unwrap_or(shard);
            let plan = map.steps.get(&shard).map_or(plan, |step| step.plan);
            Change::EndStep { plan, shard, done: prng.below(2) == 0 }
        }
        5 => {
            let range = known.slots.first().copied().unwrap_or((0, 0));
            let slots = vec![(range.1 - (range.1 - range.0) / 2, range.1)];
            Change::BeginSplit { plan, parent: shard, child: ShardId(map.next_shard), slots }
        }
        6 => {
            let recovers = |plan: &&Plan| matches!(plan.kind, PlanKind::UnsafeRecover(_));
            let open = map.open_plans().find(recovers);
            let shard = open.map_or(shard, |plan| match &plan.kind {
                PlanKind::UnsafeRecover(shards) => shards.first().copied().unwrap_or(shard),
                _ => shard,
            });
            let replica = map.shards.get(&shard).and_then(|info| info.replicas.last());
            let replica = replica.map_or(ReplicaId(1), |replica| replica.id);
            Change::ChooseSurvivor { plan: open.map_or(plan, |plan| plan.id), shard, replica }
        }
        _ => match map.splits.keys().next() {
            Some(child) => Change::EndSplit { child: *child },
            None => Change::Event { at_ms, kind: "test".to_owned(), text: "it happened".to_owned() },
        },
    }
}

fn drawn_kind(shard: ShardId, node: NodeId, prng: &mut Prng) -> PlanKind {
    let other = NodeId(1 + prng.below(4));
    match prng.below(16) {
        0 => PlanKind::AddNode(node),
        1 => PlanKind::DrainNode(node),
        2 => PlanKind::RemoveNode(node),
        3 => PlanKind::Repair(node),
        4 => PlanKind::Rebalance,
        5 => PlanKind::BalanceLeaders,
        6 => PlanKind::DrainLeaders(node),
        7 => PlanKind::MoveShard { shard, from: node, to: other },
        8 => PlanKind::SplitShard { shard, at: None },
        9 => PlanKind::SplitShard { shard, at: Some(Slot(prng.below(16384) as u16)) },
        10 => PlanKind::SplitAll,
        11 => PlanKind::SetReplicationFactor(prng.below(8) as u32),
        12 => PlanKind::ChangeZone { node, zone: "z9".to_owned() },
        13 => PlanKind::ReplaceNode { node, with: other },
        14 => PlanKind::Rebuild { node, shard: Some(shard).filter(|_| prng.below(2) == 0) },
        _ => PlanKind::UnsafeRecover(vec![shard]),
    }
}

/// A store with more shards than slots: most of them own none, which placement does not mind. Five zones, and nodes of
/// two sizes.
pub(crate) fn large(nodes: u64, shards: u32) -> Map {
    let nodes: Vec<NodeInfo> = (1..=nodes).map(|id| node(id, &format!("z{}", id % 5), 1 + id % 2)).collect();
    let parts = shards.div_ceil(10_000);
    let mut map = crate::initial_map(StoreId(1), &nodes, shards / parts, 3).unwrap();
    for number in shards / parts + 1..=shards {
        let mut shard = map.shards[&ShardId((number - 1) % (shards / parts) + 1)].clone();
        shard.slots.clear();
        map.shards.insert(ShardId(number), shard);
    }
    map
}
