//! Which replicas are to come and go: what is endangered first, what is merely uneven last.

use super::observed::{Move, NodeState, Observed, Why};
use super::scene::{Place, Scene, SceneReplica};
use super::shares::scatter;
use crate::map::Map;
use std::collections::BTreeSet;
use vocab::ShardId;

/// Millionths off its part from which a node is worth moving data for, and those at which that ends.
const UNEVEN: i64 = 100_000;
const EVEN: i64 = 50_000;

/// Every move that the store needs, in the order in which they are to be made; none if all is well. Moves of one shard build
/// on each other. A shard without a majority gets none: it waits for its nodes.
///
/// Nodes end within 10% of their part, as far as whole shards allow; as long as they are, nothing moves for balance.
#[must_use]
pub fn next_moves(map: &Map, observed: &Observed) -> Vec<Move> {
    let mut scene = Scene::new(map, observed);
    let mut order: Vec<u32> = (0..scene.shards.len() as u32).collect();
    order.retain(|&shard| scene.shards[shard as usize].spare >= 0);
    // The metadata group first among its like: without it nothing else can be moved.
    order.sort_by_key(|&shard| (scene.shards[shard as usize].spare, shard));
    for state in [NodeState::Lost, NodeState::Leaving] {
        for &shard in &order {
            replace(&mut scene, shard, state);
        }
    }
    for &shard in &order {
        spread(&mut scene, shard);
        shed(&mut scene, shard);
    }
    level(&mut scene);
    scene.moves.sort_by_key(|step| step.why);
    scene.moves
}

/// Replaces what is on nodes of that state, and, with the lost ones, fills up to what the shard is to have.
fn replace(scene: &mut Scene, shard: u32, state: NodeState) {
    let why = if state == NodeState::Lost { Why::Repair } else { Why::Drain };
    let on = |scene: &Scene, of: NodeState| -> Vec<SceneReplica> {
        let is = |replica: &&SceneReplica| scene.node(replica.node).state == of;
        scene.shards[shard as usize].replicas.iter().filter(is).copied().collect()
    };
    let mut gone = on(scene, state).into_iter();
    loop {
        let this = &scene.shards[shard as usize];
        let stay = this.replicas.iter().filter(|replica| scene.node(replica.node).state.counts()).count();
        // What is only to be drained is still there, and need not be made up for yet.
        let safe = if state == NodeState::Lost { stay + on(scene, NodeState::Leaving).len() } else { stay };
        let from = gone.next();
        let to = if safe < this.wanted { destination(scene, shard) } else { None };
        // No replica is given up for nothing as long as it is needed, or another one is about to take its place.
        let may_go = to.is_some() || (safe >= this.wanted && !this.is_busy && this.replicas.len() > 1);
        match (from, to) {
            (None, None) => return,
            (Some(_), None) if !may_go => {}
            _ => scene.decide(shard, from, to, why),
        }
    }
}

/// The emptiest node that the rules allow.
fn destination(scene: &Scene, shard: u32) -> Option<Place> {
    scene.by_fullness().find(|&node| scene.fits(shard, node, None))
}

/// Takes replicas out of zones that hold more than they must.
fn spread(scene: &mut Scene, shard: u32) {
    while !scene.shards[shard as usize].is_busy {
        let this = &scene.shards[shard as usize];
        let crowd = |place: Place| {
            let zone = scene.node(place).zone;
            let in_zone = |replica: &&SceneReplica| scene.node(replica.node).zone == zone;
            this.replicas.iter().filter(in_zone).filter(|replica| scene.node(replica.node).state.counts()).count()
        };
        let movable = this.replicas.iter().filter(|replica| {
            replica.id.is_some()
                && scene.node(replica.node).state == NodeState::Able
                && crowd(replica.node) > this.zone_max
        });
        let Some(from) = movable.max_by_key(|replica| (scene.fullness(replica.node), replica.node)).copied() else {
            return;
        };
        let Some(to) = scene.by_fullness().find(|&node| scene.fits(shard, node, Some(from.node))) else { return };
        scene.decide(shard, Some(from), Some(to), Why::Zone);
    }
}

