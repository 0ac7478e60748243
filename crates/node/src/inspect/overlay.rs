//! A tree that is looked at, with writes above it that stay in memory.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{
    Cursor, Engine, EngineStats, Error, Ingest, Ingested, Inspection, NotInstalled, Result, Slice, Snapshot, Span,
    WriteBatch,
};

/// A tree with writes above it in memory. Nothing it does reaches a file.
pub(super) struct Overlay {
    base: Arc<Inspection>,
    state: RwLock<Arc<OverlayState>>,
    applied: AtomicU64,
}

#[derive(Clone, Default)]
struct OverlayState {
    /// Whether the tree below has been emptied.
    cleared: bool,
    /// Prefixes that hide rows of the tree below.
    dropped: Vec<Slice>,
    writes: BTreeMap<Slice, Option<Slice>>,
}

impl OverlayState {
    fn apply(&mut self, batch: WriteBatch) {
        self.writes.extend(batch.writes);
        for prefix in batch.drops {
            self.writes.retain(|key, _| !key.starts_with(&prefix));
            self.dropped.push(prefix);
        }
    }

    /// Whether a row of the tree below is gone.
    fn hides(&self, key: &[u8]) -> bool {
        self.cleared || self.dropped.iter().any(|prefix| key.starts_with(prefix))
    }
}

impl Overlay {
    pub(super) fn new(base: Inspection) -> Self {
        let applied = AtomicU64::new(base.snapshot().index());
        Self { base: Arc::new(base), state: RwLock::default(), applied }
    }

    fn state(&self) -> Arc<OverlayState> {
        self.state.read().clone()
    }

    fn change(&self, index: u64, change: impl FnOnce(&mut OverlayState)) {
        let mut state = self.state.write();
        change(Arc::make_mut(&mut state));
        self.applied.store(index, Ordering::Release);
    }
}

impl Engine for Overlay {
    fn apply(&self, index: u64, batch: WriteBatch) {
        self.change(index, |state| state.apply(batch));
    }

    fn applied_index(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.snapshot().get(key)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Above { base: self.base.clone(), state: self.state(), index: self.applied_index() })
    }

    fn flushed_index(&self) -> u64 {
        self.base.snapshot().index()
    }

    fn wants_flush(&self) -> bool {
        false
    }

    fn seal(&self, _meta: Vec<(Slice, Slice)>) {}

    fn needs_flush(&self) -> bool {
        false
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        if self.state().cleared { Ok(None) } else { self.base.meta(key) }
    }

    fn compact(&self) -> Result<bool> {
        Ok(false)
    }

    fn debt(&self) -> f64 {
        0.0
    }

    fn clear(&self, index: u64, _meta: Vec<(Slice, Slice)>, rows: Vec<(Slice, Slice)>) -> Result<()> {
        let writes = rows.into_iter().map(|(key, value)| (key, Some(value))).collect();
        self.change(index, |state| *state = OverlayState { cleared: true, dropped: Vec::new(), writes });
        Ok(())
    }

    fn ingest(&self) -> Result<Box<dyn Ingest>> {
        Err(only_looked_at())
    }

    fn install(&self, _ingested: Box<dyn Ingested>) -> std::result::Result<(), NotInstalled> {
        Err(NotInstalled { error: only_looked_at(), rows: None })
    }

    fn stats(&self) -> EngineStats {
        self.base.stats()
    }

    fn verify(&self) -> Result<()> {
        self.base.verify()
    }
}

fn only_looked_at() -> Error {
    Error::Mismatch { path: PathBuf::from("the tree"), detail: "is only looked at".into() }
}

/// A snapshot of both.
struct Above {
    base: Arc<Inspection>,
    state: Arc<OverlayState>,
    index: u64,
}

impl Snapshot for Above {
    fn index(&self) -> u64 {
        self.index
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        match self.state.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None if self.state.hides(key) => Ok(None),
            None => self.base.snapshot().get(key),
        }
    }

    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_> {
        if !span.end.is_empty() && span.end <= span.start {
            let (written, below): (Written<'_>, Below<'_>) =
                (Box::new(std::iter::empty()), Box::new(std::iter::empty()));
            return Box::new(Merge::new(written, below, reverse));
        }
        let low = Bound::Included(Slice::from(&span.start[..]));
        let high = if span.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(Slice::from(&span.end[..])) };
        let written = self.state.writes.range((low, high));
        let written: Written<'_> = if reverse { Box::new(written.rev()) } else { Box::new(written) };
        let is_kept = |row: &Result<(Slice, Slice)>| row.as_ref().map_or(true, |(key, _)| !self.state.hides(key));
        let below: Below<'_> = if self.state.cleared {
            Box::new(std::iter::empty())
        } else {
            Box::new(self.base.snapshot().iter(span, reverse).filter(is_kept))
        };
        Box::new(Merge::new(written, below, reverse))
    }
}

type Written<'a> = Box<dyn Iterator<Item = (&'a Slice, &'a Option<Slice>)> + 'a>;
type Below<'a> = Box<dyn Iterator<Item = Result<(Slice, Slice)>> + 'a>;

/// Both in order; what was written hides what lies below under the same key.
struct Merge<'a> {
    written: Peekable<Written<'a>>,
    below: Peekable<Below<'a>>,
    reverse: bool,
    /// Of the row that a cursor is at.
    value: Option<Slice>,
}

impl<'a> Merge<'a> {
    fn new(written: Written<'a>, below: Below<'a>, reverse: bool) -> Self {
        Self { written: written.peekable(), below: below.peekable(), reverse, value: None }
    }
}

impl Cursor for Merge<'_> {
    fn advance(&mut self) -> Result<Option<Slice>> {
        let Some((key, value)) = self.next().transpose()? else { return Ok(None) };
        self.value = Some(value);
        Ok(Some(key))
    }

    fn value(&mut self) -> Result<Slice> {
        Ok(self.value.clone().expect("a value is asked of a row that the cursor is at"))
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.written.peek(), self.below.peek()) {
                (Some((written, _)), Some(Ok((below, _)))) if self.reverse => below.cmp(written),
                (Some((written, _)), Some(Ok((below, _)))) => (*written).cmp(below),
                (None, _) | (_, Some(Err(_))) => return self.below.next(),
                (Some(_), None) => std::cmp::Ordering::Less,
            };
            if order.is_gt() {
                return self.below.next();
            }
            if order.is_eq() {
                self.below.next();
            }
            if let Some((key, Some(value))) = self.written.next() {
                return Some(Ok((key.clone(), value.clone())));
            }
        }
    }
}
