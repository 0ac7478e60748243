//! A snapshot of the map in memory. Scans take the lock for a few hundred rows at a time.

use super::state::{Bounds, Generation, SnapshotId};
use crate::{Cursor, Result, Slice, Snapshot, Span};
use std::ops::Bound;
use std::sync::Arc;

/// Rows that one turn with the lock collects: few at first, for most scans are short.
const TURN_ROWS: std::ops::RangeInclusive<usize> = 8..=256;

/// See `Snapshot`. Closed when it is dropped.
pub(super) struct MemorySnapshot {
    generation: Arc<Generation>,
    id: SnapshotId,
    index: u64,
}

impl MemorySnapshot {
    /// Opens a snapshot of the map as it is, which is that of `index`: no entry may be under way.
    pub(super) fn open(generation: Arc<Generation>, id: SnapshotId, index: u64) -> Self {
        Self { generation, id, index }
    }

    pub(super) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Whether it is of this generation.
    pub(super) fn is_of(&self, generation: &Arc<Generation>) -> bool {
        Arc::ptr_eq(&self.generation, generation)
    }

    /// All rows in order.
    pub(super) fn rows(&self) -> Rows<'_> {
        self.range((Bound::Unbounded, Bound::Unbounded), false)
    }

    fn range(&self, bounds: Bounds, reverse: bool) -> Rows<'_> {
        let ready = Vec::new().into_iter();
        Rows { snapshot: self, ready, left: Some(bounds), reverse, turn: *TURN_ROWS.start(), value: None }
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        self.generation.write().close_snapshot(self.id);
    }
}

impl Snapshot for MemorySnapshot {
    fn index(&self) -> u64 {
        self.index
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.generation.read().get_at(self.id, key))
    }

    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_> {
        let is_empty = !span.end.is_empty() && span.end <= span.start;
        let low = Bound::Included(Slice::from(span.start));
        let high = if span.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(Slice::from(span.end)) };
        let mut rows = self.range((low, high), reverse);
        rows.left = rows.left.filter(|_| !is_empty);
        Box::new(rows)
    }
}

/// Rows of a snapshot, a turn at a time.
pub(super) struct Rows<'a> {
    snapshot: &'a MemorySnapshot,
    ready: std::vec::IntoIter<(Slice, Slice)>,
    left: Option<Bounds>,
    reverse: bool,
    /// Rows that the next turn collects.
    turn: usize,
    /// The value of the row that a cursor is at.
    value: Option<Slice>,
}

impl Cursor for Rows<'_> {
    fn advance(&mut self) -> Result<Option<Slice>> {
        let Some((key, value)) = self.next() else { return Ok(None) };
        self.value = Some(value);
        Ok(Some(key))
    }

    fn value(&mut self) -> Result<Slice> {
        Ok(self.value.clone().expect("a value is asked of a row that the cursor is at"))
    }
}

impl Iterator for Rows<'_> {
    type Item = (Slice, Slice);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.ready.next() {
                return Some(row);
            }
            let bounds = self.left.take()?;
            let state = self.snapshot.generation.read();
            let (rows, left) = state.rows_at(self.snapshot.id, bounds, self.reverse, self.turn);
            self.turn = (2 * self.turn).min(*TURN_ROWS.end());
            (self.ready, self.left) = (rows.into_iter(), left);
        }
    }
}
