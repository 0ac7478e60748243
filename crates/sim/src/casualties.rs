//! What is damaged, dead or lost for good, and what may be: nothing that a majority cannot do without, but for one disaster a
//! run at the most, in which so many nodes die at once that some shards lose their majority.

use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::places::{Place, node_id, place_of};
use crate::schedule::{Micros, SECOND};
use crate::store::Store;
use cluster::{Map, PlanKind, PlanState, ReplicaInfo};
use node::newest_events;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, ReplicaId, ShardId};

/// Nodes that are left at the least.
pub const NODES_MIN: usize = 3;
/// After the death of a node, no plan is begun for so long: no node has noticed yet.
const SHOCK: Micros = 10 * SECOND;
/// After a disaster, an operator goes on with what is left no sooner than this.
const GRIEF: Micros = 5 * SECOND;
/// How often nodes that could go are drawn before it is left at that.
const DRAWS: usize = 20;
/// Events that are looked through for one.
const EVENTS: usize = 10_000;

/// What is damaged, dead or lost.
#[derive(Default)]
pub struct Casualties {
    /// Replicas that are of no use until there is another one in their place.
    damaged: BTreeMap<(ShardId, NodeId), ReplicaId>,
    /// Nodes that will never come back.
    dead: BTreeSet<Place>,
    /// Nodes that were in the map.
    known: BTreeSet<NodeId>,
    /// When the last node died.
    died_at: Option<Micros>,
}

impl Casualties {
    /// Whether nothing runs at a place, and nothing ever will.
    #[must_use]
    pub fn is_gone(&self, place: Place) -> bool {
        self.dead.contains(&place)
    }

    /// The places of dead nodes.
    #[must_use]
    pub fn dead(&self) -> Vec<Place> {
        self.dead.iter().copied().collect()
    }

    /// Replicas that are damaged. Those that the map has no more are forgotten.
    pub fn damaged(&mut self, map: &Map) -> Vec<(ShardId, NodeId)> {
        self.damaged.retain(|(shard, node), replica| {
            map.shards[shard].replica_on(*node).is_some_and(|there| there.id == *replica)
        });
        self.damaged.keys().copied().collect()
    }

    /// Whether a node has died a moment ago.
    #[must_use]
    pub fn is_shock(&self, now: Micros) -> bool {
        self.died_at.is_some_and(|at| now < at + SHOCK)
    }

    /// Whether it is too soon after a disaster to go on with what is left.
    #[must_use]
    pub fn is_grief(&self, now: Micros) -> bool {
        self.died_at.is_some_and(|at| now < at + GRIEF)
    }

    /// A node that the map has had and has no more is switched off.
    pub fn take_away(&mut self, store: &mut Store, map: &Map) {
        self.known.extend(map.nodes.keys());
        let gone: Vec<NodeId> = self.known.iter().copied().filter(|node| !map.nodes.contains_key(node)).collect();
        for node in gone {
            let place = place_of(node);
            if self.dead.insert(place) {
                store.env.note(format_args!("node {node} is taken away"));
                store.crash(place);
            }
        }
    }

    /// A node crashes, and when it comes back the files of one of its trees are damaged. Not while another replica of the
    /// shard is lacking, or about to be taken away to be made anew: what a majority has lost comes back by no means.
    pub fn damage(&mut self, store: &mut Store, place: Place) {
        let Some(map) = store.checks.map() else { return };
        let id = node_id(place);
        let shards: Vec<(ShardId, ReplicaId)> =
            map.replicas_on(id).map(|(shard, replica)| (shard, replica.id)).collect();
        let rebuilt = |shard: ShardId| {
            map.open_plans().any(|plan| match plan.kind {
                PlanKind::Rebuild { shard: Some(of), .. } => of == shard,
                PlanKind::Rebuild { node, shard: None } => map.replicas_on(node).any(|(of, _)| of == shard),
                _ => false,
            })
        };
        let able = shards.into_iter().find(|(shard, _)| {
            *shard != ShardId::META
                && !rebuilt(*shard)
                && !map.steps.contains_key(shard)
                && self.damaged.keys().all(|(damaged, _)| damaged != shard)
                && store.nodes.is_whole(&map, *shard)
        });
        let Some((shard, replica)) = able else { return };
        let unwell = |replica: &ReplicaInfo| self.is_gone(place_of(replica.node));
        if map.shards[&shard].replicas.iter().any(unwell) || !store.nodes[place].disk.damage(shard) {
            return;
        }
        store.env.note(format_args!("the tree of shard {shard} on node {} is damaged", place + 1));
        self.damaged.insert((shard, id), replica);
        store.crash_for_a_while(place);
    }

