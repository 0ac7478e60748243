//! Values as Redis writes them: small ones whole, the elements of large collections piece by piece.

use super::error::BAD_DATA;
use super::streams;
use crate::command::call::Error;
use crate::command::hash::{self, Fields, Stored};
use crate::command::list::{List, Side, Walk};
use crate::command::steps::Progress;
use crate::format::score::SCORE_BYTES;
use crate::{Kind, ReadSpace, Record, Type};
use storage::Slice;
use vocab::limits::{STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};

/// The elements of a large collection that are still to be written.
pub(super) enum Left {
    /// Of a hash, a set or a sorted set.
    Elements(ElementsLeft),
    List(ListLeft),
}

impl Left {
    /// What stands before the elements, the type first, and all elements; `None` if nothing is seen of the collection.
    pub(super) fn of(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<Option<(Vec<u8>, Self)>, Error> {
        let ty = record.view().kind.ty;
        if ty == Type::List {
            let list = List::of(key, record.clone())?;
            let count = list.count()?;
            let walk = list.walk(0, count, Side::Left);
            return Ok(Some((head(ty, None, count), Self::List(ListLeft { key: key.to_vec(), record, walk }))));
        }
        let Some(rows) = record.view().fields(key) else { return Err(BAD_DATA.into()) };
        let stored = Stored::of(key, record, space.now_ms())?;
        let (earliest_ms, fields) = (stored.earliest_expiry_ms(), stored.fields(&rows));
        let count = fields.count(space)?;
        let head = head(ty, earliest_ms, count);
        let left = ElementsLeft { ty, earliest_ms, left: fields.stored(), fields, after: None };
        Ok((count > 0).then_some((head, Self::Elements(left))))
    }

    /// Appends the next elements.
    pub(super) fn fill(&mut self, space: &mut dyn ReadSpace, out: &mut Vec<u8>) -> Result<Progress, Error> {
        match self {
            Self::Elements(left) => left.fill(space, out),
            Self::List(left) => left.fill(space, out),
        }
    }
}

pub(super) struct ElementsLeft {
    ty: Type,
    /// If fields expire, none does before.
    earliest_ms: Option<u64>,
    fields: Fields,
    /// How many there are, expired ones too.
    left: u64,
    /// The element that was written last.
    after: Option<Slice>,
}

impl ElementsLeft {
    fn fill(&mut self, space: &mut dyn ReadSpace, out: &mut Vec<u8>) -> Result<Progress, Error> {
        let after = self.after.as_deref();
        let found = self.fields.within(space, after, STREAM_STEP_ITEMS_MAX, STREAM_STEP_BYTES_SOFT)?;
        let expiries = self.fields.expiries_of(space, &found)?;
        for ((name, value), at_ms) in found.iter().zip(expiries).filter(|(_, at_ms)| self.fields.is_seen(*at_ms)) {
            let field = hash::field_of(name).ok_or(BAD_DATA)?;
            let (ty, earliest_ms) = (self.ty, self.earliest_ms);
            Element { ty, earliest_ms, field, value, at_ms }.put(out);
        }
        if found.is_empty() && self.left > 0 {
            return Err(BAD_DATA.into());
        }
        self.left = self.left.saturating_sub(found.len() as u64);
        self.after = found.into_iter().last().map(|(name, _)| name);
        Ok(if self.left > 0 { Progress::More } else { Progress::Done })
    }
}

pub(super) struct ListLeft {
    key: Vec<u8>,
    record: Record,
    walk: Walk,
}

impl ListLeft {
    fn fill(&mut self, space: &mut dyn ReadSpace, out: &mut Vec<u8>) -> Result<Progress, Error> {
        let list = List::of(&self.key, self.record.clone())?;
        self.walk.step(&list, space, |_, element| {
            rdb::put_string(out, element);
            Ok(true)
        })?;
        Ok(if self.walk.is_over() { Progress::Done } else { Progress::More })
    }
}

/// The first byte of a dumped value.
fn type_of(ty: Type) -> u8 {
    match ty {
        Type::String => rdb::types::STRING,
        Type::Hash => rdb::types::HASH,
        Type::Set => rdb::types::SET,
        Type::List => rdb::types::LIST,
        Type::SortedSet => rdb::types::SORTED_SET,
        Type::Stream => rdb::types::STREAM_2,
    }
}

/// What stands before the elements of a collection.
pub(super) fn head(ty: Type, earliest_ms: Option<u64>, count: u64) -> Vec<u8> {
    let Some(earliest_ms) = earliest_ms else {
        let mut head = vec![type_of(ty)];
        rdb::put_length(&mut head, count);
        return head;
    };
    let mut head = vec![rdb::types::HASH_TTLS];
    rdb::field_ttls_head(&mut head, earliest_ms, count);
    head
}

/// Fields that expire need another version of the format.
pub(super) fn version_of(earliest_ms: Option<u64>) -> u16 {
    if earliest_ms.is_some() { rdb::VERSION_FIELD_TTLS } else { rdb::VERSION }
}

/// An element: a set's is a member, a sorted set's has a score, a hash's a value.
pub(super) struct Element<'a> {
    pub(super) ty: Type,
    /// If fields of the hash expire, none does before.
    pub(super) earliest_ms: Option<u64>,
    pub(super) field: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) at_ms: Option<u64>,
}

