//! A view at an index.

use super::view::{Entries, View};
use crate::{Result, Slice, Snapshot, Span};
use std::ops::Bound;
use std::sync::Arc;

/// The first key that is the caller's.
const FIRST_KEY: &[u8] = &[1];

/// See `Snapshot`.
pub(super) struct LsmSnapshot {
    pub(super) view: Arc<View>,
    pub(super) index: u64,
}

impl Snapshot for LsmSnapshot {
    fn index(&self) -> u64 {
        self.index
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.view.get(key, self.index)
    }

    fn iter(&self, span: Span, reverse: bool) -> Box<dyn Iterator<Item = Result<(Slice, Slice)>> + '_> {
        let start = if span.start.as_slice() < FIRST_KEY { FIRST_KEY } else { &span.start };
        if !span.end.is_empty() && span.end.as_slice() <= start {
            return Box::new(std::iter::empty());
        }
        let low = Bound::Included(Slice::from(start));
        let high = if span.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(Slice::from(&span.end[..])) };
        let entries = self.view.entries(low.clone(), high.clone(), self.index);
        Box::new(Rows { view: &self.view, entries, bounds: (low, high), reverse, failed: false })
    }
}

struct Rows<'a> {
    view: &'a View,
    entries: Entries,
    bounds: (Bound<Slice>, Bound<Slice>),
    reverse: bool,
    failed: bool,
}

impl Iterator for Rows<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        loop {
            let entry = if self.reverse { self.entries.next_back()? } else { self.entries.next()? };
            let row = match entry {
                Ok(entry) => {
                    let key = entry.key.user_key.clone();
                    self.view.value_of(entry).map(|value| value.map(|value| (key, value)))
                }
                Err(error) => Err(self.view.blame(&self.bounds.0, &self.bounds.1, error)),
            };
            self.failed = row.is_err();
            if let Some(row) = row.transpose() {
                return Some(row);
            }
        }
    }
}
