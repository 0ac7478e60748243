//! RESTORE: a value from outside, checked whole before anything of it is written.

use super::error::{BAD_DATA, TORN};
use super::version_1::{self, Payload};
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::command::string::put_string;
use crate::command::zset::{self, Scored};
use crate::command::{hash, list, stream};
use crate::keyspace_events::Event;
use crate::{Rules, Type, WriteSpace};
use rdb::{HashField, Value};
use std::ops::RangeInclusive;
use vocab::limits::{APPLY_INLINE_ROWS_MAX, RESTORED_BYTES_MAX, VALUE_BYTES_MAX};

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
}

fn options(words: &[&[u8]]) -> Result<Options, Error> {
    let mut options = Options::default();
    // IDLETIME and FREQ are hints for an eviction that there is not: checked, as Redis does, and let go.
    let (mut idle, mut frequency) = (false, false);
    let bounded = |words: &mut std::slice::Iter<'_, &[u8]>, range: RangeInclusive<i64>, text: &'static str| {
        let n = int(words.next().ok_or(SYNTAX)?)?;
        if range.contains(&n) { Ok(()) } else { Err(Error::from(text)) }
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if is_word(word, "REPLACE") {
            options.replace = true;
        } else if is_word(word, "ABSTTL") {
            options.absolute = true;
        } else if is_word(word, "IDLETIME") && !frequency {
            bounded(&mut words, 0..=i64::MAX, "ERR Invalid IDLETIME value, must be >= 0")?;
            idle = true;
        } else if is_word(word, "FREQ") && !idle {
            bounded(&mut words, 0..=255, "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
            frequency = true;
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok(options)
}

pub(super) fn restore(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let options = options(&call.args[4..])?;
    if !options.replace && call.space.stored(key)?.is_some() {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = int(call.args[2])?;
    let ttl = u64::try_from(ttl).map_err(|_| Error::from("ERR Invalid TTL value, must be >= 0"))?;
    let payload = decode(call.space, call.args[3])?;
    let now_ms = call.space.now_ms();
    let base = if options.absolute { 0 } else { now_ms };
    let expire_at_ms = (ttl > 0).then(|| base.saturating_add(ttl).min(i64::MAX.unsigned_abs()));
    if is_over(&payload, now_ms) || expire_at_ms.is_some_and(|at| at <= now_ms) {
        call.space.delete_told(key)?;
    } else {
        let restored = match payload {
            Payload::Value(value) => put(call.space, key, expire_at_ms, value)?,
            Payload::Items(items) => stream::restore(call.space, key, expire_at_ms, &items)?,
        };
        if !restored {
            return Err(BAD_DATA.into());
        }
        call.space.notify(Event::NEW, key);
        call.space.notify(Event::RESTORE, key);
    }
    call.reply.ok();
    Ok(())
}

/// Whether it is a hash of which all fields have expired.
fn is_over(payload: &Payload<'_>, now_ms: u64) -> bool {
    let Payload::Value(Value::Hash(fields)) = payload else { return false };
    !fields.is_empty() && fields.iter().all(|field| field.expire_at_ms.is_some_and(|at_ms| at_ms <= now_ms))
}

/// What was dumped, by Redis or by Basalt. An event loop leaves it to a thread before it has read much: few bytes may become many
/// elements. That is no bound of an entry.
fn decode<'a>(space: &mut dyn WriteSpace, bytes: &'a [u8]) -> Result<Payload<'a>, Error> {
    // Replicas of earlier releases refuse what newer servers dump.
    let takes_newest = space.rules() >= Rules::Fourth;
    match if takes_newest { rdb::checked_body(bytes) } else { rdb::checked_body_before(bytes) } {
        Some((version, body)) => {
            let is_too_long = || rdb::claimed_string_bytes(version, body).is_some_and(|n| n > VALUE_BYTES_MAX as u64);
            // Nothing is unpacked that is refused in the end. Replicas of earlier releases first delete a key whose time is over.
            if takes_newest && is_too_long() {
                return Err(BAD_DATA.into());
            }
            space.visit_many(rdb::reading_effort(version, body, APPLY_INLINE_ROWS_MAX as u64))?;
            rdb::read_dump(version, body, RESTORED_BYTES_MAX).map(Payload::Value).map_err(|_| BAD_DATA.into())
        }
        None => {
            space.visit_many(bytes.len() as u64 / version_1::BYTES_PER_ELEMENT)?;
            version_1::decode(bytes)?.ok_or_else(|| TORN.into())
        }
    }
}

/// Whether no part of a value is too long to be stored: one that was compressed may be longer than what brought it.
fn fits(value: &Value) -> bool {
    let fits = |string: &Vec<u8>| string.len() <= VALUE_BYTES_MAX;
    match value {
        Value::String(string) => fits(string),
        Value::List(strings) | Value::Set(strings) => strings.iter().all(fits),
        Value::SortedSet(members) => members.iter().all(|(member, _)| fits(member)),
        Value::Hash(fields) => fields.iter().all(|field| fits(&field.name) && fits(&field.value)),
        // Its items are checked as they are taken in.
        Value::Stream(_) => true,
        Value::Module(_) => false,
    }
}

/// Writes a value. Answers false, and writes nothing, if it is none that can be stored.
fn put(space: &mut dyn WriteSpace, key: &[u8], expire_at_ms: Option<u64>, value: Value) -> Result<bool, Error> {
    if !fits(&value) {
        return Ok(false);
    }
    match value {
        Value::String(bytes) => {
            put_string(space, key, expire_at_ms, &[&bytes])?;
            Ok(true)
        }
        Value::List(elements) => {
            let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
            list::restore(space, key, expire_at_ms, &elements)
        }
        Value::Set(members) => {
            let members: Vec<_> = members.iter().map(|member| (member.as_slice(), &b""[..], None)).collect();
            hash::restore(space, Type::Set, key, expire_at_ms, &members)
        }
        Value::SortedSet(members) => {
            let members = members.iter().map(|(member, score)| Scored { member, score: *score }).collect();
            zset::restore(space, key, expire_at_ms, members)
        }
        Value::Hash(fields) => {
            let now_ms = space.now_ms();
            let seen = fields.iter().filter(|field| field.expire_at_ms.is_none_or(|at_ms| at_ms > now_ms));
            // As with keys; an entry of an earlier release is taken as it is.
            let last_ms = if space.rules() >= Rules::Fourth { i64::MAX.unsigned_abs() } else { u64::MAX };
            let expiry = |field: &HashField| field.expire_at_ms.map(|at_ms| at_ms.min(last_ms));
            let fields: Vec<_> =
                seen.map(|field| (field.name.as_slice(), field.value.as_slice(), expiry(field))).collect();
            hash::restore(space, Type::Hash, key, expire_at_ms, &fields)
        }
        Value::Stream(stream) => {
            let items = rdb::items_of(&stream);
            let items: Vec<Vec<&[u8]>> = items.iter().map(|item| item.iter().map(Vec::as_slice).collect()).collect();
            stream::restore(space, key, expire_at_ms, &items)
        }
        Value::Module(_) => Ok(false),
    }
}
