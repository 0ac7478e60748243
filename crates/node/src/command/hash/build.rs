//! Makes a whole hash of fields that are given one after the other.

use super::element;
use super::packed::{self, Entry, Packed, Varint};
use super::stored::Stored;
use crate::command::call::Error;
use crate::{Kind, Record, Space, Spread};
use std::collections::HashSet;
use vocab::limits;

/// The error about a field that is too long.
pub(super) const FIELD_TOO_LONG: &str = "ERR field exceeds maximum allowed size (32000 bytes)";

const _: () = assert!(limits::FIELD_BYTES_MAX == 32_000, "FIELD_TOO_LONG says how long");

/// Whether a hash of so many fields and bytes is one record.
pub(super) fn fits_inline(count: usize, payload_bytes: usize) -> bool {
    count <= limits::INLINE_FIELDS_MAX && payload_bytes <= limits::INLINE_COLLECTION_BYTES_MAX
}

/// A hash in the making: packed while it is small, then spread.
///
/// The caller has checked that no field comes twice and none is too long: what is pushed may be written at once.
pub(super) struct Builder<'k> {
    key: &'k [u8],
    expire_at_ms: Option<u64>,
    count: usize,
    /// The fields so far, without their count; empty once they are elements.
    body: Vec<u8>,
    generation: Option<u64>,
}

impl<'k> Builder<'k> {
    pub(super) fn new(key: &'k [u8], expire_at_ms: Option<u64>) -> Self {
        Self { key, expire_at_ms, count: 0, body: Vec::new(), generation: None }
    }

    pub(super) fn push(&mut self, space: &mut dyn Space, field: &[u8], value: &[u8]) -> Result<(), Error> {
        self.count += 1;
        if let Some(generation) = self.generation {
            return Ok(space.element_put(self.key, generation, &element::name_of(field), value)?);
        }
        let count_bytes = Varint::new(self.count).bytes().len();
        if fits_inline(self.count, count_bytes + self.body.len() + packed::entry_bytes(field, value)) {
            packed::push_entry(&mut self.body, field, value);
            return Ok(());
        }
        let generation = fresh_generation(space, self.key)?;
        let mut payload = Varint::new(self.count - 1).bytes().to_vec();
        payload.append(&mut self.body);
        let held_back = Packed::parse(&payload).expect("it was packed here");
        for entry in held_back.entries() {
            let (field, value) = entry.expect("it was packed here");
            space.element_put(self.key, generation, &element::name_of(field), value)?;
        }
        self.generation = Some(generation);
        Ok(space.element_put(self.key, generation, &element::name_of(field), value)?)
    }

    /// Writes the record. At least one field must have been pushed: there is no empty hash.
    pub(super) fn finish(self, space: &mut dyn Space) -> Result<(), Error> {
        assert!(self.count > 0, "an empty hash is no hash");
        let record = match self.generation {
            Some(generation) => {
                let spread = Spread { generation, count: self.count as u64 };
                Record::stamped_new(space.version(), Kind::SpreadHash, self.expire_at_ms, &[&spread.encode()])
            }
            None => Record::stamped_new(
                space.version(),
                Kind::Hash,
                self.expire_at_ms,
                &[Varint::new(self.count).bytes(), &self.body],
            ),
        };
        Ok(space.put(self.key, record)?)
    }
}

/// A generation that no elements of `key` have, be they of a hash that is gone and not yet collected.
///
/// The version will not do: one entry may delete a spread hash and make another at the same key, and the elements of
/// the first, collected later, must not take those of the second with them. Nor may a copy meet its elder's leavings
/// when it comes back by RENAME. So: 64 random bits, which are the same on every replica.
fn fresh_generation(space: &mut dyn Space, key: &[u8]) -> Result<u64, Error> {
    let mut generation = space.random_u64()?;
    while !space.elements(key, generation, None, 1)?.is_empty() {
        generation = generation.wrapping_add(space.random_u64()? | 1);
    }
    Ok(generation)
}

/// Makes the hash `key` of all fields of `from`, which may be of another key; what was at `key` is replaced.
pub(crate) fn copy(
    space: &mut dyn Space,
    from: &Stored<'_>,
    key: &[u8],
    expire_at_ms: Option<u64>,
) -> Result<(), Error> {
    let mut builder = Builder::new(key, expire_at_ms);
    from.each(space, |space, field, value| builder.push(space, field, value))?;
    builder.finish(space)
}

/// Makes the hash `key` of fields from outside; what was at `key` is replaced. Writes nothing and answers false if
/// there is no field, one comes twice, or one is too long.
pub(crate) fn restore(
    space: &mut dyn Space,
    key: &[u8],
    expire_at_ms: Option<u64>,
    fields: &[Entry<'_>],
) -> Result<bool, Error> {
    let mut seen = HashSet::with_capacity(fields.len());
    let fit = fields.iter().all(|&(field, _)| field.len() <= limits::FIELD_BYTES_MAX && seen.insert(field));
    if fields.is_empty() || !fit {
        return Ok(false);
    }
    let mut builder = Builder::new(key, expire_at_ms);
    for (field, value) in fields {
        builder.push(space, field, value)?;
    }
    builder.finish(space)?;
    Ok(true)
}
