//! A view at an index.

use super::fault::is_interrupted;
use super::memtable::Hold;
use super::merge::Entries;
use super::sample::Sampler;
use super::try_get::TryGet;
use super::view::View;
use crate::batch::TREE_KEY_BYTES_MAX;
use crate::dropped::{DroppedPrefixes, prefix_end};
use crate::{Cursor, Error, HeldBlock, Look, Result, Short, Slice, Snapshot, Span};
use lsm_tree::InternalValue;
use std::ops::Bound;
use std::sync::Arc;

/// The first key that is the caller's.
const FIRST_KEY: &[u8] = &[1];
/// After so many rows of a dropped prefix, the next key behind all of them is sought.
const DROPPED_ROWS_MAX: usize = 4;

/// See `Snapshot`.
pub(super) struct LsmSnapshot {
    pub(super) view: Arc<View>,
    pub(super) index: u64,
    /// Keeps this index readable in the view's memtable, which may change further.
    _hold: Hold,
}

impl LsmSnapshot {
    /// Of `view` at the index that is held: all entries up to it are in the view.
    pub(super) fn new(view: Arc<View>, hold: Hold) -> Self {
        Self { view, index: hold.index(), _hold: hold }
    }
}

impl Snapshot for LsmSnapshot {
    fn index(&self) -> u64 {
        self.index
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        if key.len() > TREE_KEY_BYTES_MAX { Ok(None) } else { self.view.get(key, self.index) }
    }

    fn get_short(&self, key: &[u8], bytes_max: usize) -> Result<Short> {
        if key.len() > TREE_KEY_BYTES_MAX {
            return Ok(Short::Found(None));
        }
        self.view.get_short(key, self.index, bytes_max)
    }

    fn look(&self, key: &[u8], held: &[HeldBlock]) -> Look {
        TryGet(&self.view).look(key, self.index, held)
    }

    fn sample(&self, span: &Span, below: &mut dyn FnMut(u64) -> u64) -> Result<Option<Slice>> {
        Sampler::new(&self.view, self.index, span).draw(below)
    }

    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_> {
        let start = storable(if span.start.as_slice() < FIRST_KEY { FIRST_KEY } else { &span.start });
        let end = storable(&span.end);
        let dropped = self.view.dropped_within(&start, &end, self.index);
        let (view, index, entries) = (&*self.view, self.index, Box::new(std::iter::empty()));
        let (passed, removals, removals_max) = (0, 0, u64::MAX);
        let mut rows =
            Rows { view, index, reverse, entries, start, end, dropped, passed, removals, removals_max, at: None };
        rows.seek();
        Box::new(rows)
    }
}

/// A bound that lsm-tree can look for, with the same rows below it: no key is as long as a bound that was cut.
fn storable(bound: &[u8]) -> Slice {
    Slice::from(&bound[..bound.len().min(TREE_KEY_BYTES_MAX + 1)])
}

struct Rows<'a> {
    view: &'a View,
    index: u64,
    reverse: bool,
    entries: Entries<'a>,
    /// What is left of the range.
    start: Slice,
    end: Slice,
    /// The dropped prefixes that cover the range.
    dropped: DroppedPrefixes<u64>,
    /// How many rows of dropped prefixes came one after the other.
    passed: usize,
    /// How many removals were passed over.
    removals: u64,
    /// How many may be.
    removals_max: u64,
    at: Option<InternalValue>,
}

impl Rows<'_> {
    /// Begins at the first row of what is left.
    fn seek(&mut self) {
        self.entries = if !self.end.is_empty() && self.end <= self.start {
            Box::new(std::iter::empty())
        } else if self.reverse {
            self.view.falling(&self.start, &self.end, self.index)
        } else {
            self.view.rising(&self.start, &self.end, self.index)
        };
    }

    /// The row of `key` was the last one: what is left is behind it.
    fn pass(&mut self, key: &[u8]) {
        if self.reverse {
            if self.end.is_empty() || key < &self.end[..] {
                self.end = Slice::from(key);
            }
        } else if key >= &self.start[..] {
            self.start = storable(&[key, &[0]].concat());
        }
    }

    /// Whether the row of `key` was dropped; if so, it may move behind all rows of the same prefix.
    fn is_dropped(&mut self, key: &[u8]) -> bool {
        if self.dropped.is_empty() {
            return false;
        }
        let Some((prefix, _)) = self.dropped.covering(key, |_| true) else {
            self.passed = 0;
            return false;
        };
        self.passed += 1;
        if self.passed > DROPPED_ROWS_MAX {
            self.passed = 0;
            let behind = prefix_end(prefix);
            if self.reverse {
                self.end = prefix.clone();
            } else if behind.is_empty() {
                self.end = self.start.clone();
            } else {
                self.start = behind;
            }
            self.seek();
        }
        true
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        if self.removals > 0 {
            self.view.generation.wear.pass(self.removals);
        }
    }
}

impl Cursor for Rows<'_> {
    fn advance(&mut self) -> Result<Option<Slice>> {
        let mut before = self.at.take();
        loop {
            let entry = match self.entries.next() {
                None => return Ok(None),
                Some(Ok(entry)) => entry,
                Some(Err(error)) if is_interrupted(&error) => {
                    // lsm-tree's iterators do not go on behind an error.
                    before.take().iter().for_each(|row| self.pass(&row.key.user_key));
                    self.seek();
                    continue;
                }
                Some(Err(error)) => {
                    let high = if self.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(self.end.clone()) };
                    return Err(self.view.blame(&Bound::Included(self.start.clone()), &high, error));
                }
            };
            if self.is_dropped(&entry.key.user_key) {
                continue;
            }
            if entry.key.is_tombstone() {
                self.removals += 1;
                if self.removals > self.removals_max {
                    return Err(Error::ManyRemovals);
                }
            } else {
                let key = entry.key.user_key.clone();
                self.at = Some(entry);
                return Ok(Some(key));
            }
        }
    }

    fn pass_at_most(&mut self, removals: u64) {
        self.removals_max = self.removals.saturating_add(removals);
    }

    fn value(&mut self) -> Result<Slice> {
        let entry = self.at.as_ref().expect("a value is asked of a row that the cursor is at");
        Ok(self.view.value_of(entry)?.expect("a removal is no row"))
    }

    fn value_head(&mut self) -> Result<Slice> {
        let entry = self.at.as_ref().expect("a value is asked of a row that the cursor is at");
        match self.view.value_head_of(entry)? {
            Some(head) => Ok(head),
            None => self.value(),
        }
    }
}
