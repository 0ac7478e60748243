//! The operator: keeps the map, replaces replicas, orders leaders about, and starts what is down.
//!
//! It stands for the control plane, which is not part of this world: the map is kept here, and told to every node.

use crate::chance::Chance;
use crate::event::{Event, NodeEvent, Place};
use crate::schedule::MILLISECOND;
use crate::world::{World, node_id, place_of};
use cluster::{Change, Map, ReplicaInfo, Routes};
use node::peer::Order;
use replica::{MemberChange, MemberKind, Members};
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId};

/// Looks of the operator after which a replica that stands still gets its node restarted.
const STUCK_LOOKS_MAX: u32 = 25;

/// A replica that is being replaced.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Who takes its place; `None` until the one that is of no use has gone.
    pub add: Option<ReplicaId>,
    /// Who goes.
    pub remove: ReplicaId,
    /// Both at once.
    pub joint: bool,
}

impl World {
    /// Looks at what is to be done.
    pub(crate) fn operate(&mut self) {
        self.schedule.after(200 * MILLISECOND, Event::Operate);
        self.look_after();
        for (shard, one) in self.moves.clone() {
            let info = &self.map.shards[&shard];
            let add = one.add.and_then(|add| info.replica(add).copied());
            let remove = info.replica(one.remove).copied();
            match (add, remove) {
                (None, Some(remove)) if one.add.is_none() => self.remove(shard, remove),
                (None, None) if one.add.is_none() => self.add_anew(shard, one),
                (None, _) => _ = self.moves.remove(&shard),
                (Some(add), _) if !add.member => self.order(shard, Order::Add { replica: add.id.0, node: add.node }),
                (Some(add), _) if add.learner => self.promote(shard, one),
                (Some(_), Some(remove)) => self.remove(shard, remove),
                (Some(_), None) => _ = self.moves.remove(&shard),
            }
        }
    }

    /// Restarts nodes with a replica that cannot go on, as their operators would.
    fn look_after(&mut self) {
        for place in 0..self.plan.nodes {
            let Some(process) = &mut self.hosts[place].process else { continue };
            let stuck = process.core.shards().any(|shard| shard.broken().is_some() || shard.replica().is_installing());
            process.stuck_looks = if stuck { process.stuck_looks + 1 } else { 0 };
            if process.stuck_looks == STUCK_LOOKS_MAX {
                self.restart_soon(place);
            }
        }
    }

    /// Begins to replace a replica of some shard.
    pub(crate) fn begin_move(&mut self) {
        let shards: Vec<ShardId> = self.map.data_shards().map(|(id, _)| id).collect();
        let shard = *self.prng.pick(&shards);
        let info = &self.map.shards[&shard];
        let free: Vec<NodeId> =
            (0..self.plan.nodes).map(node_id).filter(|node| info.replica_on(*node).is_none()).collect();
        if free.is_empty() || self.moves.contains_key(&shard) {
            return;
        }
        let remove = self.prng.pick(&info.replicas).id;
        let (add, node) = (ReplicaId(info.next_replica), *self.prng.pick(&free));
        let joint = self.prng.happens(500);
        self.moves.insert(shard, Move { add: Some(add), remove, joint });
        self.note(format_args!("shard {shard}: replica {add} on node {} is to replace {remove}", node.0));
        self.change(&Change::AddReplica { shard, replica: add, node, learner: true });
    }

    /// A replica whose tree is damaged is to go, and another one to come in its place.
    pub(crate) fn rebuild(&mut self, shard: ShardId, remove: ReplicaId) {
        self.moves.insert(shard, Move { add: None, remove, joint: false });
    }

    fn remove(&mut self, shard: ShardId, replica: ReplicaInfo) {
        // A leader must hand over before it leaves.
        if self.leader_place(shard).is_some_and(|place| node_id(place) == replica.node) {
            let voters: Vec<NodeId> = self.map.shards[&shard].voters().map(|replica| replica.node).collect();
            let to = *self.prng.pick(&voters);
            self.order(shard, Order::Transfer { to });
        } else {
            self.order(shard, Order::Remove { replica: replica.id.0 });
        }
    }

    /// The damaged replica is gone: another one is begun where there is none.
    fn add_anew(&mut self, shard: ShardId, one: Move) {
        let info = &self.map.shards[&shard];
        let free: Vec<NodeId> =
            (0..self.plan.nodes).map(node_id).filter(|node| info.replica_on(*node).is_none()).collect();
        let (add, node) = (ReplicaId(info.next_replica), *self.prng.pick(&free));
        self.moves.insert(shard, Move { add: Some(add), ..one });
        self.note(format_args!("shard {shard}: replica {add} on node {} is begun", node.0));
        self.change(&Change::AddReplica { shard, replica: add, node, learner: true });
    }

