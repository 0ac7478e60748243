//! Makes a whole hash of fields that are given one after the other.

use super::stored::Stored;
use crate::command::call::Error;
use crate::command::gathered::Gathered;
use crate::format::element;
use crate::format::keys::{self, Home};
use crate::format::packed_hash::{self as packed, Entry, Packed, Varint};
use crate::{Evaluation, Kind, Record, Rows, Type, WriteSpace};
use std::collections::HashSet;
use vocab::limits;

/// The error about a field that is too long.
pub(super) const FIELD_TOO_LONG: &str = "ERR field exceeds maximum allowed size (32000 bytes)";

/// The error about a member of a set that is too long.
pub(super) const MEMBER_TOO_LONG: &str = "ERR member exceeds maximum allowed size (32000 bytes)";

/// The error about a copy that is made at once, where it cannot be made in slices.
pub(in crate::command) const TOO_LARGE_TO_COPY: &str =
    "ERR the collection is too large to be copied within a transaction (4096 elements, 8 MiB)";

const _: () = assert!(limits::COPY_WHOLE_ELEMENTS_MAX == 4096 && limits::GATHERED_BYTES_MAX == 8 << 20);
const _: () = assert!(limits::FIELD_BYTES_MAX == 32_000, "FIELD_TOO_LONG says how long");

/// Whether a hash of so many fields and bytes is one record.
pub(super) fn fits_inline(count: usize, payload_bytes: usize) -> bool {
    count <= limits::INLINE_FIELDS_MAX && payload_bytes <= limits::INLINE_COLLECTION_BYTES_MAX
}

/// A hash in the making: packed while it is small, then large.
///
/// The caller has checked that no field comes twice and none is too long: what is pushed may be written at once.
pub(in crate::command) struct Builder<'k> {
    ty: Type,
    key: &'k [u8],
    expire_at_ms: Option<u64>,
    count: usize,
    /// The fields so far, without their count; empty once they are elements.
    body: Vec<u8>,
    /// Where the fields are that are elements.
    rows: Option<Rows>,
}

impl<'k> Builder<'k> {
    pub(in crate::command) fn new(ty: Type, key: &'k [u8], expire_at_ms: Option<u64>) -> Self {
        Self { ty, key, expire_at_ms, count: 0, body: Vec::new(), rows: None }
    }

    pub(in crate::command) fn push(
        &mut self,
        space: &mut dyn WriteSpace,
        field: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        self.count += 1;
        if let Some(rows) = &self.rows {
            return Ok(space.element_put(rows, &element::name_of(field), value)?);
        }
        let count_bytes = Varint::new(self.count).bytes().len();
        if fits_inline(self.count, count_bytes + self.body.len() + packed::entry_bytes(field, value)) {
            packed::push_entry(&mut self.body, field, value);
            return Ok(());
        }
        let rows = space.new_rows(self.key)?;
        let mut payload = Varint::new(self.count - 1).bytes().to_vec();
        payload.append(&mut self.body);
        let held_back = Packed::parse(&payload).expect("it was packed here");
        for entry in held_back.entries() {
            let (field, value) = entry.expect("it was packed here");
            space.element_put(&rows, &element::name_of(field), value)?;
        }
        space.element_put(&rows, &element::name_of(field), value)?;
        self.rows = Some(rows);
        Ok(())
    }

    /// Writes the record. At least one field must have been pushed: there is no empty hash.
    pub(in crate::command) fn finish(self, space: &mut dyn WriteSpace) -> Result<(), Error> {
        assert!(self.count > 0, "an empty hash is no hash");
        let record = match self.rows {
            Some(rows) => large(space, self.ty, self.key, self.expire_at_ms, &rows.with_count(self.count as u64)),
            None => Record::stamped_new(
                space.version(),
                Kind::packed(self.ty),
                self.expire_at_ms,
                &[Varint::new(self.count).bytes(), &self.body],
            ),
        };
        Ok(space.put(self.key, record)?)
    }
}

/// The record of a large hash, as the rules of the entry have it.
pub(super) fn large(space: &dyn WriteSpace, ty: Type, key: &[u8], expire_at_ms: Option<u64>, rows: &Rows) -> Record {
    if space.evaluation() == Evaluation::First
        && let Some(Home::Key(of, generation)) = keys::parse_collection(&rows.prefix).map(|found| found.home)
        && of == key
    {
        return Record::keyed_hash(space.version(), expire_at_ms, generation, rows.count);
    }
    Record::large(ty, space.version(), expire_at_ms, rows)
}

/// Makes the hash `key` of all fields of `from`, which may be of another key; what was at `key` is replaced. One that is too
/// large for one entry is an error, and nothing is written.
pub(crate) fn copy(
    space: &mut dyn WriteSpace,
    from: &Stored<'_>,
    key: &[u8],
    expire_at_ms: Option<u64>,
) -> Result<(), Error> {
    if space.evaluation() == Evaluation::First {
        let mut builder = Builder::new(from.ty, key, expire_at_ms);
        from.each(space, |space, field, value| builder.push(space, field, value))?;
        return builder.finish(space);
    }
    if from.count()? > limits::COPY_WHOLE_ELEMENTS_MAX {
        return Err(TOO_LARGE_TO_COPY.into());
    }
    let mut fields = Gathered::new(limits::COPY_WHOLE_ELEMENTS_MAX, TOO_LARGE_TO_COPY);
    from.each(space, |_, field, value| fields.push(field, value))?;
    let mut builder = Builder::new(from.ty, key, expire_at_ms);
    for (field, value) in fields.iter() {
        builder.push(space, field, value)?;
    }
    builder.finish(space)
}

/// Makes the hash `key` of fields from outside; what was at `key` is replaced. Writes nothing and answers false if
/// there is no field, one comes twice, or one is too long.
pub(crate) fn restore(
    space: &mut dyn WriteSpace,
    ty: Type,
    key: &[u8],
    expire_at_ms: Option<u64>,
    fields: &[Entry<'_>],
) -> Result<bool, Error> {
    let mut seen = HashSet::with_capacity(fields.len());
    let fit = fields.iter().all(|&(field, _)| field.len() <= limits::FIELD_BYTES_MAX && seen.insert(field));
    if fields.is_empty() || !fit {
        return Ok(false);
    }
    let mut builder = Builder::new(ty, key, expire_at_ms);
    for (field, value) in fields {
        builder.push(space, field, value)?;
    }
    builder.finish(space)?;
    Ok(true)
}
