//! Plans: the steps that are begun for them, and when each is done.

use super::explicit_moves::{own_moves, receiver};
use super::pending_moves::{allows, is_busy, is_done, plan_of};
use super::steps::Traffic;
use super::{Director, DirectorAction};
use cluster::placement::Move;
use cluster::{Change, Map, Plan, PlanKind, PlanState, Settings};
use std::collections::BTreeSet;
use vocab::{Moment, NodeId, PlanId, ReplicaId, ShardId};

/// Steps that are begun at once.
const STEPS_AT_ONCE: usize = 32;
/// For how long a plan must have nothing to do before it is done, in µs: what was done last may not be reported yet.
const QUIET_US: u64 = 1_000_000;

impl Director {
    /// Begins steps, the most pressing first, as many as may be under way at once; answers the plans that still have some.
    pub(super) fn begin_steps(
        &mut self,
        map: &Map,
        settings: &Settings,
        now: Moment,
        actions: &mut Vec<DirectorAction>,
    ) -> BTreeSet<PlanId> {
        self.pending.moves.retain(|step| !is_done(map, step));
        let mut traffic = Traffic::of(map, &self.seen, now);
        let mut left: BTreeSet<PlanId> = map.steps.values().map(|step| step.plan).collect();
        left.extend(map.splits.values().map(|split| split.plan));
        // What is moved for another plan is wanted by this one too: it is not done before that is.
        for step in self.pending.first_moves() {
            left.extend(map.open_plans().filter(|plan| allows(&plan.kind, step, map)).map(|plan| plan.id));
        }
        let mut begun = BTreeSet::new();
        for (plan, step, current) in self.moves_of_plans(map) {
            let id = plan.id;
            left.insert(id);
            let free = !begun.contains(&step.shard) && !is_busy(map, step.shard);
            if !current || !free || plan.state != PlanState::Running || begun.len() >= STEPS_AT_ONCE {
                continue;
            }
            let Some(leader) = self.seen.leader(step.shard, now) else { continue };
            // What is to come again elsewhere goes only once it can.
            let absent = receiver(&plan.kind).is_some_and(|node| !self.seen.can_take(node, now));
            if absent || !self.leaves_majority(map, &step, now) {
                continue;
            }
            if let Some(to) = step.add {
                let is_full = traffic.sends(leader.node) >= settings.moves_per_source
                    || traffic.takes(to) >= settings.moves_per_node;
                if is_full || !self.seen.can_take(to, now) {
                    continue;
                }
                traffic.add(step.shard, to, &self.seen, now);
            }
            begun.insert(step.shard);
            let next = map.shards.get(&step.shard).map_or(0, |info| info.next_replica);
            let add = step.add.map(|node| (ReplicaId(next), node));
            let change = Change::BeginStep { plan: id, shard: step.shard, add, remove: step.remove };
            actions.push(DirectorAction::Propose(change));
        }
        left
    }

