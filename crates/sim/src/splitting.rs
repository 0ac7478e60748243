//! A shard becomes two on a node: what the threads of a server do about it, in parts between which the node may crash.
//!
//! The tree is forked; the child's group is made in the log, and the child opened; the parent goes on; the child is given
//! to the core. Between two parts it takes a while, at times a long one.

use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::collection_serving;
use crate::control;
use crate::event::NodeEvent;
use crate::fork::{Fork, Made};
use crate::host;
use crate::places::Place;
use crate::schedule::{MILLISECOND, SECOND};
use crate::store::Store;
use crate::tree::Folders;
use node::control::reconcile::wants_fork;
use node::{Shard, SplitTask};
use replica::LogStore;
use std::sync::Arc;
use storage::{Engine, Error};
use vocab::ShardId;

/// The pause between two attempts while there is no room, or too few descriptors or too little memory.
const PAUSE: u64 = 200 * MILLISECOND;

/// A replica has come to a split.
pub fn begin_fork(store: &mut Store, place: Place, task: SplitTask) -> Outcome {
    store.env.counts.splits += u64::from(store.checks.split(&task)?);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    process.forks.insert(task.child);
    fork_later(store, place, Fork::Tree(task));
    Ok(())
}

fn fork_later(store: &mut Store, place: Place, fork: Fork) {
    let most = *store.env.pick(&[1, 5, 50, if store.env.is_gentle() { 50 } else { 2000 }]);
    let delay = store.env.below(most * MILLISECOND) * (10 + store.nodes[place].disk.slowness / 10) / 10;
    store.env.later(delay.min(10 * SECOND), place, NodeEvent::Fork(Box::new(fork)));
}

/// The next part of a split is due.
pub fn fork(store: &mut Store, place: Place, fork: Fork) {
    let is_struck = store.env.plan().faults.crashes && !store.env.is_healing() && store.env.happens(60);
    if is_struck && store.crash_for_a_while(place) {
        return;
    }
    match fork {
        Fork::Tree(task) => fork_tree(store, place, task),
        Fork::Group(task, tree) => make_group(store, place, task, tree),
        Fork::Parent(made) => go_on(store, place, made),
        Fork::Child(child, leads) => adopt(store, place, *child, leads),
    }
}

fn fork_tree(store: &mut Store, place: Place, task: SplitTask) {
    let host = &mut store.nodes[place];
    let Some(process) = &host.process else { return };
    let has_group = host.disk.log.state(task.child).is_ok_and(|state| state.is_some());
    if !wants_fork(process.map.as_deref(), host.info.id, task.child, task.replica, has_group) {
        return fork_later(store, place, Fork::Parent(Made { task, outcome: Ok(None) }));
    }
    if let Err(e) = host.disk.log.sync() {
        return fork_later(store, place, Fork::Parent(Made { task, outcome: Err(e.to_string()) }));
    }
    let (index, facts) = (task.point.index, task.facts.clone());
    let next = match task.tree.fork(&Folders::path(task.child), index, facts, &task.keep) {
        Ok(tree) => Fork::Group(task, tree),
        // A crash came between the tree and the log.
        Err(Error::Mismatch { .. }) => match host.disk.open_tree(task.child) {
            Ok(tree) => Fork::Group(task, tree),
            Err(e) => Fork::Parent(Made { task, outcome: Err(e.to_string()) }),
        },
        Err(e) if node::note_lack(process.log.health(), &e) => {
            return store.env.later(PAUSE, place, NodeEvent::Fork(Box::new(Fork::Tree(task))));
        }
        Err(e) => Fork::Parent(Made { task, outcome: Err(e.to_string()) }),
    };
    if host.disk.lack().is_none() {
        process.log.health().set_room();
        process.log.health().set_supplied();
    }
    fork_later(store, place, next);
}

fn make_group(store: &mut Store, place: Place, task: SplitTask, tree: Arc<dyn Engine>) {
    let (seed, keep_bytes) = (store.env.seed(), store.env.plan().keep_bytes);
    let host = &mut store.nodes[place];
    let Some(process) = &host.process else { return };
    if host.disk.lack().is_some() {
        return store.env.later(PAUSE, place, NodeEvent::Fork(Box::new(Fork::Group(task, tree))));
    }
    let written = host.disk.log.write(task.install(), true).map_err(|e| e.to_string());
    let open = || host::begin(&host.disk, process, (task.child, task.replica), task.slots.clone(), tree, seed);
    let mut outcome = written.and_then(|()| open());
    if let Ok(child) = &mut outcome {
        child.replica_mut().keep_log(keep_bytes);
        child.handle().watch_followers(true);
    }
    fork_later(store, place, Fork::Parent(Made { task, outcome: outcome.map(|shard| Some(Box::new(shard))) }));
}

fn go_on(store: &mut Store, place: Place, made: Made) {
    let Made { task, outcome } = made;
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return };
    let (child, outcome) = match outcome {
        Ok(child) => (child, Ok(())),
        Err(detail) => (None, Err(detail)),
    };
    let parent = process.core.shard(task.parent).map(|shard| shard.handle().clone());
    if let (Some(parent), Some(child)) = (&parent, &child) {
        child.handle().begin_after(parent);
    }
    // It gives the slots away in this round, before the child answers for them.
    process.core.forked(task.parent, outcome);
    collection_serving::moved(process, task.parent, now);
    match child.filter(|_| parent.is_some()) {
        Some(child) => fork_later(store, place, Fork::Child(child, task.leads)),
        None => fork_ends(store, place, task.child),
    }
}

fn adopt(store: &mut Store, place: Place, child: Shard, leads: bool) {
    let now = store.moment(place);
    let shard = child.handle().id();
    if store.nodes[place].process.is_none() {
        return;
    }
    control::replica_opened(store, place, (shard, child.replica().me()));
    let Some(process) = &mut store.nodes[place].process else { return };
    process.core.adopt_child(child, leads, now);
    fork_ends(store, place, shard);
}

/// Until the map says that a split has happened, a majority holds its rows: the part itself, or the parent's log up to
/// the entry that makes it.
pub fn check_split_rows(store: &Store) -> Outcome {
    let faults = &store.env.plan().faults;
    if !store.env.plan().sync || faults.damage || faults.disaster || store.env.bug().is_some() {
        return Ok(());
    }
    for child in store.checks.map().iter().flat_map(|map| map.splits.keys()) {
        let Some((parent, point, voters)) = store.checks.splits().origin(*child) else { continue };
        let holds = |place: &Place| {
            let log = &store.nodes[*place].disk.log;
            let state = |shard: ShardId| log.state(shard).ok().flatten();
            let is_part = state(*child).is_some_and(|state| state.truncated.0 >= point.0);
            let entry = || log.fetch(parent, point.0, point.0 + 1, 1).ok()?.pop();
            is_part
                || state(parent).is_some_and(|state| state.truncated.0 < point.0 && state.bounds.1 >= point.0)
                    && entry().is_some_and(|entry| entry.term == point.1)
        };
        let holding = (0..store.nodes.count()).filter(holds).count();
        if holding <= voters / 2 {
            return Err(format!("of {voters} nodes only {holding} hold the rows of shard {child}, split off {parent}"));
        }
    }
    Ok(())
}

/// The map is looked at again: it may give the node a replica that was not made here, or take away one that was.
fn fork_ends(store: &mut Store, place: Place, child: ShardId) {
    if let Some(process) = &mut store.nodes[place].process {
        process.forks.remove(&child);
        process.behind = true;
    }
    control::follow_map(store, place);
}
