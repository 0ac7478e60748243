//! DUMP and RESTORE: a key's value as one string that another store can take in.
//!
//! ```text
//! byte 0   kind: 1 string, 2 hash, 4 set, 5 list, 6 sorted set, 7 stream
//! then     string: the bytes; hash: for every field and value, u32 little-endian length and bytes of either; set, list:
//!          the same for every member or element; sorted set: as a hash, members and scores, each a double, little-endian;
//!          stream: for every item (`command::stream`), u32 number of words and the same for each
//! 2 bytes  version of this format, little-endian, now 1
//! 8 bytes  XXH3-64 of all before, little-endian
//! ```
//! The version and the checksum stand where Redis has its own, so that either refuses what the other made.

use super::args::{SYNTAX, int, is_word};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, reads_in_steps, write};
use super::hash::{self, Stored};
use super::list::{self, List, Side, Walk};
use super::steps::{Progress, ReplySteps, Rest};
use super::stream::{self, Export};
use super::string::put_string;
use super::zset::{self, Scored};
use crate::format::score::decode;
use crate::keyspace_events::Event;
use crate::{Kind, ReadSpace, Record, Rows, Type};
use resp::Reply;
use std::ops::RangeInclusive;
use storage::Slice;
use vocab::limits::{BULK_BYTES_MAX, STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

const STRING: u8 = 1;
const HASH: u8 = 2;
const SET: u8 = 4;
const LIST: u8 = 5;
const SORTED_SET: u8 = 6;
const STREAM: u8 = 7;
const VERSION: u16 = 1;
const CHECKSUM_BYTES: usize = 8;
/// Behind the value.
const FRAME_BYTES: usize = size_of::<u16>() + CHECKSUM_BYTES;
/// Of a field's or value's length.
const LENGTH_BYTES: usize = size_of::<u32>();

const TOO_LARGE: &str = "ERR value is too large to dump (proto-max-bulk-len)";
const TORN: &str = "ERR DUMP payload version or checksum are wrong";
const BAD_DATA: &str = "ERR Bad data format";

pub(super) const ROWS: &[HandlerRow] = &[reads_in_steps("DUMP", dump), write("RESTORE", restore)];

/// A large collection is read twice, for how long its dump is, and to write it.
fn dump(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let key = call.args[1];
    let Some(record) = call.space.get(key)? else {
        call.reply.null();
        return Ok(None);
    };
    let rows = record.view().fields(key).filter(|_| record.view().kind.ty != Type::Stream);
    let Some(rows) = rows else {
        call.reply.bulk(&encode(call.space, key, record)?);
        return Ok(None);
    };
    let mut bytes = 1 + FRAME_BYTES;
    let ty = record.view().kind.ty;
    if ty == Type::List {
        return dump_list(call, List::of(key, record.clone())?, record);
    }
    let lengths = if ty == Type::Set { LENGTH_BYTES } else { 2 * LENGTH_BYTES };
    Stored::of(key, record)?.each(call.space, |_, field, value| {
        bytes += lengths + field.len() + value.len();
        if bytes > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(()) }
    })?;
    call.reply.bulk_head(bytes);
    let mut hasher = Xxh3Default::new();
    append(call.reply, &mut hasher, &[kind_of(ty)]);
    Ok(Some(Box::new(ElementsLeft { ty, left: rows.count, rows, after: None, hasher })))
}

fn dump_list(call: &mut ReadCall<'_>, list: List<'_>, record: Record) -> Result<Rest, Error> {
    let mut bytes = 1 + FRAME_BYTES;
    list.each(call.space, |element| {
        bytes += LENGTH_BYTES + element.len();
        if bytes > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(()) }
    })?;
    call.reply.bulk_head(bytes);
    let mut hasher = Xxh3Default::new();
    append(call.reply, &mut hasher, &[LIST]);
    let walk = list.walk(0, list.count()?, Side::Left);
    Ok(Some(Box::new(ListLeft { key: call.args[1].to_vec(), record, walk, hasher })))
}

fn append(reply: &mut Reply, hasher: &mut Xxh3Default, bytes: &[u8]) {
    hasher.update(bytes);
    reply.bulk_piece(bytes);
}

/// These elements of a hash are still to be dumped.
struct ElementsLeft {
    ty: Type,
    rows: Rows,
    left: u64,
    /// The element that was dumped last.
    after: Option<Slice>,
    /// Of all before.
    hasher: Xxh3Default,
}

