//! A shard while an entry is applied: commands see the tree with what the entry has written so far above it.

mod collect;
mod requests;

pub(crate) use collect::{Collected, collect};

use crate::format::keys;
use crate::space::SmallHash;
use crate::space::read::{element_span, record_span};
use crate::view::{ShardView, live};
use crate::{Evaluation, Fault, Record, Rows, Space};
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;
use storage::{PutMode, Slice, Span, WriteBatch};
use vocab::{Prng, Slot, limits, slot_of};

type Overlay = BTreeMap<Slice, Option<Slice>>;

/// Writes of one entry, not yet in the tree. One for each tree key: a later write replaces an earlier one.
pub struct EntrySpace<'a> {
    view: &'a ShardView,
    index: u64,
    now_ms: u64,
    prng: Prng,
    overlay: Overlay,
    /// Prefixes of the rows of collections that are gone.
    drops: Vec<Slice>,
    /// How many keys came and went, by slot.
    counts: BTreeMap<Slot, i64>,
    /// How many keys got an expiry, less those that lost it, by slot.
    expiring: BTreeMap<Slot, i64>,
    /// Keys that went, or were replaced, after their time had come.
    expired: u64,
    /// Keys that were not there when they were written.
    made: Vec<Vec<u8>>,
    tree_key: Vec<u8>,
    /// What takes back the writes since `begin_attempt`.
    undo: Option<Undo>,
    evaluation: Evaluation,
    /// Large collections that the entry has made.
    new_collections: u64,
}

/// Collections that one entry can make: bits of an id below the entry's index.
const COLLECTION_BITS: u32 = 20;

/// What has been changed since an attempt began, oldest first.
#[derive(Default)]
struct Undo {
    /// Tree keys, and what the entry had written there before.
    rows: Vec<(Slice, Option<Option<Slice>>)>,
    counts: Vec<(Slot, i64)>,
    expiring: Vec<(Slot, i64)>,
    expired: u64,
    made: usize,
    drops: usize,
}

impl<'a> EntrySpace<'a> {
    /// The shard at the beginning of entry `index`.
    #[must_use]
    pub fn new(view: &'a ShardView, index: u64, now_ms: u64, evaluation: Evaluation) -> Self {
        let prng = Prng::new(index.rotate_left(32) ^ u64::from(view.id().0));
        let (overlay, counts) = (Overlay::new(), BTreeMap::new());
        let (made, tree_key) = (Vec::new(), Vec::new());
        let expiring = BTreeMap::new();
        Self {
            view,
            index,
            now_ms,
            prng,
            overlay,
            drops: Vec::new(),
            counts,
            expiring,
            expired: 0,
            made,
            tree_key,
            undo: None,
            evaluation,
            new_collections: 0,
        }
    }

    /// What is written from here on can be taken back. Attempts do not nest.
    pub(crate) fn begin_attempt(&mut self) {
        assert!(self.undo.is_none(), "one item is evaluated at a time");
        self.undo =
            Some(Undo { expired: self.expired, made: self.made.len(), drops: self.drops.len(), ..Undo::default() });
    }

    /// Keeps what was written since `begin_attempt`, or takes it back.
    pub(crate) fn end_attempt(&mut self, keep: bool) {
        let undo = self.undo.take().expect("an attempt was begun");
        if keep {
            return;
        }
        for (tree_key, before) in undo.rows.into_iter().rev() {
            match before {
                Some(value) => _ = self.overlay.insert(tree_key, value),
                None => _ = self.overlay.remove(&tree_key),
            }
        }
        undo.counts.into_iter().for_each(|(slot, by)| *self.counts.entry(slot).or_default() -= by);
        undo.expiring.into_iter().for_each(|(slot, by)| *self.expiring.entry(slot).or_default() -= by);
        self.expired = undo.expired;
        self.made.truncate(undo.made);
        self.drops.truncate(undo.drops);
    }

    /// What the commands wrote so far.
    #[cfg(test)]
    pub(crate) fn writes(&self) -> &BTreeMap<Slice, Option<Slice>> {
        &self.overlay
    }

