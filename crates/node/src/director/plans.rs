//! Plans: which are begun by themselves, which moves each allows, and when it is done.

use super::observe::Seen;
use super::steps::Traffic;
use super::{Director, DirectorAction};
use cluster::placement::{Move, Observed, Why, next_moves, replicas_wanted};
use cluster::{Change, Map, Plan, PlanKind, PlanState, Settings};
use std::collections::BTreeSet;
use std::sync::Arc;
use vocab::{Moment, NodeId, PlanId, ReplicaId, ShardId};

/// Steps that are begun at once.
const STEPS_AT_ONCE: usize = 32;
/// How long moves that were worked out are gone by, in µs, as long as nothing else has changed.
const MOVES_KEPT_US: u64 = 2_000_000;
/// The same for each shard of the store: working them out takes longer the more there are.
const MOVES_KEPT_US_EACH: u64 = 200;
/// For how long a plan must have nothing to do before it is done, in µs: what was done last may not be reported yet.
const QUIET_US: u64 = 1_000_000;

/// The moves that were worked out last, and from what.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    pub(super) moves: Vec<Move>,
    basis: Option<Basis>,
    at_us: u64,
}

/// What changes the moves at once when it changes.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    unwell: BTreeSet<NodeId>,
    leaving: BTreeSet<NodeId>,
    plans: Vec<(PlanId, PlanState)>,
    nodes: Vec<(NodeId, String, u64)>,
    replication_factor: u32,
}

impl Basis {
    fn of(map: &Map, observed: &Observed) -> Self {
        let nodes = map.nodes.values().map(|node| (node.id, node.zone.clone(), node.capacity));
        Self {
            unwell: observed.down.union(&observed.lost).copied().collect(),
            leaving: observed.leaving.clone(),
            plans: map.open_plans().map(|plan| (plan.id, plan.state)).collect(),
            nodes: nodes.collect(),
            replication_factor: map.replication_factor,
        }
    }
}

impl Director {
    /// Begins plans that nobody has to ask for.
    pub(super) fn begin_plans(
        &mut self,
        map: &Map,
        settings: &Settings,
        now: Moment,
        actions: &mut Vec<DirectorAction>,
    ) {
        let Some((kind, detail)) = self.wanted_plan(map, settings, now) else { return };
        let (id, at_ms) = (PlanId(map.next_plan), now.wall_ms);
        actions.push(DirectorAction::Propose(Change::BeginPlan { id, kind, at_ms, detail }));
    }

    fn wanted_plan(&self, map: &Map, settings: &Settings, now: Moment) -> Option<(PlanKind, String)> {
        let is_open = |kind: &PlanKind| map.open_plans().any(|plan| plan.kind == *kind);
        for (&node, info) in &map.nodes {
            let silent_us = self.seen.silent_us(node, now);
            let holds = map.replicas_on(node).next().is_some();
            let kind = PlanKind::Repair(node);
            if silent_us >= settings.failure_timeout_ms * 1000 && holds && !is_open(&kind) {
                return Some((kind, format!("node {node} was not heard of for {} s", silent_us / 1_000_000)));
            }
            let kind = PlanKind::Rebuild { node, shard: None };
            let figures = self.seen.nodes.get(&node).and_then(|seen| seen.figures.as_ref());
            let set_aside = figures.is_some_and(|figures| figures.wants_rebuild) && self.seen.answers(node, now);
            let can_be = |(shard, replica, _): (ShardId, ReplicaId, &str)| {
                map.replica(shard, replica).is_some() && has_others(map, shard)
            };
            if set_aside && !is_open(&kind) && self.seen.broken_on(node).any(can_be) {
                return Some((kind, "the node was started with --rebuild".to_owned()));
            }
            let kind = PlanKind::AddNode(node);
            let is_new = !holds && info.capacity > 0 && !map.leaving.contains(&node);
            let was_added = || map.plans.values().any(|plan| plan.kind == kind);
            let is_meant = || {
                map.open_plans().any(|plan| matches!(&plan.kind, PlanKind::ReplaceNode { with, .. } if *with == node))
            };
            if settings.auto_rebalance && is_new && self.seen.is_settled(node, now) && !was_added() && !is_meant() {
                return Some((kind, "the node has joined".to_owned()));
            }
        }
        if let Some(wanted) = self.wanted_fill(map, settings, now) {
            return Some(wanted);
        }
        if settings.auto_split && map.splits.len() < super::splits::SPLITS_AT_ONCE {
            let large = map.data_shards().find(|(shard, info)| {
                let kind = PlanKind::SplitShard { shard: *shard, at: None };
                let bytes = self.seen.bytes(*shard).unwrap_or(0);
                bytes > settings.split_bytes && info.slot_count() > 1 && !is_open(&kind)
            });
            if let Some((shard, _)) = large {
                let bytes = self.seen.bytes(shard).unwrap_or(0);
                let text = format!("the shard has {} MB, more than split-bytes", bytes / 1_000_000);
                return Some((PlanKind::SplitShard { shard, at: None }, text));
            }
        }
        None
    }

