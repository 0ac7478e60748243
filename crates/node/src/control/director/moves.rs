//! Moves and the map: which moves a plan allows, and which are made or cannot be made now.

use cluster::placement::{Move, ReplicasWanted, Why};
use cluster::{Map, Plan, PlanKind, PlanState, ShardInfo};
use vocab::ShardId;

/// Shards that have fewer replicas than they are to have.
pub(super) fn lacking(map: &Map) -> impl Iterator<Item = ShardId> {
    let wanted = ReplicasWanted::of(map);
    let few = move |(shard, info): &(&ShardId, &ShardInfo)| info.replicas.len() < wanted.of_shard(**shard);
    map.shards.iter().filter(few).map(|(shard, _)| *shard)
}

/// Whether a shard has a step or a split under way.
pub(super) fn is_busy(map: &Map, shard: ShardId) -> bool {
    map.steps.contains_key(&shard) || map.splits.iter().any(|(child, split)| *child == shard || split.parent == shard)
}

/// Whether a move shows in the map already, or cannot be made as it was meant.
pub(super) fn is_done(map: &Map, step: &Move) -> bool {
    let Some(info) = map.shards.get(&step.shard) else { return true };
    let has_come = step.add.is_some_and(|node| info.replica_on(node).is_some());
    let has_gone = step.remove.is_some_and(|id| info.replica(id).is_none());
    (has_come || has_gone) && !map.steps.contains_key(&step.shard)
}

/// The plan for which a move is made: one that allows it, preferably one that runs. Where a plan wants a node empty, what
/// leaves that node is moved for that plan, or waits while the plan waits.
pub(super) fn plan_of<'a>(map: &'a Map, step: &Move) -> Option<&'a Plan> {
    let from = step.remove.and_then(|id| map.replica(step.shard, id)).map(|replica| replica.node);
    let emptied = from.filter(|_| step.why == Why::Drain);
    let first = |of: &dyn Fn(&PlanKind) -> bool| {
        let plans = map.open_plans().filter(|plan| of(&plan.kind));
        plans.min_by_key(|plan| (plan.state != PlanState::Running, plan.id))
    };
    let empties = |kind: &PlanKind| emptied.is_some_and(|node| kind.empties(node));
    first(&empties).or_else(|| first(&|kind| allows(kind, step, map)))
}

/// Whether a plan of that kind allows a move.
#[must_use]
pub fn allows(kind: &PlanKind, step: &Move, map: &Map) -> bool {
    let from = step.remove.and_then(|id| map.replica(step.shard, id)).map(|replica| replica.node);
    match kind {
        PlanKind::AddNode(node) => step.add == Some(*node),
        PlanKind::DrainNode(node) | PlanKind::RemoveNode(node) | PlanKind::ReplaceNode { node, .. } => {
            // A shard that lacks a replica is filled up first: until then the node has to keep its own.
            let fills = step.add.is_some() && step.remove.is_none();
            let holds = || map.shards.get(&step.shard).is_some_and(|info| info.replica_on(*node).is_some());
            from == Some(*node) || (fills && holds())
        }
        PlanKind::Repair(_) => step.why == Why::Repair,
        // What is left of them is filled up again.
        PlanKind::UnsafeRecover(shards) => step.why == Why::Repair && shards.contains(&step.shard),
        PlanKind::Rebalance => true,
        PlanKind::SetReplicationFactor(_) => matches!(step.why, Why::Repair | Why::Surplus | Why::Zone),
        PlanKind::ChangeZone { .. } => matches!(step.why, Why::Zone | Why::Balance),
        _ => false,
    }
}
