//! The part of a tree that is still in memory: hashed, so that a write costs one look-up; sorted when it is scanned or
//! flushed.
//!
//! A key that is written again takes the place of its older version, unless a live snapshot sees that. So readers say
//! what they look at: a snapshot *holds* its index, for as long as it lives. An entry is written and published under
//! one lock; a reader that holds it sees whole entries only, and the newest version of a key is that of the
//! applied index. The lock is held for an entry, a look-up or some rows of a scan, never across a call of the system.
//! An entry of many rows is written in parts, readers in between: these see nothing of it before the last part publishes it.
//!
//! Once sealed, a memtable does not change.

mod order;
mod rows;
pub(super) mod scan;
#[cfg(test)]
mod tests;

use crate::Slice;
use crate::cpu_prefetch::{Lines, Step};
use lsm_tree::{InternalValue, ValueType};
use order::Order;
pub(super) use rows::hash;
use rows::{Rows, Version};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::time::Duration;

/// An index that is after every entry: what is as of it is the newest.
pub(super) const NEWEST: u64 = u64::MAX >> 1;

/// Rows that a scan puts in order by itself: it takes about a millisecond.
const UNORDERED_FEW: u32 = 1024;

/// Rows that are written while readers wait: it takes about two milliseconds.
const LOCKED_ROWS_MAX: usize = 4096;
/// How long the readers have before the next part of an entry is written.
const READERS_TURN: Duration = Duration::from_micros(20);

/// The unflushed rows of a tree.
pub(super) struct Memtable {
    rows: RwLock<Rows>,
    /// Taken before the rows' lock, never while that is held.
    order: RwLock<Order>,
    /// How many rows the order has.
    ordered: AtomicU32,
    /// An event loop was told that it has too few.
    wants_order: AtomicBool,
    /// The indexes of live snapshots.
    held: Mutex<Vec<u64>>,
    /// How many they are: looked at under the lock of the rows.
    held_count: AtomicUsize,
}

/// Keeps what is seen as of an index.
pub(super) struct Hold {
    memtable: Arc<Memtable>,
    index: u64,
}