    /// A plan for shards that have too few replicas and that no open plan is about, once some node can take one.
    fn wanted_fill(&self, map: &Map, settings: &Settings, now: Moment) -> Option<(PlanKind, String)> {
        if !settings.auto_rebalance || map.open_plans().any(|plan| plan.kind.moves_replicas()) {
            return None;
        }
        let can_be = |shard: &ShardId| {
            let mut moves = self.first_moves().filter(|step| step.shard == *shard && !is_done(map, step));
            let free = !map.steps.contains_key(shard) && self.seen.leader(*shard, now).is_some();
            free && moves
                .any(|step| step.remove.is_none() && step.add.is_some_and(|node| self.seen.is_settled(node, now)))
        };
        let shard = lacking(map).find(can_be)?;
        let (have, wanted) = (map.shards.get(&shard)?.replicas.len(), replicas_wanted(map, shard));
        let others = lacking(map).count() - 1;
        let others = if others > 0 { format!(", and {others} others lack some") } else { String::new() };
        Some((PlanKind::Rebalance, format!("shard {shard} has {have} replicas and is to have {wanted}{others}")))
    }

    /// Works out anew which moves there are, if that is due.
    pub(super) fn look(&mut self, map: &Arc<Map>, settings: &Settings, now: Moment) {
        let observed = self.seen.observed(map, settings, now);
        let basis = Basis::of(map, &observed);
        let kept_us = MOVES_KEPT_US + map.shards.len() as u64 * MOVES_KEPT_US_EACH;
        let kept_us = if self.outlook.moves.is_empty() { kept_us / 4 } else { kept_us };
        if self.outlook.basis.as_ref() == Some(&basis) && now.mono_us < self.outlook.at_us + kept_us {
            return;
        }
        // Without a plan that moves something, or a shard that one is to be begun for, there is nothing to know.
        let any = map.open_plans().any(|plan| plan.kind.moves_replicas());
        let any = any || (settings.auto_rebalance && lacking(map).next().is_some());
        let moves = if any { next_moves(map, &observed) } else { Vec::new() };
        self.outlook = Outlook { moves, basis: Some(basis), at_us: now.mono_us };
    }