impl ReplySteps for ElementsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let after = self.after.as_deref();
        let found = space.elements_within(&self.rows, after, STREAM_STEP_ITEMS_MAX, STREAM_STEP_BYTES_SOFT)?;
        for (name, value) in &found {
            for part in parts(self.ty, hash::field_of(name).ok_or(BAD_DATA)?, value) {
                let length = u32::try_from(part.len()).map_err(|_| TOO_LARGE)?;
                append(reply, &mut self.hasher, &length.to_le_bytes());
                append(reply, &mut self.hasher, part);
            }
        }
        if found.is_empty() && self.left > 0 {
            return Err(BAD_DATA.into());
        }
        self.left = self.left.saturating_sub(found.len() as u64);
        self.after = found.into_iter().last().map(|(name, _)| name);
        if self.left > 0 {
            return Ok(Progress::More);
        }
        finish(reply, &mut self.hasher);
        Ok(Progress::Done)
    }
}

/// Appends what stands behind the value.
fn finish(reply: &mut Reply, hasher: &mut Xxh3Default) {
    append(reply, hasher, &VERSION.to_le_bytes());
    reply.bulk_piece(&hasher.digest().to_le_bytes());
    reply.bulk_piece(b"\r\n");
}

/// These elements of a list are still to be dumped.
struct ListLeft {
    key: Vec<u8>,
    record: Record,
    walk: Walk,
    /// Of all before.
    hasher: Xxh3Default,
}

impl ReplySteps for ListLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let list = List::of(&self.key, self.record.clone())?;
        let hasher = &mut self.hasher;
        self.walk.step(&list, space, |_, element| {
            let length = u32::try_from(element.len()).map_err(|_| TOO_LARGE)?;
            append(reply, hasher, &length.to_le_bytes());
            append(reply, hasher, element);
            Ok(true)
        })?;
        if !self.walk.is_over() {
            return Ok(Progress::More);
        }
        finish(reply, hasher);
        Ok(Progress::Done)
    }
}

/// The first byte of a dumped collection.
fn kind_of(ty: Type) -> u8 {
    match ty {
        Type::String => STRING,
        Type::Hash => HASH,
        Type::Set => SET,
        Type::List => LIST,
        Type::SortedSet => SORTED_SET,
        Type::Stream => STREAM,
    }
}

/// What is dumped of an element: a set's have no values.
fn parts<'e>(ty: Type, field: &'e [u8], value: &'e [u8]) -> impl Iterator<Item = &'e [u8]> {
    [field, value].into_iter().take(if ty == Type::Set { 1 } else { 2 })
}

fn encode(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<Vec<u8>, Error> {
    let view = record.view();
    let mut bytes = Vec::with_capacity(view.payload.len() + 16);
    if view.kind == Kind::STRING {
        bytes.push(STRING);
        bytes.extend_from_slice(view.payload);
    } else if view.kind.ty == Type::List {
        bytes.push(LIST);
        List::of(key, record)?.each(space, |element| {
            let length = u32::try_from(element.len()).map_err(|_| TOO_LARGE)?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(element);
            if bytes.len() > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(()) }
        })?;
    } else if view.kind.ty == Type::Stream {
        bytes.push(STREAM);
        let mut export = Export::new(key, record, None);
        while let Some(items) = export.next(space)? {
            items.iter().for_each(|item| push_item(&mut bytes, item));
            if bytes.len() > BULK_BYTES_MAX {
                return Err(TOO_LARGE.into());
            }
        }
    } else {
        let ty = view.kind.ty;
        bytes.push(kind_of(ty));
        Stored::of(key, record)?.each(space, |_, field, value| {
            for part in parts(ty, field, value) {
                let length = u32::try_from(part.len()).map_err(|_| TOO_LARGE)?;
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(part);
            }
            if bytes.len() > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(()) }
        })?;
    }
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    // What RESTORE could not be given back as one argument is not handed out.
    if bytes.len() > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(bytes) }
}

fn push_item(bytes: &mut Vec<u8>, item: &[Vec<u8>]) {
    let length = |bytes: &mut Vec<u8>, length: usize| bytes.extend_from_slice(&(length as u32).to_le_bytes());
    length(bytes, item.len());
    for word in item {
        length(bytes, word.len());
        bytes.extend_from_slice(word);
    }
}

