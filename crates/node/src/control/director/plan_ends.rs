//! Plans that have nothing left to do: what becomes of each.

use super::action::DirectorAction;
use super::explicit_moves::{own_moves, receiver};
use super::inputs::Inputs;
use super::leaders::leaders_are_even;
use super::pending_moves::PendingMoves;
use cluster::{Change, Plan, PlanKind, PlanState};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, PlanId, ShardId};

/// A plan must have nothing to do for this long, in µs, before it is done: its last step may not be reported yet.
const QUIET_US: u64 = 1_000_000;
/// A node that is to be restarted is kept from leading for this long at most, in ms.
const DRAINED_MS_MAX: u64 = 15 * 60 * 1000;

/// Plans without anything to do.
#[derive(Debug, Default)]
pub(super) struct PlanEnds {
    /// Since when each has nothing to do, in µs.
    quiet: BTreeMap<PlanId, u64>,
}

impl PlanEnds {
    /// Ends plans that have nothing left to do.
    pub(super) fn end(
        &mut self,
        inputs: &Inputs<'_>,
        pending: &PendingMoves,
        left: &BTreeSet<PlanId>,
        actions: &mut Vec<DirectorAction>,
    ) {
        let &Inputs { map, now, .. } = inputs;
        self.quiet.retain(|plan, _| !left.contains(plan) && map.plans.contains_key(plan));
        for plan in map.open_plans().filter(|plan| plan.state == PlanState::Running) {
            if left.contains(&plan.id) {
                continue;
            }
            let since_us = *self.quiet.entry(plan.id).or_insert(now.mono_us);
            // Nothing to do as of a look that was taken since.
            let unseen = plan.kind.moves_replicas() && pending.at_us < since_us;
            if now.mono_us < since_us + QUIET_US || unseen {
                continue;
            }
            match verdict(inputs, pending, plan) {
                Verdict::Open => {}
                Verdict::Forget(node) => actions.push(DirectorAction::Propose(Change::ForgetNode(node))),
                Verdict::Over(state, detail) => {
                    let (id, was, at_ms) = (plan.id, plan.state, now.wall_ms);
                    let detail = if detail.is_empty() { plan.detail.clone() } else { detail };
                    actions.push(DirectorAction::Propose(Change::SetPlan { id, was, now: state, at_ms, detail }));
                }
            }
        }
    }
}

/// What is to become of a plan.
enum Verdict {
    /// It waits for something.
    Open,
    /// The node is empty: it can be forgotten.
    Forget(NodeId),
    /// It is over: its state, and why.
    Over(PlanState, String),
}

