//! A hash as it is stored, in either form, and how it is read.

use crate::command::args;
use crate::command::call::Error;
use crate::command::error::corrupt;
use crate::format::element;
use crate::format::packed_hash::{self as packed, Entry, Malformed, Packed, Varint};
use crate::{ReadSpace, Record, Rows, Type};
use std::ops::Deref;
use storage::Slice;
use vocab::limits;

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
}

/// Where the fields of a hash are.
pub(in crate::command) enum Form {
    /// In the record.
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
        let stored = space.get(key)?.map(|record| Self::of(key, record)).transpose()?;
        if stored.as_ref().is_some_and(|stored| stored.ty != ty) {
            return Err(args::WRONGTYPE.into());
        }
        Ok(stored)
    }

    /// The hash, set or sorted set whose record was read at `key`.
    pub(crate) fn of(key: &'k [u8], record: Record) -> Result<Self, Error> {
        let view = record.view();
        let expire_at_ms = view.expire_at_ms;
        let ty = view.kind.ty;
        if !matches!(ty, Type::Hash | Type::Set | Type::SortedSet) {
            return Err(args::WRONGTYPE.into());
        }
        let form = match (view.kind.is_large(), view.fields(key)) {
            (false, _) => Form::Inline(record),
            (true, Some(rows)) => Form::Large(rows),
            (true, None) => return Err(corrupt(key, "record of a large hash of a wrong length")),
        };
        Ok(Self { ty, key, expire_at_ms, form })
    }

    /// Whether it is a set: no field has a value.
    pub(crate) fn is_set(&self) -> bool {
        self.ty == Type::Set
    }

    /// What it is.
    pub(in crate::command) fn ty(&self) -> Type {
        self.ty
    }

    /// How many fields there are.
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
        let is_sorted = self.ty == Type::SortedSet;
        let (fields_max, bytes_max, large) = match is_sorted {
            true => (small.sorted_members, small.sorted_bytes, "skiplist"),
            false => (small.fields, small.bytes, "hashtable"),
        };
        if self.count()? > fields_max {
            return Ok(large);
        }
        let mut longest = 0;
        self.each(space, |_, field, value| {
            longest = longest.max(field.len()).max(if is_sorted { 0 } else { value.len() });
            Ok(())
        })?;
        Ok(if longest as u64 <= bytes_max { "listpack" } else { large })
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
                let found = space.element_get(rows, &element::name_of(field))?;
                Ok(found.map(Value::Element))
            }
        }
    }

    /// Calls `visit` with the space and every field and value: an inline hash's in the order in which they were
    /// first set, a large one's by position.
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
            }
            Form::Large(rows) => {
                let mut left = rows.count;
                let mut after: Option<Slice> = None;
                while left > 0 {
                    let chunk = space.elements_within(rows, after.as_deref(), CHUNK, CHUNK_BYTES_SOFT)?;
                    if chunk.is_empty() || chunk.len() as u64 > left {
                        return Err(self.corrupt("hash whose elements are not as many as its count"));
                    }
                    left -= chunk.len() as u64;
                    for (name, value) in &chunk {
                        visit(space, self.field_of(name)?, value)?;
                    }
                    after = chunk.into_iter().last().map(|(name, _)| name);
                }
            }
        }
        Ok(())
    }

    /// All fields as the payload of an inline hash, however large; `None` if that is longer than `bytes_max`.
    pub(crate) fn packed_whole(&self, space: &mut dyn ReadSpace, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut payload = Varint::new(self.count()? as usize).bytes().to_vec();
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