impl Memtable {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: RwLock::new(Rows::new()),
            order: RwLock::default(),
            ordered: AtomicU32::new(0),
            wants_order: AtomicBool::new(false),
            held: Mutex::default(),
            held_count: AtomicUsize::new(0),
        })
    }

    /// Writes the rows of an entry and what it drops, then calls `publish`, with no reader between; tells by how many
    /// bytes the memtable grew. `before` is the index of the entry applied last; `lies_below` tells whether something of a
    /// key may lie below this memtable.
    pub(super) fn apply(
        &self,
        (before, index): (u64, u64),
        mut writes: Vec<(Slice, Slice, ValueType)>,
        drops: Vec<Slice>,
        lies_below: impl Fn(&[u8]) -> bool,
        publish: impl FnOnce(),
    ) -> i64 {
        let mut grown = 0;
        let is_long = writes.len() > LOCKED_ROWS_MAX;
        if is_long {
            // What is seen now is kept until all of it is there.
            self.keep(before);
            while writes.len() > LOCKED_ROWS_MAX {
                let part = writes.split_off(writes.len() - LOCKED_ROWS_MAX);
                grown += self.write_part(index, part, &lies_below, |rows| rows.show_until(before));
                // Else this thread would have the lock again before those that wait for it.
                std::thread::sleep(READERS_TURN);
            }
        }
        grown += self.write_part(index, writes, &lies_below, |rows| {
            drops.into_iter().for_each(|prefix| rows.dropped.insert(prefix, index));
            rows.show_until(NEWEST);
            publish();
        });
        if is_long {
            self.let_go(before);
        }
        grown
    }

    /// Writes rows of an entry, and does `then`, with no reader between.
    fn write_part(
        &self,
        index: u64,
        writes: Vec<(Slice, Slice, ValueType)>,
        lies_below: &impl Fn(&[u8]) -> bool,
        then: impl FnOnce(&mut Rows),
    ) -> i64 {
        let mut rows = self.rows.write().expect("a panic while an entry is applied is not survived");
        let live = if self.held_count.load(Ordering::Relaxed) == 0 { Vec::new() } else { self.held().clone() };
        let put = |(key, value, kind)| rows.put(key, Version { index, kind, value }, &live, lies_below);
        let grown = writes.into_iter().map(put).sum();
        then(&mut rows);
        grown
    }

    /// What is under `key` as of `index`: one that is held, or `NEWEST`.
    pub(super) fn get(&self, key: &[u8], index: u64) -> Option<InternalValue> {
        self.read().as_of(key, index)
    }

    /// The prefixes dropped as of `index` that cover rows from `start` to before `end` (empty: to the end).
    pub(super) fn dropped(&self, start: &[u8], end: &[u8], index: u64) -> Vec<(Slice, u64)> {
        let rows = self.read();
        let seen = rows.dropped.within(start, end).filter(|(_, at)| **at <= index);
        seen.map(|(prefix, at)| (prefix.clone(), *at)).collect()
    }

    /// See `Engine::note`.
    pub(super) fn note(&self, hashes: &[u64], step: Step, lines: &mut Lines) {
        let rows = self.read();
        hashes.iter().for_each(|hash| rows.note(*hash, step, lines));
    }

    /// What is in row `number` as of `index`, if it is there and its prefix was not dropped.
    pub(super) fn row_as_of(&self, number: u32, index: u64) -> Option<InternalValue> {
        let rows = self.read();
        let row = rows.row(number);
        let covers = |key: Slice| rows.dropped.covering(&key, |at| *at <= index).is_some();
        let is_dropped = !rows.dropped.is_empty() && covers(row.key().to_tree_key());
        if is_dropped { None } else { row.as_of(index) }
    }

    /// See `Engine::scans_at_once`.
    pub(super) fn scans_at_once(&self) -> bool {
        let unordered = {
            let rows = self.read();
            rows.len().saturating_sub(self.ordered.load(Ordering::Relaxed)) + rows.changed()
        };
        // Another thread that puts rows in order is at it for milliseconds, and keeps scans out.
        let is_few = unordered <= UNORDERED_FEW && self.order.try_read().is_ok();
        if !is_few {
            self.wants_order.store(true, Ordering::Relaxed);
        }
        is_few
    }

    /// Whether an event loop was told so since the last call.
    fn take_wanted_order(&self) -> bool {
        self.wants_order.swap(false, Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.read().len() as usize
    }

    /// How many rows are removals of something that may lie below.
    pub(super) fn removals(&self) -> u64 {
        u64::from(self.read().removals())
    }

    /// How many rows hide nothing, and are no removals.
    pub(super) fn kept_rows(&self) -> u64 {
        let rows = self.read();
        u64::from(rows.len() - rows.removals() - rows.gone())
    }

    /// About how many bytes removals take.
    pub(super) fn removed_bytes(&self) -> u64 {
        self.read().removed_bytes()
    }

    /// Keeps what is seen as of the index that `applied` tells while no entry is being written.
    pub(super) fn hold(self: &Arc<Self>, applied: impl FnOnce() -> u64) -> Hold {
        let _no_entry = self.read();
        let index = applied();
        self.keep(index);
        Hold { memtable: self.clone(), index }
    }

    fn keep(&self, index: u64) {
        self.held().push(index);
        self.held_count.fetch_add(1, Ordering::Relaxed);
    }

    fn let_go(&self, index: u64) {
        let mut held = self.held();
        let at = held.iter().position(|held| *held == index).expect("it was kept before");
        held.swap_remove(at);
        self.held_count.fetch_sub(1, Ordering::Relaxed);
    }

    fn held(&self) -> MutexGuard<'_, Vec<u64>> {
        self.held.lock().expect("nothing panics while it is held")
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().expect("a panic while an entry is applied is not survived")
    }
}

impl Hold {
    pub(super) fn index(&self) -> u64 {
        self.index
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memtable.let_go(self.index);
    }
}
