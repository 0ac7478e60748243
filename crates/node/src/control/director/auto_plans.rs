//! Automatic plans: those that the director begins of its own accord.

use super::action::DirectorAction;
use super::explicit_moves::{has_others, own_moves};
use super::growth::Growth;
use super::inputs::Inputs;
use super::moves::{is_busy, lacking, plan_of};
use super::pending_moves::PendingMoves;
use cluster::placement::{Move, ReplicasWanted, Why};
use cluster::{Change, Map, NodeInfo, Plan, PlanKind, PlanState};
use std::collections::BTreeSet;
use vocab::limits::PLAN_DETAIL_BYTES_MAX;
use vocab::{NodeId, PlanId, ReplicaId, ShardId};

/// A plan is begun for damage that has been known for this long, in µs.
const DAMAGE_US: u64 = 5_000_000;
/// After so many automatic rebuilds of a node within a day, no more are begun: its disk is failing.
const REBUILDS_A_DAY_MAX: usize = 3;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The plan that the director begins of its own accord now, if one is wanted.
pub(super) fn wanted(inputs: &Inputs<'_>, pending: &PendingMoves, growth: &Growth) -> Option<DirectorAction> {
    let &Inputs { map, now, .. } = inputs;
    let of_nodes = || map.nodes.values().find_map(|info| wanted_for_node(inputs, info));
    let wanted = of_nodes().or_else(|| wanted_mending(inputs, pending)).or_else(|| growth.wanted_split(inputs));
    let (kind, detail) = wanted?;
    let (id, at_ms) = (PlanId(map.next_plan), now.wall_ms);
    Some(DirectorAction::Propose(Change::BeginPlan { id, kind, at_ms, detail }))
}

/// A plan for a node that is lost, that is to be rebuilt, or that has joined.
fn wanted_for_node(inputs: &Inputs<'_>, info: &NodeInfo) -> Option<(PlanKind, String)> {
    let &Inputs { map, settings, seen, now } = inputs;
    let node = info.id;
    let is_open = |kind: &PlanKind| map.open_plans().any(|plan| plan.kind == *kind);
    let silent_us = seen.silent_us(node, now);
    let holds = map.replicas_on(node).next().is_some();
    let kind = PlanKind::Repair(node);
    if silent_us >= settings.failure_timeout_ms * 1000 && holds && !is_open(&kind) {
        return Some((kind, format!("node {node} was not heard of for {} s", silent_us / 1_000_000)));
    }
    if let Some(rebuild) = wanted_rebuild(inputs, node) {
        return Some(rebuild);
    }
    let kind = PlanKind::AddNode(node);
    let is_new = !holds && info.capacity > 0 && !map.leaving.contains(&node);
    // What was lost since then has to be added again, and so has what was lost before it held anything.
    let newest = |wanted: &PlanKind| map.plans.values().filter(|plan| plan.kind == *wanted).map(|plan| plan.id).max();
    let repaired = newest(&PlanKind::Repair(node));
    let counts = |plan: &Plan| plan.state != PlanState::Failed && repaired.is_none_or(|repair| plan.id > repair);
    let was_added = || map.plans.values().any(|plan| plan.kind == kind && counts(plan));
    let is_meant =
        || map.open_plans().any(|plan| matches!(&plan.kind, PlanKind::ReplaceNode { with, .. } if *with == node));
    let joins = settings.auto_rebalance && is_new && seen.is_settled(node, now) && !was_added() && !is_meant();
    joins.then(|| (kind, "the node has joined".to_owned()))
}

