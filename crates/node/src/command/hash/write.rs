//! HSET, HSETNX, HMSET and HDEL, and how fields are written and removed.
//!
//! Everything is read and checked before the first write, so that an error leaves nothing behind.

use super::build::{Builder, FIELD_TOO_LONG, MEMBER_TOO_LONG, fits_inline, large};
use super::expiring::{self, Lifetime, Removed};
use super::lifetime::{NOT_POSITIVE, counted_fields};
use super::stored::{Form, Stored};
use crate::command::args::check_release;
use crate::command::call::{Error, Outcome, WriteCall};
use crate::format::element;
use crate::format::packed_hash::{Entry, Varint};
use crate::keyspace_events::Event;
use crate::{Kind, Record, Rows, Type, WriteSpace};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use vocab::limits;

/// Requests for more fields than this are sorted first.
const ONE_BY_ONE_MAX: usize = 16;

pub(super) fn hset(call: &mut WriteCall<'_>) -> Outcome {
    let created = set_all(call, "ERR wrong number of arguments for 'hset' command")?;
    call.reply.int(created as i64);
    Ok(())
}

pub(super) fn hmset(call: &mut WriteCall<'_>) -> Outcome {
    set_all(call, "ERR wrong number of arguments for 'hmset' command")?;
    call.reply.ok();
    Ok(())
}

pub(super) fn hsetnx(call: &mut WriteCall<'_>) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    if let Some(hash) = &hash
        && hash.get(call.space, call.args[2])?.is_some()
    {
        call.reply.int(0);
        return Ok(());
    }
    put(call.space, Type::Hash, call.args[1], hash.as_ref(), &call.args[2..4])?;
    call.space.notify(Event::HSET, call.args[1]);
    call.reply.int(1);
    Ok(())
}

pub(super) fn hdel(call: &mut WriteCall<'_>) -> Outcome {
    let removed = match Stored::load(call.space, call.args[1])? {
        Some(hash) => remove_told(call.space, Event::HDEL, &hash, &call.args[2..])?,
        None => 0,
    };
    call.reply.int(removed as i64);
    Ok(())
}

/// HGETDEL: answers fields and removes them.
pub(super) fn hgetdel(call: &mut WriteCall<'_>) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    let fields = counted_fields(&call.args[2..], NOT_POSITIVE)?;
    check_release(call.space)?;
    call.reply.array(fields.len());
    let Some(hash) = hash else {
        fields.iter().for_each(|_| call.reply.null());
        return Ok(());
    };
    let mut answered = HashSet::with_capacity(fields.len());
    for field in fields {
        // The field is gone when it is asked for again.
        let value = if answered.insert(field) { hash.get(call.space, field)? } else { None };
        call.reply.bulk_or_null(value.as_deref());
    }
    remove_told(call.space, Event::HDEL, &hash, fields)?;
    Ok(())
}

fn set_all(call: &mut WriteCall<'_>, odd: &'static str) -> Result<usize, Error> {
    let pairs = &call.args[2..];
    if pairs.len() % 2 == 1 {
        return Err(odd.into());
    }
    let hash = Stored::load(call.space, call.args[1])?;
    let created = put(call.space, Type::Hash, call.args[1], hash.as_ref(), pairs)?;
    call.space.notify(Event::HSET, call.args[1]);
    Ok(created)
}

/// Sets fields of `hash`, the hash (or set) at `key`. `pairs` are fields and values in turn; the last value of a field counts.
/// Keeps the key's expiry, but not those of the fields. Answers how many fields are new.
pub(in crate::command) fn put(
    space: &mut dyn WriteSpace,
    ty: Type,
    key: &[u8],
    hash: Option<&Stored<'_>>,
    pairs: &[&[u8]],
) -> Result<usize, Error> {
    if pairs.iter().step_by(2).any(|field| field.len() > limits::FIELD_BYTES_MAX) {
        return Err(if ty == Type::Set { MEMBER_TOO_LONG } else { FIELD_TOO_LONG }.into());
    }
    let Some(hash) = hash else {
        return put_whole(space, ty, key, None, Vec::new(), pairs);
    };
    if hash.has_expiries() {
        return expiring::put(space, key, Some(hash), pairs, Lifetime::None);
    }
    match (&hash.form, pairs) {
        (Form::Large(rows), _) => put_elements(space, hash, rows, pairs),
        (Form::Inline(record), [field, value]) => put_one(space, hash, record, field, value),
        (Form::Inline(record), _) => put_whole(space, ty, key, hash.expire_at_ms, hash.entries(record)?, pairs),
    }
}