/// A dumped value, read.
enum Value<'a> {
    String(&'a [u8]),
    /// Fields and values; of a set, members and nothing; of a sorted set, members and scores.
    Collection(Type, Vec<(&'a [u8], &'a [u8])>),
    List(Vec<&'a [u8]>),
    /// Items of a stream.
    Stream(Vec<Vec<&'a [u8]>>),
}

impl<'a> Value<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        let (checked, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(TORN)?;
        let (body, version) = checked.split_last_chunk::<2>().ok_or(TORN)?;
        if u16::from_le_bytes(*version) > VERSION || u64::from_le_bytes(*checksum) != xxh3_64(checked) {
            return Err(TORN.into());
        }
        match body {
            [STRING, string @ ..] => Ok(Self::String(string)),
            [kind @ (HASH | SORTED_SET), rest @ ..] => {
                let mut rest = rest;
                let mut fields = Vec::new();
                while !rest.is_empty() {
                    fields.push((part(&mut rest)?, part(&mut rest)?));
                }
                Ok(Self::Collection(if *kind == HASH { Type::Hash } else { Type::SortedSet }, fields))
            }
            [SET, rest @ ..] => {
                let mut rest = rest;
                let mut members = Vec::new();
                while !rest.is_empty() {
                    members.push((part(&mut rest)?, &b""[..]));
                }
                Ok(Self::Collection(Type::Set, members))
            }
            [LIST, rest @ ..] => {
                let mut rest = rest;
                let mut elements = Vec::new();
                while !rest.is_empty() {
                    elements.push(part(&mut rest)?);
                }
                Ok(Self::List(elements))
            }
            [STREAM, rest @ ..] => {
                let mut rest = rest;
                let mut items = Vec::new();
                while !rest.is_empty() {
                    let (count, after) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(BAD_DATA)?;
                    rest = after;
                    // Each word has a length: more words than that are not there.
                    let count = (u32::from_le_bytes(*count) as usize).min(rest.len() / LENGTH_BYTES + 1);
                    items.push((0..count).map(|_| part(&mut rest)).collect::<Result<_, _>>()?);
                }
                Ok(Self::Stream(items))
            }
            _ => Err(BAD_DATA.into()),
        }
    }
}

fn part<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(BAD_DATA)?;
    let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(BAD_DATA)?;
    *rest = after;
    Ok(part)
}

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

