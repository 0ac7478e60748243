//! A hash as it is stored, in either form, and how it is read.

use super::fields::Fields;
use crate::command::args;
use crate::command::call::Error;
use crate::command::error::corrupt;
use crate::format::element;
use crate::format::field_expiry::{LiveFields, Places, RowExpiries};
use crate::format::packed_hash::{self as packed, Entry, Malformed, Packed, Varint};
use crate::{Kind, Layout, ReadSpace, Record, Rows, Rules, Type};
use std::ops::Deref;
use storage::Slice;
use vocab::limits;

/// What it takes to pass one field of a small hash, in steps of `ReadSpace::afford`.
const STEPS_OF_A_FIELD: usize = 2;

/// How many elements of a large hash are read at a time.
const CHUNK: usize = 128;
/// After how many bytes of them it ends earlier.
const CHUNK_BYTES_SOFT: usize = 1 << 20;

/// Ends the walk over a hash that is longer than wanted.
const TOO_LONG: &str = "ERR the hash is too long";

/// The hash at a key; or the set, whose members are fields with empty values; or the sorted set, whose members are fields
/// with their scores.
pub(crate) struct Stored<'k> {
    pub(super) ty: Type,
    pub(in crate::command) key: &'k [u8],
    pub(super) expire_at_ms: Option<u64>,
    pub(in crate::command) form: Form,
    pub(super) expiries: Expiries,
    /// The time as of which its fields are seen.
    pub(super) now_ms: u64,
}

/// When fields of a hash expire.
#[derive(Debug)]
pub(super) enum Expiries {
    /// None of them does.
    None,
    /// By their places in the record.
    Packed(Places),
    /// What the record of a large hash says.
    Rows(RowExpiries),
}

/// Where the fields of a hash are.
pub(in crate::command) enum Form {
    /// In the record: without those that have expired, and without expiries.
    Inline(Record),
    /// In rows of their own.
    Large(Rows),
}

/// A field's value: part of a record, or an element's.
pub(in crate::command) enum Value<'a> {
    Inline(&'a [u8]),
    Element(Slice),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Element(slice) => slice,
        }
    }
}

impl<'k> Stored<'k> {
    /// The hash at `key`, if there is one.
    pub(crate) fn load(space: &mut dyn ReadSpace, key: &'k [u8]) -> Result<Option<Self>, Error> {
        Self::load_of(Type::Hash, space, key)
    }

    /// The collection of that type at `key`, if there is one.
    pub(crate) fn load_of(ty: Type, space: &mut dyn ReadSpace, key: &'k [u8]) -> Result<Option<Self>, Error> {
        let now_ms = space.now_ms();
        let stored = space.get(key)?.map(|record| Self::of(key, record, now_ms)).transpose()?;
        if stored.as_ref().is_some_and(|stored| stored.ty != ty) {
            return Err(args::WRONGTYPE.into());
        }
        match stored {
            Some(stored) if stored.is_gone()? => Ok(None),
            stored => Ok(stored),
        }
    }

    /// The hash, set or sorted set whose record was read at `key`, as it is seen at `now_ms`.
    pub(crate) fn of(key: &'k [u8], record: Record, now_ms: u64) -> Result<Self, Error> {
        let view = record.view();
        let expire_at_ms = view.expire_at_ms;
        let ty = view.kind.ty;
        if !matches!(ty, Type::Hash | Type::Set | Type::SortedSet) {
            return Err(args::WRONGTYPE.into());
        }
        let stored = |form, expiries| Self { ty, key, expire_at_ms, form, expiries, now_ms };
        match view.kind.layout {
            Layout::Packed => Ok(stored(Form::Inline(record), Expiries::None)),
            Layout::ExpiringPacked => {
                let live = LiveFields::at(view.payload, now_ms).map_err(|why| corrupt(key, &why.to_string()))?;
                let packed = Record::stamped_new(view.version, Kind::HASH, expire_at_ms, &[&live.packed]);
                Ok(stored(Form::Inline(packed), Expiries::Packed(live.expiries)))
            }
            Layout::Rows | Layout::KeyedRows | Layout::ExpiringRows => {
                let rows = view.fields(key);
                let rows = rows.ok_or_else(|| corrupt(key, "record of a large hash of a wrong length"))?;
                let expiries = RowExpiries::decode(view.tail());
                let expiries = expiries.filter(|_| view.kind.layout == Layout::ExpiringRows);
                Ok(stored(Form::Large(rows), expiries.map_or(Expiries::None, Expiries::Rows)))
            }
        }
    }

    /// Whether nothing is seen of it: all its fields have expired. Of a large one this is not known.
    pub(crate) fn is_gone(&self) -> Result<bool, Error> {
        match &self.form {
            Form::Inline(record) => {
                Ok(matches!(self.expiries, Expiries::Packed(_)) && self.packed(record)?.count() == 0)
            }
            Form::Large(_) => Ok(false),
        }
    }

    /// The rows of a large one, with its expiries.
    pub(in crate::command) fn fields(&self, rows: &Rows) -> Fields {
        Fields::new(rows.clone(), self.row_expiries(), self.now_ms)
    }

