//! Which replicas are to come and go: what is endangered first, what is merely uneven last.

use super::observed::{Move, NodeState, Observed, Why};
use super::projection::{NodeIndex, ProjectedReplica, Projection};
use super::shares::scatter;
use crate::map::Map;
use std::collections::BTreeSet;
use vocab::ShardId;

/// Millionths off its part from which a node is worth moving data for, and those at which that ends.
const UNEVEN: i64 = 100_000;
const EVEN: i64 = 50_000;

/// Whether a move for balance is one that will be made.
type May<'a> = &'a dyn Fn(&Move) -> bool;

/// Every move that the store needs, in the order in which they are to be made; none if all is well. Moves of one shard build
/// on each other. A shard without a majority gets none: it waits for its nodes.
///
/// Nodes end within 10% of their part, as far as whole shards allow; as long as they are, nothing moves for balance.
#[must_use]
pub fn next_moves(map: &Map, observed: &Observed) -> Vec<Move> {
    next_moves_that(map, observed, &|_| true)
}

/// The same, where for balance only that is moved which `may` be: what follows from a move that is not made would be undone by
/// what follows from it next.
#[must_use]
pub fn next_moves_that(map: &Map, observed: &Observed, may: May<'_>) -> Vec<Move> {
    let mut projection = Projection::new(map, observed);
    let mut order: Vec<u32> = (0..projection.shards.len() as u32).collect();
    order.retain(|&shard| projection.shards[shard as usize].spare >= 0);
    // The metadata group first among its like: without it nothing else can be moved.
    order.sort_by_key(|&shard| (projection.shards[shard as usize].spare, shard));
    for state in [NodeState::Lost, NodeState::Leaving] {
        for &shard in &order {
            replace(&mut projection, shard, state);
        }
    }
    for &shard in &order {
        spread(&mut projection, shard);
        shed(&mut projection, shard);
    }
    level(&mut projection, may);
    projection.moves.sort_by_key(|step| step.why);
    projection.moves
}

/// Replaces what is on nodes of that state, and, with the lost ones, fills up to what the shard is to have.
fn replace(projection: &mut Projection, shard: u32, state: NodeState) {
    let why = if state == NodeState::Lost { Why::Repair } else { Why::Drain };
    let on = |projection: &Projection, of: NodeState| -> Vec<ProjectedReplica> {
        let is = |replica: &&ProjectedReplica| projection.node(replica.node).state == of;
        projection.shards[shard as usize].replicas.iter().filter(is).copied().collect()
    };
    let mut gone = on(projection, state).into_iter();
    loop {
        let this = &projection.shards[shard as usize];
        let stay = this.replicas.iter().filter(|replica| projection.node(replica.node).state.counts()).count();
        // What is only to be drained is still there, and need not be made up for yet.
        let safe = if state == NodeState::Lost { stay + on(projection, NodeState::Leaving).len() } else { stay };
        let from = gone.next();
        let to = if safe < this.wanted { destination(projection, shard) } else { None };
        // No replica is given up for nothing as long as it is needed, or another one is about to take its place.
        let may_go = to.is_some() || (safe >= this.wanted && !this.is_busy && this.replicas.len() > 1);
        match (from, to) {
            (None, None) => return,
            (Some(_), None) if !may_go => {}
            _ => projection.decide(shard, from, to, why),
        }
    }
}

/// The emptiest node that the rules allow.
fn destination(projection: &Projection, shard: u32) -> Option<NodeIndex> {
    projection.by_fullness().find(|&node| projection.fits(shard, node, None))
}

/// Takes replicas out of zones that hold more than they must.
fn spread(projection: &mut Projection, shard: u32) {
    while !projection.shards[shard as usize].is_busy {
        let this = &projection.shards[shard as usize];
        let crowd = |index: NodeIndex| {
            let zone = projection.node(index).zone;
            let in_zone = |replica: &&ProjectedReplica| projection.node(replica.node).zone == zone;
            this.replicas.iter().filter(in_zone).filter(|replica| projection.node(replica.node).state.counts()).count()
        };
        let movable = this.replicas.iter().filter(|replica| {
            replica.id.is_some()
                && projection.node(replica.node).state == NodeState::Able
                && crowd(replica.node) > this.zone_max
        });
        let Some(from) = movable.max_by_key(|replica| (projection.fullness(replica.node), replica.node)).copied()
        else {
            return;
        };
        let Some(to) = projection.by_fullness().find(|&node| projection.fits(shard, node, Some(from.node))) else {
            return;
        };
        projection.decide(shard, Some(from), Some(to), Why::Zone);
    }
}