/// What becomes of a plan that has no step and no move.
fn verdict(inputs: &Inputs<'_>, pending: &PendingMoves, plan: &Plan) -> Verdict {
    let &Inputs { map, settings, seen, now } = inputs;
    let done = || Verdict::Over(PlanState::Done, String::new());
    let empty = |node: &NodeId| map.replicas_on(*node).next().is_none();
    match &plan.kind {
        PlanKind::DrainNode(node) if empty(node) => done(),
        PlanKind::RemoveNode(node) | PlanKind::ReplaceNode { node, .. } => match map.nodes.contains_key(node) {
            false => done(),
            true if empty(node) => Verdict::Forget(*node),
            true => Verdict::Open,
        },
        PlanKind::Repair(node) if empty(node) => done(),
        PlanKind::Repair(node) if seen.is_settled(*node, now) => {
            Verdict::Over(PlanState::Done, format!("node {node} has come back"))
        }
        PlanKind::DrainNode(_) | PlanKind::Repair(_) => Verdict::Open,
        PlanKind::AddNode(node) if !map.nodes.contains_key(node) || map.leaving.contains(node) => {
            Verdict::Over(PlanState::Failed, format!("node {node} is to hold nothing"))
        }
        PlanKind::AddNode(node) => {
            // One that does not answer may come back; one that is lost has to be added again.
            match seen.silent_us(*node, now) {
                silent_us if silent_us >= settings.failure_timeout_ms * 1000 => {
                    Verdict::Over(PlanState::Failed, format!("node {node} was lost"))
                }
                _ if seen.answers(*node, now) => done(),
                _ => Verdict::Open,
            }
        }
        kind if plan.steps_done == 0 && receiver(kind).is_some_and(|node| pending.lost.contains(&node)) => {
            Verdict::Over(PlanState::Failed, "the node that was to take it was lost".to_owned())
        }
        PlanKind::MoveShard { shard, to, .. } => {
            let there = map.shards.get(shard).is_some_and(|info| info.replica_on(*to).is_some());
            let failed = || Verdict::Over(PlanState::Failed, "the shard's replicas have changed".to_owned());
            // Another plan may have moved it on since, by the rules of placement.
            if there || plan.steps_done > 0 { done() } else { failed() }
        }
        PlanKind::DrainLeaders(node) => leaders_drained(inputs, plan, *node),
        PlanKind::BalanceLeaders if leaders_are_even(inputs) => done(),
        PlanKind::BalanceLeaders => Verdict::Open,
        // It was begun, but what is to go cannot go yet.
        PlanKind::Rebuild { .. } if !own_moves(map, plan, seen, &pending.lost).is_empty() => Verdict::Open,
        PlanKind::Rebuild { node, shard: named } => match broken_of(inputs, *node, *named) {
            Some(shard) => {
                let text = format!("shard {shard} has no other replica that it could be made from");
                Verdict::Over(PlanState::Failed, text)
            }
            None => done(),
        },
        PlanKind::SplitShard { shard, .. } if plan.steps_done == 0 => {
            Verdict::Over(PlanState::Failed, format!("shard {shard} cannot be divided so any more"))
        }
        PlanKind::Rebalance
        | PlanKind::SetReplicationFactor(_)
        | PlanKind::ChangeZone { .. }
        | PlanKind::SplitShard { .. }
        | PlanKind::SplitAll => done(),
        PlanKind::UnsafeRecover(shards) => recovered(inputs, shards),
    }
}

/// A shard with a damaged replica on that node; of the named shard only, if one is named.
fn broken_of(inputs: &Inputs<'_>, node: NodeId, named: Option<ShardId>) -> Option<ShardId> {
    let &Inputs { map, seen, .. } = inputs;
    let of_plan = |shard: ShardId| named.is_none_or(|named| named == shard);
    let mut broken = seen.broken_on(node);
    broken.find(|(shard, id, _)| of_plan(*shard) && map.replica(*shard, *id).is_some()).map(|(shard, _, _)| shard)
}

/// What becomes of a plan that keeps a node from leading until it is restarted.
fn leaders_drained(inputs: &Inputs<'_>, plan: &Plan, node: NodeId) -> Verdict {
    let &Inputs { map, seen, now, .. } = inputs;
    let figures = seen.nodes.get(&node).and_then(|node| node.figures.as_ref());
    if !map.nodes.contains_key(&node) {
        Verdict::Over(PlanState::Failed, format!("the store has no node {node} any more"))
    } else if figures.is_some_and(|of| of.started_ms > plan.began_ms) && seen.is_settled(node, now) {
        Verdict::Over(PlanState::Done, format!("node {node} was restarted and may lead again"))
    } else if now.wall_ms > plan.began_ms + DRAINED_MS_MAX {
        Verdict::Over(PlanState::Done, format!("node {node} was not restarted, and may lead again"))
    } else {
        Verdict::Open
    }
}

/// What becomes of a plan that has shards go on with one replica.
fn recovered(inputs: &Inputs<'_>, shards: &[ShardId]) -> Verdict {
    let &Inputs { map, seen, now, .. } = inputs;
    // One that stood still while the others were destroyed says for a moment that it leads, as it did before.
    let led = |shard: &ShardId| seen.leader(*shard, now).is_some() && inputs.has_majority(*shard);
    if shards.iter().filter(|shard| map.shards.contains_key(shard)).all(led) {
        Verdict::Over(PlanState::Done, "each shard has a leader; what it has lost, if anything, is unknown".to_owned())
    } else {
        Verdict::Open
    }
}
