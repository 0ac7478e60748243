//! A stream as it is stored, in either form, and how it is read.

use super::entry::{Entry, Spot};
use super::id::StreamId;
use super::meta::{META_BYTES, Meta, Ordinal};
use super::names;
use super::producers::{PRODUCERS_BYTES, Producers};
use crate::command::args;
use crate::command::call::Error;
use crate::command::error::corrupt;
use crate::{Kind, ReadSpace, Record, Rows, Type, WriteSpace};
use storage::Slice;
use vocab::limits::{STREAM_INLINE_BYTES_MAX, STREAM_INLINE_ENTRIES_MAX};
use vocab::{Malformed, Reader};

/// The stream at a key.
pub(super) struct Stream<'k> {
    pub(super) key: &'k [u8],
    pub(super) expire_at_ms: Option<u64>,
    pub(super) meta: Meta,
    pub(super) form: Form,
    /// What is known of the requests of producers; a small stream has none.
    pub(super) producers: Option<Producers>,
}

/// Where the entries of a stream are.
pub(super) enum Form {
    /// In the record, in their order; there are no groups.
    Inline(Vec<Entry>),
    /// In rows of their own.
    Large(Rows),
}

impl<'k> Stream<'k> {
    /// The stream at `key`, if there is one.
    pub(super) fn load(space: &mut dyn ReadSpace, key: &'k [u8]) -> Result<Option<Self>, Error> {
        space.get(key)?.map(|record| Self::of(key, &record)).transpose()
    }

    /// The stream whose record was read at `key`.
    pub(super) fn of(key: &'k [u8], record: &Record) -> Result<Self, Error> {
        let view = record.view();
        if view.kind.ty != Type::Stream {
            return Err(args::WRONGTYPE.into());
        }
        let found = match view.rows(key) {
            Some(rows) => large(view.tail()).map(|(meta, producers)| (meta, Form::Large(rows), producers)),
            None => inline(view.payload).map(|(meta, entries)| (meta, Form::Inline(entries), None)),
        };
        let (meta, form, producers) = found.map_err(|why| corrupt(key, why.text()))?;
        Ok(Self { key, expire_at_ms: view.expire_at_ms, meta, form, producers })
    }

    /// One without entries.
    pub(super) fn new(key: &'k [u8]) -> Self {
        Self { key, expire_at_ms: None, meta: Meta::default(), form: Form::Inline(Vec::new()), producers: None }
    }

    /// Writes the record.
    pub(super) fn save(&self, space: &mut dyn WriteSpace) -> Result<(), Error> {
        Ok(space.put(self.key, self.record(space.version()))?)
    }

    /// Writes the record of a stream of which WATCH sees no change, as in Redis: its groups have changed, or its last id.
    pub(super) fn save_quietly(&self, space: &mut dyn WriteSpace) -> Result<(), Error> {
        Ok(space.put_quietly(self.key, self.record(space.version()))?)
    }

    fn record(&self, version: u64) -> Record {
        let meta = self.meta.encode();
        match &self.form {
            Form::Large(rows) => {
                let rows = rows.with_count(self.meta.length);
                let producers = self.producers.as_ref().map(Producers::encode);
                let tail = [&meta[..], producers.as_ref().map_or(&[][..], |bytes| bytes)].concat();
                Record::large_with_tail(Type::Stream, version, self.expire_at_ms, &rows, &tail)
            }
            Form::Inline(entries) => {
                let mut payload = Vec::with_capacity(META_BYTES + self.meta.bytes as usize + 32 * entries.len());
                payload.extend_from_slice(&meta);
                entries.iter().for_each(|entry| entry.push(&mut payload));
                Record::stamped_new(version, Kind::packed(Type::Stream), self.expire_at_ms, &[&payload])
            }
        }
    }

    /// Whether it still fits into one record.
    pub(super) fn fits_inline(&self) -> bool {
        match &self.form {
            Form::Inline(entries) => {
                entries.len() <= STREAM_INLINE_ENTRIES_MAX && self.meta.bytes <= STREAM_INLINE_BYTES_MAX as u64
            }
            Form::Large(_) => false,
        }
    }

    /// Where its rows are. Gives it rows, if it has none.
    pub(super) fn make_large(&mut self, space: &mut dyn WriteSpace) -> Result<Rows, Error> {
        match &self.form {
            Form::Large(rows) => Ok(rows.clone()),
            Form::Inline(entries) => {
                let rows = space.new_rows(self.key)?;
                for (ordinal, entry) in (self.meta.first.0..).zip(entries) {
                    let row = Spot::Live(entry.clone()).encode();
                    space.element_put(&rows, &names::entry(Ordinal(ordinal)), &row)?;
                }
                self.form = Form::Large(rows.clone());
                Ok(rows)
            }
        }
    }

