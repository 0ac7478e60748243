//! The deferred apply: what a shard's entries will find is read from a slow disk before they are applied. Between the
//! asking and the last row anything may happen to the node.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::effects::{Outbox, Prefetch};
use crate::event::{NodeEvent, Place};
use crate::schedule::MILLISECOND;
use crate::world::World;
use node::{ColdItem, ShardView, Warmed};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// How often in a thousand ticks the row cache of a node with a slow disk loses the rows of a shard.
const EVICTED_PER_MILLE: u64 = 300;

impl World {
    /// What a step of a node's core is told and asks for.
    pub(crate) fn outbox(&self, place: Place) -> Outbox {
        Outbox { disk_is_slow: self.reads_slowly(place), ..Outbox::default() }
    }

    fn reads_slowly(&self, place: Place) -> bool {
        self.plan.deferred_apply
            && (self.hosts[place].disk.slowness > 0 || (self.now() / self.plan.slow_spell()).is_multiple_of(2))
    }

    /// The disk is asked for what entries will find.
    pub(crate) fn begin_prefetch(&mut self, place: Place, handle: &Arc<ShardView>, items: Vec<ColdItem>) {
        let left = Rc::new(Cell::new(items.len()));
        for item in items {
            let most = *self.prng.pick(&[1, 5, 30, if self.healing { 30 } else { 1_000 }]);
            let delay = self.prng.below(most * MILLISECOND);
            let prefetch = Prefetch { handle: handle.clone(), item, left: left.clone() };
            self.later(delay, place, NodeEvent::Prefetch(Box::new(prefetch)));
        }
    }

    /// The disk has answered. With the last row the entries can be applied.
    pub(crate) fn prefetch(&mut self, place: Place, prefetch: Prefetch) {
        if prefetch.item.read(&prefetch.handle, None) == Warmed::More {
            prefetch.item.read_rest(&prefetch.handle);
        }
        prefetch.left.set(prefetch.left.get() - 1);
        if prefetch.left.get() > 0 || (self.bug == Some(Bug::LostRows) && self.prng.happens(5)) {
            return;
        }
        if let Some(process) = &mut self.hosts[place].process {
            process.core.warmed(prefetch.shard());
        }
    }

    /// The row cache of a node loses rows, as it does when it is full.
    pub(crate) fn evict(&mut self, place: Place) {
        if !self.reads_slowly(place) {
            return;
        }
        let Some(process) = &self.hosts[place].process else { return };
        for shard in process.core.shards() {
            if self.prng.happens(EVICTED_PER_MILLE) {
                process.cache.clear_shard(shard.view().id().0);
            }
        }
    }
}
