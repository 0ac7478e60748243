//! Unsafe recovery: shards that have lost their majority for good go on with one replica, as an operator has asked.

use super::action::DirectorAction;
use super::inputs::Inputs;
use crate::peer_protocol::Order;
use cluster::{Change, PlanKind, PlanState, ReplicaInfo};
use vocab::{PlanId, ReplicaId, ShardId};

/// Orders the replica with the longest log of each such shard to go on alone. The map names it before it gets the order:
/// it may obey and then fall silent, and a second replica that went on as well would lead the same shard beside it.
pub(super) fn recover(inputs: &Inputs<'_>, actions: &mut Vec<DirectorAction>) {
    let &Inputs { map, seen, now, .. } = inputs;
    for plan in map.open_plans().filter(|plan| plan.state == PlanState::Running) {
        let PlanKind::UnsafeRecover(shards) = &plan.kind else { continue };
        for &shard in shards {
            if seen.leader(shard, now).is_some() || inputs.has_majority(shard) {
                continue;
            }
            match map.survivors.get(&shard) {
                Some((_, chosen)) => {
                    if let Some(of) = map.replica(shard, *chosen) {
                        let order = Order::Recover { replica: chosen.0 };
                        actions.push(DirectorAction::Order { node: of.node, shard, order });
                    }
                }
                None => {
                    if let Some(of) = survivor(inputs, shard) {
                        let change = Change::ChooseSurvivor { plan: plan.id, shard, replica: of.id };
                        actions.push(DirectorAction::Propose(change));
                    }
                }
            }
        }
    }
}

/// What such a plan waits for: a chosen replica whose node does not answer.
pub(super) fn awaited_survivor(inputs: &Inputs<'_>, plan: PlanId) -> Option<String> {
    let &Inputs { map, seen, now, .. } = inputs;
    let of_plan = map.survivors.iter().filter(|(_, (of, _))| *of == plan);
    let node = |shard: ShardId, replica: ReplicaId| map.replica(shard, replica).map(|replica| replica.node);
    let mut silent =
        of_plan.filter(|(shard, _)| seen.leader(**shard, now).is_none()).filter_map(|(shard, (_, replica))| {
            let node = node(*shard, *replica).filter(|node| !seen.answers(*node, now))?;
            let text = format!("shard {shard} is to go on with what node {node} has of it, which is silent");
            Some(format!("{text}: bring it back, or, if it is gone for good, cancel this plan and begin another"))
        });
    silent.next()
}

/// The voter with the longest log among those that answer.
fn survivor(inputs: &Inputs<'_>, shard: ShardId) -> Option<ReplicaInfo> {
    let &Inputs { map, seen, now, .. } = inputs;
    let reported = &seen.shards.get(&shard)?.replicas;
    let length = |replica: &&ReplicaInfo| {
        let of = reported.get(&replica.id)?;
        of.broken.is_none().then_some((of.last, of.applied, std::cmp::Reverse(replica.id)))
    };
    let voters = map.shards.get(&shard)?.voters().filter(|replica| seen.answers(replica.node, now));
    voters.filter(|replica| length(replica).is_some()).max_by_key(length).copied()
}