    /// A node dies for good, where no shard loses its majority by that.
    pub fn kill(&mut self, store: &mut Store, place: Place) {
        let Some(map) = store.checks.map() else { return };
        let id = node_id(place);
        let left = map.nodes.keys().filter(|node| **node != id && !self.is_gone(place_of(**node))).count();
        if !map.nodes.contains_key(&id) || !self.is_calm(store, &map) || left < NODES_MIN {
            return;
        }
        store.env.note(format_args!("node {id} dies for good"));
        self.die(store, place);
    }

    /// Nothing will ever run there again.
    fn die(&mut self, store: &mut Store, place: Place) {
        self.dead.insert(place);
        self.died_at = Some(store.env.now());
        store.crash(place);
    }

    /// Whether nothing is under way or lacking: then it is known what a death takes.
    fn is_calm(&self, store: &Store, map: &Map) -> bool {
        let mourned = |place: &Place| !map.nodes.contains_key(&node_id(*place));
        self.dead.iter().all(mourned)
            && self.damaged.is_empty()
            && map.open_plans().next().is_none()
            && map.steps.is_empty()
            && map.splits.is_empty()
            && map.shards.keys().all(|shard| store.nodes.is_whole(map, *shard))
    }

    /// Nodes die for good, so many that some shards lose their majority by that, the metadata group not.
    pub fn destroy(&mut self, store: &mut Store) {
        let Some(map) = store.checks.map() else { return };
        if !store.checks.lost().is_empty() || !self.is_calm(store, &map) {
            return;
        }
        let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
        for _ in 0..DRAWS {
            let mut gone = BTreeSet::new();
            while gone.len() <= store.env.plan().replication as usize / 2 {
                gone.insert(*store.env.pick(&nodes));
            }
            let left = |shard: ShardId| {
                let voters = map.shards[&shard].voters();
                let left = voters.filter(|voter| !gone.contains(&voter.node)).count();
                (left, left <= map.shards[&shard].voters().count() / 2)
            };
            let lost: Vec<ShardId> = map.data_shards().map(|(id, _)| id).filter(|id| left(*id).1).collect();
            let none_whole = lost.iter().any(|shard| left(*shard).0 == 0);
            if lost.is_empty() || none_whole || left(ShardId::META).1 || nodes.len() - gone.len() < NODES_MIN {
                continue;
            }
            store.env.note(format_args!("nodes {gone:?} are destroyed; shards {lost:?} have lost their majority"));
            store.checks.lose(lost);
            for node in gone {
                self.die(store, place_of(node));
            }
            return;
        }
    }
}

/// What a recovery must have left behind: a plan that is done, and an event.
pub fn check_record(store: &Store) -> Outcome {
    if store.checks.lost().is_empty() {
        return Ok(());
    }
    let map = store.checks.map().ok_or("no store has been made")?;
    let is_done =
        |plan: &&cluster::Plan| matches!(plan.kind, PlanKind::UnsafeRecover(_)) && plan.state == PlanState::Done;
    let Some(plan) = map.plans.values().find(is_done) else {
        return Err("a majority was lost, and no plan says that it was gone on without it".to_owned());
    };
    let leader = store.nodes.leader_place(ShardId::META);
    let view = leader.and_then(|place| store.nodes.shard(place, ShardId::META)).map(|shard| shard.handle().clone());
    let view = view.ok_or("the metadata group has no leader")?;
    let begun = format!("plan {} is begun: ", plan.id);
    let events = newest_events(&view, EVENTS).map_err(|e| e.to_string())?;
    match events.iter().any(|event| event.text.starts_with(&begun)) {
        true => Ok(()),
        false => Err(format!("no event tells of plan {}: {events:?}", plan.id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_death_operators_wait() {
        let mut casualties = Casualties::default();
        assert!(!casualties.is_shock(0) && !casualties.is_gone(2));
        casualties.dead.insert(2);
        casualties.died_at = Some(SECOND);
        assert!(casualties.is_gone(2) && casualties.dead() == [2]);
        assert!(casualties.is_grief(5 * SECOND) && !casualties.is_grief(6 * SECOND));
        assert!(casualties.is_shock(10 * SECOND) && !casualties.is_shock(11 * SECOND));
    }
}