/// Sets one field of an inline hash: the bytes before and after it are copied unchanged.
fn put_one(
    space: &mut dyn WriteSpace,
    hash: &Stored<'_>,
    record: &Record,
    field: &[u8],
    value: &[u8],
) -> Result<usize, Error> {
    let payload = record.view().payload;
    let packed = hash.packed(record)?;
    let value_length = Varint::new(value.len());
    let place = packed.find(field).map_err(|why| hash.malformed(why))?;
    let (count, field_length) = (Varint::new(packed.count() + 1), Varint::new(field.len()));
    let parts: &[&[u8]] = match place {
        Some(place) => &[&payload[..place.value_length], value_length.bytes(), value, &payload[place.end..]],
        None => &[count.bytes(), packed.body(), field_length.bytes(), field, value_length.bytes(), value],
    };
    let created = usize::from(place.is_none());
    if !fits_inline(packed.count() + created, parts.iter().map(|part| part.len()).sum()) {
        return put_whole(space, hash.ty, hash.key, hash.expire_at_ms, hash.entries(record)?, &[field, value]);
    }
    space.put(hash.key, Record::stamped_new(space.version(), Kind::packed(hash.ty), hash.expire_at_ms, parts))?;
    Ok(created)
}

/// Builds the hash again from its old fields and the new ones.
fn put_whole(
    space: &mut dyn WriteSpace,
    ty: Type,
    key: &[u8],
    expire_at_ms: Option<u64>,
    entries: Vec<Entry<'_>>,
    pairs: &[&[u8]],
) -> Result<usize, Error> {
    let before = entries.len();
    let fields = merge(entries, pairs);
    let mut builder = Builder::new(ty, key, expire_at_ms);
    for (field, value) in &fields {
        builder.push(space, field, value)?;
    }
    builder.finish(space)?;
    Ok(fields.len() - before)
}