    /// Where the rows of a stream that may have groups are.
    pub(super) fn rows(&self) -> Option<&Rows> {
        match &self.form {
            Form::Large(rows) => Some(rows),
            Form::Inline(_) => None,
        }
    }

    /// The entry at an ordinal, if it is still there.
    pub(super) fn entry_at(&self, space: &mut dyn ReadSpace, at: Ordinal) -> Result<Option<Entry>, Error> {
        if at < self.meta.first || at >= self.meta.next {
            return Ok(None);
        }
        match self.spot(space, at)? {
            Spot::Live(entry) => Ok(Some(entry)),
            Spot::Gone { .. } => Ok(None),
        }
    }

    /// Whether there is an entry at an ordinal.
    pub(super) fn has_entry_at(&self, space: &mut dyn ReadSpace, at: Ordinal) -> Result<bool, Error> {
        let is_within = at >= self.meta.first && at < self.meta.next;
        Ok(is_within && (self.meta.gone() == 0 || self.entry_at(space, at)?.is_some()))
    }

    /// What lies at an ordinal from `first` on and before `next`.
    pub(super) fn spot(&self, space: &mut dyn ReadSpace, at: Ordinal) -> Result<Spot, Error> {
        match &self.form {
            Form::Inline(entries) => {
                let entry = at.0.checked_sub(self.meta.first.0).and_then(|index| entries.get(index as usize));
                entry.cloned().map(Spot::Live).ok_or_else(|| self.corrupt("stream that lacks an entry"))
            }
            Form::Large(rows) => {
                let row = space.element_get(rows, &names::entry(at))?;
                let row = row.ok_or_else(|| self.corrupt("stream that lacks the row of an entry"))?;
                Spot::decode(row).map_err(|why| self.malformed(why))
            }
        }
    }

    /// The ordinal of the first row whose id is not below `id`; `next` if there is none. As a rule an id near the end is
    /// looked for, so the search begins there.
    pub(super) fn find(&self, space: &mut dyn ReadSpace, id: StreamId) -> Result<Ordinal, Error> {
        let Meta { first, next, .. } = self.meta;
        if self.meta.length == 0 || id <= self.meta.first_id {
            return Ok(first);
        }
        if id > self.meta.last_id {
            return Ok(next);
        }
        // All before `low` are below the id; none from `high` on is.
        let (mut low, mut high, mut step) = (first.0 + 1, next.0, 1);
        while low < high {
            let at = if step > 0 { high.saturating_sub(step).max(low) } else { low + (high - low) / 2 };
            if self.spot(space, Ordinal(at))?.id() < id {
                low = at + 1;
                step = 0;
            } else {
                high = at;
                step *= 2;
            }
        }
        Ok(Ordinal(high))
    }

    /// The ordinal of the first row behind `id`; `next` if there is none.
    pub(super) fn behind_id(&self, space: &mut dyn ReadSpace, id: StreamId) -> Result<Ordinal, Error> {
        match id.next() {
            Some(behind) => self.find(space, behind),
            None => Ok(self.meta.next),
        }
    }

    /// The entry of that id.
    pub(super) fn get(&self, space: &mut dyn ReadSpace, id: StreamId) -> Result<Option<(Ordinal, Entry)>, Error> {
        let at = self.find(space, id)?;
        if at == self.meta.next {
            return Ok(None);
        }
        match self.spot(space, at)? {
            Spot::Live(entry) if entry.id == id => Ok(Some((at, entry))),
            _ => Ok(None),
        }
    }

    /// The first entry from `at` on and before `end`.
    pub(super) fn live_from(
        &self,
        space: &mut dyn ReadSpace,
        mut at: Ordinal,
        end: Ordinal,
    ) -> Result<Option<(Ordinal, Entry)>, Error> {
        while at < end {
            match self.spot(space, at)? {
                Spot::Live(entry) => return Ok(Some((at, entry))),
                Spot::Gone { other, .. } => at = Ordinal(other.max(at).0 + 1),
            }
        }
        Ok(None)
    }

    /// The last entry before `at` and from `start` on.
    pub(super) fn live_before(
        &self,
        space: &mut dyn ReadSpace,
        mut at: Ordinal,
        start: Ordinal,
    ) -> Result<Option<(Ordinal, Entry)>, Error> {
        while at > start {
            let before = Ordinal(at.0 - 1);
            match self.spot(space, before)? {
                Spot::Live(entry) => return Ok(Some((before, entry))),
                Spot::Gone { other, .. } => at = other.min(before),
            }
        }
        Ok(None)
    }

    /// The last entry.
    pub(super) fn last(&self, space: &mut dyn ReadSpace) -> Result<Option<Entry>, Error> {
        Ok(self.live_before(space, self.meta.next, self.meta.first)?.map(|(_, entry)| entry))
    }

