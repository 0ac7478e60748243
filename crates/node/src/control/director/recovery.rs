//! Unsafe recovery: shards that have lost their majority for good go on with one replica, as an operator has asked.

use super::action::DirectorAction;
use super::inputs::Inputs;
use super::observe::ReplicaSeen;
use crate::peer_protocol::Order;
use cluster::{Change, PlanKind, PlanState, ReplicaInfo};
use vocab::{PlanId, ReplicaId, ShardId};

/// Orders the replica with the newest log of each such shard to go on alone. The map names it before it gets the order:
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

/// The voter with the newest log among those that answer: what a leader of a later term has written was acknowledged after the
/// entries of an earlier one that it has replaced, however many these are.
fn survivor(inputs: &Inputs<'_>, shard: ShardId) -> Option<ReplicaInfo> {
    let &Inputs { map, seen, now, .. } = inputs;
    let reported = &seen.shards.get(&shard)?.replicas;
    let answering = map.shards.get(&shard)?.voters().filter(|replica| seen.answers(replica.node, now));
    let of = |voter: &ReplicaInfo| reported.get(&voter.id).filter(|of| of.broken.is_none());
    let voters: Vec<(&ReplicaInfo, &ReplicaSeen)> = answering.filter_map(|voter| Some((voter, of(voter)?))).collect();
    // Nodes of an older release do not tell terms: then the longest log counts.
    let tells_terms = voters.iter().all(|(_, of)| of.last_term > 0 || of.last == 0);
    let term = |of: &ReplicaSeen| if tells_terms { of.last_term } else { 0 };
    let newest = voters.iter().max_by_key(|(voter, of)| (term(of), of.last, of.applied, std::cmp::Reverse(voter.id)));
    newest.map(|(voter, _)| **voter)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::control::director::observe::Seen;
    use crate::control::director::test_reports::report_of;
    use crate::test_nodes::node_info;
    use cluster::Settings;
    use vocab::{Moment, StoreId};

    const SHARD: ShardId = ShardId(1);

    #[test]
    fn the_newest_log_goes_on_and_not_the_longest() {
        let map = cluster::initial_map(StoreId(7), &[1, 2, 3].map(node_info), 1, 3).unwrap();
        let (settings, now) = (Settings::of(&map), Moment { wall_ms: 60_000, mono_us: 60_000_000 });
        // Of each node's replica: the term of the last entry, its index, the applied index; and the node whose replica goes on.
        let cases = [
            ([(2, 9, 9), (3, 7, 5), (3, 6, 6)], 2, "a later term counts for more than entries"),
            ([(3, 7, 5), (3, 7, 6), (3, 6, 6)], 2, "of logs that are alike, what is applied counts"),
            ([(2, 9, 9), (0, 10, 5), (3, 7, 7)], 2, "a node does not tell its term: the longest counts"),
            ([(2, 9, 9), (0, 0, 0), (3, 7, 7)], 3, "a replica without entries has no term"),
        ];
        for (told, expected, case) in cases {
            let mut seen = Seen::default();
            seen.began_us.get_or_insert(1);
            for (node, (last_term, last, applied)) in map.nodes.keys().zip(told) {
                let mut report = report_of(&map, *node, &[], false);
                for replica in &mut report.replicas {
                    (replica.last_term, replica.last, replica.applied) = (last_term, last, applied);
                }
                seen.report(*node, report, now);
            }
            let inputs = Inputs { map: &map, settings: &settings, seen: &seen, now };
            assert_eq!(survivor(&inputs, SHARD).unwrap().node.0, expected, "{case}");
        }
    }
}