fn merge<'a>(mut fields: Vec<Entry<'a>>, pairs: &[&'a [u8]]) -> Vec<Entry<'a>> {
    let mut index: Option<HashMap<&[u8], usize>> = None;
    for pair in pairs.chunks_exact(2) {
        let (field, value) = (pair[0], pair[1]);
        if index.is_none() && fields.len() > limits::INLINE_FIELDS_MAX {
            index = Some(fields.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect());
        }
        let at = match &index {
            Some(index) => index.get(field).copied(),
            None => fields.iter().position(|(name, _)| *name == field),
        };
        match at {
            Some(at) => fields[at].1 = value,
            None => {
                if let Some(index) = &mut index {
                    index.insert(field, fields.len());
                }
                fields.push((field, value));
            }
        }
    }
    fields
}

fn put_elements(space: &mut dyn WriteSpace, hash: &Stored<'_>, rows: &Rows, pairs: &[&[u8]]) -> Result<usize, Error> {
    // In the order of the fields, so that every replica does the same.
    let fields: BTreeMap<&[u8], &[u8]> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let mut created = 0;
    let mut writes = Vec::with_capacity(fields.len());
    for (field, value) in fields {
        let name = element::name_of(field);
        created += usize::from(space.element_get(rows, &name)?.is_none());
        writes.push((name, value));
    }
    for (name, value) in writes {
        space.element_put(rows, &name, value)?;
    }
    put_count(space, hash, &rows.with_count(rows.count + created as u64))?;
    Ok(created)
}

fn put_count(space: &mut dyn WriteSpace, hash: &Stored<'_>, rows: &Rows) -> Outcome {
    let record = large(space, hash.ty, hash.key, hash.expire_at_ms, rows, None);
    Ok(space.put(hash.key, record)?)
}

/// Removes fields and, with the last of them, the key; publishes the events. Answers how many of the fields existed.
pub(in crate::command) fn remove_told(
    space: &mut dyn WriteSpace,
    event: Event,
    hash: &Stored<'_>,
    fields: &[&[u8]],
) -> Result<usize, Error> {
    let removed = match (&hash.form, fields) {
        _ if hash.has_expiries() => expiring::remove(space, hash, fields)?,
        (Form::Large(rows), _) => remove_elements(space, hash, rows, fields)?,
        (Form::Inline(record), [field]) => remove_one(space, hash, record, field)?,
        (Form::Inline(record), _) => remove_packed(space, hash, record, fields)?,
    };
    if removed.fields > 0 {
        space.notify_removal(event, hash.key, removed.is_gone);
    }
    Ok(removed.fields)
}

fn remove_one(space: &mut dyn WriteSpace, hash: &Stored<'_>, record: &Record, field: &[u8]) -> Result<Removed, Error> {
    let packed = hash.packed(record)?;
    let Some(place) = packed.find(field).map_err(|why| hash.malformed(why))? else { return Ok(Removed::NOTHING) };
    if packed.count() == 1 {
        space.delete(hash.key)?;
        return Ok(Removed { fields: 1, is_gone: true });
    }
    let payload = record.view().payload;
    let body = payload.len() - packed.body().len();
    let count = Varint::new(packed.count() - 1);
    let parts: [&[u8]; 3] = [count.bytes(), &payload[body..place.start], &payload[place.end..]];
    space.put(hash.key, Record::stamped_new(space.version(), Kind::packed(hash.ty), hash.expire_at_ms, &parts))?;
    Ok(Removed { fields: 1, is_gone: false })
}

fn remove_packed(
    space: &mut dyn WriteSpace,
    hash: &Stored<'_>,
    record: &Record,
    fields: &[&[u8]],
) -> Result<Removed, Error> {
    let ordered: BTreeSet<&[u8]> =
        if fields.len() > ONE_BY_ONE_MAX { fields.iter().copied().collect() } else { BTreeSet::new() };
    let asked = |field: &[u8]| if ordered.is_empty() { fields.contains(&field) } else { ordered.contains(field) };
    let mut entries = hash.entries(record)?;
    let before = entries.len();
    entries.retain(|(field, _)| !asked(field));
    let removed = Removed { fields: before - entries.len(), is_gone: entries.is_empty() };
    if removed.is_gone {
        space.delete(hash.key)?;
    } else if removed.fields > 0 {
        put_whole(space, hash.ty, hash.key, hash.expire_at_ms, entries, &[])?;
    }
    Ok(removed)
}

fn remove_elements(
    space: &mut dyn WriteSpace,
    hash: &Stored<'_>,
    rows: &Rows,
    fields: &[&[u8]],
) -> Result<Removed, Error> {
    let fields: BTreeSet<&[u8]> = fields.iter().copied().collect();
    let mut found = Vec::new();
    for field in fields.into_iter().filter(|field| field.len() <= limits::FIELD_BYTES_MAX) {
        let name = element::name_of(field);
        if space.element_get(rows, &name)?.is_some() {
            found.push(name);
        }
    }
    remove_found(space, hash, rows, &found)
}

/// Removes elements that exist.
fn remove_found<N: AsRef<[u8]>>(
    space: &mut dyn WriteSpace,
    hash: &Stored<'_>,
    rows: &Rows,
    found: &[N],
) -> Result<Removed, Error> {
    let removed = found.len();
    let left = rows.count.checked_sub(removed as u64);
    let left = left.ok_or_else(|| hash.corrupt("hash with more elements than its count"))?;
    if left == 0 {
        // The elements are dropped with the record.
        space.delete(hash.key)?;
    } else if removed > 0 {
        for name in found {
            space.element_delete(rows, name.as_ref())?;
        }
        put_count(space, hash, &rows.with_count(left))?;
    }
    Ok(Removed { fields: removed, is_gone: left == 0 })
}

/// Removes the element that was drawn, and publishes the event.
pub(in crate::command) fn remove_drawn(
    space: &mut dyn WriteSpace,
    event: Event,
    hash: &Stored<'_>,
    rows: &Rows,
    name: &[u8],
) -> Outcome {
    let removed = remove_found(space, hash, rows, &[name])?;
    space.notify_removal(event, hash.key, removed.is_gone);
    Ok(())
}