    /// A leader is told to hand over.
    pub(crate) fn transfer(&mut self) {
        let shards: Vec<ShardId> = self.map.data_shards().map(|(id, _)| id).collect();
        let shard = *self.prng.pick(&shards);
        let to = self.prng.pick(&self.map.shards[&shard].replicas).node;
        self.order(shard, Order::Transfer { to });
    }

    fn order(&mut self, shard: ShardId, order: Order) {
        let Some(place) = self.leader_place(shard) else { return };
        let delay = self.prng.between(100, 5 * MILLISECOND);
        self.later(delay, place, NodeEvent::Order(shard, order));
    }

    /// The learner gets a vote once it holds nearly everything.
    fn promote(&mut self, shard: ShardId, one: Move) {
        let Some(place) = self.leader_place(shard) else { return };
        if self.hosts[place].paused {
            return;
        }
        let now = self.moment(place);
        let voters: Vec<NodeId> = self.map.shards[&shard].voters().map(|replica| replica.node).collect();
        let other = *self.prng.pick(&voters);
        let Some(process) = &mut self.hosts[place].process else { return };
        let Some(leader) = process.core.shard_mut(shard) else { return };
        if leader.replica().me() == one.remove {
            // A leader must hand over before it leaves.
            self.order(shard, Order::Transfer { to: other });
            return;
        }
        let last = leader.replica().status().last;
        let near = leader
            .replica()
            .followers()
            .iter()
            .any(|of| Some(of.id) == one.add && of.matched > 0 && of.matched + 20 >= last);
        if near && let Some(add) = one.add {
            let mut changes = vec![MemberChange { id: add, kind: MemberKind::Voter }];
            if one.joint {
                changes.push(MemberChange { id: one.remove, kind: MemberKind::Remove });
            }
            leader.change_members(&changes);
            process.core.ask_lease(shard, now);
        }
    }

    /// A shard's members have changed, as one of its replicas has applied.
    pub(crate) fn members_changed(&mut self, shard: ShardId, index: u64, members: &Members) {
        let mut voters = members.voters.clone();
        voters.extend(members.voters_outgoing.iter().filter(|id| !members.voters.contains(id)));
        let learners = members.learners.clone();
        self.change(&Change::SetReplicas { shard, members_index: index, voters, learners });
    }

    fn change(&mut self, change: &Change) {
        let mut map = Map::clone(&self.map);
        match map.apply(change) {
            Ok(outcome) if outcome.changed => {
                self.counts.changes += 1;
                let epoch = map.epoch;
                self.note(format_args!("map {epoch}: {change:?}"));
                self.map = Arc::new(map);
                self.routes = Routes::from(&*self.map);
                for place in 0..self.plan.nodes {
                    self.tell_map(place);
                }
            }
            Ok(_) => {}
            Err(refusal) => self.note(format_args!("the map refuses {change:?}: {refusal}")),
        }
    }

    fn tell_map(&mut self, place: Place) {
        let most = if self.healing { 10 } else { 1000 };
        let delay = self.prng.between(1, most) * MILLISECOND;
        self.schedule.after(delay, Event::At(place, None, NodeEvent::Map(self.map.clone())));
    }

    /// A node does what its newest map says, unless a log write is under way.
    pub(crate) fn follow_map(&mut self, place: Place) {
        let (now, seed) = (self.moment(place), self.prng.next_u64());
        let host = &mut self.hosts[place];
        let Some(process) = &host.process else { return };
        if process.writing.is_some() {
            return;
        }
        let before: Vec<ReplicaId> = process.core.shards().map(|shard| shard.replica().me()).collect();
        host.follow_map(now, seed, self.plan.keep_bytes);
        let Some(process) = &host.process else { return };
        if process.core.shards().map(|shard| shard.replica().me()).ne(before) {
            self.began(place);
        }
    }

    /// A node that cannot go on is restarted, as its operator would.
    pub(crate) fn restart_soon(&mut self, place: Place) {
        let most = if self.healing { 100 } else { 5000 };
        let delay = self.prng.between(10, most) * MILLISECOND;
        self.later(delay, place, NodeEvent::Restart);
    }

    /// All faults stop.
    pub(crate) fn heal(&mut self) {
        self.healing = true;
        self.note(format_args!("all faults stop"));
        self.network.heal();
        let now = self.now();
        for place in 0..self.plan.nodes {
            self.mend(place);
            self.hosts[place].clock.drift(now, 1000);
            if self.hosts[place].paused {
                self.schedule.after(0, Event::Resume(place));
            }
            self.schedule.after(self.hosts[place].id.0 * MILLISECOND, Event::Start(place));
            self.tell_map(place);
        }
    }

    /// Where a shard's replicas are, with what they say of themselves, for a report.
    pub(crate) fn describe(&self, shard: ShardId) -> String {
        let info = &self.map.shards[&shard];
        let lines = info.replicas.iter().map(|replica| {
            let process = self.hosts[place_of(replica.node)].process.as_ref();
            let status = process.map(|process| process.core.shard(shard).map(|shard| shard.replica().status()));
            format!("  {replica:?}: {status:?}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