    /// Writes what the commands wrote to the row cache and the tree, and makes it visible.
    ///
    /// The cache goes first: a reader whose index is older takes no row that is newer and reads the tree instead, so
    /// all readers see the entry from one moment on, that at which the tree shows it.
    pub fn commit(self) {
        let shard = self.view.id().0;
        self.view.begin_write(self.index);
        self.view.expect_rows(self.counts.keys().copied());
        if self.view.absent().any() {
            self.made.iter().for_each(|key| self.view.absent().made(key));
        }
        for (tree_key, value) in &self.overlay {
            if let Some(key) = keys::key_of_record(tree_key) {
                self.view.cache().put(shard, key, value.as_ref(), PutMode::Allocate);
            }
        }
        let writes = self.overlay.into_iter().collect();
        self.view.engine().apply(self.index, WriteBatch { writes, drops: self.drops });
        for (slot, by) in self.counts {
            self.view.counters().change(slot, by);
        }
        for (slot, by) in self.expiring {
            self.view.counters().change_expiring(slot, by);
        }
        self.view.expired(self.expired);
        self.view.clock().reach(self.now_ms);
    }

    /// One step of background collection as entries of format 1 have it: keys whose time has come, clients that number their requests and have not
    /// been heard of, elements of collections that are gone.
    pub fn housekeep(&mut self) -> Result<(), Fault> {
        let (start, end) = keys::expiries();
        let due = self.merged(&Span { start, end }, false, limits::COLLECT_STEP_MAX)?;
        let mut next = u64::MAX;
        for (tree_key, _) in due {
            let Some((at_ms, key)) = keys::parse_expiry(&tree_key) else {
                return Err(Fault::Storage(self.view.corrupt("a key of the expiry index cannot be parsed")));
            };
            if at_ms > self.now_ms {
                next = at_ms;
                break;
            }
            next = self.now_ms;
            match self.raw(key)? {
                Some(record) if record.view().expire_at_ms == Some(at_ms) => self.remove(key, &record),
                // The index is kept with the record; a stray key of it is dropped all the same.
                _ => self.write(&tree_key, None),
            }
        }
        let next = next.min(requests::forget(self)?);
        self.view.next_expiry(next);
        self.collect_garbage()
    }

    fn collect_garbage(&mut self) -> Result<(), Fault> {
        let (start, end) = keys::garbages();
        let Some((garbage, _)) = self.merged(&Span { start, end }, false, 1)?.pop() else {
            self.view.garbage(false);
            return Ok(());
        };
        let start = keys::rows_of_garbage(&garbage);
        let end = keys::prefix_end(&start);
        let elements = self.merged(&Span { start, end }, false, limits::COLLECT_STEP_MAX)?;
        if elements.len() < limits::COLLECT_STEP_MAX {
            self.write(&garbage, None);
        }
        for (element, _) in elements {
            self.write(&element, None);
        }
        Ok(())
    }

    /// The record of `key`, whether or not its time has come.
    fn raw(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        keys::record_into(&mut self.tree_key, key);
        let found = match self.overlay.get(self.tree_key.as_slice()) {
            Some(written) => written.clone(),
            None => {
                let shard = self.view.id().0;
                match self.view.cache().get(shard, key) {
                    Ok(row) => (!row.is_empty()).then_some(row),
                    Err(_) => self.view.engine().get(&self.tree_key)?,
                }
            }
        };
        found.map(|bytes| self.view.decode(bytes)).transpose()
    }

