//! Keys whatever they hold: DEL, EXISTS, TYPE, TOUCH, RENAME, COPY.

use super::args::{NO_SUCH_KEY, NOT_INTEGER, SYNTAX, int, is_word};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, write};
use super::hash::{self, Stored};
use super::list::{self, List};
use super::zset::{self, SortedSet};
use crate::keyspace_events::Event;
use crate::{Evaluation, Layout, Record, Rows, Type, WriteSpace};
use storage::Slice;
use vocab::limits::{COPY_WHOLE_ELEMENTS_MAX, GATHERED_BYTES_MAX};
use vocab::{is_database_key, slot_of};

/// How many databases Redis has by default; all but the first are closed to a cluster.
const DATABASES: i64 = 16;

pub(super) const ROWS: &[HandlerRow] = &[
    write("DEL", del),
    write("UNLINK", del),
    read("EXISTS", exists),
    read("TOUCH", exists),
    read("TYPE", type_of),
    write("RENAME", |call| rename(call, false)).rewrites(|_| 0),
    write("RENAMENX", |call| rename(call, true)).rewrites(|_| 0),
    write("COPY", copy).rewrites(|_| 0),
    write("MOVE", refuse_move),
    write("KV.TRANSFER", transfer).rewrites(|_| 0),
];

fn del(call: &mut WriteCall<'_>) -> Outcome {
    let mut deleted = 0;
    for key in &call.args[1..] {
        deleted += i64::from(call.space.delete_told(key)?);
    }
    call.reply.int(deleted);
    Ok(())
}

fn exists(call: &mut ReadCall<'_>) -> Outcome {
    let mut found = 0;
    for key in &call.args[1..] {
        found += i64::from(call.space.stored(key)?.is_some());
    }
    call.reply.int(found);
    Ok(())
}

fn type_of(call: &mut ReadCall<'_>) -> Outcome {
    let record = call.space.stored(call.args[1])?;
    call.reply.simple(record.map_or("none", |record| record.view().kind.type_name()));
    Ok(())
}

/// Copies `record` of `from` to `to`, with its elements and its expiry.
fn place(space: &mut dyn WriteSpace, from: &[u8], record: Record, to: &[u8]) -> Result<(), Error> {
    // A copy of a string in pieces is a whole one.
    let record = space.whole(from, record)?;
    let view = record.view();
    let (ty, expire_at_ms) = (view.kind.ty, view.expire_at_ms);
    if view.kind.is_large() && view.kind.layout != Layout::ExpiringRows {
        match ty {
            Type::List => return list::copy(space, &List::of(from, record)?, to, expire_at_ms),
            Type::SortedSet => return zset::copy(space, &SortedSet::of(from, record)?, to, expire_at_ms),
            Type::String | Type::Hash | Type::Set => {
                let now_ms = space.now_ms();
                return hash::copy(space, &Stored::of(from, record, now_ms)?, to, expire_at_ms);
            }
            Type::Stream => {}
        }
    }
    if let Some(rows) = view.rows(from) {
        let copied = copy_rows(space, &rows, to)?;
        let tail = view.tail();
        let record = Record::large_with_tail(view.kind.ty, space.version(), view.expire_at_ms, &copied, tail);
        return Ok(space.put(to, record)?);
    }
    let record = Record::stamped_new(space.version(), view.kind, view.expire_at_ms, &[view.payload]);
    Ok(space.put(to, record)?)
}

/// Copies the rows of a large collection as they are, whatever its type. Those that are too many for one entry are an error,
/// and nothing is written.
fn copy_rows(space: &mut dyn WriteSpace, rows: &Rows, to: &[u8]) -> Result<Rows, Error> {
    let most = COPY_WHOLE_ELEMENTS_MAX as usize + 1;
    let (mut found, mut bytes) = (Vec::new(), 0);
    loop {
        let after: Option<Slice> = found.last().map(|(name, _): &(Slice, Slice)| name.clone());
        let more = space.elements_within(rows, after.as_deref(), most - found.len(), GATHERED_BYTES_MAX)?;
        bytes += more.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let ended = more.is_empty();
        found.extend(more);
        if found.len() == most || bytes > GATHERED_BYTES_MAX {
            return Err(hash::TOO_LARGE_TO_COPY.into());
        }
        if ended {
            break;
        }
    }
    let copied = space.new_rows(to)?.with_count(rows.count);
    for (name, value) in found {
        space.element_put(&copied, &name, &value)?;
    }
    Ok(copied)
}

