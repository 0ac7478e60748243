//! Scans of a memtable. A scan takes a few rows at a time, and finds its place again if rows have come in between.

use super::Memtable;
use super::order::{Order, Place, Spot};
use super::rows::Rows;
use crate::Slice;
use crate::folded_key::FoldedKey;
use crate::lsm::key_prefix::KeyPrefix;
use crate::lsm::merge::Entries;
use lsm_tree::InternalValue;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockReadGuard};

/// Rows that a walk takes at once: at first, and at the most.
const TAKE_MIN: usize = 1;
const TAKE_MAX: usize = 256;

const SURVIVED: &str = "a panic while sorting is not survived";

/// The rows between two keys as of an index, in order or in reverse order.
struct Walk {
    memtable: Arc<Memtable>,
    path: Path,
    /// The last one is the next.
    taken: Vec<InternalValue>,
}

/// Where a walk is.
struct Path {
    index: u64,
    reverse: bool,
    /// Where it ends: the first key behind (empty: there is none), in reverse order the last one.
    until: Slice,
    until_head: KeyPrefix,
    /// Where it goes on, in that version of the order.
    spot: Spot,
    version: u64,
    /// The row that it passed last.
    passed: Option<u32>,
    over: bool,
    /// How many rows it passes next.
    take: usize,
}

/// The newest version as of `index` of each key from `start` to before `end` (empty: to the end), removals
/// included, in order or in reverse order; none if there are no such rows. The index is that of a snapshot that is
/// held, or the memtable is sealed and its last.
pub(in crate::lsm) fn entries(
    memtable: &Arc<Memtable>,
    start: &Slice,
    end: &Slice,
    index: u64,
    reverse: bool,
) -> Option<Entries<'static>> {
    let order = in_order(memtable);
    let rows = memtable.read();
    let spot = match reverse {
        false => order.find(&rows, FoldedKey::of_tree_key(start)),
        true if end.is_empty() => order.end(),
        true => order.find(&rows, FoldedKey::of_tree_key(end)),
    };
    let until = if reverse { start } else { end };
    let mut path = Path {
        index,
        reverse,
        until: until.clone(),
        until_head: KeyPrefix::of(until),
        spot,
        version: order.version(),
        passed: None,
        over: false,
        take: TAKE_MIN,
    };
    let mut taken = Vec::new();
    path.follow(&order, &rows, &mut taken);
    let is_empty = path.over && taken.is_empty();
    (!is_empty).then(|| Box::new(Walk { memtable: memtable.clone(), path, taken }.map(Ok)) as Entries<'static>)
}

/// See `Engine::prepare_scans`.
pub(in crate::lsm) fn prepare(memtable: &Memtable) {
    if memtable.take_wanted_order() {
        drop(in_order(memtable));
    }
}

/// The order of all rows that are here now, at least.
fn in_order(memtable: &Memtable) -> RwLockReadGuard<'_, Order> {
    {
        let order = memtable.order.read().expect(SURVIVED);
        let rows = memtable.read();
        if order.ordered() >= rows.len() && rows.changed() == 0 {
            drop(rows);
            return order;
        }
    }
    {
        let mut order = memtable.order.write().expect(SURVIVED);
        order.take_in(&memtable.rows);
        memtable.ordered.store(order.ordered(), Ordering::Relaxed);
    }
    // Another thread may have taken in more since: never less.
    memtable.order.read().expect(SURVIVED)
}

impl Path {
    /// Passes some rows, and takes what is to be seen of them.
    fn follow(&mut self, order: &Order, rows: &Rows, taken: &mut Vec<InternalValue>) {
        if self.version != order.version() {
            self.version = order.version();
            let passed = self.passed.expect("it took the first rows when it was made");
            self.spot = order.find(rows, rows.row(passed).key());
            // It may have gone since.
            if !self.reverse && order.is_at(self.spot, passed) {
                order.next(&mut self.spot);
            }
        }
        for _ in 0..self.take {
            let next = if self.reverse { order.previous(&mut self.spot) } else { order.next(&mut self.spot) };
            let Some(place) = next.filter(|place| self.includes(rows, place)) else {
                self.over = true;
                break;
            };
            self.passed = Some(place.row);
            taken.extend(rows.row(place.row).as_of(self.index));
        }
        self.take = (self.take * 2).min(TAKE_MAX);
        taken.reverse();
    }

    fn includes(&self, rows: &Rows, place: &Place) -> bool {
        let compare = || place.compare(rows, self.until_head, FoldedKey::of_tree_key(&self.until));
        if self.reverse { compare().is_ge() } else { self.until.is_empty() || compare().is_lt() }
    }
}

impl Iterator for Walk {
    type Item = InternalValue;

    fn next(&mut self) -> Option<InternalValue> {
        while self.taken.is_empty() && !self.path.over {
            let order = self.memtable.order.read().expect(SURVIVED);
            self.path.follow(&order, &self.memtable.read(), &mut self.taken);
        }
        self.taken.pop()
    }
}
