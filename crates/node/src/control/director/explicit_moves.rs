//! Explicit moves: those of plans that name what moves, be it one shard to another node, or replicas that are rebuilt.

use super::moves::lacking;
use super::observe::Seen;
use cluster::placement::{Move, Why};
use cluster::{Map, Plan, PlanKind};
use std::collections::BTreeSet;
use vocab::{NodeId, ShardId};

/// The moves that such a plan still has to make; none to a lost node.
pub(super) fn own_moves(map: &Map, plan: &Plan, seen: &Seen, lost: &BTreeSet<NodeId>) -> Vec<Move> {
    match &plan.kind {
        // Once: a move against the rules is undone by plans that keep them, and the two would never end.
        PlanKind::MoveShard { shard, from, to } if plan.steps_done == 0 && !lost.contains(to) => {
            moved(map, *shard, *from, *to).into_iter().collect()
        }
        PlanKind::Rebuild { node, shard } if !lost.contains(node) => rebuilt(map, plan, *node, *shard, seen),
        _ => Vec::new(),
    }
}

/// The node to which a plan's explicit moves bring replicas.
pub(super) fn receiver(kind: &PlanKind) -> Option<NodeId> {
    match kind {
        PlanKind::MoveShard { to: node, .. } | PlanKind::Rebuild { node, .. } => Some(*node),
        _ => None,
    }
}

fn moved(map: &Map, shard: ShardId, from: NodeId, to: NodeId) -> Option<Move> {
    let info = map.shards.get(&shard)?;
    let remove = info.replica_on(from)?.id;
    let takes = map.nodes.contains_key(&to) && !map.leaving.contains(&to) && info.replica_on(to).is_none();
    takes.then_some(Move { shard, add: Some(to), remove: Some(remove), why: Why::Balance })
}

/// The moves that rebuild a node: a damaged replica goes, and a new one comes to the same node.
fn rebuilt(map: &Map, plan: &Plan, node: NodeId, shard: Option<ShardId>, seen: &Seen) -> Vec<Move> {
    let why = Why::Repair;
    let takes = map.nodes.contains_key(&node) && !map.leaving.contains(&node);
    // Where the shard is named, two steps make it anew, whatever it is told to be like.
    if let Some(shard) = shard {
        let on = map.shards.get(&shard).and_then(|info| info.replica_on(node)).map(|replica| replica.id);
        return match (on, plan.steps_done) {
            (Some(_), 0) if !has_others(map, shard) => Vec::new(),
            (Some(remove), 0) => vec![Move { shard, add: None, remove: Some(remove), why }],
            // Unless it has got another one elsewhere: one too many would be taken away again, and so on.
            (None, _) if takes && lacking(map).any(|lacks| lacks == shard) => {
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
    let comes = lacking(map).filter(|shard| takes && has_none(shard));
    moves.extend(comes.map(|shard| Move { shard, add: Some(node), remove: None, why }));
    moves
}

/// Whether a shard has another voter, from which a replica can be rebuilt.
pub(super) fn has_others(map: &Map, shard: ShardId) -> bool {
    map.shards.get(&shard).is_some_and(|info| info.voters().count() > 1)
}
