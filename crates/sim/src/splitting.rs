//! A shard becomes two on a node: what the threads of a server do about it, in parts between which the node may crash.
//!
//! The tree is forked; the child's group is made in the log, and the child opened; the parent goes on; the child is given
//! to the core. Between two parts it takes a while, at times a long one.

use crate::chance::Chance;
use crate::event::{NodeEvent, Place};
use crate::fork::{Fork, Made};
use crate::host;
use crate::schedule::{MILLISECOND, SECOND};
use crate::tree::Folders;
use crate::world::{Outcome, World, node_id};
use node::control::reconcile::{lacks_replicas, wants_fork};
use node::{Shard, SplitTask};
use replica::LogStore;
use std::sync::Arc;
use storage::{Engine, Error};
use vocab::{ReplicaId, ShardId};

/// How long it is waited between two attempts when there is no room.
const PAUSE: u64 = 200 * MILLISECOND;

impl World {
    /// A replica has come to a split.
    pub(crate) fn begin_fork(&mut self, place: Place, task: SplitTask) -> Outcome {
        if self.splits.saw(&task)? {
            self.counts.splits += 1;
            let parent = self.groups.entry(task.parent).or_default();
            let child = parent.split_off(task.point.index, task.point.term);
            self.groups.insert(task.child, child);
        }
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        process.forks.insert(task.child);
        self.fork_later(place, Fork::Tree(task));
        Ok(())
    }

    fn fork_later(&mut self, place: Place, fork: Fork) {
        let most = *self.prng.pick(&[1, 5, 50, if self.healing { 50 } else { 2000 }]);
        let delay = self.prng.below(most * MILLISECOND) * (10 + self.hosts[place].disk.slowness / 10) / 10;
        self.later(delay.min(10 * SECOND), place, NodeEvent::Fork(Box::new(fork)));
    }

    /// The next part of a split is due.
    pub(crate) fn fork(&mut self, place: Place, fork: Fork) {
        if self.plan.faults.crashes && !self.healing && self.prng.happens(60) {
            return self.crash_for_a_while(place);
        }
        match fork {
            Fork::Tree(task) => self.fork_tree(place, task),
            Fork::Group(task, tree) => self.make_group(place, task, tree),
            Fork::Parent(made) => self.go_on(place, made),
            Fork::Child(child, leads) => self.adopt(place, *child, leads),
        }
    }

    fn fork_tree(&mut self, place: Place, task: SplitTask) {
        let host = &mut self.hosts[place];
        let Some(process) = &host.process else { return };
        let has_group = host.disk.log.state(task.child).is_ok_and(|state| state.is_some());
        if !wants_fork(process.map.as_deref(), host.info.id, task.child, task.replica, has_group) {
            return self.fork_later(place, Fork::Parent(Made { task, outcome: Ok(None) }));
        }
        if let Err(e) = host.disk.log.sync() {
            return self.fork_later(place, Fork::Parent(Made { task, outcome: Err(e.to_string()) }));
        }
        let (index, facts) = (task.point.index, task.facts.clone());
        let next = match task.tree.fork(&Folders::path(task.child), index, facts, &task.keep) {
            Ok(tree) => Fork::Group(task, tree),
            // A crash came between the tree and the log.
            Err(Error::Mismatch { .. }) => match host.disk.open_tree(task.child) {
                Ok(tree) => Fork::Group(task, tree),
                Err(e) => Fork::Parent(Made { task, outcome: Err(e.to_string()) }),
            },
            Err(Error::Full { .. }) => {
                process.health.set_full("a simulated disk");
                return self.later(PAUSE, place, NodeEvent::Fork(Box::new(Fork::Tree(task))));
            }
            Err(e) => Fork::Parent(Made { task, outcome: Err(e.to_string()) }),
        };
        if !host.disk.is_full() {
            process.health.set_room();
        }
        self.fork_later(place, next);
    }