/// Removes replicas that are too many: out of the zone that has most, from the fullest node.
fn shed(projection: &mut Projection, shard: u32) {
    loop {
        let this = &projection.shards[shard as usize];
        // As long as one does not answer, none of the others is too many.
        let all_able = this.replicas.iter().all(|replica| projection.node(replica.node).state == NodeState::Able);
        if this.is_busy || !all_able || this.replicas.len() <= this.wanted {
            return;
        }
        let crowd = |index: NodeIndex| {
            let zone = projection.node(index).zone;
            this.replicas.iter().filter(|replica| projection.node(replica.node).zone == zone).count()
        };
        let known = this.replicas.iter().filter(|replica| replica.id.is_some());
        let worst = known.max_by_key(|replica| (crowd(replica.node), projection.fullness(replica.node), replica.node));
        let Some(from) = worst.copied() else { return };
        projection.decide(shard, Some(from), None, Why::Surplus);
    }
}

/// Moves data from nodes that hold more than their part to nodes that hold less.
fn level(projection: &mut Projection, may: May<'_>) {
    let off = |projection: &Projection, node: NodeIndex| projection.fullness(node).abs();
    if !projection.by_fullness().any(|node| off(projection, node) > UNEVEN) {
        return;
    }
    let mut stuck: BTreeSet<NodeIndex> = BTreeSet::new();
    loop {
        let ends = |projection: &Projection| {
            let lowest = projection.by_fullness().find(|node| !stuck.contains(node))?;
            let highest = projection.by_fullness().rev().find(|node| !stuck.contains(node))?;
            Some(if off(projection, lowest) >= off(projection, highest) { lowest } else { highest })
        };
        let Some(worst) = ends(projection) else { return };
        if off(projection, worst) <= EVEN {
            return;
        }
        match transfer(projection, worst, may) {
            Some((shard, from, to)) => projection.decide(shard, Some(from), Some(to), Why::Balance),
            None => drop(stuck.insert(worst)),
        }
    }
}

/// The best move that brings `worst` nearer to its part.
fn transfer(projection: &Projection, worst: NodeIndex, may: May<'_>) -> Option<(u32, ProjectedReplica, NodeIndex)> {
    if projection.fullness(worst) < 0 {
        projection
            .by_fullness()
            .rev()
            .take_while(|from| gap(projection, *from, worst) > 0.0)
            .find_map(|from| pick(projection, from, worst, may))
    } else {
        projection
            .by_fullness()
            .take_while(|to| gap(projection, worst, *to) > 0.0)
            .find_map(|to| pick(projection, worst, to, may))
    }
}

/// By how much the one is fuller than the other.
fn gap(projection: &Projection, from: NodeIndex, to: NodeIndex) -> f64 {
    projection.above(from) / projection.part(from) - projection.above(to) / projection.part(to)
}

/// What `from` can give to `to` that leaves both nearer to their parts: of what is nearest in size to what is to go, any,
/// but the same on every node.
fn pick(
    projection: &Projection,
    from: NodeIndex,
    to: NodeIndex,
    may: May<'_>,
) -> Option<(u32, ProjectedReplica, NodeIndex)> {
    let ideal = projection.above(from).min(-projection.above(to)).max(0.0);
    // The sum of squares of what nodes are off, each against its part, has to fall.
    let inverse = 1.0 / projection.part(from) + 1.0 / projection.part(to);
    let size_max = 2.0 * gap(projection, from, to) / inverse * 0.999;
    let mut best: Option<(f64, u64, u32, ProjectedReplica)> = None;
    for &shard in &projection.node(from).shards {
        let this = &projection.shards[shard as usize];
        let size = this.size as f64;
        let miss = (size - ideal).abs();
        let lot = scatter(u64::from(this.id.0), u64::from(to));
        if this.is_busy || this.spare < 0 || this.id == ShardId::META || size >= size_max {
            continue;
        }
        if best.as_ref().is_some_and(|best| (best.0, best.1) <= (miss, lot)) || !projection.fits(shard, to, Some(from))
        {
            continue;
        }
        let replica = this.replicas.iter().find(|replica| replica.node == from && replica.id.is_some());
        let (shard_id, add) = (this.id, Some(projection.node(to).id));
        let as_move = |remove| Move { shard: shard_id, remove, add, why: Why::Balance };
        let replica = replica.filter(|replica| may(&as_move(replica.id)));
        best = replica.map(|replica| (miss, lot, shard, *replica)).or(best);
    }
    best.map(|(_, _, shard, replica)| (shard, replica, to))
}