    /// What open plans have to move, each shard's next move only, and whether it is as of the map's newest state.
    fn moves_of_plans<'a>(&self, map: &'a Map) -> Vec<(&'a Plan, Move, bool)> {
        let lost = &self.pending.lost;
        let mut moves = Vec::new();
        for plan in map.open_plans() {
            let own = own_moves(map, plan, &self.seen, lost);
            moves.extend(own.into_iter().map(|step| (plan, step, true)));
        }
        for step in self.pending.first_moves() {
            let plan = plan_of(map, step);
            let current = self.pending.holds(map, step.shard);
            moves.extend(plan.map(|plan| (plan, redirected(&plan.kind, *step, map, lost), current)));
        }
        moves
    }

    /// Ends plans that have nothing left to do.
    pub(super) fn end_plans(
        &mut self,
        map: &Map,
        left: &BTreeSet<PlanId>,
        settings: &Settings,
        now: Moment,
        actions: &mut Vec<DirectorAction>,
    ) {
        self.quiet.retain(|plan, _| !left.contains(plan) && map.plans.contains_key(plan));
        for plan in map.open_plans().filter(|plan| plan.state == PlanState::Running) {
            if left.contains(&plan.id) {
                continue;
            }
            let since_us = *self.quiet.entry(plan.id).or_insert(now.mono_us);
            // Nothing to do as of a look that was taken since.
            let unseen = plan.kind.moves_replicas() && self.pending.at_us < since_us;
            if now.mono_us < since_us + QUIET_US || unseen {
                continue;
            }
            match self.verdict(map, plan, settings, now) {
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

    /// What is to become of a plan that has no step and no move.
    fn verdict(&self, map: &Map, plan: &Plan, settings: &Settings, now: Moment) -> Verdict {
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
            PlanKind::Repair(node) if self.seen.is_settled(*node, now) => {
                Verdict::Over(PlanState::Done, format!("node {node} has come back"))
            }
            PlanKind::DrainNode(_) | PlanKind::Repair(_) => Verdict::Open,
            PlanKind::AddNode(node) if !map.nodes.contains_key(node) || map.leaving.contains(node) => {
                Verdict::Over(PlanState::Failed, format!("node {node} is to hold nothing"))
            }
            PlanKind::AddNode(node) => {
                // One that does not answer may come back; one that is lost has to be added again.
                match self.seen.silent_us(*node, now) {
                    silent_us if silent_us >= settings.failure_timeout_ms * 1000 => {
                        Verdict::Over(PlanState::Failed, format!("node {node} was lost"))
                    }
                    _ if self.seen.answers(*node, now) => done(),
                    _ => Verdict::Open,
                }
            }
            kind if plan.steps_done == 0 && receiver(kind).is_some_and(|node| self.pending.lost.contains(&node)) => {
                Verdict::Over(PlanState::Failed, "the node that was to take it was lost".to_owned())
            }
            PlanKind::MoveShard { shard, to, .. } => {
                let there = map.shards.get(shard).is_some_and(|info| info.replica_on(*to).is_some());
                let failed = || Verdict::Over(PlanState::Failed, "the shard's replicas have changed".to_owned());
                // Another plan may have moved it on since, by the rules of placement.
                if there || plan.steps_done > 0 { done() } else { failed() }
            }
            PlanKind::DrainLeaders(node) => self.leaders_drained(map, plan, *node, now),
            PlanKind::BalanceLeaders if self.leaders_are_even(map, now) => done(),
            PlanKind::BalanceLeaders => Verdict::Open,
            // It was begun, but what is to go cannot go yet.
            PlanKind::Rebuild { .. } if !own_moves(map, plan, &self.seen, &self.pending.lost).is_empty() => {
                Verdict::Open
            }
            PlanKind::Rebuild { node, shard: named } => match self.broken_of(map, *node, *named) {
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
            PlanKind::UnsafeRecover(shards) => self.recovered(map, shards, now),
        }
    }

    /// A shard whose replica on that node is damaged, among all or of the one that is named.
    fn broken_of(&self, map: &Map, node: NodeId, named: Option<ShardId>) -> Option<ShardId> {
        let of_plan = |shard: ShardId| named.is_none_or(|named| named == shard);
        let mut broken = self.seen.broken_on(node);
        broken.find(|(shard, id, _)| of_plan(*shard) && map.replica(*shard, *id).is_some()).map(|(shard, _, _)| shard)
    }
}

/// What a plan has still to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlanLeft {
    /// Steps that are not begun.
    pub(super) steps: usize,
    /// Bytes of what is to be moved, that which is under way included.
    pub(super) bytes: u64,
}

/// What is to become of a plan.
pub(super) enum Verdict {
    /// It waits for something.
    Open,
    /// The node is empty: it can be forgotten.
    Forget(NodeId),
    /// It is over, and why.
    Over(PlanState, String),
}

/// The move, to where the plan wants it.
fn redirected(kind: &PlanKind, step: Move, map: &Map, lost: &BTreeSet<NodeId>) -> Move {
    let PlanKind::ReplaceNode { with, .. } = kind else { return step };
    // What only fills a shard up goes elsewhere: that place is for what the node has.
    if step.remove.is_none() {
        return step;
    }
    let has_one = map.shards.get(&step.shard).is_some_and(|info| info.replica_on(*with).is_some());
    // It may be leaving by now, or be gone.
    let takes = map.nodes.contains_key(with) && !map.leaving.contains(with) && !lost.contains(with);
    if has_one || !takes { step } else { Move { add: Some(*with), ..step } }
}
