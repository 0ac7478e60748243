//! DUMP: a value as one string, of a large collection piece by piece.

use super::error::{BAD_DATA, TOO_LARGE};
use super::streams;
use crate::command::call::{Error, ReadCall};
use crate::command::hash::{self, Stored};
use crate::command::list::{List, Side, Walk};
use crate::command::steps::{Progress, ReplySteps, Rest};
use crate::format::score::SCORE_BYTES;
use crate::{Kind, ReadSpace, Record, Rows, Type};
use rdb::Checksum;
use resp::Reply;
use storage::Slice;
use vocab::limits::{BULK_BYTES_MAX, STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};

/// A large collection is read twice, for how long its dump is, and to write it.
pub(super) fn dump(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let key = call.args[1];
    let Some(record) = call.space.get(key)? else {
        call.reply.null();
        return Ok(None);
    };
    let ty = record.view().kind.ty;
    let Some(rows) = record.view().fields(key).filter(|_| ty != Type::Stream) else {
        call.reply.bulk(&whole(call.space, key, record)?);
        return Ok(None);
    };
    if ty == Type::List {
        return dump_list(call, List::of(key, record.clone())?, record);
    }
    let mut length = Length::default();
    Stored::of(key, record)?.each(call.space, |_, field, value| length.add(element_bytes(ty, field, value)))?;
    let mut dumped = Dumped::begin(call.reply, ty, rows.count, length)?;
    dumped.flush(call.reply);
    Ok(Some(Box::new(ElementsLeft { ty, left: rows.count, rows, after: None, dumped })))
}

fn dump_list(call: &mut ReadCall<'_>, list: List<'_>, record: Record) -> Result<Rest, Error> {
    let mut length = Length::default();
    list.each(call.space, |element| length.add(rdb::string_bytes(element.len())))?;
    let count = list.count()?;
    let mut dumped = Dumped::begin(call.reply, Type::List, count, length)?;
    dumped.flush(call.reply);
    let walk = list.walk(0, count, Side::Left);
    Ok(Some(Box::new(ListLeft { key: call.args[1].to_vec(), record, walk, dumped })))
}

/// Bytes of the elements of a collection.
#[derive(Default)]
struct Length(usize);

impl Length {
    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.0 += bytes;
        if self.0 > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(()) }
    }
}

/// A dump that is answered in pieces.
struct Dumped {
    /// Of all that was answered.
    checksum: Checksum,
    /// What is still to be answered.
    piece: Vec<u8>,
}

impl Dumped {
    /// Answers how long a collection of `count` elements is that take so many bytes.
    fn begin(reply: &mut Reply, ty: Type, count: u64, elements: Length) -> Result<Self, Error> {
        let mut piece = vec![type_of(ty)];
        rdb::put_length(&mut piece, count);
        let bytes = piece.len() + elements.0 + rdb::FOOTER_BYTES;
        if bytes > BULK_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        reply.bulk_head(bytes);
        Ok(Self { checksum: Checksum::default(), piece })
    }

    fn flush(&mut self, reply: &mut Reply) {
        self.checksum.update(&self.piece);
        reply.bulk_piece(&self.piece);
        self.piece.clear();
    }

    /// Answers what stands behind the value.
    fn finish(&mut self, reply: &mut Reply) {
        self.flush(reply);
        reply.bulk_piece(&self.checksum.footer(rdb::VERSION));
        reply.bulk_piece(b"\r\n");
    }
}

/// These elements of a hash, a set or a sorted set are still to be dumped.
struct ElementsLeft {
    ty: Type,
    rows: Rows,
    left: u64,
    /// The element that was dumped last.
    after: Option<Slice>,
    dumped: Dumped,
}

impl ReplySteps for ElementsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let after = self.after.as_deref();
        let found = space.elements_within(&self.rows, after, STREAM_STEP_ITEMS_MAX, STREAM_STEP_BYTES_SOFT)?;
        for (name, value) in &found {
            put_element(&mut self.dumped.piece, self.ty, hash::field_of(name).ok_or(BAD_DATA)?, value);
        }
        if found.is_empty() && self.left > 0 {
            return Err(BAD_DATA.into());
        }
        self.dumped.flush(reply);
        self.left = self.left.saturating_sub(found.len() as u64);
        self.after = found.into_iter().last().map(|(name, _)| name);
        if self.left > 0 {
            return Ok(Progress::More);
        }
        self.dumped.finish(reply);
        Ok(Progress::Done)
    }
}

/// These elements of a list are still to be dumped.
struct ListLeft {
    key: Vec<u8>,
    record: Record,
    walk: Walk,
    dumped: Dumped,
}

impl ReplySteps for ListLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let list = List::of(&self.key, self.record.clone())?;
        let piece = &mut self.dumped.piece;
        self.walk.step(&list, space, |_, element| {
            rdb::put_string(piece, element);
            Ok(true)
        })?;
        self.dumped.flush(reply);
        if !self.walk.is_over() {
            return Ok(Progress::More);
        }
        self.dumped.finish(reply);
        Ok(Progress::Done)
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

/// How many bytes an element takes: a set's is a member, a sorted set's has a score, a hash's a value.
fn element_bytes(ty: Type, field: &[u8], value: &[u8]) -> usize {
    let behind = match ty {
        Type::Set => 0,
        Type::SortedSet => SCORE_BYTES,
        _ => rdb::string_bytes(value.len()),
    };
    rdb::string_bytes(field.len()) + behind
}

/// Appends an element. A score is stored as the format has it.
fn put_element(out: &mut Vec<u8>, ty: Type, field: &[u8], value: &[u8]) {
    rdb::put_string(out, field);
    match ty {
        Type::Set => {}
        Type::SortedSet => out.extend_from_slice(value),
        _ => rdb::put_string(out, value),
    }
}

/// The dump of a value that is one record, or of a stream.
fn whole(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<Vec<u8>, Error> {
    let view = record.view();
    let ty = view.kind.ty;
    let mut bytes = vec![type_of(ty)];
    if view.kind == Kind::STRING {
        rdb::put_string(&mut bytes, view.payload);
    } else if ty == Type::Stream {
        rdb::put_value(&mut bytes, &streams::read(space, key, record)?);
    } else {
        let (mut count, mut elements) = (0, Vec::new());
        if ty == Type::List {
            List::of(key, record)?.each(space, |element| {
                count += 1;
                rdb::put_string(&mut elements, element);
                Ok(())
            })?;
        } else {
            Stored::of(key, record)?.each(space, |_, field, value| {
                count += 1;
                put_element(&mut elements, ty, field, value);
                Ok(())
            })?;
        }
        rdb::put_length(&mut bytes, count);
        bytes.extend_from_slice(&elements);
    }
    let mut checksum = Checksum::default();
    checksum.update(&bytes);
    bytes.extend_from_slice(&checksum.footer(rdb::VERSION));
    // What RESTORE could not be given back as one argument is not handed out.
    if bytes.len() > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(bytes) }
}
