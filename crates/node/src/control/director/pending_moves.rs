//! The moves that placement wants: its cached output, computed again when its inputs change or it is too old.

use super::explicit_moves::own_moves;
use super::inputs::Inputs;
use super::moves::{allows, is_done, plan_of};
use cluster::placement::{Move, Observed, next_moves_that};
use cluster::{Map, Plan, PlanState};
use std::collections::BTreeSet;
use std::sync::Arc;
use vocab::{NodeId, PlanId, ShardId};

/// The moves are computed again after this time, in µs, even if nothing has changed.
const MOVES_KEPT_US: u64 = 2_000_000;
/// Added to that for each shard of the store, in µs, because more shards take longer to compute. The moves are kept for the
/// sum of these even if the map changes.
const MOVES_KEPT_US_EACH: u64 = 200;

/// The moves that were last computed, and their inputs.
#[derive(Debug, Default)]
pub(super) struct PendingMoves {
    pub(super) moves: Vec<Move>,
    /// Nodes that count as lost now.
    pub(super) lost: BTreeSet<NodeId>,
    pub(super) at_us: u64,
    map: Arc<Map>,
    basis: Option<Basis>,
}

/// What a plan still has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlanLeft {
    /// The steps that have not begun.
    pub(super) steps: usize,
    /// The bytes that are still to be moved, including those under way.
    pub(super) bytes: u64,
}

/// Inputs: when one changes, the moves are computed again at once.
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
    /// Whether a shard's replicas are still those from which its moves follow. If not, a move might undo a newer change.
    pub(super) fn holds(&self, map: &Map, shard: ShardId) -> bool {
        let (then, now) = (self.map.shards.get(&shard), map.shards.get(&shard));
        then.zip(now).is_some_and(|(then, now)| then.replicas == now.replicas)
    }

    /// The next move of each shard: later ones build on it.
    pub(super) fn first_moves(&self) -> impl Iterator<Item = &Move> {
        let mut first: BTreeSet<ShardId> = BTreeSet::new();
        self.moves.iter().filter(move |step| first.insert(step.shard))
    }

    /// Drops the moves that the map shows as done.
    pub(super) fn drop_done(&mut self, map: &Map) {
        self.moves.retain(|step| !is_done(map, step));
    }

    /// Computes the moves again if that is due. While no plan moves anything, only a change of the inputs makes it due.
    pub(super) fn refresh(&mut self, inputs: &Inputs<'_>, map: &Arc<Map>) {
        let &Inputs { settings, seen, now, .. } = inputs;
        let observed = seen.observed(map, settings, now);
        self.lost.clone_from(&observed.lost);
        let basis = Basis::of(map, &observed);
        let each_us = map.shards.len() as u64 * MOVES_KEPT_US_EACH;
        let kept_us = MOVES_KEPT_US + each_us;
        let kept_us = if self.moves.is_empty() { kept_us / 4 } else { kept_us };
        let age_us = now.mono_us.saturating_sub(self.at_us);
        let wanted = map.open_plans().any(|plan| plan.kind.moves_replicas());
        let other = self.map.epoch != map.epoch && age_us >= each_us;
        if self.basis.as_ref() != Some(&basis) || other || (wanted && age_us >= kept_us) {
            // Also without an open plan: replicas may have to move for other reasons.
            // Moves for balance count only if a plan allows them: others will not be made.
            let may = |step: &Move| plan_of(map, step).is_some();
            let is_due = wanted || settings.auto_rebalance;
            self.moves = if is_due { next_moves_that(map, &observed, &may) } else { Vec::new() };
            self.map = Arc::clone(map);
            (self.basis, self.at_us) = (Some(basis), now.mono_us);
        }
    }

    /// What a plan still has to do, according to the present moves.
    pub(super) fn left(&self, inputs: &Inputs<'_>, plan: &Plan) -> PlanLeft {
        let &Inputs { map, seen, .. } = inputs;
        let of_plan = self.moves.iter().filter(|step| !is_done(map, step) && allows(&plan.kind, step, map));
        let own = own_moves(map, plan, seen, &self.lost);
        let under_way = |shard: &ShardId| map.steps.contains_key(shard);
        let mut left = PlanLeft::default();
        for step in of_plan.chain(own.iter()) {
            left.steps += usize::from(!under_way(&step.shard));
            left.bytes += step.add.and_then(|_| seen.bytes(step.shard)).unwrap_or(0);
        }
        left
    }
}
