//! HGET, HMGET, HGETALL, HKEYS, HVALS, HEXISTS, HLEN and HSTRLEN.

use super::stored::{Form, Stored};
use crate::command::call::{Error, Outcome, ReadCall};

/// Requests for more fields than this look them up in order rather than one by one.
const ONE_BY_ONE_MAX: usize = 16;

pub(super) fn hget(call: &mut ReadCall<'_>) -> Outcome {
    match Stored::load(call.space, call.args[1])? {
        Some(hash) => call.reply.bulk_or_null(hash.get(call.space, call.args[2])?.as_deref()),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn hmget(call: &mut ReadCall<'_>) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    let fields = &call.args[2..];
    call.reply.array(fields.len());
    let Some(hash) = hash else {
        fields.iter().for_each(|_| call.reply.null());
        return Ok(());
    };
    if let (Form::Inline(record), true) = (&hash.form, fields.len() > ONE_BY_ONE_MAX) {
        let mut entries = hash.entries(record)?;
        entries.sort_unstable();
        for field in fields {
            let found = entries.binary_search_by(|(name, _)| name.cmp(field)).ok();
            call.reply.bulk_or_null(found.map(|i| entries[i].1));
        }
        return Ok(());
    }
    for field in fields {
        call.reply.bulk_or_null(hash.get(call.space, field)?.as_deref());
    }
    Ok(())
}

pub(super) fn hgetall(call: &mut ReadCall<'_>) -> Outcome {
    // The length and line breaks of a bulk string take no more.
    const HEAD_BYTES: usize = 16;
    let Some(hash) = Stored::load(call.space, call.args[1])? else {
        call.reply.map(0);
        return Ok(());
    };
    let count = reply_count(&hash)?;
    if let Form::Inline(record) = &hash.form {
        call.reply.buf.reserve(record.bytes().len() + (2 * count + 1) * HEAD_BYTES);
    }
    call.reply.map(count);
    let reply = &mut *call.reply;
    hash.each(call.space, |_, field, value| {
        reply.bulk(field);
        reply.bulk(value);
        Ok(())
    })
}

pub(super) fn hkeys(call: &mut ReadCall<'_>) -> Outcome {
    one_of_each(call, |field, _| field)
}

pub(super) fn hvals(call: &mut ReadCall<'_>) -> Outcome {
    one_of_each(call, |_, value| value)
}

pub(super) fn hexists(call: &mut ReadCall<'_>) -> Outcome {
    let found = value_length(call)?.is_some();
    call.reply.int(i64::from(found));
    Ok(())
}

pub(super) fn hlen(call: &mut ReadCall<'_>) -> Outcome {
    let count = match Stored::load(call.space, call.args[1])? {
        Some(hash) => reply_count(&hash)?,
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

fn one_of_each(call: &mut ReadCall<'_>, pick: for<'a> fn(&'a [u8], &'a [u8]) -> &'a [u8]) -> Outcome {
    let Some(hash) = Stored::load(call.space, call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    call.reply.array(reply_count(&hash)?);
    let reply = &mut *call.reply;
    hash.each(call.space, |_, field, value| {
        reply.bulk(pick(field, value));
        Ok(())
    })
}

fn value_length(call: &mut ReadCall<'_>) -> Result<Option<usize>, Error> {
    let Some(hash) = Stored::load(call.space, call.args[1])? else { return Ok(None) };
    Ok(hash.get(call.space, call.args[2])?.map(|value| value.len()))
}

/// The count, as the head of a reply takes it.
pub(super) fn reply_count(hash: &Stored<'_>) -> Result<usize, Error> {
    usize::try_from(hash.count()?).map_err(|_| hash.corrupt("hash with more fields than memory can hold"))
}
