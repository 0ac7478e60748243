//! XINFO: the figures of a stream, its groups and their consumers.

use super::entry::write_id;
use super::group::{Group, NameWalk, Pending};
use super::groups::{no_group_of, unknown_words};
use super::id::StreamId;
use super::known_requests::KnownRequests;
use super::names;
use super::pending::{ConsumerNames, each_consumer};
use super::producers::Producers;
use super::range::EntryRange;
use super::stored::Stream;
use crate::command::args::{NO_SUCH_KEY, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::steps::Progress;
use crate::{ReadSpace, Rules};
use resp::Reply;

/// Entries, and pending entries of each group and consumer, that FULL shows if it is not told how many.
const COUNT: u64 = 10;

fn text(reply: &mut Reply, text: &str) {
    reply.bulk(text.as_bytes());
}

fn number(reply: &mut Reply, name: &str, number: u64) {
    text(reply, name);
    reply.int(number as i64);
}

fn id(reply: &mut Reply, name: &str, id: StreamId) {
    text(reply, name);
    write_id(id, reply);
}

fn number_or_null(reply: &mut Reply, name: &str, number: Option<i64>) {
    text(reply, name);
    match number {
        Some(number) => reply.int(number),
        None => reply.null(),
    }
}

/// Calls `visit` with each group, in the order of their names.
fn each_group(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    mut visit: impl FnMut(&mut dyn ReadSpace, &[u8], &Group) -> Outcome,
) -> Outcome {
    let Some(rows) = stream.rows().filter(|_| stream.meta.groups > 0) else { return Ok(()) };
    let mut walk = NameWalk::new(names::GROUPS.to_vec());
    while let Some(found) = walk.next(space, rows)? {
        for (row_name, row) in found {
            let name = names::name_behind(&row_name, names::GROUPS);
            let name = name.ok_or_else(|| stream.corrupt("group without a name"))?;
            visit(space, name, &Group::decode(&row).map_err(|why| stream.malformed(why))?)?;
        }
    }
    Ok(())
}

pub(super) fn groups(call: &mut ReadCall<'_>) -> Outcome {
    let stream = Stream::load(call.space, call.args[2])?.ok_or(NO_SUCH_KEY)?;
    let reply = &mut *call.reply;
    reply.array(stream.meta.groups as usize);
    each_group(call.space, &stream, |space, name, group| {
        reply.map(6);
        text(reply, "name");
        reply.bulk(name);
        number(reply, "consumers", group.consumers);
        number(reply, "pending", group.pending);
        id(reply, "last-delivered-id", group.last_id);
        number_or_null(reply, "entries-read", group.read.map(|read| read as i64));
        number_or_null(reply, "lag", group.lag(&stream.meta, space.rules()));
        Ok(())
    })
}

pub(super) fn consumers(call: &mut ReadCall<'_>) -> Outcome {
    let stream = Stream::load(call.space, call.args[2])?.ok_or(NO_SUCH_KEY)?;
    let group = Group::load(call.space, &stream, call.args[3])?;
    let group = group.ok_or_else(|| no_group_of(call.args[2], call.args[3]))?;
    let now_ms = call.space.now_ms();
    let reply = &mut *call.reply;
    reply.array(group.consumers as usize);
    each_consumer(call.space, &stream, &group, |_, name, consumer| {
        reply.map(4);
        text(reply, "name");
        reply.bulk(name);
        number(reply, "pending", consumer.pending);
        number(reply, "idle", now_ms.saturating_sub(consumer.seen_ms));
        let inactive = consumer.active_ms.map_or(-1, |at_ms| now_ms.saturating_sub(at_ms) as i64);
        number_or_null(reply, "inactive", Some(inactive));
        Ok(())
    })
}

/// How much XINFO STREAM is to show; `None`: the stream alone.
fn full_count(words: &[&[u8]]) -> Result<Option<u64>, Error> {
    match words {
        [_, _, _] => Ok(None),
        [_, _, _, full] if is_word(full, "FULL") => Ok(Some(COUNT)),
        [_, _, _, full, word, n] if is_word(full, "FULL") && is_word(word, "COUNT") => {
            Ok(Some(u64::try_from(int(n)?).unwrap_or(COUNT)))
        }
        _ => Err(unknown_words("XINFO", words[1])),
    }
}

/// What is known of the requests of producers now, if there ever were any.
fn producers_of(space: &mut dyn ReadSpace, stream: &Stream<'_>) -> Result<Option<Producers>, Error> {
    match (&stream.producers, stream.rows()) {
        (Some(_), Some(rows)) if space.rules() >= Rules::Fourth => {
            Ok(Some(KnownRequests::of(stream, rows).live(space)?))
        }
        (producers, _) => Ok(producers.clone()),
    }
}

pub(super) fn stream(call: &mut ReadCall<'_>) -> Outcome {
    let stream = Stream::load(call.space, call.args[2])?.ok_or(NO_SUCH_KEY)?;
    let count = full_count(call.args)?;
    let (space, reply) = (&mut *call.space, &mut *call.reply);
    let meta = &stream.meta;
    // Redis tells of its radix tree here: one key for each of its nodes, about.
    let nodes = if meta.length == 0 { 0 } else { meta.next.0.div_ceil(100) - meta.first.0 / 100 };
    let producers = producers_of(space, &stream)?;
    reply.map(if count.is_some() { 9 } else { 10 } + if producers.is_some() { 6 } else { 0 });
    number(reply, "length", meta.length);
    number(reply, "radix-tree-keys", nodes);
    number(reply, "radix-tree-nodes", nodes + 1);
    id(reply, "last-generated-id", meta.last_id);
    id(reply, "max-deleted-entry-id", meta.max_deleted_id);
    number(reply, "entries-added", meta.added);
    id(reply, "recorded-first-entry-id", meta.first_id);
    if let Some(producers) = producers {
        number(reply, "idmp-duration", producers.duration_s);
        number(reply, "idmp-maxsize", producers.ids_max);
        number(reply, "pids-tracked", producers.producers);
        number(reply, "iids-tracked", producers.ids);
        number(reply, "iids-added", producers.ids_ever);
        number(reply, "iids-duplicates", producers.duplicates);
    }
    let Some(count) = count else {
        number(reply, "groups", meta.groups);
        text(reply, "first-entry");
        let first = stream.entry_at(space, meta.first)?;
        for (name, entry) in [("", first), ("last-entry", stream.last(space)?)] {
            if !name.is_empty() {
                text(reply, name);
            }
            match entry {
                Some(entry) => entry.write(reply).map_err(|why| stream.malformed(why))?,
                None => reply.null(),
            }
        }
        return Ok(());
    };
    let most = if count == 0 { u64::MAX } else { count };
    text(reply, "entries");
    let mut range = EntryRange::new(space, &stream, (StreamId::ZERO, StreamId::MAX), most, false)?;
    reply.array(range.left as usize);
    while range.step(space, &stream, reply)? == Progress::More && !reply.exceeded() {}
    text(reply, "groups");
    reply.array(meta.groups as usize);
    each_group(space, &stream, |space, name, group| full_group(space, &stream, name, group, most, reply))
}

/// How many pending entries of a group XNACK has released: those that are no consumer's.
fn released(space: &mut dyn ReadSpace, stream: &Stream<'_>, group: &Group) -> Result<u64, Error> {
    if group.pending == 0 || space.rules() < Rules::Fourth {
        return Ok(0);
    }
    let mut owned = 0;
    each_consumer(space, stream, group, |_, _, consumer| {
        owned += consumer.pending;
        Ok(())
    })?;
    Ok(group.pending.saturating_sub(owned))
}

fn full_group(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    name: &[u8],
    group: &Group,
    most: u64,
    reply: &mut Reply,
) -> Outcome {
    // Redis 8.8 tells it always, but clients of earlier releases refuse what they do not know.
    let released = released(space, stream, group)?;
    reply.map(if released > 0 { 8 } else { 7 });
    text(reply, "name");
    reply.bulk(name);
    id(reply, "last-delivered-id", group.last_id);
    number_or_null(reply, "entries-read", group.read.map(|read| read as i64));
    number_or_null(reply, "lag", group.lag(&stream.meta, space.rules()));
    number(reply, "pel-count", group.pending);
    if released > 0 {
        number(reply, "nacked-count", released);
    }
    text(reply, "pending");
    let mut consumers = ConsumerNames::new();
    let walk = NameWalk::new(names::all_pending(group.id));
    pending(space, stream, (walk, most.min(group.pending)), reply, |space, id, row, reply| {
        let pending = Pending::decode(row).map_err(|why| stream.malformed(why))?;
        reply.array(4);
        write_id(id, reply);
        reply.bulk(consumers.get(space, stream, group, pending.consumer)?);
        reply.int(pending.delivered_ms as i64);
        reply.int(pending.deliveries as i64);
        Ok(())
    })?;
    text(reply, "consumers");
    reply.array(group.consumers as usize);
    each_consumer(space, stream, group, |space, name, consumer| {
        reply.map(5);
        text(reply, "name");
        reply.bulk(name);
        number(reply, "seen-time", consumer.seen_ms);
        number_or_null(reply, "active-time", Some(consumer.active_ms.map_or(-1, |at_ms| at_ms as i64)));
        number(reply, "pel-count", consumer.pending);
        text(reply, "pending");
        let walk = NameWalk::new(names::all_pending_of(group.id, consumer.id));
        pending(space, stream, (walk, most.min(consumer.pending)), reply, |space, id, _, reply| {
            let pending = Pending::load(space, stream, group.id, id)?;
            let pending = pending.ok_or_else(|| stream.corrupt("pending entry without its row"))?;
            reply.array(3);
            write_id(id, reply);
            reply.int(pending.delivered_ms as i64);
            reply.int(pending.deliveries as i64);
            Ok(())
        })
    })
}

/// Answers the first `count` pending entries of a walk, of which there are so many.
fn pending(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    (mut walk, count): (NameWalk, u64),
    reply: &mut Reply,
    mut write: impl FnMut(&mut dyn ReadSpace, StreamId, &[u8], &mut Reply) -> Outcome,
) -> Outcome {
    let rows = stream.rows().ok_or_else(|| stream.corrupt("small stream with a group"))?;
    reply.array(count as usize);
    let mut left = count;
    while left > 0
        && !reply.exceeded()
        && let Some(found) = walk.next(space, rows)?
    {
        for (name, row) in found.into_iter().take(left as usize) {
            let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
            write(space, id, &row, reply)?;
            left -= 1;
        }
    }
    if left > 0 && !reply.exceeded() {
        return Err(stream.corrupt("group with fewer pending entries than it counts"));
    }
    Ok(())
}
