//! Parts of strings: APPEND, STRLEN, GETRANGE, SETRANGE.

use super::args::{bytes_of, int, span_of};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use super::string::put_string;
use vocab::limits::VALUE_BYTES_MAX;

pub(super) const ROWS: &[HandlerRow] = &[
    write("APPEND", append),
    read("STRLEN", strlen),
    read("GETRANGE", getrange),
    read("SUBSTR", getrange),
    write("SETRANGE", setrange),
];

fn check_length(offset: usize, length: usize) -> Outcome {
    if offset.saturating_add(length) > VALUE_BYTES_MAX {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    Ok(())
}

fn append(call: &mut WriteCall<'_>) -> Outcome {
    let (key, tail) = (call.args[1], call.args[2]);
    let record = call.space.get(key)?;
    let head = bytes_of(record.as_ref())?;
    check_length(head.len(), tail.len())?;
    let expire_at_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
    put_string(call.space, key, expire_at_ms, &[head, tail])?;
    call.reply.int((head.len() + tail.len()) as i64);
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
    let (key, patch) = (call.args[1], call.args[3]);
    let offset = int(call.args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Error::from("ERR offset is out of range"))?;
    let record = call.space.get(key)?;
    let old = bytes_of(record.as_ref())?;
    if patch.is_empty() {
        call.reply.int(old.len() as i64);
        return Ok(());
    }
    check_length(offset, patch.len())?;
    let head = &old[..offset.min(old.len())];
    let gap = vec![0; offset - head.len()];
    let tail = old.get(offset + patch.len()..).unwrap_or_default();
    let expire_at_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
    put_string(call.space, key, expire_at_ms, &[head, &gap, patch, tail])?;
    call.reply.int((head.len() + gap.len() + patch.len() + tail.len()) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("ranges");
    }
}