fn restore(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let options = options(&call.args[4..])?;
    if !options.replace && call.space.get(key)?.is_some() {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = int(call.args[2])?;
    let ttl = u64::try_from(ttl).map_err(|_| Error::from("ERR Invalid TTL value, must be >= 0"))?;
    let value = Value::decode(call.args[3])?;
    let now_ms = call.space.now_ms();
    let base = if options.absolute { 0 } else { now_ms };
    let expire_at_ms = (ttl > 0).then(|| base.saturating_add(ttl).min(i64::MAX.unsigned_abs()));
    if expire_at_ms.is_some_and(|at| at <= now_ms) {
        call.space.delete_told(key)?;
    } else {
        match value {
            Value::String(bytes) => put_string(call.space, key, expire_at_ms, &[bytes])?,
            Value::List(elements) => {
                if !list::restore(call.space, key, expire_at_ms, &elements)? {
                    return Err(BAD_DATA.into());
                }
            }
            Value::Collection(ty, fields) => {
                let restored = if ty == Type::SortedSet {
                    let scored = |(member, score)| Some(Scored { member, score: decode(score)? });
                    let members: Option<Vec<Scored<'_>>> = fields.into_iter().map(scored).collect();
                    zset::restore(call.space, key, expire_at_ms, members.ok_or(BAD_DATA)?)?
                } else {
                    hash::restore(call.space, ty, key, expire_at_ms, &fields)?
                };
                if !restored {
                    return Err(BAD_DATA.into());
                }
            }
            Value::Stream(items) => {
                if !stream::restore(call.space, key, expire_at_ms, &items)? {
                    return Err(BAD_DATA.into());
                }
            }
        }
        call.space.notify(Event::NEW, key);
        call.space.notify(Event::RESTORE, key);
    }
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::call::Error;
    use crate::command::testspace::{self, TestSpace};
    use resp::{Proto, Reply};

    #[test]
    fn transcript() {
        super::super::transcript::check("dump");
    }

    fn run(space: &mut TestSpace, args: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let mut reply = Reply::new(Proto::Resp2);
        space.version += 1;
        testspace::run(space, args, &mut reply)?;
        space.validate();
        Ok(reply.buf)
    }

    fn dumped(space: &mut TestSpace, key: &[u8]) -> Vec<u8> {
        let reply = run(space, &[b"DUMP", key]).unwrap();
        let head = reply.iter().position(|&b| b == b'\n').unwrap() + 1;
        reply[head..reply.len() - 2].to_vec()
    }

    #[test]
    fn a_large_hash_is_dumped_restored_renamed_and_copied() {
        let mut space = TestSpace::new();
        let values: Vec<String> = (0..2000).map(|i| format!("{i}")).collect();
        for value in &values {
            run(&mut space, &[b"HSET", b"h", format!("f{value}").as_bytes(), value.as_bytes()]).unwrap();
        }
        let whole = run(&mut space, &[b"HGETALL", b"h"]).unwrap();
        let bytes = dumped(&mut space, b"h");
        assert_eq!(run(&mut space, &[b"RESTORE", b"r", b"0", &bytes]).unwrap(), b"+OK\r\n");
        assert_eq!(run(&mut space, &[b"COPY", b"h", b"c"]).unwrap(), b":1\r\n");
        assert_eq!(run(&mut space, &[b"RENAME", b"h", b"m"]).unwrap(), b"+OK\r\n");
        assert_eq!(run(&mut space, &[b"COPY", b"m", b"c", b"REPLACE"]).unwrap(), b":1\r\n");
        for (key, elements) in [("r", 2000), ("c", 2000), ("m", 2000), ("h", 0)] {
            assert_eq!(space.element_count(key.as_bytes()), elements, "{key}");
            if elements > 0 {
                assert_eq!(run(&mut space, &[b"HGETALL", key.as_bytes()]).unwrap(), whole, "{key}");
            }
        }
        run(&mut space, &[b"RENAME", b"r", b"c"]).unwrap();
        run(&mut space, &[b"SET", b"m", b"1"]).unwrap();
        assert_eq!(space.element_count(b"m"), 0);
        assert_eq!(run(&mut space, &[b"HGETALL", b"c"]).unwrap(), whole);
    }

    #[test]
    fn what_is_dumped_is_restored_up_to_the_largest_and_no_larger_one_is_dumped() {
        let mut space = TestSpace::new();
        let frame = 1 + 2 + CHECKSUM_BYTES;
        for (bytes, fits) in [(BULK_BYTES_MAX - frame, true), (BULK_BYTES_MAX - frame + 1, false)] {
            run(&mut space, &[b"SET", b"s", &vec![b'x'; bytes]]).unwrap();
            match run(&mut space, &[b"DUMP", b"s"]) {
                Ok(_) => assert!(fits && dumped(&mut space, b"s").len() == BULK_BYTES_MAX),
                Err(Error::Reply(text)) => assert!(!fits && text == TOO_LARGE, "{text}"),
                Err(Error::Fault(fault)) => panic!("{fault:?}"),
            }
        }
    }

    #[test]
    fn no_torn_or_changed_dump_is_restored() {
        let mut space = TestSpace::new();
        run(&mut space, &[b"HSET", b"h", b"field", b"value"]).unwrap();
        run(&mut space, &[b"SET", b"s", b"value"]).unwrap();
        for key in [b"h", b"s"] {
            let bytes = dumped(&mut space, key);
            for i in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[i] ^= 1;
                for bad in [&bytes[..i], &changed] {
                    let outcome = run(&mut space, &[b"RESTORE", b"x", b"0", bad]);
                    assert!(matches!(outcome, Err(Error::Reply(text)) if text == TORN));
                }
            }
        }
        let sealed = |body: &[u8]| {
            let mut bytes = [body, &VERSION.to_le_bytes()].concat();
            bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
            bytes
        };
        for body in [
            &b""[..],
            b"\x03",
            b"\x02",
            b"\x02\x01",
            b"\x02\x01\0\0\0a",
            b"\x02\xff\xff\xff\xffa",
            b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            let outcome = run(&mut space, &[b"RESTORE", b"x", b"0", &sealed(body)]);
            assert!(matches!(outcome, Err(Error::Reply(text)) if text == BAD_DATA), "{}", body.escape_ascii());
        }
        assert!(space.get(b"x").unwrap().is_none());
    }
}