/// Moves `record` from `from` to `to`. The rows of a large collection stay where they are, unless they are of another slot.
fn move_to(space: &mut dyn WriteSpace, from: &[u8], record: Record, to: &[u8]) -> Result<(), Error> {
    let view = record.view();
    if space.evaluation() == Evaluation::Second
        && slot_of(from) == slot_of(to)
        && let Some(rows) = view.rows(from)
    {
        let moved = match view.kind.layout {
            Layout::Rows | Layout::ExpiringRows => {
                Record::stamped_new(space.version(), view.kind, view.expire_at_ms, &[view.payload])
            }
            _ => Record::large(view.kind.ty, space.version(), view.expire_at_ms, &rows),
        };
        space.give_up(from)?;
        return Ok(space.put(to, moved)?);
    }
    place(space, from, record, to)?;
    space.delete(from)?;
    Ok(())
}

fn rename(call: &mut WriteCall<'_>, only_if_absent: bool) -> Outcome {
    let (from, to) = (call.args[1], call.args[2]);
    let record = call.space.stored(from)?.ok_or(NO_SUCH_KEY)?;
    let refused = only_if_absent && (from == to || call.space.stored(to)?.is_some());
    if !refused && from != to {
        move_to(call.space, from, record, to)?;
        // It replaces the key rather than what is there.
        call.space.notify(Event::NEW, to);
        call.space.notify(Event::RENAME_FROM, from);
        call.space.notify(Event::RENAME_TO, to);
    }
    if only_if_absent {
        call.reply.int(i64::from(!refused));
    } else {
        call.reply.ok();
    }
    Ok(())
}

/// Whether COPY may replace its target, by the words behind its keys.
pub fn copy_options(words: &[&[u8]]) -> Result<bool, Error> {
    let (mut replace, mut elsewhere) = (false, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if is_word(word, "REPLACE") {
            replace = true;
        } else if is_word(word, "DB") {
            let db = resp::parse_integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_INTEGER)?;
            if i32::try_from(db).is_err() {
                return Err("ERR value is out of range, value must between -2147483648 and 2147483647".into());
            }
            if !(0..DATABASES).contains(&db) {
                return Err("ERR DB index is out of range".into());
            }
            elsewhere = db != 0;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if elsewhere {
        return Err("ERR Copying to another database is not allowed in cluster mode".into());
    }
    Ok(replace)
}

fn copy(call: &mut WriteCall<'_>) -> Outcome {
    let (from, to) = (call.args[1], call.args[2]);
    let replace = copy_options(&call.args[3..])?;
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let record = call.space.stored(from)?;
    let refused = record.is_none() || !replace && call.space.stored(to)?.is_some();
    if let Some(record) = record.filter(|_| !refused) {
        place(call.space, from, record, to)?;
        call.space.notify(Event::NEW, to);
        call.space.notify(Event::COPY_TO, to);
    }
    call.reply.int(i64::from(!refused));
    Ok(())
}

/// MOVE of a client of the cluster, or to no other database: to another one it is KV.TRANSFER. A number that is none of a database
/// comes as -1.
fn refuse_move(call: &mut WriteCall<'_>) -> Outcome {
    if !is_database_key(call.args[1]) {
        return Err("ERR MOVE is not allowed in cluster mode".into());
    }
    match int(call.args[2])? {
        0.. => Err("ERR source and destination objects are the same".into()),
        _ => Err("ERR DB index is out of range".into()),
    }
}

/// KV.TRANSFER: COPY and MOVE from one database to another, where one shard has both.
fn transfer(call: &mut WriteCall<'_>) -> Outcome {
    let (from, to) = (call.args[1], call.args[2]);
    let record = call.space.stored(from)?;
    let (moves, replaces) = match &call.args[3..] {
        [word] if is_word(word, "MOVE") => (true, false),
        [word] if is_word(word, "COPY") => (false, false),
        [word, replace] if is_word(word, "COPY") && is_word(replace, "REPLACE") => (false, true),
        _ => return Err(SYNTAX.into()),
    };
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let is_taken = !replaces && call.space.stored(to)?.is_some();
    let found = record.filter(|_| !is_taken);
    call.reply.int(i64::from(found.is_some()));
    let Some(record) = found else { return Ok(()) };
    match moves {
        true => move_to(call.space, from, record, to)?,
        false => place(call.space, from, record, to)?,
    }
    if moves {
        call.space.notify(Event::MOVE_FROM, from);
    }
    call.space.notify(Event::NEW, to);
    call.space.notify(if moves { Event::MOVE_TO } else { Event::COPY_TO }, to);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("keys");
    }
}