    /// What the record of a large hash says of expiries.
    pub(super) fn row_expiries(&self) -> Option<RowExpiries> {
        if let Expiries::Rows(expiries) = &self.expiries { Some(*expiries) } else { None }
    }

    /// Whether fields expire, or did.
    pub(in crate::command) fn has_expiries(&self) -> bool {
        !matches!(self.expiries, Expiries::None)
    }

    /// If fields expire, none of them does before this, in ms since the epoch.
    pub(in crate::command) fn earliest_expiry_ms(&self) -> Option<u64> {
        match &self.expiries {
            Expiries::None => None,
            Expiries::Packed(places) => places.iter().map(|(_, at_ms)| *at_ms).min(),
            Expiries::Rows(expiries) => (expiries.fields > 0).then_some(expiries.first.0),
        }
    }

    /// Whether fields of a large hash may have expired that are not collected.
    pub(super) fn is_late(&self) -> bool {
        self.row_expiries().is_some_and(|expiries| expiries.may_have_expired(self.now_ms))
    }

    /// Whether it is a set: no field has a value.
    pub(crate) fn is_set(&self) -> bool {
        self.ty == Type::Set
    }

    /// What it is.
    pub(in crate::command) fn ty(&self) -> Type {
        self.ty
    }

    /// How many fields are seen.
    pub(crate) fn seen<S: ReadSpace + ?Sized>(&self, space: &mut S) -> Result<u64, Error> {
        match &self.form {
            Form::Large(rows) if self.is_late() => self.fields(rows).count(space),
            _ => self.count(),
        }
    }

    /// The same in a time that does not grow with the hash: as in Redis, of more than a few that have expired some count until they
    /// are collected.
    pub(crate) fn seen_soon<S: ReadSpace + ?Sized>(&self, space: &mut S) -> Result<u64, Error> {
        match &self.form {
            Form::Large(rows) if self.is_late() => {
                self.fields(rows).count_without(space, limits::EXPIRED_FIELDS_COUNTED_MAX)
            }
            _ => self.count(),
        }
    }

    /// How many fields there are; those of a large hash that have expired count until they are collected.
    pub(crate) fn count(&self) -> Result<u64, Error> {
        match &self.form {
            Form::Inline(record) => Ok(self.packed(record)?.count() as u64),
            Form::Large(rows) => Ok(rows.count),
        }
    }

