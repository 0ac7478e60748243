//! Makes a whole hash of fields that are given one after the other.

use super::stored::Stored;
use crate::command::call::Error;
use crate::command::gathered::Gathered;
use crate::format::element;
use crate::format::field_expiry::{self, PACKED_EXPIRY_BYTES_MAX, PACKED_HEAD_BYTES_MAX, Places, RowExpiries};
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
    /// When packed fields expire.
    places: Places,
    /// When elements do.
    expiries: RowExpiries,
}

impl<'k> Builder<'k> {
    pub(in crate::command) fn new(ty: Type, key: &'k [u8], expire_at_ms: Option<u64>) -> Self {
        let (body, places, expiries) = (Vec::new(), Places::new(), RowExpiries::NONE);
        Self { ty, key, expire_at_ms, count: 0, body, rows: None, places, expiries }
    }

    pub(in crate::command) fn push(
        &mut self,
        space: &mut dyn WriteSpace,
        field: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        self.push_expiring(space, field, value, None)
    }

    /// The same of a field that may have an expiry.
    pub(super) fn push_expiring(
        &mut self,
        space: &mut dyn WriteSpace,
        field: &[u8],
        value: &[u8],
        at_ms: Option<u64>,
    ) -> Result<(), Error> {
        self.count += 1;
        if let Some(rows) = &self.rows {
            return put_element(space, rows, &mut self.expiries, (field, value), at_ms);
        }
        let expiring = self.places.len() + usize::from(at_ms.is_some());
        let head = if expiring == 0 { 0 } else { PACKED_HEAD_BYTES_MAX + expiring * PACKED_EXPIRY_BYTES_MAX };
        let bytes = head + Varint::new(self.count).bytes().len() + self.body.len() + packed::entry_bytes(field, value);
        if fits_inline(self.count, bytes) {
            self.places.extend(at_ms.map(|at_ms| (self.count - 1, at_ms)));
            packed::push_entry(&mut self.body, field, value);
            return Ok(());
        }
        let rows = space.new_rows(self.key)?;
        let mut payload = Varint::new(self.count - 1).bytes().to_vec();
        payload.append(&mut self.body);
        let held_back = Packed::parse(&payload).expect("it was packed here");
        let mut places = std::mem::take(&mut self.places).into_iter().peekable();
        for (place, entry) in held_back.entries().enumerate() {
            let entry = entry.expect("it was packed here");
            let at_ms = places.next_if(|(of, _)| *of == place).map(|(_, at_ms)| at_ms);
            put_element(space, &rows, &mut self.expiries, entry, at_ms)?;
        }
        put_element(space, &rows, &mut self.expiries, (field, value), at_ms)?;
        self.rows = Some(rows);
        Ok(())
    }

    /// Writes the record. At least one field must have been pushed: there is no empty hash.
    pub(in crate::command) fn finish(self, space: &mut dyn WriteSpace) -> Result<(), Error> {
        assert!(self.count > 0, "an empty hash is no hash");
        let count = Varint::new(self.count);
        let body: [&[u8]; 2] = [count.bytes(), &self.body];
        let record = match self.rows {
            Some(rows) => {
                let rows = rows.with_count(self.count as u64);
                let expiries = (self.expiries.fields > 0).then_some(self.expiries);
                large(space, self.ty, self.key, self.expire_at_ms, &rows, expiries)
            }
            None if !self.places.is_empty() => {
                field_expiry::record_of(space.version(), self.expire_at_ms, &self.places, &body)
            }
            None => Record::stamped_new(space.version(), Kind::packed(self.ty), self.expire_at_ms, &body),
        };
        Ok(space.put(self.key, record)?)
    }
}

/// Writes a field of a new large hash.
fn put_element(
    space: &mut dyn WriteSpace,
    rows: &Rows,
    expiries: &mut RowExpiries,
    (field, value): Entry<'_>,
    at_ms: Option<u64>,
) -> Result<(), Error> {
    let name = element::name_of(field);
    space.element_put(rows, &name, value)?;
    set_expiry(space, rows, expiries, &name, None, at_ms)
}

/// Gives the field with that element of a large hash another expiry, or none.
pub(super) fn set_expiry(
    space: &mut dyn WriteSpace,
    rows: &Rows,
    expiries: &mut RowExpiries,
    name: &[u8],
    was_ms: Option<u64>,
    at_ms: Option<u64>,
) -> Result<(), Error> {
    if was_ms == at_ms {
        return Ok(());
    }
    if let Some(was_ms) = was_ms {
        space.element_delete(rows, &field_expiry::row_by_time(was_ms, name))?;
        expiries.remove();
    }
    match at_ms {
        Some(at_ms) => {
            space.element_put(rows, &field_expiry::row_by_field(name), &at_ms.to_le_bytes())?;
            space.element_put(rows, &field_expiry::row_by_time(at_ms, name), b"")?;
            expiries.add(at_ms, name);
        }
        None => space.element_delete(rows, &field_expiry::row_by_field(name))?,
    }
    Ok(())
}

/// The record of a large hash, as the rules of the entry have it; with what it says of expiries, if fields expire or did.
pub(super) fn large(
    space: &dyn WriteSpace,
    ty: Type,
    key: &[u8],
    expire_at_ms: Option<u64>,
    rows: &Rows,
    expiries: Option<RowExpiries>,
) -> Record {
    if let Some(expiries) = expiries {
        return Record::large_with_tail(ty, space.version(), expire_at_ms, rows, &expiries.encode());
    }
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

/// Makes the hash `key` of fields from outside, some of which may have an expiry; what was at `key` is replaced. Writes nothing and answers false if
/// there is no field, one comes twice, or one is too long.
pub(crate) fn restore(
    space: &mut dyn WriteSpace,
    ty: Type,
    key: &[u8],
    expire_at_ms: Option<u64>,
    fields: &[(&[u8], &[u8], Option<u64>)],
) -> Result<bool, Error> {
    let mut seen = HashSet::with_capacity(fields.len());
    let fit = fields.iter().all(|&(field, ..)| field.len() <= limits::FIELD_BYTES_MAX && seen.insert(field));
    if fields.is_empty() || !fit {
        return Ok(false);
    }
    let mut builder = Builder::new(ty, key, expire_at_ms);
    for (field, value, at_ms) in fields {
        builder.push_expiring(space, field, value, *at_ms)?;
    }
    builder.finish(space)?;
    Ok(true)
}