    /// As entries of format 1 do: a number that no elements of `key` have, be they of a hash that is gone and not yet
    /// collected. 64 random bits, the same on every replica.
    fn new_keyed_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        let mut generation = self.random_u64()?;
        loop {
            let rows = Rows::of_key(key, generation, 0);
            if self.elements(&rows, None, 1)?.is_empty() {
                return Ok(rows);
            }
            generation = generation.wrapping_add(self.random_u64()? | 1);
        }
    }

    fn write(&mut self, tree_key: &[u8], value: Option<Slice>) {
        self.write_row(Slice::from(tree_key), value);
    }

    fn write_row(&mut self, tree_key: Slice, value: Option<Slice>) {
        if let Some(undo) = &mut self.undo {
            let before = self.overlay.insert(tree_key.clone(), value);
            undo.rows.push((tree_key, before));
        } else {
            self.overlay.insert(tree_key, value);
        }
    }

    /// So many keys of a slot came, or went.
    fn count(&mut self, slot: Slot, by: i64) {
        *self.counts.entry(slot).or_default() += by;
        if let Some(undo) = &mut self.undo {
            undo.counts.push((slot, by));
        }
    }

    /// So many keys of a slot got an expiry, or lost it.
    fn count_expiring(&mut self, slot: Slot, by: i64) {
        *self.expiring.entry(slot).or_default() += by;
        if let Some(undo) = &mut self.undo {
            undo.expiring.push((slot, by));
        }
    }

    /// Removes a record that is there: its count, its place in the expiry index, and its elements in the background.
    fn remove(&mut self, key: &[u8], record: &Record) {
        self.discard_elements(key, record);
        self.remove_record(key, record);
    }

    fn remove_record(&mut self, key: &[u8], record: &Record) {
        self.count(slot_of(key), -1);
        if let Some(at_ms) = record.view().expire_at_ms {
            self.unschedule(at_ms, key);
        }
        self.write(&keys::record(key), None);
    }

    /// Takes a key that was to expire at `at_ms` out of the expiry index.
    fn unschedule(&mut self, at_ms: u64, key: &[u8]) {
        self.count_expiring(slot_of(key), -1);
        self.expired += u64::from(at_ms <= self.now_ms);
        self.write(&keys::expiry(at_ms, key), None);
    }

    fn discard_elements(&mut self, key: &[u8], record: &Record) {
        let Some(rows) = record.view().rows(key) else { return };
        // An id is used once, so the rows below it can go at once.
        if self.evaluation == Evaluation::Second || keys::has_id(&rows.prefix) {
            self.drops.push(Slice::from(rows.prefix));
        } else {
            self.write(&keys::garbage(&rows.prefix), Some(Slice::from(&[][..])));
            self.view.garbage(true);
        }
    }

    /// Up to `limit` entries of `span`: the tree's with the entry's own writes above them.
    fn merged(&self, span: &Span, reverse: bool, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        let snapshot = self.view.snapshot();
        let mut tree = snapshot.iter(span.clone(), reverse);
        let range = if span.end.is_empty() {
            self.overlay.range::<[u8], _>((Bound::Included(&span.start[..]), Bound::Unbounded))
        } else if span.start < span.end {
            self.overlay.range::<[u8], _>((Bound::Included(&span.start[..]), Bound::Excluded(&span.end[..])))
        } else {
            return Ok(Vec::new());
        };
        let mut written = Directed { range, reverse };
        let mut found = Vec::new();
        let (mut a, mut b) = (tree.next().transpose()?, written.next());
        while found.len() < limit {
            let order = match (&a, &b) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((x, _)), Some((y, _))) => {
                    let order = x.cmp(y);
                    if reverse { order.reverse() } else { order }
                }
            };
            if order.is_le() {
                let row = a.take();
                a = tree.next().transpose()?;
                if order.is_lt() {
                    found.extend(row);
                }
            }
            if order.is_ge() {
                if let Some((key, Some(value))) = b.take() {
                    found.push((key.clone(), value.clone()));
                }
                b = written.next();
            }
        }
        Ok(found)
    }
}

struct Directed<'a> {
    range: Range<'a, Slice, Option<Slice>>,
    reverse: bool,
}

impl<'a> Iterator for Directed<'a> {
    type Item = (&'a Slice, &'a Option<Slice>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.reverse { self.range.next_back() } else { self.range.next() }
    }
}