    /// The word that OBJECT ENCODING answers: what Redis would call it.
    pub(crate) fn encoding(&self, space: &mut dyn ReadSpace) -> Result<&'static str, Error> {
        let small = space.small_collections();
        if self.ty == Type::Set {
            return self.encoding_of_set(space, small.integers);
        }
        match self.is_listpack(space)? {
            true if self.has_expiries() => Ok("listpackex"),
            true => Ok("listpack"),
            false if self.ty == Type::SortedSet => Ok("skiplist"),
            false => Ok("hashtable"),
        }
    }

    /// Whether Redis would keep a hash or a sorted set as a listpack.
    pub(super) fn is_listpack(&self, space: &mut dyn ReadSpace) -> Result<bool, Error> {
        let small = space.small_collections();
        let is_sorted = self.ty == Type::SortedSet;
        let (fields_max, bytes_max) =
            if is_sorted { (small.sorted_members, small.sorted_bytes) } else { (small.fields, small.bytes) };
        if self.count()? > fields_max {
            return Ok(false);
        }
        let mut longest = 0;
        self.each(space, |_, field, value| {
            longest = longest.max(field.len()).max(if is_sorted { 0 } else { value.len() });
            Ok(())
        })?;
        Ok(longest as u64 <= bytes_max)
    }

    fn encoding_of_set(&self, space: &mut dyn ReadSpace, integers_max: u64) -> Result<&'static str, Error> {
        if self.count()? > integers_max {
            return Ok("hashtable");
        }
        let mut are_integers = true;
        self.each(space, |_, member, _| {
            are_integers &= resp::parse_integer(member).is_some();
            Ok(())
        })?;
        Ok(if are_integers { "intset" } else { "hashtable" })
    }

    /// The value of `field`.
    pub(in crate::command) fn get(&self, space: &mut dyn ReadSpace, field: &[u8]) -> Result<Option<Value<'_>>, Error> {
        match &self.form {
            Form::Inline(record) => {
                let found = self.packed(record)?.get(field).map_err(|why| self.malformed(why))?;
                Ok(found.map(Value::Inline))
            }
            // A longer one could not be stored; nor may the tree be asked for it.
            Form::Large(_) if field.len() > limits::FIELD_BYTES_MAX => Ok(None),
            Form::Large(rows) => {
                let name = element::name_of(field);
                let found = space.element_get(rows, &name)?;
                if found.is_some()
                    && self.is_late()
                    && self.fields(rows).expiry_of(space, &name)?.is_some_and(|at_ms| at_ms <= self.now_ms)
                {
                    return Ok(None);
                }
                Ok(found.map(Value::Element))
            }
        }
    }

    /// Asked before one of very many fields is looked up: those of a small hash are gone through from the first, which counts in an entry,
    /// by its fourth rules.
    pub(in crate::command) fn afford_asking(&self, space: &mut dyn ReadSpace) -> Result<(), Error> {
        if let Form::Inline(record) = &self.form
            && space.counts_reads()
            && space.rules() >= Rules::Fourth
        {
            space.afford(STEPS_OF_A_FIELD * self.packed(record)?.count())?;
        }
        Ok(())
    }

    /// Calls `visit` with the space and every field and value that is seen: an inline hash's in the order in which they
    /// were first set, a large one's by position.
    pub(crate) fn each<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        mut visit: impl FnMut(&mut S, &[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &self.form {
            Form::Inline(record) => {
                for entry in self.packed(record)?.entries() {
                    let (field, value) = entry.map_err(|why| self.malformed(why))?;
                    visit(space, field, value)?;
                }
                Ok(())
            }
            Form::Large(rows) => {
                let fields = self.fields(rows);
                self.each_chunk(space, rows, |space, mut chunk| {
                    fields.retain_seen(space, &mut chunk)?;
                    chunk.iter().try_for_each(|(name, value)| visit(space, self.field_of(name)?, value))
                })
            }
        }
    }

    /// The same with the time at which each field expires, if it does.
    pub(crate) fn each_with_expiry<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        mut visit: impl FnMut(&mut S, &[u8], &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match (&self.form, &self.expiries) {
            (Form::Inline(record), Expiries::Packed(places)) => {
                let mut places = places.iter().peekable();
                for (place, entry) in self.packed(record)?.entries().enumerate() {
                    let (field, value) = entry.map_err(|why| self.malformed(why))?;
                    let at_ms = places.next_if(|(of, _)| *of == place).map(|(_, at_ms)| *at_ms);
                    visit(space, field, value, at_ms)?;
                }
                Ok(())
            }
            (Form::Large(rows), Expiries::Rows(_)) => {
                let fields = self.fields(rows);
                self.each_chunk(space, rows, |space, chunk| {
                    let expiries = fields.expiries_of(space, &chunk)?;
                    for ((name, value), at_ms) in chunk.iter().zip(expiries) {
                        if fields.is_seen(at_ms) {
                            visit(space, self.field_of(name)?, value, at_ms)?;
                        }
                    }
                    Ok(())
                })
            }
            _ => self.each(space, |space, field, value| visit(space, field, value, None)),
        }
    }

    /// Calls `visit` with the fields of a large hash, a chunk at a time, expired ones too.
    fn each_chunk<S: ReadSpace + ?Sized>(
        &self,
        space: &mut S,
        rows: &Rows,
        mut visit: impl FnMut(&mut S, Vec<(Slice, Slice)>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let fields = self.fields(rows);
        let mut left = rows.count;
        let mut after: Option<Slice> = None;
        while left > 0 {
            let chunk = fields.within(space, after.as_deref(), CHUNK, CHUNK_BYTES_SOFT)?;
            if chunk.is_empty() || chunk.len() as u64 > left {
                return Err(self.corrupt("hash whose elements are not as many as its count"));
            }
            left -= chunk.len() as u64;
            after = chunk.last().map(|(name, _)| name.clone());
            visit(space, chunk)?;
        }
        Ok(())
    }

    /// All fields as the payload of an inline hash, however large; `None` if that is longer than `bytes_max`.
    pub(crate) fn packed_whole(&self, space: &mut dyn ReadSpace, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut payload = Varint::new(self.seen(space)? as usize).bytes().to_vec();
        let packed = self.each(space, |_, field, value| {
            if payload.len() + packed::entry_bytes(field, value) > bytes_max {
                return Err(TOO_LONG.into());
            }
            packed::push_entry(&mut payload, field, value);
            Ok(())
        });
        match packed {
            Ok(()) => Ok(Some(payload)),
            // What is read fails otherwise.
            Err(Error::Reply(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The packed payload of this hash's record.
    pub(super) fn packed<'r>(&self, record: &'r Record) -> Result<Packed<'r>, Error> {
        Packed::parse(record.view().payload).map_err(|why| self.malformed(why))
    }

    /// All fields and values of this hash's packed record.
    pub(in crate::command) fn entries<'r>(&self, record: &'r Record) -> Result<Vec<Entry<'r>>, Error> {
        self.packed(record)?.entries().collect::<Result<_, _>>().map_err(|why| self.malformed(why))
    }

    /// The field of one of this hash's elements.
    pub(in crate::command) fn field_of<'n>(&self, name: &'n [u8]) -> Result<&'n [u8], Error> {
        element::field_of(name).ok_or_else(|| self.corrupt("hash element without a position"))
    }

    pub(super) fn malformed(&self, why: Malformed) -> Error {
        self.corrupt(&why.to_string())
    }

    pub(super) fn corrupt(&self, detail: &str) -> Error {
        corrupt(self.key, detail)
    }
}