    /// Begins steps, the most pressing first, as many as may be under way at once; answers the plans that still have some.
    pub(super) fn begin_steps(
        &mut self,
        map: &Map,
        settings: &Settings,
        now: Moment,
        actions: &mut Vec<DirectorAction>,
    ) -> BTreeSet<PlanId> {
        self.outlook.moves.retain(|step| !is_done(map, step));
        let mut traffic = Traffic::of(map, &self.seen, now);
        let mut left: BTreeSet<PlanId> = map.steps.values().map(|step| step.plan).collect();
        left.extend(map.splits.values().map(|split| split.plan));
        let mut moves: Vec<(PlanId, Move)> =
            map.open_plans().flat_map(|plan| own_moves(map, plan, &self.seen)).collect();
        for step in self.first_moves() {
            let plan = map.open_plans().find(|plan| allows(&plan.kind, step, map));
            moves.extend(plan.map(|plan| (plan.id, redirected(&plan.kind, *step, map))));
        }
        let mut begun = BTreeSet::new();
        for (id, step) in moves {
            left.insert(id);
            let running = map.plans.get(&id).is_some_and(|plan| plan.state == PlanState::Running);
            let busy = map.steps.contains_key(&step.shard)
                || begun.contains(&step.shard)
                || map.splits.iter().any(|(child, split)| *child == step.shard || split.parent == step.shard);
            if !running || busy || begun.len() >= STEPS_AT_ONCE {
                continue;
            }
            let Some(leader) = self.seen.leader(step.shard, now) else { continue };
            if !self.leaves_majority(map, &step, now) {
                continue;
            }
            if let Some(to) = step.add {
                let is_full = traffic.sends(leader.node) >= settings.moves_per_source
                    || traffic.takes(to) >= settings.moves_per_node;
                if is_full || !self.seen.is_settled(to, now) {
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

    /// Whether a move leaves its shard a majority that answers; before, it is not begun: it would be in others' way.
    pub(super) fn leaves_majority(&self, map: &Map, step: &Move, now: Moment) -> bool {
        let Some((info, remove)) = map.shards.get(&step.shard).zip(step.remove) else { return true };
        self.may_let_go(info, step.shard, remove, usize::from(step.add.is_some()), now)
    }

    /// The next move of each shard: later ones build on it.
    pub(super) fn first_moves(&self) -> impl Iterator<Item = &Move> {
        let mut first: BTreeSet<ShardId> = BTreeSet::new();
        self.outlook.moves.iter().filter(move |step| first.insert(step.shard))
    }

    /// What a plan has still to do, as of the last look.
    pub(super) fn left(&self, map: &Map, plan: &Plan) -> Left {
        let of_plan = self.outlook.moves.iter().filter(|step| !is_done(map, step) && allows(&plan.kind, step, map));
        let own = own_moves(map, plan, &self.seen);
        let under_way = |shard: &ShardId| map.steps.contains_key(shard);
        let mut left = Left::default();
        for step in of_plan.chain(own.iter().map(|(_, step)| step)) {
            left.steps += usize::from(!under_way(&step.shard));
            left.bytes += step.add.and_then(|_| self.seen.bytes(step.shard)).unwrap_or(0);
        }
        left
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
            let unseen = plan.kind.moves_replicas() && self.outlook.at_us < since_us;
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
            PlanKind::Rebuild { .. } if !own_moves(map, plan, &self.seen).is_empty() => Verdict::Open,
            PlanKind::Rebuild { node, .. } => match self.seen.broken_on(*node).next() {
                Some((shard, _, _)) => {
                    let text = format!("shard {shard} has no other replica that it could be made from");
                    Verdict::Over(PlanState::Failed, text)
                }
                None => done(),
            },
            PlanKind::Rebalance
            | PlanKind::SetReplicationFactor(_)
            | PlanKind::ChangeZone { .. }
            | PlanKind::SplitShard { .. }
            | PlanKind::SplitAll => done(),
            PlanKind::UnsafeRecover(shards) => self.recovered(map, shards, now),
        }
    }
}

/// Shards that have fewer replicas than they are to have.
fn lacking(map: &Map) -> impl Iterator<Item = ShardId> {
    let few = |(shard, info): &(&ShardId, &cluster::ShardInfo)| info.replicas.len() < replicas_wanted(map, **shard);
    map.shards.iter().filter(few).map(|(shard, _)| *shard)
}

/// What a plan has still to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
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

/// Whether a move shows in the map already, or cannot be made as it was meant.
fn is_done(map: &Map, step: &Move) -> bool {
    let Some(info) = map.shards.get(&step.shard) else { return true };
    let has_come = step.add.is_some_and(|node| info.replica_on(node).is_some());
    let has_gone = step.remove.is_some_and(|id| info.replica(id).is_none());
    (has_come || has_gone) && !map.steps.contains_key(&step.shard)
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

/// The move, to where the plan wants it.
fn redirected(kind: &PlanKind, step: Move, map: &Map) -> Move {
    let PlanKind::ReplaceNode { with, .. } = kind else { return step };
    // What only fills a shard up goes elsewhere: that place is for what the node has.
    if step.remove.is_none() {
        return step;
    }
    let has_one = map.shards.get(&step.shard).is_some_and(|info| info.replica_on(*with).is_some());
    // It may be leaving by now, or be gone.
    let takes = map.nodes.contains_key(with) && !map.leaving.contains(with);
    if has_one || !takes { step } else { Move { add: Some(*with), ..step } }
}

/// The moves of plans that say themselves what is to move.
pub(super) fn own_moves(map: &Map, plan: &Plan, seen: &Seen) -> Vec<(PlanId, Move)> {
    let moves = match &plan.kind {
        // Once: a move against the rules is undone by plans that keep them, and the two would never end.
        PlanKind::MoveShard { shard, from, to } if plan.steps_done == 0 => {
            moved(map, *shard, *from, *to).into_iter().collect()
        }
        PlanKind::Rebuild { node, shard } => rebuilt(map, plan, *node, *shard, seen),
        _ => Vec::new(),
    };
    moves.into_iter().map(|step| (plan.id, step)).collect()
}

fn moved(map: &Map, shard: ShardId, from: NodeId, to: NodeId) -> Option<Move> {
    let info = map.shards.get(&shard)?;
    let remove = info.replica_on(from)?.id;
    let why = Why::Balance;
    (info.replica_on(to).is_none() && !map.leaving.contains(&to)).then_some(Move {
        shard,
        add: Some(to),
        remove: Some(remove),
        why,
    })
}

/// Of a node that is rebuilt: what is damaged goes, and comes again to where it was.
fn rebuilt(map: &Map, plan: &Plan, node: NodeId, shard: Option<ShardId>, seen: &Seen) -> Vec<Move> {
    let why = Why::Repair;
    // Where the shard is named, two steps make it anew, whatever it is told to be like.
    if let Some(shard) = shard {
        let on = map.shards.get(&shard).and_then(|info| info.replica_on(node)).map(|replica| replica.id);
        return match (on, plan.steps_done) {
            (Some(_), 0) if !has_others(map, shard) => Vec::new(),
            (Some(remove), 0) => vec![Move { shard, add: None, remove: Some(remove), why }],
            // Unless it has got another one elsewhere: one too many would be taken away again, and so on.
            (None, _) if !map.leaving.contains(&node) && lacking(map).any(|lacks| lacks == shard) => {
                vec![Move { shard, add: Some(node), remove: None, why }]
            }
            _ => Vec::new(),
        };
    }
    let damaged = seen
        .broken_on(node)
        .filter(|(shard, replica, _)| map.replica(*shard, *replica).is_some() && has_others(map, *shard));
    let goes = damaged.map(|(shard, replica, _)| Move { shard, add: None, remove: Some(replica), why });
    let mut moves: Vec<Move> = goes.collect();
    let has_none = |shard: &ShardId| map.shards.get(shard).is_some_and(|info| info.replica_on(node).is_none());
    let comes = lacking(map).filter(|shard| !map.leaving.contains(&node) && has_none(shard));
    moves.extend(comes.map(|shard| Move { shard, add: Some(node), remove: None, why }));
    moves
}

/// Whether a replica of a shard can be made anew from another one.
fn has_others(map: &Map, shard: ShardId) -> bool {
    map.shards.get(&shard).is_some_and(|info| info.voters().count() > 1)
}
