//! The fields of a large hash in the order of their elements, and when they expire (`format::field_expiry`).
//!
//! The rows of a hash of which no field ever expired are its fields. In one of which fields do, rows about expiries lie behind
//! that of the empty field, and fields that have expired are there until background collection removes them.

use crate::command::call::Error;
use crate::command::error::corrupt;
use crate::format::element;
use crate::format::field_expiry::{self, RowExpiries};
use crate::{Fault, ReadSpace, Rows};
use storage::Slice;

/// How many rows about expiries are read at a time.
const CHUNK: usize = 128;

/// The rows of a large hash, or of another collection whose elements are kept as fields.
#[derive(Clone, Debug)]
pub(in crate::command) struct Fields {
    rows: Rows,
    /// Of a hash of which fields expire.
    expiries: Option<RowExpiries>,
    now_ms: u64,
}

impl Fields {
    /// Those that are seen at `now_ms`.
    pub(in crate::command) fn new(rows: Rows, expiries: Option<RowExpiries>, now_ms: u64) -> Self {
        Self { rows, expiries, now_ms }
    }

    /// How many there are, with those that have expired and are not collected.
    pub(in crate::command) fn stored(&self) -> u64 {
        self.rows.count
    }

    /// Whether some may have expired that are not collected.
    pub(in crate::command) fn are_late(&self) -> bool {
        self.expiries.is_some_and(|expiries| expiries.may_have_expired(self.now_ms))
    }

    /// Whether a field with that expiry is seen.
    pub(in crate::command) fn is_seen(&self, at_ms: Option<u64>) -> bool {
        at_ms.is_none_or(|at_ms| at_ms > self.now_ms)
    }

    /// How many are seen.
    pub(in crate::command) fn count<S: ReadSpace + ?Sized>(&self, space: &mut S) -> Result<u64, Error> {
        self.count_without(space, u64::MAX)
    }

    /// The same, but that no more are looked for once so many have been found to have expired: those behind them count.
    pub(in crate::command) fn count_without<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        expired_max: u64,
    ) -> Result<u64, Error> {
        let Some(expiries) = self.expiries.filter(|_| self.are_late()) else { return Ok(self.rows.count) };
        let mut expired = 0;
        let mut after = Slice::from(field_expiry::before_time(expiries.first));
        loop {
            let found = space.elements(&self.rows, Some(&after), CHUNK)?;
            let times = found.iter().map_while(|(row, _)| field_expiry::parse_by_time(row));
            let due = times.take_while(|(at_ms, _)| *at_ms <= self.now_ms).count();
            expired += due as u64;
            match found.into_iter().last() {
                Some((last, _)) if due == CHUNK && expired < expired_max => after = last,
                _ => break,
            }
        }
        let count = self.rows.count.checked_sub(expired);
        count.ok_or_else(|| corrupt(&self.rows.prefix, "hash with more expired fields than it has"))
    }

    /// Up to `limit` of them, expired ones too, beginning after the element `after`; see `ReadSpace::elements_within`.
    pub(in crate::command) fn within<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        after: Option<&[u8]>,
        limit: usize,
        bytes_soft: usize,
    ) -> Result<Vec<(Slice, Slice)>, Fault> {
        if self.expiries.is_none() {
            return space.elements_within(&self.rows, after, limit, bytes_soft);
        }
        // Rows about expiries lie before the first position of a field that is not empty.
        let first = element::before(1);
        if let Some(after) = after {
            return space.elements_within(&self.rows, Some(after.max(&first)), limit, bytes_soft);
        }
        let empty = element::name_of(b"");
        let mut found = Vec::new();
        found.extend(space.element_get(&self.rows, &empty)?.map(|value| (Slice::from(&empty[..]), value)));
        if found.len() < limit {
            found.extend(space.elements_within(&self.rows, Some(&first), limit - found.len(), bytes_soft)?);
        }
        Ok(found)
    }

    /// Drops those that have expired from fields that were read in their order.
    pub(in crate::command) fn retain_seen<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        found: &mut Vec<(Slice, Slice)>,
    ) -> Result<(), Error> {
        if self.are_late() {
            let mut expiries = self.expiries_of(space, found)?.into_iter();
            found.retain(|_| self.is_seen(expiries.next().flatten()));
        }
        Ok(())
    }

    /// When each of these expires, if it does. They were read in their order.
    pub(in crate::command) fn expiries_of<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        found: &[(Slice, Slice)],
    ) -> Result<Vec<Option<u64>>, Error> {
        let mut all = vec![None; found.len()];
        let (Some((first, _)), Some((last, _))) = (found.first(), found.last()) else { return Ok(all) };
        if self.expiries.is_none_or(|expiries| expiries.fields == 0) {
            return Ok(all);
        }
        all[0] = self.expiry_of(space, first)?;
        let end = field_expiry::row_by_field(last);
        let mut after = field_expiry::row_by_field(first);
        let mut at = 1;
        while at < found.len() && after < end {
            let rows = space.elements(&self.rows, Some(&after), CHUNK.min(found.len() - at))?;
            let Some((last, _)) = rows.last() else { break };
            after = last.to_vec();
            for (row, value) in &rows {
                let Some(name) = field_expiry::parse_by_field(row) else { return Ok(all) };
                at += found[at..].iter().take_while(|(other, _)| other[..] < *name).count();
                if found.get(at).is_some_and(|(other, _)| other[..] == *name) {
                    all[at] = Some(self.parse(value)?);
                }
            }
        }
        Ok(all)
    }

    /// When the field with that element expires, if it does.
    pub(in crate::command) fn expiry_of<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        name: &[u8],
    ) -> Result<Option<u64>, Error> {
        if self.expiries.is_none_or(|expiries| expiries.fields == 0) {
            return Ok(None);
        }
        let found = space.element_get(&self.rows, &field_expiry::row_by_field(name))?;
        found.map(|value| self.parse(&value)).transpose()
    }

    fn parse(&self, value: &[u8]) -> Result<u64, Error> {
        let malformed = || corrupt(&self.rows.prefix, "expiry of a field of a hash malformed");
        field_expiry::parse_expiry(value).ok_or_else(malformed)
    }
}
