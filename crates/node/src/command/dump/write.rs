//! DUMP: a value as one string, of a large collection piece by piece.

use super::error::{BAD_DATA, TOO_LARGE};
use super::streams;
use crate::command::call::{Error, ReadCall};
use crate::command::hash::{self, Fields, Stored};
use crate::command::list::{List, Side, Walk};
use crate::command::steps::{Progress, ReplySteps, Rest};
use crate::format::score::SCORE_BYTES;
use crate::{Kind, ReadSpace, Record, Type};
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
        let dumped = whole(call.space, key, record)?;
        call.reply.bulk_or_null(dumped.as_deref());
        return Ok(None);
    };
    if ty == Type::List {
        return dump_list(call, List::of(key, record.clone())?, record);
    }
    let mut length = Length::default();
    let hash = Stored::of(key, record, call.space.now_ms())?;
    let (earliest_ms, mut count) = (hash.earliest_expiry_ms(), 0);
    hash.each_with_expiry(call.space, |_, field, value, at_ms| {
        count += 1;
        length.add(Element { ty, earliest_ms, field, value, at_ms }.bytes())
    })?;
    if count == 0 {
        call.reply.null();
        return Ok(None);
    }
    let mut dumped = Dumped::begin(call.reply, ty, earliest_ms, count, length)?;
    dumped.flush(call.reply);
    let fields = hash.fields(&rows);
    Ok(Some(Box::new(ElementsLeft { ty, earliest_ms, left: fields.stored(), fields, after: None, dumped })))
}

fn dump_list(call: &mut ReadCall<'_>, list: List<'_>, record: Record) -> Result<Rest, Error> {
    let mut length = Length::default();
    list.each(call.space, |element| length.add(rdb::string_bytes(element.len())))?;
    let count = list.count()?;
    let mut dumped = Dumped::begin(call.reply, Type::List, None, count, length)?;
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
    /// Of the format.
    version: u16,
}

impl Dumped {
    /// Answers how long a collection of `count` elements is that take so many bytes. `earliest_ms`: fields expire, none before.
    fn begin(
        reply: &mut Reply,
        ty: Type,
        earliest_ms: Option<u64>,
        count: u64,
        elements: Length,
    ) -> Result<Self, Error> {
        let piece = head(ty, earliest_ms, count);
        let bytes = piece.len() + elements.0 + rdb::FOOTER_BYTES;
        if bytes > BULK_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        reply.bulk_head(bytes);
        Ok(Self { checksum: Checksum::default(), piece, version: version_of(earliest_ms) })
    }

    fn flush(&mut self, reply: &mut Reply) {
        self.checksum.update(&self.piece);
        reply.bulk_piece(&self.piece);
        self.piece.clear();
    }

    /// Answers what stands behind the value.
    fn finish(&mut self, reply: &mut Reply) {
        self.flush(reply);
        reply.bulk_piece(&self.checksum.footer(self.version));
        reply.bulk_piece(b"\r\n");
    }
}

/// These elements of a hash, a set or a sorted set are still to be dumped.
struct ElementsLeft {
    ty: Type,
    /// If fields expire, none does before.
    earliest_ms: Option<u64>,
    fields: Fields,
    /// How many there are, expired ones too.
    left: u64,
    /// The element that was dumped last.
    after: Option<Slice>,
    dumped: Dumped,
}

impl ReplySteps for ElementsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let after = self.after.as_deref();
        let found = self.fields.within(space, after, STREAM_STEP_ITEMS_MAX, STREAM_STEP_BYTES_SOFT)?;
        let expiries = self.fields.expiries_of(space, &found)?;
        for ((name, value), at_ms) in found.iter().zip(expiries).filter(|(_, at_ms)| self.fields.is_seen(*at_ms)) {
            let field = hash::field_of(name).ok_or(BAD_DATA)?;
            let (ty, earliest_ms) = (self.ty, self.earliest_ms);
            Element { ty, earliest_ms, field, value, at_ms }.put(&mut self.dumped.piece);
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

/// What stands before the elements of a collection.
fn head(ty: Type, earliest_ms: Option<u64>, count: u64) -> Vec<u8> {
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
fn version_of(earliest_ms: Option<u64>) -> u16 {
    if earliest_ms.is_some() { rdb::VERSION_FIELD_TTLS } else { rdb::VERSION }
}

/// An element: a set's is a member, a sorted set's has a score, a hash's a value.
struct Element<'a> {
    ty: Type,
    /// If fields of the hash expire, none does before.
    earliest_ms: Option<u64>,
    field: &'a [u8],
    value: &'a [u8],
    at_ms: Option<u64>,
}

impl Element<'_> {
    /// How many bytes it takes.
    fn bytes(&self) -> usize {
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

/// The dump of a value that is one record, or of a stream; `None` if nothing is seen of it.
fn whole(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<Option<Vec<u8>>, Error> {
    let view = record.view();
    let ty = view.kind.ty;
    let mut bytes = vec![type_of(ty)];
    let mut version = rdb::VERSION;
    if view.kind == Kind::STRING {
        rdb::put_string(&mut bytes, view.payload);
    } else if ty == Type::Stream {
        rdb::put_value(&mut bytes, &streams::read(space, key, record)?);
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
    let bytes = rdb::seal(bytes, version);
    // What RESTORE could not be given back as one argument is not handed out.
    if bytes.len() > BULK_BYTES_MAX { Err(TOO_LARGE.into()) } else { Ok(Some(bytes)) }
}