impl Element<'_> {
    /// How many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let mut behind = match self.ty {
            Type::Set => 0,
            Type::SortedSet => SCORE_BYTES,
            _ => rdb::string_bytes(self.value.len()),
        };
        if let Some(earliest_ms) = self.earliest_ms {
            behind += rdb::length_bytes(rdb::field_ttl(earliest_ms, self.at_ms));
        }
        rdb::string_bytes(self.field.len()) + behind
    }

    /// Appends it. A score is stored as the format has it.
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(earliest_ms) = self.earliest_ms {
            let ttl = rdb::field_ttl(earliest_ms, self.at_ms);
            return rdb::put_hash_field(out, ttl, self.field, self.value);
        }
        rdb::put_string(out, self.field);
        match self.ty {
            Type::Set => {}
            Type::SortedSet => out.extend_from_slice(self.value),
            _ => rdb::put_string(out, self.value),
        }
    }
}

/// A value, its type first.
pub(super) struct Whole {
    pub(super) bytes: Vec<u8>,
    /// Of the format.
    pub(super) version: u16,
}

/// A value that is one record, or a stream of which no more than `stream_bytes_max` bytes are held in memory; `None` if nothing is
/// seen of it.
pub(super) fn whole(
    space: &mut dyn ReadSpace,
    key: &[u8],
    record: Record,
    stream_bytes_max: usize,
) -> Result<Option<Whole>, Error> {
    let view = record.view();
    let ty = view.kind.ty;
    let mut bytes = vec![type_of(ty)];
    let mut version = rdb::VERSION;
    if view.kind == Kind::STRING {
        rdb::put_string(&mut bytes, view.payload);
    } else if ty == Type::Stream {
        rdb::put_value(&mut bytes, &streams::read(space, key, record, stream_bytes_max)?);
    } else {
        let (mut count, mut elements, mut earliest_ms) = (0, Vec::new(), None);
        if ty == Type::List {
            List::of(key, record)?.each(space, |element| {
                count += 1;
                rdb::put_string(&mut elements, element);
                Ok(())
            })?;
        } else {
            let hash = Stored::of(key, record, space.now_ms())?;
            if hash.is_gone()? {
                return Ok(None);
            }
            earliest_ms = hash.earliest_expiry_ms();
            hash.each_with_expiry(space, |_, field, value, at_ms| {
                count += 1;
                Element { ty, earliest_ms, field, value, at_ms }.put(&mut elements);
                Ok(())
            })?;
        }
        bytes = head(ty, earliest_ms, count);
        version = version_of(earliest_ms);
        bytes.extend_from_slice(&elements);
    }
    Ok(Some(Whole { bytes, version }))
}
