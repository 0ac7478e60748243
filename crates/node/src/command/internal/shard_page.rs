//! KV.PART: what one node asks of a shard that another leads, for commands over the whole store. Not for clients: it is
//! not in the command table. `remote_space` is the asking side.
//!
//! | command | reply |
//! |-|-|
//! | `KV.PART RANGE start end LIMIT n [REVERSE] [KEYS]` | `[more, [key, record, …]]` |
//! | `KV.PART COUNT [slot]` | how many keys there are, without those of databases |
//! | `KV.PART COUNT DATABASE number` | how many keys a database has |
//! | `KV.PART COUNT SELECTED number [slot]` | how many keys a cluster database has, in a slot or in all |
//! | `KV.PART SAMPLE` | a key, each with the same probability; null if there is none or it cannot be drawn so |
//!
//! Keys of databases are in a range that begins with one, and in no other. `start` is inclusive, `end` exclusive, and unbounded if empty. Records come as they are stored, those whose time has
//! not come, with two exceptions: with KEYS without their payload, and a large hash as if it were inline, so
//! that it is of one moment with its record; where it is larger than a page of KV.RANGE, as a large one without rows; and a large stream, without payload. `more` is 1 if the page ended for its size, or after n rows.

use crate::command::args::{NOT_INTEGER, SYNTAX, int, is_word, named_namespace};
use crate::command::call::{Error, Outcome, ReadHandler, ShardCall};
use crate::command::hash::Stored;
use crate::command::list::List;
use crate::command::slot::slot_of_text;
use crate::format::internal_commands::SHARD_PAGE;
use crate::{Kind, Layout, ReadSpace, Record, RecordRange, Type};
use storage::Slice;
use vocab::limits::{PART_BYTES_SOFT, PART_ROWS_MAX, RANGE_BYTES_SOFT};
use vocab::{Namespace, SLOT_COUNT, Slot};

/// The handler of a command that is for nodes alone.
#[must_use]
pub fn peer_handler(args: &[&[u8]]) -> Option<ReadHandler> {
    let is_part = args.len() > 1 && args[0].eq_ignore_ascii_case(SHARD_PAGE);
    is_part.then_some(ReadHandler::Shard(part))
}

fn part(call: &mut ShardCall<'_>) -> Outcome {
    match call.args[1..] {
        [word] if is_word(word, "COUNT") => {
            let count = call.space.key_count()?;
            call.reply.int(count as i64);
            Ok(())
        }
        [word, slot] if is_word(word, "COUNT") => {
            let slot = u16::try_from(int(slot)?).ok().filter(|slot| *slot < SLOT_COUNT).ok_or("ERR Invalid slot")?;
            let count = call.space.keys_in_slot(Slot(slot))?;
            call.reply.int(count as i64);
            Ok(())
        }
        [word, of, number, ref slot @ ..] if is_word(word, "COUNT") => {
            let slot = slot.first().map(|slot| slot_of_text(slot)).transpose()?;
            let count = match named_namespace(of, number)?.ok_or(SYNTAX)? {
                Namespace::Database(database) => call.space.keys_in_database(database)?,
                Namespace::Cluster(database) => call.space.keys_in_cluster_database(database, slot)?,
            };
            call.reply.int(count as i64);
            Ok(())
        }
        [word] if is_word(word, "SAMPLE") => {
            let key = call.space.sample_key()?;
            call.reply.bulk_or_null(key.as_deref());
            Ok(())
        }
        [word, start, end, ref words @ ..] if is_word(word, "RANGE") => {
            range(call, start, end, &Options::parse(words)?)
        }
        _ => Err(SYNTAX.into()),
    }
}

struct Options {
    limit: usize,
    reverse: bool,
    keys_only: bool,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let [limit, n, words @ ..] = words else { return Err(SYNTAX.into()) };
        if !is_word(limit, "LIMIT") {
            return Err(SYNTAX.into());
        }
        let limit = usize::try_from(int(n)?).map_err(|_| NOT_INTEGER)?.clamp(1, PART_ROWS_MAX);
        let mut options = Self { limit, reverse: false, keys_only: false };
        for word in words {
            match () {
                () if is_word(word, "REVERSE") => options.reverse = true,
                () if is_word(word, "KEYS") => options.keys_only = true,
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }
}

fn range(call: &mut ShardCall<'_>, start: &[u8], end: &[u8], options: &Options) -> Outcome {
    let mut rows: Vec<(Slice, Record)> = Vec::new();
    let (mut bytes, mut more) = (0, false);
    let mut walk = call.space.records(&RecordRange {
        start,
        end,
        reverse: options.reverse,
        payloads: !options.keys_only,
        limit: options.limit,
    })?;
    while let Some(key) = walk.advance()? {
        let record = if options.keys_only { walk.head()? } else { walk.record()? };
        let Some(record) = record else { continue };
        if rows.len() == options.limit || bytes >= PART_BYTES_SOFT {
            more = true;
            break;
        }
        let record = if options.keys_only { without_payload(&record) } else { record };
        bytes += key.len() + record.bytes().len();
        rows.push((key, record));
    }
    drop(walk);
    let mut whole = Vec::with_capacity(rows.len());
    let mut bytes = 0;
    for (key, record) in rows {
        if bytes >= PART_BYTES_SOFT {
            more = true;
            break;
        }
        let record = packed(call.space, &key, record)?;
        bytes += key.len() + record.bytes().len();
        whole.push((key, record));
    }
    call.reply.array(2);
    call.reply.int(i64::from(more));
    call.reply.array(2 * whole.len());
    for (key, record) in whole {
        call.reply.bulk(&key);
        call.reply.bulk(record.bytes());
    }
    Ok(())
}

/// The record, its kind that of an inline hash if it is a large one.
fn without_payload(record: &Record) -> Record {
    let view = record.view();
    let kind = Kind { layout: Layout::Packed, ..view.kind };
    Record::stamped_new(view.version, kind, view.expire_at_ms, &[])
}

/// The record, with all fields in it.
fn packed(space: &mut dyn ReadSpace, key: &[u8], record: Record) -> Result<Record, Error> {
    if !record.view().kind.is_large() {
        return Ok(record);
    }
    let view = record.view();
    let (ty, version, expire_at_ms) = (view.kind.ty, view.version, view.expire_at_ms);
    let now_ms = space.now_ms();
    let payload = match ty {
        Type::Stream => return Ok(without_payload(&record)),
        Type::List => List::of(key, record)?.packed_whole(space, RANGE_BYTES_SOFT)?,
        Type::String | Type::Hash | Type::Set | Type::SortedSet => {
            Stored::of(key, record, now_ms)?.packed_whole(space, RANGE_BYTES_SOFT)?
        }
    };
    let Some(payload) = payload else {
        return Ok(Record::keyed_hash(version, expire_at_ms, 0, 0));
    };
    Ok(Record::stamped_new(version, Kind::packed(ty), expire_at_ms, &[&payload]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("part");
    }
}
