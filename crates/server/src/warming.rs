//! Rows that entries will need, read before they are applied: the loop that applies them serves other shards meanwhile.
//!
//! Only while the disk is being waited for: else it would cost more than it saves. A write's leader has its keys read
//! before it takes the write; this is for its followers, and for what is not to be told from the keys alone.

use crate::inbox::{Inbox, Message};
use crate::store::{Store, now_ms};
use node::{ShardView, Warmth, cold_items};
use replica::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Items that one thread reads one after the other, at least.
const ITEMS_MIN: usize = 4;
/// Threads that read for one shard at a time.
const JOBS_MAX: usize = 16;

/// How a worker's applying goes.
pub(crate) struct Applying {
    /// When it was last looked at.
    since: Instant,
}

impl Default for Applying {
    fn default() -> Self {
        Self { since: Instant::now() }
    }
}

impl Applying {
    /// A round of applying begins.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// A round is over, or goes on with the next entry: if it had to wait for the disk, the next ones are not to.
    pub(crate) fn look(&mut self, store: &Store) {
        let now = Instant::now();
        store.note_read(now - self.since, now_ms());
        self.since = now;
    }
}

impl Store {
    /// Has what `entries` will find read into memory, if that takes the disk; the worker of `back` is told when it is.
    pub(crate) fn warm_entries(
        self: &Arc<Self>,
        view: &Arc<ShardView>,
        entries: &[Entry],
        back: &Arc<Inbox>,
    ) -> Warmth {
        if self.reads_are_fast(now_ms()) {
            return Warmth::Unknown;
        }
        let mut cold = cold_items(view, entries);
        if cold.is_empty() {
            return Warmth::Warm;
        }
        let each = cold.len().div_ceil(JOBS_MAX).max(ITEMS_MIN);
        let left = Arc::new(AtomicUsize::new(cold.len().div_ceil(each)));
        while !cold.is_empty() {
            let items = cold.split_off(cold.len().saturating_sub(each));
            let (store, view, left, back) = (self.clone(), view.clone(), left.clone(), back.clone());
            self.pool.run(Box::new(move || {
                for item in items {
                    let begun = Instant::now();
                    item.warm(&view);
                    store.note_read(begun.elapsed(), now_ms());
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    back.send(Message::RowsWarm(view.id()));
                }
            }));
        }
        Warmth::Awaited
    }
}
