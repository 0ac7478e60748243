//! The order of a memtable's rows, made when somebody asks for it: writers never pay for it.
//!
//! Rows that came since the last time are sorted into a run of their own; runs that are not much longer than the
//! newest are merged with it. So a row is sorted as often as the logarithm of their number, and there are no more
//! runs than that.

use super::Memtable;
use super::rows::Rows;
use crate::Slice;
use crate::lsm::merge::Entries;
use lsm_tree::InternalValue;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

/// Rows that a walk takes at once: at first, and at the most.
const TAKE_MIN: usize = 4;
const TAKE_MAX: usize = 256;

/// The numbers of rows in the order of their keys.
type Run = Arc<[u32]>;

/// Invariant: the runs hold the rows `0..ordered`, each once.
#[derive(Default)]
pub(super) struct Order {
    runs: Vec<Run>,
    ordered: u32,
}

impl Order {
    /// The runs that hold all rows of `memtable`, whose order this is.
    fn runs(&mut self, memtable: &Memtable) -> Vec<Run> {
        let numbered = |rows: &Rows, at: u32| (rows.row(at).key.clone(), at);
        let mut sorted: Vec<(Slice, u32)> = {
            let rows = memtable.read();
            (self.ordered..rows.len()).map(|at| numbered(&rows, at)).collect()
        };
        if !sorted.is_empty() {
            self.ordered += sorted.len() as u32;
            sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            while let Some(run) = self.runs.pop_if(|run| run.len() <= 2 * sorted.len()) {
                let rows = memtable.read();
                sorted.extend(run.iter().map(|&at| numbered(&rows, at)));
                drop(rows);
                // Takes two sorted halves for what they are.
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
            }
            self.runs.push(sorted.iter().map(|(_, at)| *at).collect());
        }
        self.runs.clone()
    }
}

/// The rows of one run as of an index, in order or in reverse order.
struct Walk {
    memtable: Arc<Memtable>,
    run: Run,
    left: Range<usize>,
    index: u64,
    reverse: bool,
    take: usize,
    taken: IntoIter<InternalValue>,
}

impl Memtable {
    /// The newest version as of `index` of each key from `start` to before `end` (empty: to the end), removals
    /// included: sources in order, or in reverse order, no two of which have a key in common. The index is that of a
    /// snapshot that is held, or the memtable is sealed and its last.
    pub(in crate::lsm) fn entries(
        self: &Arc<Self>,
        start: &Slice,
        end: &Slice,
        index: u64,
        reverse: bool,
    ) -> Vec<Entries<'static>> {
        let runs = self.order.lock().expect("a panic while sorting is not survived").runs(self);
        let rows = self.read();
        let between = |run: Run| {
            let before = |key: &Slice| run.partition_point(|&at| rows.row(at).key < *key);
            let from = before(start);
            let to = if end.is_empty() { run.len() } else { before(end).max(from) };
            let walk = Walk {
                memtable: self.clone(),
                run,
                left: from..to,
                index,
                reverse,
                take: TAKE_MIN,
                taken: Vec::new().into_iter(),
            };
            (from < to).then(|| Box::new(walk.map(Ok)) as Entries<'static>)
        };
        runs.into_iter().filter_map(between).collect()
    }
}

impl Iterator for Walk {
    type Item = InternalValue;

    fn next(&mut self) -> Option<InternalValue> {
        loop {
            if let Some(entry) = self.taken.next() {
                return Some(entry);
            }
            if self.left.is_empty() {
                return None;
            }
            let count = self.take.min(self.left.len());
            self.take = (self.take * 4).min(TAKE_MAX);
            let rows = self.memtable.read();
            let seen = |&at: &u32| rows.row(at).as_of(self.index);
            let taken: Vec<_> = if self.reverse {
                self.left.end -= count;
                self.run[self.left.end..][..count].iter().rev().filter_map(seen).collect()
            } else {
                self.left.start += count;
                self.run[..self.left.start][self.left.start - count..].iter().filter_map(seen).collect()
            };
            drop(rows);
            self.taken = taken.into_iter();
        }
    }
}