    /// The id of the last row, be its entry there or not; 0-0 without rows.
    pub(super) fn last_row_id(&self, space: &mut dyn ReadSpace) -> Result<StreamId, Error> {
        if self.meta.first == self.meta.next {
            return Ok(StreamId::ZERO);
        }
        Ok(self.spot(space, Ordinal(self.meta.next.0 - 1))?.id())
    }

    /// How many ordinals from `start` on and before `end` have no entry any more.
    pub(super) fn gone_between(&self, space: &mut dyn ReadSpace, start: Ordinal, end: Ordinal) -> Result<u64, Error> {
        if self.meta.gone() == 0 || start >= end {
            return Ok(0);
        }
        if start == self.meta.first && end == self.meta.next {
            return Ok(self.meta.gone());
        }
        let (mut gone, mut at) = (0, start);
        while at < end {
            let block = names::block_of(at);
            let block_end = names::block_start(block + 1);
            if at == names::block_start(block) && block_end <= end {
                gone += self.gone_in_block(space, block)?;
            } else {
                gone += self.gone_by_walk(space, at, block_end.min(end))?;
            }
            at = block_end;
        }
        Ok(gone)
    }

    /// How many of a block's ordinals that are not before `first` have no entry any more.
    pub(super) fn gone_in_block(&self, space: &mut dyn ReadSpace, block: u64) -> Result<u64, Error> {
        let Form::Large(rows) = &self.form else { return Ok(0) };
        let Some(row) = space.element_get(rows, &names::block(block))? else { return Ok(0) };
        Reader::new(&row).u64_le().map_err(|why| self.malformed(why))
    }

    fn gone_by_walk(&self, space: &mut dyn ReadSpace, start: Ordinal, end: Ordinal) -> Result<u64, Error> {
        let (mut gone, mut at) = (0, start);
        while at < end {
            let next = match self.spot(space, at)? {
                Spot::Live(_) => Ordinal(at.0 + 1),
                Spot::Gone { other, .. } => {
                    let next = Ordinal(other.max(at).0 + 1).min(end);
                    gone += next.0 - at.0;
                    next
                }
            };
            at = next;
        }
        Ok(gone)
    }

    /// The ordinal of the entry behind the first `n`; `next` if there are no more.
    pub(super) fn behind(&self, space: &mut dyn ReadSpace, n: u64) -> Result<Ordinal, Error> {
        let Meta { first, next, length, .. } = self.meta;
        if n >= length {
            return Ok(next);
        }
        if self.meta.gone() == 0 {
            return Ok(Ordinal(first.0 + n));
        }
        let (mut left, mut at) = (n, first);
        // Whole blocks first, then entry by entry.
        loop {
            let block_end = names::block_start(names::block_of(at) + 1).min(next);
            let live = block_end.0 - at.0 - self.gone_between(space, at, block_end)?;
            if live > left || block_end == next {
                break;
            }
            (left, at) = (left - live, block_end);
        }
        loop {
            let found = self.live_from(space, at, next)?;
            let (ordinal, _) = found.ok_or_else(|| self.corrupt("stream with fewer entries than its length"))?;
            if left == 0 {
                return Ok(ordinal);
            }
            (left, at) = (left - 1, Ordinal(ordinal.0 + 1));
        }
    }

    pub(super) fn malformed(&self, why: Malformed) -> Error {
        self.corrupt(why.text())
    }

    pub(super) fn corrupt(&self, detail: &str) -> Error {
        corrupt(self.key, detail)
    }
}

/// What the record of a large stream says of it.
fn large(tail: &[u8]) -> Result<(Meta, Option<Producers>), Malformed> {
    let (meta, producers) = tail.split_at_checked(META_BYTES).ok_or(Malformed::CutShort)?;
    let meta = Meta::decode(&mut Reader::new(meta))?;
    match producers.len() {
        0 => Ok((meta, None)),
        PRODUCERS_BYTES => Ok((meta, Some(Producers::decode(&mut Reader::new(producers))?))),
        _ => Err(Malformed::TooLong),
    }
}

/// What a small stream's record holds.
fn inline(payload: &[u8]) -> Result<(Meta, Vec<Entry>), Malformed> {
    let mut reader = Reader::new(payload);
    let meta = Meta::decode(&mut reader)?;
    let mut entries = Vec::new();
    while !reader.is_empty() {
        entries.push(Entry::take(&mut reader)?);
    }
    let is_whole = entries.len() as u64 == meta.length && meta.gone() == 0 && meta.groups == 0;
    if is_whole { Ok((meta, entries)) } else { Err(Malformed::CountTooLarge) }
}

/// The bytes of fields and values, as `Meta::bytes` counts them.
pub(super) fn bytes_of(fields: &Slice) -> u64 {
    fields.len() as u64
}
