//! Parts of strings: APPEND, STRLEN, GETRANGE, SETRANGE.

use super::args::{bytes_of, int, span_of};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use super::string::edit_string;
use crate::Patch;
use crate::keyspace_events::Event;
use vocab::limits::VALUE_BYTES_MAX;

pub(super) const ROWS: &[HandlerRow] = &[
    write("APPEND", append).rewrites(|_| 0),
    read("STRLEN", strlen),
    read("GETRANGE", getrange),
    read("SUBSTR", getrange),
    write("SETRANGE", setrange).rewrites(|args| grows_by(resp::parse_integer(args[2]))),
];

/// A value may grow by so many bytes, if it is allowed to at all.
fn grows_by(offset: Option<i64>) -> usize {
    offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0).min(VALUE_BYTES_MAX)
}

fn check_length(offset: usize, length: usize) -> Outcome {
    if offset.saturating_add(length) > VALUE_BYTES_MAX {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    Ok(())
}

fn append(call: &mut WriteCall<'_>) -> Outcome {
    let tail = call.args[2];
    let length = edit_string(call.space, call.args[1], |head| {
        check_length(head.len(), tail.len())?;
        Ok((head.len() + tail.len(), Some(Patch { offset: head.len(), bytes: tail.to_vec() })))
    })?;
    call.space.notify(Event::APPEND, call.args[1]);
    call.reply.int(length as i64);
    Ok(())
}

fn strlen(call: &mut ReadCall<'_>) -> Outcome {
    let record = call.space.get(call.args[1])?;
    call.reply.int(bytes_of(record.as_ref())?.len() as i64);
    Ok(())
}

fn getrange(call: &mut ReadCall<'_>) -> Outcome {
    let (start, end) = (int(call.args[2])?, int(call.args[3])?);
    let record = call.space.get(call.args[1])?;
    let bytes = bytes_of(record.as_ref())?;
    call.reply.bulk(part(bytes, start, end));
    Ok(())
}

/// From `start` to `end`, both inclusive, counted from the end if negative. An end before the beginning means the
/// first byte, as in Redis, unless both are counted from the end.
fn part(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    if bytes.is_empty() || start < 0 && end < 0 && start > end {
        return &[];
    }
    span_of(start, end, bytes.len() as i64).map_or(&[], |(start, end)| &bytes[start as usize..=end as usize])
}

fn setrange(call: &mut WriteCall<'_>) -> Outcome {
    let (key, bytes) = (call.args[1], call.args[3]);
    let offset = int(call.args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Error::from("ERR offset is out of range"))?;
    let length = edit_string(call.space, key, |old| {
        if bytes.is_empty() {
            return Ok((old.len(), None));
        }
        check_length(offset, bytes.len())?;
        let patch = Patch { offset, bytes: bytes.to_vec() };
        Ok((old.len().max(patch.end()), Some(patch)))
    })?;
    if !bytes.is_empty() {
        call.space.notify(Event::SETRANGE, key);
    }
    call.reply.int(length as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("ranges");
    }
}