impl Space for EntrySpace<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn version(&self) -> u64 {
        self.index
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let now_ms = self.now_ms;
        Ok(live(self.raw(key)?, now_ms))
    }

    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        let record = record.stamped(self.index);
        let old = self.raw(key)?;
        let tree_key = Slice::from(self.tree_key.as_slice());
        let (old_expiry, old_rows) = old.as_ref().map_or((None, None), |old| {
            let view = old.view();
            (view.expire_at_ms, view.rows(key))
        });
        let expiry = record.view().expire_at_ms;
        let there = old.as_ref().is_some_and(|old| old.view().expire_at_ms.is_none_or(|at_ms| at_ms > self.now_ms));
        if !there && self.view.absent().any() {
            self.made.push(key.to_vec());
        }
        if old.is_none() {
            self.count(slot_of(key), 1);
        }
        if old_expiry != expiry {
            if let Some(at_ms) = old_expiry {
                self.unschedule(at_ms, key);
            }
            if let Some(at_ms) = expiry {
                self.count_expiring(slot_of(key), 1);
                self.write(&keys::expiry(at_ms, key), Some(Slice::from(&[][..])));
                self.view.expires_at(at_ms);
            }
        }
        if let (Some(old), Some(old_rows)) = (&old, old_rows)
            && record.view().rows(key).is_none_or(|rows| rows.prefix != old_rows.prefix)
        {
            self.discard_elements(key, old);
        }
        self.write_row(tree_key, Some(record.bytes().clone()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        let Some(record) = self.raw(key)? else { return Ok(false) };
        self.remove(key, &record);
        Ok(live(Some(record), self.now_ms).is_some())
    }

    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault> {
        if let Some(record) = self.raw(key)? {
            self.remove_record(key, &record);
        }
        Ok(())
    }

    fn evaluation(&self) -> Evaluation {
        self.evaluation
    }

    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        if self.evaluation == Evaluation::First {
            return self.new_keyed_rows(key);
        }
        let id = self.index << COLLECTION_BITS | self.new_collections;
        self.new_collections += 1;
        assert!(self.new_collections < 1 << COLLECTION_BITS, "an entry has fewer bytes than so many collections");
        Ok(Rows { prefix: keys::rows(slot_of(key), id), count: 0 })
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        let tree_key = keys::element(&rows.prefix, element);
        match self.overlay.get(tree_key.as_slice()) {
            Some(written) => Ok(written.clone()),
            None => Ok(self.view.engine().get(&tree_key)?),
        }
    }

    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.write_row(Slice::from(keys::element(&rows.prefix, element)), Some(Slice::from(value)));
        Ok(())
    }

    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault> {
        self.write_row(Slice::from(keys::element(&rows.prefix, element)), None);
        Ok(())
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        let prefix = rows.prefix.len();
        let found = self.merged(&element_span(rows, after), false, limit)?;
        Ok(found.into_iter().map(|(tree_key, value)| (Slice::from(&tree_key[prefix..]), value)).collect())
    }

    fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, limit: usize) -> Result<Vec<(Slice, Record)>, Fault> {
        let mut found = Vec::new();
        let mut span = record_span(start, end);
        while found.len() < limit {
            let want = limit - found.len();
            let rows = self.merged(&span, reverse, want)?;
            let more = rows.len() == want;
            if let Some((last, _)) = rows.last() {
                if reverse {
                    span.end = last.to_vec();
                } else {
                    span.start = last.to_vec();
                    span.start.push(0);
                }
            }
            for (tree_key, value) in rows {
                if let Some(record) = live(Some(self.view.decode(value)?), self.now_ms) {
                    found.push((Slice::from(&tree_key[1..]), record));
                }
            }
            if !more {
                break;
            }
        }
        Ok(found)
    }

    fn requests(&mut self, client: &[u8]) -> Result<Option<Slice>, Fault> {
        requests::row_of(self, client)
    }

    fn put_requests(
        &mut self,
        client: &[u8],
        row: &[u8],
        until_ms: u64,
        was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        requests::write(self, client, row, until_ms, was_until_ms)
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        requests::client_count(self)
    }

    fn stage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.write(&keys::staged(until_ms, &rows.prefix), Some(Slice::from(&[][..])));
        self.view.expires_at(until_ms);
        Ok(())
    }

    fn is_staged(&mut self, rows: &Rows, until_ms: u64) -> Result<bool, Fault> {
        let tree_key = keys::staged(until_ms, &rows.prefix);
        match self.overlay.get(tree_key.as_slice()) {
            Some(written) => Ok(written.is_some()),
            None => Ok(self.view.engine().get(&tree_key)?.is_some()),
        }
    }

    fn unstage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.write(&keys::staged(until_ms, &rows.prefix), None);
        Ok(())
    }

    fn drop_rows(&mut self, rows: &Rows) -> Result<(), Fault> {
        self.drops.push(Slice::from(&rows.prefix[..]));
        Ok(())
    }

    fn small_hash(&self) -> SmallHash {
        self.view.small_hash()
    }

    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        let by = self.counts.get(&slot).copied().unwrap_or_default();
        Ok(self.view.keys_in_slot(slot).saturating_add_signed(by))
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        Ok(self.view.key_count().saturating_add_signed(self.counts.values().sum()))
    }
}
