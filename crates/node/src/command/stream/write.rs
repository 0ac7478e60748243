//! Adds and removes entries of a stream. The caller saves the record afterwards.

use super::entry::{Entry, Spot};
use super::id::StreamId;
use super::meta::Ordinal;
use super::names;
use super::stored::{Form, Stream, bytes_of};
use crate::command::call::{Error, Outcome};
use crate::{Rows, WriteSpace};
use vocab::limits::STREAM_ROWS_ONE_BY_ONE_MAX;

/// Adds an entry, whose id is above the last one.
pub(super) fn append(space: &mut dyn WriteSpace, stream: &mut Stream<'_>, entry: Entry) -> Outcome {
    let at = stream.meta.next;
    if stream.meta.length == 0 {
        stream.meta.first_id = entry.id;
    }
    stream.meta.last_id = entry.id;
    stream.meta.added += 1;
    stream.meta.length += 1;
    stream.meta.bytes += bytes_of(&entry.fields);
    stream.meta.next = Ordinal(at.0 + 1);
    match &mut stream.form {
        Form::Large(rows) => space.element_put(rows, &names::entry(at), &Spot::Live(entry).encode())?,
        Form::Inline(entries) => {
            entries.push(entry);
            if !stream.fits_inline() {
                stream.make_large(space)?;
            }
        }
    }
    Ok(())
}

/// Removes the entry of that id, as XDEL does; false if there is none.
pub(super) fn delete(space: &mut dyn WriteSpace, stream: &mut Stream<'_>, id: StreamId) -> Result<bool, Error> {
    let Some((at, entry)) = stream.get(space, id)? else { return Ok(false) };
    stream.meta.bytes = stream.meta.bytes.saturating_sub(bytes_of(&entry.fields));
    stream.meta.length -= 1;
    stream.meta.max_deleted_id = stream.meta.max_deleted_id.max(id);
    match &mut stream.form {
        Form::Inline(entries) => {
            entries.remove((at.0 - stream.meta.first.0) as usize);
            stream.meta.first = Ordinal(stream.meta.next.0 - stream.meta.length);
            stream.meta.first_id = entries.first().map_or(StreamId::ZERO, |entry| entry.id);
        }
        Form::Large(rows) => {
            let rows = rows.clone();
            if at == stream.meta.first || stream.meta.length == 0 {
                advance(space, stream, Ordinal(at.0 + 1))?;
            } else {
                leave_gone(space, stream, &rows, at, id)?;
            }
        }
    }
    Ok(true)
}

/// Notes that there is no entry any more at `at`, and joins it with what is gone beside it.
fn leave_gone(space: &mut dyn WriteSpace, stream: &Stream<'_>, rows: &Rows, at: Ordinal, id: StreamId) -> Outcome {
    let (mut start, mut end) = ((at, id), (at, id));
    if let Spot::Gone { other, id } = stream.spot(space, Ordinal(at.0 - 1))? {
        // An end of a run that is one entry names itself.
        let first = other.min(Ordinal(at.0 - 1));
        start = if first.0 + 1 == at.0 { (first, id) } else { (first, stream.spot(space, first)?.id()) };
    }
    if at.0 + 1 < stream.meta.next.0
        && let Spot::Gone { other, id } = stream.spot(space, Ordinal(at.0 + 1))?
    {
        let last = other.max(Ordinal(at.0 + 1));
        end = if last.0 == at.0 + 1 { (last, id) } else { (last, stream.spot(space, last)?.id()) };
    }
    let mut put = |at: Ordinal, id: StreamId, other: Ordinal| {
        space.element_put(rows, &names::entry(at), &Spot::Gone { id, other }.encode())
    };
    put(at, id, at)?;
    put(start.0, start.1, end.0)?;
    put(end.0, end.1, start.0)?;
    let block = names::block_of(at);
    let gone = stream.gone_in_block(space, block)? + 1;
    Ok(space.element_put(rows, &names::block(block), &gone.to_le_bytes())?)
}

/// Removes the entries before `to` as XTRIM does, `removed` in number.
pub(super) fn trim_to(space: &mut dyn WriteSpace, stream: &mut Stream<'_>, to: Ordinal, removed: u64) -> Outcome {
    stream.meta.shorten(removed);
    match &mut stream.form {
        Form::Inline(entries) => {
            entries.drain(..(to.0 - stream.meta.first.0) as usize);
            stream.meta.first = to;
            stream.meta.first_id = entries.first().map_or(StreamId::ZERO, |entry| entry.id);
            stream.meta.bytes = entries.iter().map(|entry| bytes_of(&entry.fields)).sum();
            Ok(())
        }
        Form::Large(_) => advance(space, stream, to),
    }
}

/// Makes the first entry at or behind `to` the first of a large stream, and removes the rows before it.
fn advance(space: &mut dyn WriteSpace, stream: &mut Stream<'_>, to: Ordinal) -> Outcome {
    let Form::Large(rows) = &stream.form else { return Ok(()) };
    let (rows, from, next) = (rows.clone(), stream.meta.first, stream.meta.next);
    let found = if stream.meta.length == 0 { None } else { stream.live_from(space, to, next)? };
    let (first, first_id) = found.map_or((next, StreamId::ZERO), |(at, entry)| (at, entry.id));
    remove_numbered(space, &rows, names::ENTRY, from.0, first.0)?;
    // What is left of the last block is counted anew.
    let blocks_end = names::block_of(first) + u64::from(stream.meta.length == 0);
    remove_numbered(space, &rows, names::BLOCK, names::block_of(from), blocks_end)?;
    (stream.meta.first, stream.meta.first_id) = (first, first_id);
    Ok(())
}

/// Removes the rows of a tag from number `from` on and before `to`: one by one if they are few, else by what the names of
/// 256, 65,536, … of them begin with, so that the cost is bounded whatever their number.
fn remove_numbered(space: &mut dyn WriteSpace, rows: &Rows, tag: u8, from: u64, to: u64) -> Outcome {
    let mut at = from;
    while at < to {
        let bytes = aligned_bytes(at, to);
        if bytes == 0 || to - from <= STREAM_ROWS_ONE_BY_ONE_MAX {
            space.element_delete(rows, &names::numbered(tag, at))?;
            at += 1;
            continue;
        }
        let name = names::numbered(tag, at);
        let prefix = [&rows.prefix[..], &name[..name.len() - bytes as usize]].concat();
        space.drop_rows(&Rows { prefix, count: 0 })?;
        at += 1 << (8 * bytes);
    }
    Ok(())
}

/// How many of the last bytes of a number run from all zeros to all ones between `at` and `to`.
fn aligned_bytes(at: u64, to: u64) -> u32 {
    (1..8).take_while(|bytes| at.is_multiple_of(1 << (8 * bytes)) && to - at >= 1 << (8 * bytes)).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::aligned_bytes;

    #[test]
    fn runs_of_numbers_are_aligned() {
        for (at, to, bytes) in
            [(0, 255, 0), (0, 256, 1), (256, 65_536, 1), (0, 65_536, 2), (1, 65_537, 0), (65_536, 131_072 + 9, 2)]
        {
            assert_eq!(aligned_bytes(at, to), bytes, "{at}..{to}");
        }
    }
}
