//! The deferred apply: what a shard's entries will find is read from a slow disk before they are applied. Between the
//! asking and the last row anything may happen to the node.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::effects::{Outbox, Prefetch};
use crate::event::NodeEvent;
use crate::places::Place;
use crate::schedule::MILLISECOND;
use crate::store::Store;
use node::{AppliedAside, ApplyTask, PrefetchItem, Prefetched, ShardHandle};
use replica::LogRead;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use vocab::limits::SLOW_ENTRY_US;

/// How often in a thousand ticks the row cache of a node with a slow disk loses the rows of a shard.
const EVICTED_PER_MILLE: u64 = 300;

/// What a step of a node's core is told and asks for.
pub fn outbox(store: &Store, place: Place) -> Outbox {
    let plan = store.env.plan();
    let applies_aside = plan.deferred_apply && !(store.env.now() / plan.slow_spell()).is_multiple_of(3);
    let inline_rows = plan.inline_rows.filter(|_| !(store.env.now() / plan.slow_spell()).is_multiple_of(4));
    Outbox { disk_is_slow: reads_slowly(store, place), applies_aside, inline_rows, ..Outbox::default() }
}

fn reads_slowly(store: &Store, place: Place) -> bool {
    store.env.plan().deferred_apply
        && (store.nodes[place].disk.slowness > 0 || (store.env.now() / store.env.plan().slow_spell()).is_multiple_of(2))
}

/// The disk is asked for what entries will find.
pub fn begin_prefetch(store: &mut Store, place: Place, handle: &Arc<ShardHandle>, items: Vec<PrefetchItem>) {
    let left = Rc::new(Cell::new(items.len()));
    for item in items {
        let most = *store.env.pick(&[1, 5, 30, if store.env.is_gentle() { 30 } else { 1_000 }]);
        let delay = store.env.below(most * MILLISECOND);
        let prefetch = Prefetch { handle: handle.clone(), item, left: left.clone() };
        store.env.later(delay, place, NodeEvent::Prefetch(Box::new(prefetch)));
    }
}

/// The disk has answered. With the last row the entries can be applied.
pub fn prefetch(store: &mut Store, place: Place, prefetch: Prefetch) {
    if prefetch.item.read(&prefetch.handle, None) == Prefetched::More {
        prefetch.item.read_rest(&prefetch.handle);
    }
    prefetch.left.set(prefetch.left.get() - 1);
    if prefetch.left.get() > 0 || (store.env.has(Bug::LostRows) && store.env.happens(5)) {
        return;
    }
    if let Some(process) = &mut store.nodes[place].process {
        process.core.prefetched(prefetch.shard());
    }
}

/// A thread begins to evaluate an entry that is large, or that the event loop has given up.
pub fn begin_aside(store: &mut Store, place: Place, task: ApplyTask) {
    store.env.counts.given_up += u64::from(task.was_given_up());
    let most = *store.env.pick(&[1, 5, 30, if store.env.is_healing() { 30 } else { 1_000 }]);
    let delay = store.env.below(most * MILLISECOND);
    store.env.later(delay, place, NodeEvent::ApplyAside(Box::new(task)));
}

/// The thread is done. Until its event loop hears of it, the tree has an entry of which the replica does not know.
pub fn apply_aside(store: &mut Store, place: Place, task: ApplyTask) {
    if store.nodes[place].process.is_none() {
        return;
    }
    if task.was_given_up() && store.env.has(Bug::KeepGivenUp) {
        drop(task.clone().run());
    }
    let handle = task.handle();
    let applied = task.run();
    // By the virtual clock it takes no time. Scripts of its shard go one after the other as if it had.
    if store.env.below(3) == 0 {
        handle.note_slow_entry(SLOW_ENTRY_US);
    }
    let delay = store.env.below(2) * store.env.below(3 * MILLISECOND);
    store.env.later(delay, place, NodeEvent::AppliedAside(Box::new(applied)));
}

/// The event loop hears of it.
pub fn applied_aside(store: &mut Store, place: Place, applied: AppliedAside) {
    if let Some(process) = &mut store.nodes[place].process {
        process.core.applied_aside(applied);
    }
}

/// A thread reads entries of the log for followers.
pub fn begin_log_read(store: &mut Store, place: Place, read: LogRead) {
    let most = if store.env.is_healing() { 5 } else { 200 };
    let takes = store.env.below(most * MILLISECOND);
    store.env.later(takes, place, NodeEvent::LogRead(Box::new(read.run())));
}

/// The row cache of a node loses rows, as it does when it is full.
pub fn evict(store: &mut Store, place: Place) {
    if !reads_slowly(store, place) {
        return;
    }
    let Some(process) = &store.nodes[place].process else { return };
    for shard in process.core.shards() {
        if store.env.happens(EVICTED_PER_MILLE) {
            process.cache.clear_shard(shard.handle().id().0);
        }
    }
}
