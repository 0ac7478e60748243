//! A majority of some shards is destroyed for good, and an operator goes on with what is left: what may be lost by that, and
//! nothing else.
//!
//! From the moment at which a replica goes on alone, what was committed and is not in its log is lost: its shard's keys begin
//! with whatever they are found to hold, none of it written behind that log's end, and are held to account from there. What
//! was told before is checked as it was then.

use crate::chance::Chance;
use crate::check::linear;
use crate::event::Place;
use crate::recovery::Recovery;
use crate::schedule::SECOND;
use crate::world::{Outcome, World, place_of};
use cluster::{Map, PlanKind, PlanState};
use node::newest_events;
use std::collections::BTreeSet;
use vocab::{NodeId, ReplicaId, ShardId, slot_of};

/// How often nodes that could go are drawn before it is left at that.
const DRAWS: usize = 20;
/// How many events are searched for the one that must be there.
const EVENTS: usize = 10_000;

/// A replica, its shard's voters as it has them, and the term that it is in.
pub struct Standing {
    me: ReplicaId,
    voters: Vec<ReplicaId>,
    term: u64,
}

impl World {
    /// Nodes die for good, so many that some shards lose their majority by that, the metadata group not.
    pub(crate) fn destroy(&mut self) {
        let Some(map) = self.map.clone() else { return };
        if !self.shaping.lost.is_empty() || !self.is_calm(&map) {
            return;
        }
        let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
        for _ in 0..DRAWS {
            let mut gone = BTreeSet::new();
            while gone.len() <= self.plan.replication as usize / 2 {
                gone.insert(*self.prng.pick(&nodes));
            }
            let left = |shard: ShardId| {
                let voters = map.shards[&shard].voters();
                let left = voters.filter(|voter| !gone.contains(&voter.node)).count();
                (left, left <= map.shards[&shard].voters().count() / 2)
            };
            let lost: Vec<ShardId> = map.data_shards().map(|(id, _)| id).filter(|id| left(*id).1).collect();
            let none_whole = lost.iter().any(|shard| left(*shard).0 == 0);
            if lost.is_empty() || none_whole || left(ShardId::META).1 || nodes.len() - gone.len() < 3 {
                continue;
            }
            self.note(format_args!("nodes {gone:?} are destroyed; shards {lost:?} have lost their majority"));
            self.shaping.lost = lost;
            for node in gone {
                self.die(place_of(node));
            }
            return;
        }
    }

    /// Goes on with what is left, once a node can be asked for it.
    pub(crate) fn recover(&mut self, map: &Map) -> Outcome {
        let lost = self.shaping.lost.clone();
        let begun = |plan: &cluster::Plan| {
            matches!(plan.kind, PlanKind::UnsafeRecover(_)) && !matches!(plan.state, PlanState::Cancelled)
        };
        let waits = self.shaping.died_at.is_some_and(|at| self.now() < at + 5 * SECOND);
        if lost.is_empty() || waits || map.plans.values().any(begun) || !self.prng.happens(100) {
            return Ok(());
        }
        self.begin_plan(map, PlanKind::UnsafeRecover(lost), "a majority is lost")
    }

    /// What a replica says of itself.
    pub(crate) fn standing_at(&self, place: Place, shard: ShardId) -> Option<Standing> {
        let replica = self.hosts[place].process.as_ref()?.core.shard(shard)?.replica();
        let members = replica.members();
        let voters = [members.voters, members.voters_outgoing].concat();
        Some(Standing { me: replica.me(), voters, term: replica.status().term })
    }

    /// A replica has been ordered to go on alone; `before`: what it was before that. It may lead by now, in a term that
    /// others led in before it and that it had not heard of.
    pub(crate) fn ordered_alone(&mut self, place: Place, shard: ShardId, before: &Standing) -> Outcome {
        let Some(Standing { me, voters: after, .. }) = self.standing_at(place, shard) else { return Ok(()) };
        if after != [me] || before.voters == after {
            return Ok(());
        }
        if !self.shaping.lost.contains(&shard) {
            return Err(format!("shard {shard} goes on with replica {me} alone, and had not lost its majority"));
        }
        let here = self.hosts[place].process.as_ref().and_then(|process| process.core.shard(shard));
        let Some(status) = here.map(|here| here.replica().status()) else { return Ok(()) };
        let groups: Vec<usize> = (0..self.plan.groups).filter(|group| self.shard_of_group(*group) == shard).collect();
        for group in &groups {
            self.check_history(*group).map_err(|e| format!("before shard {shard} was recovered: {e}"))?;
        }
        let log = self.hosts[place].disk.log.clone();
        let cut = self.groups.entry(shard).or_default().recovered(shard, (before.term, status.last), &*log);
        self.note(format_args!("shard {shard} goes on with replica {me} alone; what came after entry {cut} is lost"));
        self.counts.recoveries += 1;
        let recovery = Recovery { moment: self.history.moment(), last: status.last };
        for group in groups {
            self.recoveries.insert(group, recovery);
            self.reads.forget(group, cut);
            self.weak.forget(group, shard, cut);
        }
        Ok(())
    }

    /// The shard that a group of keys is in.
    pub(crate) fn shard_of_group(&self, group: usize) -> ShardId {
        self.shard_of(slot_of(&crate::request::key_name(group, 0)))
    }

    /// Checks the history of a group of keys so far.
    pub(crate) fn check_history(&self, number: usize) -> Outcome {
        let shard = self.shard_of_group(number);
        let log = self.groups.get(&shard).map(|group| linear::Log { values: group.values(), clocks: group.clocks() });
        let mut operations = self.history.of_group(number);
        operations.retain(|operation| !operation.weak);
        let checked = match self.recoveries.get(&number) {
            None => linear::check(&operations, log),
            Some(Recovery { moment, last }) => {
                // One that was under way counts if it was made after.
                let version = |operation: &crate::history::Operation| {
                    let logged = |value: u64| log.and_then(|log| log.values.get(&value).copied());
                    let mut values = operation.actions.iter().filter_map(|(_, action)| action.value());
                    operation.version().or_else(|| values.find_map(logged)).unwrap_or(0)
                };
                let after = |operation: &&crate::history::Operation| {
                    operation.begun > *moment || (operation.ended > *moment && version(operation) > *last)
                };
                operations.retain(after);
                linear::check_after(&operations, log, *last)
            }
        };
        checked.map_err(|e| format!("group {number} in shard {shard}: {e}"))
    }

    /// What a recovery must have left behind: a plan that is done, and an event.
    pub(crate) fn check_record(&self) -> Outcome {
        if self.shaping.lost.is_empty() {
            return Ok(());
        }
        let map = self.map.as_ref().ok_or("no store has been made")?;
        let is_done =
            |plan: &&cluster::Plan| matches!(plan.kind, PlanKind::UnsafeRecover(_)) && plan.state == PlanState::Done;
        let Some(plan) = map.plans.values().find(is_done) else {
            return Err("a majority was lost, and no plan says that it was gone on without it".to_owned());
        };
        let leader = self.leader_place(ShardId::META).and_then(|place| self.hosts[place].process.as_ref());
        let view = leader.and_then(|process| process.core.shard(ShardId::META)).map(|shard| shard.view().clone());
        let view = view.ok_or("the metadata group has no leader")?;
        let begun = format!("plan {} is begun: ", plan.id);
        let events = newest_events(&view, EVENTS).map_err(|e| e.to_string())?;
        match events.iter().any(|event| event.text.starts_with(&begun)) {
            true => Ok(()),
            false => Err(format!("no event tells of plan {}: {events:?}", plan.id)),
        }
    }
}