/// Removes replicas that are too many: out of the zone that has most, from the fullest node.
fn shed(scene: &mut Scene, shard: u32) {
    loop {
        let this = &scene.shards[shard as usize];
        // As long as one does not answer, none of the others is too many.
        let all_able = this.replicas.iter().all(|replica| scene.node(replica.node).state == NodeState::Able);
        if this.is_busy || !all_able || this.replicas.len() <= this.wanted {
            return;
        }
        let crowd = |place: Place| {
            let zone = scene.node(place).zone;
            this.replicas.iter().filter(|replica| scene.node(replica.node).zone == zone).count()
        };
        let known = this.replicas.iter().filter(|replica| replica.id.is_some());
        let worst = known.max_by_key(|replica| (crowd(replica.node), scene.fullness(replica.node), replica.node));
        let Some(from) = worst.copied() else { return };
        scene.decide(shard, Some(from), None, Why::Surplus);
    }
}

/// Moves data from nodes that hold more than their part to nodes that hold less.
fn level(scene: &mut Scene) {
    let off = |scene: &Scene, node: Place| scene.fullness(node).abs();
    if !scene.by_fullness().any(|node| off(scene, node) > UNEVEN) {
        return;
    }
    let mut stuck: BTreeSet<Place> = BTreeSet::new();
    loop {
        let ends = |scene: &Scene| {
            let lowest = scene.by_fullness().find(|node| !stuck.contains(node))?;
            let highest = scene.by_fullness().rev().find(|node| !stuck.contains(node))?;
            Some(if off(scene, lowest) >= off(scene, highest) { lowest } else { highest })
        };
        let Some(worst) = ends(scene) else { return };
        if off(scene, worst) <= EVEN {
            return;
        }
        match transfer(scene, worst) {
            Some((shard, from, to)) => scene.decide(shard, Some(from), Some(to), Why::Balance),
            None => drop(stuck.insert(worst)),
        }
    }
}

/// The best move that brings `worst` nearer to its part.
fn transfer(scene: &Scene, worst: Place) -> Option<(u32, SceneReplica, Place)> {
    if scene.fullness(worst) < 0 {
        scene
            .by_fullness()
            .rev()
            .take_while(|from| gap(scene, *from, worst) > 0.0)
            .find_map(|from| pick(scene, from, worst))
    } else {
        scene.by_fullness().take_while(|to| gap(scene, worst, *to) > 0.0).find_map(|to| pick(scene, worst, to))
    }
}

/// By how much the one is fuller than the other.
fn gap(scene: &Scene, from: Place, to: Place) -> f64 {
    scene.above(from) / scene.part(from) - scene.above(to) / scene.part(to)
}

/// What `from` can give to `to` that leaves both nearer to their parts: of what is nearest in size to what is to go, any,
/// but the same on every node.
fn pick(scene: &Scene, from: Place, to: Place) -> Option<(u32, SceneReplica, Place)> {
    let ideal = scene.above(from).min(-scene.above(to)).max(0.0);
    // The sum of squares of what nodes are off, each against its part, has to fall.
    let inverse = 1.0 / scene.part(from) + 1.0 / scene.part(to);
    let size_max = 2.0 * gap(scene, from, to) / inverse * 0.999;
    let mut best: Option<(f64, u64, u32, SceneReplica)> = None;
    for &shard in &scene.node(from).shards {
        let this = &scene.shards[shard as usize];
        let size = this.size as f64;
        let miss = (size - ideal).abs();
        let lot = scatter(u64::from(this.id.0), u64::from(to));
        if this.is_busy || this.spare < 0 || this.id == ShardId::META || size >= size_max {
            continue;
        }
        if best.as_ref().is_some_and(|best| (best.0, best.1) <= (miss, lot)) || !scene.fits(shard, to, Some(from)) {
            continue;
        }
        let replica = this.replicas.iter().find(|replica| replica.node == from && replica.id.is_some());
        best = replica.map(|replica| (miss, lot, shard, *replica)).or(best);
    }
    best.map(|(_, _, shard, replica)| (shard, replica, to))
}
