//! A sorted set as it is stored, in either form, and how it is read.

use super::leaves::{Cut, Leaves, Visit};
use super::scored::Scored;
use crate::command::args;
use crate::command::call::{Error, Outcome};
use crate::command::error::corrupt_at;
use crate::command::hash::{fields_of, name_of};
use crate::format::record::MEMBERS;
use crate::format::score::decode;
use crate::{ReadSpace, Record, Rows, Type};
use vocab::limits;

/// The sorted set at a key.
pub(in crate::command) struct SortedSet<'k> {
    pub(super) key: &'k [u8],
    pub(super) expire_at_ms: Option<u64>,
    pub(super) form: Form,
}

/// Where the members of a sorted set are.
pub(super) enum Form {
    /// In the record, in order.
    Small(Record),
    /// In rows: once by their names, and once in order.
    Large(Large),
}

/// The rows of a large sorted set.
#[derive(Clone)]
pub(super) struct Large {
    /// All of them.
    pub(super) rows: Rows,
    /// The score of each member, by its name.
    pub(super) scores: Rows,
    /// The members in order.
    pub(super) leaves: Leaves,
}

impl Large {
    /// The sorted set whose rows these are.
    pub(super) fn of(rows: Rows) -> Self {
        Self { scores: rows.part(MEMBERS), leaves: Leaves::of(&rows), rows }
    }

    /// The score of a member.
    pub(super) fn score(&self, space: &mut dyn ReadSpace, member: &[u8]) -> Result<Option<f64>, Error> {
        // A longer one could not be stored; nor may the tree be asked for it.
        if member.len() > limits::FIELD_BYTES_MAX {
            return Ok(None);
        }
        let Some(bytes) = space.element_get(&self.scores, &name_of(member))? else { return Ok(None) };
        decode(&bytes).map(Some).ok_or_else(|| corrupt(member, "score that is no number"))
    }
}

impl<'k> SortedSet<'k> {
    /// The sorted set at `key`, if there is one.
    pub(in crate::command) fn load(space: &mut dyn ReadSpace, key: &'k [u8]) -> Result<Option<Self>, Error> {
        space.get(key)?.map(|record| Self::of(key, record)).transpose()
    }

    /// The sorted set whose record was read at `key`.
    pub(in crate::command) fn of(key: &'k [u8], record: Record) -> Result<Self, Error> {
        let view = record.view();
        if view.kind.ty != Type::SortedSet {
            return Err(args::WRONGTYPE.into());
        }
        let (expire_at_ms, rows) = (view.expire_at_ms, view.rows(key));
        let form = rows.map_or(Form::Small(record), |rows| Form::Large(Large::of(rows)));
        Ok(Self { key, expire_at_ms, form })
    }

    /// The same where its key is not at hand: its errors name its rows alone.
    pub(in crate::command) fn without_key(self) -> SortedSet<'static> {
        SortedSet { key: b"", expire_at_ms: self.expire_at_ms, form: self.form }
    }

    /// When its time comes, in ms since the epoch.
    pub(in crate::command) fn expire_at_ms(&self) -> Option<u64> {
        self.expire_at_ms
    }

    /// How many members it has.
    pub(in crate::command) fn count(&self) -> Result<u64, Error> {
        match &self.form {
            Form::Small(record) => Ok(self.packed(record)?.len() as u64),
            Form::Large(large) => Ok(large.rows.count),
        }
    }

    /// The score of a member.
    pub(in crate::command) fn score(&self, space: &mut dyn ReadSpace, member: &[u8]) -> Result<Option<f64>, Error> {
        match &self.form {
            Form::Small(record) => {
                let found = self.packed(record)?.iter().find(|scored| scored.member == member).map(|found| found.score);
                Ok(found)
            }
            Form::Large(large) => large.score(space, member),
        }
    }

    /// How many members come before a cut.
    pub(super) fn rank(&self, space: &mut dyn ReadSpace, cut: &Cut<'_>) -> Result<u64, Error> {
        match &self.form {
            Form::Small(record) => Ok(self.packed(record)?.partition_point(|scored| cut.is_after(scored)) as u64),
            // The ends need no look at the rows: queues are read from -inf to now.
            Form::Large(_) if cut.is_before_all() && !space.counts_reads() => Ok(0),
            Form::Large(large) if cut.is_behind_all() && !space.counts_reads() => Ok(large.rows.count),
            Form::Large(large) => large.leaves.rank(space, cut),
        }
    }

    /// Shows members from number `from` on, up to `count` of them, in rising order or in falling order.
    pub(super) fn visit(
        &self,
        space: &mut dyn ReadSpace,
        from: u64,
        count: u64,
        falls: bool,
        visit: Visit<'_>,
    ) -> Outcome {
        let record = match &self.form {
            Form::Large(large) => return large.leaves.visit(space, from, count, falls, visit),
            Form::Small(record) => record,
        };
        let members = self.packed(record)?;
        let (from, count) = (from as usize, usize::try_from(count).unwrap_or(usize::MAX));
        if falls {
            members.iter().take(from.saturating_add(1)).rev().take(count).copied().for_each(visit);
        } else {
            members.iter().skip(from).take(count).copied().for_each(visit);
        }
        Ok(())
    }

    /// The members of this sorted set's packed record, in order.
    pub(super) fn packed<'r>(&self, record: &'r Record) -> Result<Vec<Scored<'r>>, Error> {
        let fields = fields_of(record.view().payload).map_err(|why| corrupt(self.key, &why))?;
        let scored = |(member, value)| Some(Scored { member, score: decode(value)? });
        let members: Option<Vec<Scored<'_>>> = fields.into_iter().map(scored).collect();
        members.ok_or_else(|| corrupt(self.key, "score that is no number"))
    }
}

pub(super) fn corrupt(key: &[u8], detail: &str) -> Error {
    corrupt_at(format!("the sorted set {}", key.escape_ascii()), detail)
}
