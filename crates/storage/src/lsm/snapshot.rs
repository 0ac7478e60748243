//! A view at an index.

use super::memtable::Hold;
use super::merge::Entries;
use super::view::View;
use crate::{Cursor, HeldBlock, Look, Result, Slice, Snapshot, Span};
use lsm_tree::InternalValue;
use std::ops::Bound;
use std::sync::Arc;

/// The first key that is the caller's.
const FIRST_KEY: &[u8] = &[1];

/// See `Snapshot`.
pub(super) struct LsmSnapshot {
    pub(super) view: Arc<View>,
    pub(super) index: u64,
    /// Of the view's memtable, which may go on.
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
        self.view.get(key, self.index)
    }

    fn look(&self, key: &[u8], held: &[HeldBlock]) -> Look {
        self.view.look(key, self.index, held)
    }

    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_> {
        let start = Slice::from(if span.start.as_slice() < FIRST_KEY { FIRST_KEY } else { &span.start });
        let end = Slice::from(&span.end[..]);
        let entries: Entries<'_> = if !end.is_empty() && end <= start {
            Box::new(std::iter::empty())
        } else if reverse {
            self.view.falling(&start, &end, self.index)
        } else {
            self.view.rising(&start, &end, self.index)
        };
        Box::new(Rows { view: &self.view, entries, start, end, at: None })
    }
}

struct Rows<'a> {
    view: &'a View,
    entries: Entries<'a>,
    start: Slice,
    end: Slice,
    at: Option<InternalValue>,
}

impl Cursor for Rows<'_> {
    fn advance(&mut self) -> Result<Option<Slice>> {
        loop {
            self.at = None;
            let Some(entry) = self.entries.next() else { return Ok(None) };
            let entry = entry.map_err(|error| {
                let high = if self.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(self.end.clone()) };
                self.view.blame(&Bound::Included(self.start.clone()), &high, error)
            })?;
            if !entry.key.is_tombstone() {
                let key = entry.key.user_key.clone();
                self.at = Some(entry);
                return Ok(Some(key));
            }
        }
    }

    fn value(&mut self) -> Result<Slice> {
        let entry = self.at.as_ref().expect("a value is asked of a row that the cursor is at");
        Ok(self.view.value_of(entry)?.expect("a removal is no row"))
    }
}