/// A plan that rebuilds a node's damaged replicas: those that `start --rebuild` has set aside, and those that were found
/// damaged where the others are a majority without them.
fn wanted_rebuild(inputs: &Inputs<'_>, node: NodeId) -> Option<(PlanKind, String)> {
    let &Inputs { map, settings, seen, now } = inputs;
    let is_about = |plan: &Plan| matches!(plan.kind, PlanKind::Rebuild { node: of, .. } if of == node);
    if !seen.answers(node, now) || map.open_plans().any(is_about) {
        return None;
    }
    let can_be = |(shard, replica, _): &(ShardId, ReplicaId, &str)| {
        map.replica(*shard, *replica).is_some() && has_others(map, *shard)
    };
    let mut able = seen.broken_on(node).filter(can_be);
    let kind = PlanKind::Rebuild { node, shard: None };
    let figures = seen.nodes.get(&node).and_then(|known| known.figures.as_ref());
    if figures.is_some_and(|figures| figures.wants_rebuild) {
        able.next()?;
        return Some((kind, "the node was started with --rebuild".to_owned()));
    }
    let recent =
        map.plans.values().filter(|plan| is_about(plan) && now.wall_ms.abs_diff(plan.began_ms) < DAY_MS).count();
    if !settings.auto_rebuild || recent >= REBUILDS_A_DAY_MAX || !seen.can_take(node, now) {
        return None;
    }
    let may_go = |(shard, replica, _): &(ShardId, ReplicaId, &str)| {
        let lasts = seen.broken_us(node, *shard, *replica, now) >= DAMAGE_US;
        let info = map.shards.get(shard);
        lasts && !is_busy(map, *shard) && info.is_some_and(|of| inputs.may_let_go(of, *shard, *replica, 0))
    };
    let (shard, _, why) = able.find(may_go)?;
    let mut text = format!("the replica of shard {shard} is damaged: {why}");
    text.truncate(text.floor_char_boundary(PLAN_DETAIL_BYTES_MAX));
    Some((kind, text))
}

/// A plan for moves that the rules want and no open plan allows: remainders of cancelled plans, changes during plans, nodes
/// without capacity. Thus the map reaches a state that keeps the rules, from whatever state it is in.
fn wanted_mending(inputs: &Inputs<'_>, pending: &PendingMoves) -> Option<(PlanKind, String)> {
    let &Inputs { map, settings, seen, .. } = inputs;
    if !settings.auto_rebalance {
        return None;
    }
    // Plans that say themselves what is to move may be about to do it.
    let running = map.open_plans().filter(|plan| plan.state == PlanState::Running);
    let own = running.flat_map(|plan| own_moves(map, plan, seen, &pending.lost));
    let own: BTreeSet<ShardId> = own.map(|step| step.shard).collect();
    let astray = |step: &&Move| {
        step.why != Why::Balance
            && pending.holds(map, step.shard)
            && plan_of(map, step).is_none()
            && !own.contains(&step.shard)
            && !is_busy(map, step.shard)
            && can_begin(inputs, step)
    };
    let first = pending.first_moves().find(astray)?;
    Some((PlanKind::Rebalance, why_mended(map, first)))
}

/// Whether a move could be begun now.
fn can_begin(inputs: &Inputs<'_>, step: &Move) -> bool {
    let &Inputs { seen, now, .. } = inputs;
    seen.leader(step.shard, now).is_some()
        && step.add.is_none_or(|node| seen.can_take(node, now))
        && inputs.leaves_majority(step)
}

/// What is wrong with the shard that a move corrects.
fn why_mended(map: &Map, step: &Move) -> String {
    let shard = step.shard;
    let from = step.remove.and_then(|id| map.replica(shard, id)).map(|replica| replica.node);
    let have = map.shards.get(&shard).map_or(0, |info| info.replicas.len());
    let wanted = ReplicasWanted::of(map).of_shard(shard);
    match (step.why, from) {
        (Why::Zone, _) => format!("shard {shard} has more replicas in one zone than it must"),
        (Why::Drain, Some(node)) => format!("shard {shard} has a replica on node {node}, which is to hold nothing"),
        _ => {
            let others = lacking(map).filter(|other| *other != shard).count();
            let others = if others > 0 { format!(", and {others} others lack some") } else { String::new() };
            format!("shard {shard} has {have} replicas and is to have {wanted}{others}")
        }
    }
}
