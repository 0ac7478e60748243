//! HGET, HMGET, HGETALL, HKEYS, HVALS, HEXISTS, HLEN and HSTRLEN.

use super::fields::Fields;
use super::stored::{Form, Stored};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::error::corrupt;
use crate::command::steps::{Progress, ReplySteps, Rest, Step};
use crate::format::element::field_of;
use crate::{ReadSpace, Type};
use resp::Reply;
use storage::Slice;
use vocab::limits::{STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};

/// Requests for more fields than this look them up in order rather than one by one.
const ONE_BY_ONE_MAX: usize = 16;

pub(super) fn hget(call: &mut ReadCall<'_>) -> Outcome {
    match Stored::load(call.space, call.args[1])? {
        Some(hash) => call.reply.bulk_or_null(hash.get(call.space, call.args[2])?.as_deref()),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn hmget(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let (key, fields) = (call.args[1], &call.args[2..]);
    call.reply.array(fields.len());
    let Some(hash) = Stored::load(call.space, key)? else {
        fields.iter().for_each(|_| call.reply.null());
        return Ok(None);
    };
    let made = values_of(&hash, fields, call.space, call.reply)?;
    if made == fields.len() {
        return Ok(None);
    }
    let fields = fields[made..].iter().map(|field| field.to_vec()).collect();
    Ok(Some(Box::new(ValuesLeft { key: key.to_vec(), fields, made: 0 })))
}

/// Writes the values of fields until a step is over; answers of how many.
fn values_of(
    hash: &Stored<'_>,
    fields: &[&[u8]],
    space: &mut dyn ReadSpace,
    reply: &mut Reply,
) -> Result<usize, Error> {
    let mut step = Step::begin(reply);
    let sorted = match &hash.form {
        Form::Inline(record) if fields.len() > ONE_BY_ONE_MAX => {
            let mut entries = hash.entries(record)?;
            entries.sort_unstable();
            Some(entries)
        }
        _ => None,
    };
    for (at, field) in fields.iter().enumerate() {
        match &sorted {
            Some(entries) => {
                let found = entries.binary_search_by(|(name, _)| name.cmp(field)).ok();
                reply.bulk_or_null(found.map(|i| entries[i].1));
            }
            None => reply.bulk_or_null(hash.get(space, field)?.as_deref()),
        }
        if !step.goes_on(reply) {
            return Ok(at + 1);
        }
    }
    Ok(fields.len())
}

/// The values of these fields are still to be answered.
struct ValuesLeft {
    key: Vec<u8>,
    fields: Vec<Vec<u8>>,
    made: usize,
}

impl ReplySteps for ValuesLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let hash = Stored::load(space, &self.key)?;
        let hash = hash.ok_or_else(|| corrupt(&self.key, "hash that is gone from its snapshot"))?;
        let left = &self.fields[self.made..];
        let of_step: Vec<&[u8]> = left.iter().take(STREAM_STEP_ITEMS_MAX).map(Vec::as_slice).collect();
        self.made += values_of(&hash, &of_step, space, reply)?;
        Ok(if self.made == self.fields.len() { Progress::Done } else { Progress::More })
    }
}

/// What is answered of each field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    Both,
    Fields,
    Values,
    /// Those of a set.
    Members,
}

impl Columns {
    fn head(self, count: usize, reply: &mut Reply) {
        match self {
            Self::Both => reply.map(count),
            Self::Fields | Self::Values => reply.array(count),
            Self::Members => reply.set(count),
        }
    }

    fn write(self, field: &[u8], value: &[u8], reply: &mut Reply) {
        if self != Self::Values {
            reply.bulk(field);
        }
        if matches!(self, Self::Both | Self::Values) {
            reply.bulk(value);
        }
    }
}

pub(super) fn hgetall(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    each_field(Type::Hash, call, Columns::Both)
}

pub(super) fn hkeys(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    each_field(Type::Hash, call, Columns::Fields)
}

pub(super) fn hvals(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    each_field(Type::Hash, call, Columns::Values)
}

/// SMEMBERS.
pub(in crate::command) fn smembers(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    each_field(Type::Set, call, Columns::Members)
}

/// Answers an inline hash, or the head of the reply to a large one.
fn each_field(ty: Type, call: &mut ReadCall<'_>, columns: Columns) -> Result<Rest, Error> {
    // The length and line breaks of a bulk string take no more.
    const HEAD_BYTES: usize = 16;
    let Some(hash) = Stored::load_of(ty, call.space, call.args[1])? else {
        columns.head(0, call.reply);
        return Ok(None);
    };
    let count = reply_count(&hash, call.space)?;
    match &hash.form {
        Form::Inline(record) => {
            call.reply.buf.reserve(record.bytes().len() + (2 * count + 1) * HEAD_BYTES);
            columns.head(count, call.reply);
            for entry in hash.packed(record)?.entries() {
                let (field, value) = entry.map_err(|why| hash.malformed(why))?;
                columns.write(field, value, call.reply);
            }
            Ok(None)
        }
        Form::Large(rows) => {
            columns.head(count, call.reply);
            let (key, fields) = (call.args[1].to_vec(), hash.fields(rows));
            let left = fields.stored();
            Ok((count > 0).then(|| Box::new(FieldsLeft { key, fields, columns, left, after: None }) as _))
        }
    }
}

/// These fields of a large hash are still to be answered.
struct FieldsLeft {
    key: Vec<u8>,
    fields: Fields,
    columns: Columns,
    /// How many there are, expired ones too.
    left: u64,
    /// The element that was answered last.
    after: Option<Slice>,
}

impl ReplySteps for FieldsLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let after = self.after.as_deref();
        let mut found = self.fields.within(space, after, STREAM_STEP_ITEMS_MAX, STREAM_STEP_BYTES_SOFT)?;
        if found.is_empty() || found.len() as u64 > self.left {
            return Err(corrupt(&self.key, "hash whose elements are not as many as its count"));
        }
        self.left -= found.len() as u64;
        self.after = found.last().map(|(name, _)| name.clone());
        self.fields.retain_seen(space, &mut found)?;
        for (name, value) in &found {
            let field = field_of(name).ok_or_else(|| corrupt(&self.key, "hash element without a position"))?;
            self.columns.write(field, value, reply);
        }
        Ok(if self.left == 0 { Progress::Done } else { Progress::More })
    }
}

pub(super) fn hexists(call: &mut ReadCall<'_>) -> Outcome {
    let found = value_length(call)?.is_some();
    call.reply.int(i64::from(found));
    Ok(())
}

pub(super) fn hlen(call: &mut ReadCall<'_>) -> Outcome {
    let count = match Stored::load(call.space, call.args[1])? {
        Some(hash) => hash.seen_soon(call.space)?,
        None => 0,
    };
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn hstrlen(call: &mut ReadCall<'_>) -> Outcome {
    let length = value_length(call)?.unwrap_or(0);
    call.reply.int(length as i64);
    Ok(())
}

fn value_length(call: &mut ReadCall<'_>) -> Result<Option<usize>, Error> {
    let Some(hash) = Stored::load(call.space, call.args[1])? else { return Ok(None) };
    Ok(hash.get(call.space, call.args[2])?.map(|value| value.len()))
}

/// The count, as the head of a reply takes it.
pub(super) fn reply_count(hash: &Stored<'_>, space: &mut dyn ReadSpace) -> Result<usize, Error> {
    usize::try_from(hash.seen(space)?).map_err(|_| hash.corrupt("hash with more fields than memory can hold"))
}
