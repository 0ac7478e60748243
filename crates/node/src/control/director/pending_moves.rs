//! The moves that placement wants: its cached output, worked out again when its inputs change or it is too old.

use super::Director;
use super::explicit_moves::own_moves;
use super::plans::PlanLeft;
use cluster::placement::{Move, Observed, ReplicasWanted, Why, next_moves};
use cluster::{Map, Plan, PlanKind, PlanState, Settings};
use std::collections::BTreeSet;
use std::sync::Arc;
use vocab::{Moment, NodeId, PlanId, ShardId};

/// How long moves that were worked out are gone by, in µs, as long as nothing else has changed.
const MOVES_KEPT_US: u64 = 2_000_000;
/// For each shard of the store it takes longer to work them out: so long they are gone by although the map has changed.
const MOVES_KEPT_US_EACH: u64 = 200;

/// The moves that were worked out last, and from what.
#[derive(Debug, Default)]
pub(super) struct PendingMoves {
    pub(super) moves: Vec<Move>,
    /// Nodes that have not answered for as long as it takes to count them lost, as of now.
    pub(super) lost: BTreeSet<NodeId>,
    pub(super) at_us: u64,
    map: Arc<Map>,
    basis: Option<Basis>,
}

/// What changes the moves at once when it changes.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    down: BTreeSet<NodeId>,
    lost: BTreeSet<NodeId>,
    leaving: BTreeSet<NodeId>,
    plans: Vec<(PlanId, PlanState)>,
    nodes: Vec<(NodeId, String, u64)>,
    replication_factor: u32,
}

impl Basis {
    fn of(map: &Map, observed: &Observed) -> Self {
        let nodes = map.nodes.values().map(|node| (node.id, node.zone.clone(), node.capacity));
        Self {
            down: observed.down.clone(),
            lost: observed.lost.clone(),
            leaving: observed.leaving.clone(),
            plans: map.open_plans().map(|plan| (plan.id, plan.state)).collect(),
            nodes: nodes.collect(),
            replication_factor: map.replication_factor,
        }
    }
}

impl PendingMoves {
    /// Whether a shard's replicas are still those from which its moves follow: if not, they may undo what was done since.
    pub(super) fn holds(&self, map: &Map, shard: ShardId) -> bool {
        let (then, now) = (self.map.shards.get(&shard), map.shards.get(&shard));
        then.zip(now).is_some_and(|(then, now)| then.replicas == now.replicas)
    }

    /// The next move of each shard: later ones build on it.
    pub(super) fn first_moves(&self) -> impl Iterator<Item = &Move> {
        let mut first: BTreeSet<ShardId> = BTreeSet::new();
        self.moves.iter().filter(move |step| first.insert(step.shard))
    }
}

impl Director {
    /// Works out anew which moves there are, if that is due. At rest, only a change of the map or of what is known of nodes
    /// makes it so.
    pub(super) fn look(&mut self, map: &Arc<Map>, settings: &Settings, now: Moment) {
        let observed = self.seen.observed(map, settings, now);
        self.pending.lost.clone_from(&observed.lost);
        let basis = Basis::of(map, &observed);
        let each_us = map.shards.len() as u64 * MOVES_KEPT_US_EACH;
        let kept_us = MOVES_KEPT_US + each_us;
        let kept_us = if self.pending.moves.is_empty() { kept_us / 4 } else { kept_us };
        let age_us = now.mono_us.saturating_sub(self.pending.at_us);
        let wanted = map.open_plans().any(|plan| plan.kind.moves_replicas());
        let other = self.pending.map.epoch != map.epoch && age_us >= each_us;
        if self.pending.basis.as_ref() != Some(&basis) || other || (wanted && age_us >= kept_us) {
            // Whether or not a plan is open: what none is about may have to be moved.
            let mut moves = if wanted || settings.auto_rebalance { next_moves(map, &observed) } else { Vec::new() };
            if !wanted {
                // These plans will not be made.
                moves.retain(|step| step.why != Why::Balance);
            }
            self.pending.moves = moves;
            self.pending.map = Arc::clone(map);
            (self.pending.basis, self.pending.at_us) = (Some(basis), now.mono_us);
        }
    }

    /// What a plan has still to do, as of the last look.
    pub(super) fn left(&self, map: &Map, plan: &Plan) -> PlanLeft {
        let of_plan = self.pending.moves.iter().filter(|step| !is_done(map, step) && allows(&plan.kind, step, map));
        let own = own_moves(map, plan, &self.seen, &self.pending.lost);
        let under_way = |shard: &ShardId| map.steps.contains_key(shard);
        let mut left = PlanLeft::default();
        for step in of_plan.chain(own.iter()) {
            left.steps += usize::from(!under_way(&step.shard));
            left.bytes += step.add.and_then(|_| self.seen.bytes(step.shard)).unwrap_or(0);
        }
        left
    }

    /// Whether a move leaves its shard a majority that answers; before, it is not begun: it would be in others' way.
    pub(super) fn leaves_majority(&self, map: &Map, step: &Move, now: Moment) -> bool {
        let Some((info, remove)) = map.shards.get(&step.shard).zip(step.remove) else { return true };
        self.may_let_go(info, step.shard, remove, usize::from(step.add.is_some()), now)
    }
}

/// Shards that have fewer replicas than they are to have.
pub(super) fn lacking(map: &Map) -> impl Iterator<Item = ShardId> {
    let wanted = ReplicasWanted::of(map);
    let few = move |(shard, info): &(&ShardId, &cluster::ShardInfo)| info.replicas.len() < wanted.of_shard(**shard);
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

/// The plan for which a move is made: one that allows it, of these rather one that runs. But where a plan wants a node
/// empty, what goes from there goes for that plan, or waits as it does.
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
