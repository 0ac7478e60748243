//! Parts of strings: APPEND, STRLEN, GETRANGE, SETRANGE.

use super::args::{int, span_of};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use super::string::{edit_string, look_into};
use crate::Patch;
use crate::keyspace_events::Event;
use smallvec::{SmallVec, smallvec};
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
        Ok((head.len() + tail.len(), smallvec![Patch { offset: head.len(), bytes: tail.to_vec() }]))
    })?;
    call.space.notify(Event::APPEND, call.args[1]);
    call.reply.int(length as i64);
    Ok(())
}

fn strlen(call: &mut ReadCall<'_>) -> Outcome {
    let length = look_into(call.space, call.args[1], |string| Ok(string.len()))?;
    call.reply.int(length as i64);
    Ok(())
}

fn getrange(call: &mut ReadCall<'_>) -> Outcome {
    let (start, end) = (int(call.args[2])?, int(call.args[3])?);
    let reply = &mut *call.reply;
    look_into(call.space, call.args[1], |string| {
        let (from, until) = part(string.len(), start, end);
        reply.bulk(&string.part(from, until)?);
        Ok(())
    })
}

/// The first byte, and the first behind, of those from `start` to `end`, both inclusive, counted from the end if negative. An end before the beginning means the
/// first byte, as in Redis, unless both are counted from the end.
fn part(length: usize, start: i64, end: i64) -> (usize, usize) {
    if length == 0 || start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    span_of(start, end, length as i64).map_or((0, 0), |(start, end)| (start as usize, end as usize + 1))
}

fn setrange(call: &mut WriteCall<'_>) -> Outcome {
    let (key, bytes) = (call.args[1], call.args[3]);
    let offset = int(call.args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Error::from("ERR offset is out of range"))?;
    let length = edit_string(call.space, key, |old| {
        if bytes.is_empty() {
            return Ok((old.len(), SmallVec::new()));
        }
        check_length(offset, bytes.len())?;
        let patch = Patch { offset, bytes: bytes.to_vec() };
        Ok((old.len().max(patch.end()), smallvec![patch]))
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