    fn make_group(&mut self, place: Place, task: SplitTask, tree: Arc<dyn Engine>) {
        let (seed, keep_bytes) = (self.prng.next_u64(), self.plan.keep_bytes);
        let host = &mut self.hosts[place];
        let Some(process) = &host.process else { return };
        if host.disk.is_full() {
            return self.later(PAUSE, place, NodeEvent::Fork(Box::new(Fork::Group(task, tree))));
        }
        let written = host.disk.log.write(task.install(), true).map_err(|e| e.to_string());
        let open = || host::begin(&host.disk, process, (task.child, task.replica), task.slots.clone(), tree, seed);
        let mut outcome = written.and_then(|()| open());
        if let Ok(child) = &mut outcome {
            child.replica_mut().keep_log(keep_bytes);
            child.view().watch_followers(true);
        }
        self.fork_later(place, Fork::Parent(Made { task, outcome: outcome.map(|shard| Some(Box::new(shard))) }));
    }

    fn go_on(&mut self, place: Place, made: Made) {
        let Made { task, outcome } = made;
        let Some(process) = &mut self.hosts[place].process else { return };
        let (child, outcome) = match outcome {
            Ok(child) => (child, Ok(())),
            Err(detail) => (None, Err(detail)),
        };
        let parent = process.core.shard(task.parent).map(|shard| shard.view().clone());
        if let (Some(parent), Some(child)) = (&parent, &child) {
            child.view().begin_after(parent);
        }
        // It gives the slots away in this round, before the child answers for them.
        process.core.forked(task.parent, outcome);
        match child.filter(|_| parent.is_some()) {
            Some(child) => self.fork_later(place, Fork::Child(child, task.leads)),
            None => self.fork_ends(place, task.child),
        }
    }

    fn adopt(&mut self, place: Place, child: Shard, leads: bool) {
        let now = self.moment(place);
        let Some(process) = &mut self.hosts[place].process else { return };
        let (shard, me) = (child.view().id(), child.replica().me());
        process.core.adopt_child(child, leads, now);
        self.groups.entry(shard).or_default().began(me);
        self.fork_ends(place, shard);
    }

    /// Until the map says that a split has happened, a majority holds its rows: the part itself, or the parent's log up to
    /// the entry that makes it.
    pub(crate) fn check_split_rows(&self) -> Outcome {
        let faults = &self.plan.faults;
        if !self.plan.sync || faults.damage || faults.disaster || self.bug.is_some() {
            return Ok(());
        }
        for child in self.map.iter().flat_map(|map| map.splits.keys()) {
            let Some((parent, point, voters)) = self.splits.origin(*child) else { continue };
            let holds = |place: &Place| {
                let log = &self.hosts[*place].disk.log;
                let state = |shard: ShardId| log.state(shard).ok().flatten();
                let is_part = state(*child).is_some_and(|state| state.truncated.0 >= point.0);
                let entry = || log.fetch(parent, point.0, point.0 + 1, 1).ok()?.pop();
                is_part
                    || state(parent).is_some_and(|state| state.truncated.0 < point.0 && state.bounds.1 >= point.0)
                        && entry().is_some_and(|entry| entry.term == point.1)
            };
            let holding = (0..self.hosts.len()).filter(holds).count();
            if holding <= voters / 2 {
                return Err(format!(
                    "of {voters} nodes only {holding} hold the rows of shard {child}, split off {parent}"
                ));
            }
        }
        Ok(())
    }

    /// The map is looked at again: it may give the node a replica that was not made here, or take away one that was.
    fn fork_ends(&mut self, place: Place, child: ShardId) {
        if let Some(process) = &mut self.hosts[place].process {
            process.forks.remove(&child);
            process.behind = true;
        }
        self.follow_map(place);
    }

    /// A node looks whether the map gives it a replica that is to come by itself and cannot any more.
    pub(crate) fn look_for_lacking(&mut self, place: Place) {
        let Some(process) = &mut self.hosts[place].process else { return };
        let Some(map) = process.map.clone() else { return };
        let has = |shard: ShardId, replica: ReplicaId| {
            process.core.shard(shard).is_some()
                || process.refused.contains_key(&(shard, replica))
                || process.forks.contains(&shard)
        };
        let lacks = lacks_replicas(&map, node_id(place), has);
        if lacks {
            process.behind = true;
            self.follow_map(place);
        }
    }
}
