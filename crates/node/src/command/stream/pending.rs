//! XPENDING: what was delivered to the consumers of a group and is not acknowledged.

use super::entry::write_id;
use super::group::{Consumer, Group, NameWalk, Pending, name_of};
use super::groups::no_group;
use super::id::StreamId;
use super::names::{self, ConsumerId};
use super::stored::Stream;
use crate::ReadSpace;
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use vocab::limits::STREAM_PENDING_SHOWN_MAX;

/// What XPENDING is asked of single entries.
struct PendingAsked<'a> {
    min_idle_ms: u64,
    start: StreamId,
    end: StreamId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingAsked<'a> {
    /// The words behind the group; `None` if only the sums are asked for.
    fn parse(words: &[&'a [u8]]) -> Result<Option<Self>, Error> {
        if words.is_empty() {
            return Ok(None);
        }
        if !(3..=6).contains(&words.len()) {
            return Err(SYNTAX.into());
        }
        let (mut min_idle_ms, mut rest) = (0, words);
        if is_word(words[0], "IDLE") {
            min_idle_ms = u64::try_from(int(words[1])?).unwrap_or(0);
            if words.len() < 5 {
                return Err(SYNTAX.into());
            }
            rest = &words[2..];
        }
        let count = int(rest[2])?.max(0).unsigned_abs();
        let (start, end) = (StreamId::parse_start(rest[0])?, StreamId::parse_end(rest[1])?);
        Ok(Some(Self { min_idle_ms, start, end, count, consumer: rest.get(3).copied() }))
    }
}

pub(super) fn xpending(call: &mut ReadCall<'_>) -> Outcome {
    let asked = PendingAsked::parse(&call.args[3..])?;
    let stream = Stream::load(call.space, call.args[1])?;
    let group = match &stream {
        Some(stream) => Group::load(call.space, stream, call.args[2])?,
        None => None,
    };
    let (Some(stream), Some(group)) = (stream, group) else {
        return Err(no_group(call.args[1], call.args[2], ""));
    };
    match asked {
        None => sums(call, &stream, &group),
        Some(asked) => entries(call, &stream, &group, &asked),
    }
}

fn sums(call: &mut ReadCall<'_>, stream: &Stream<'_>, group: &Group) -> Outcome {
    call.reply.array(4);
    call.reply.int(group.pending as i64);
    let Some((first, last)) = ends(call.space, stream, group)? else {
        call.reply.null();
        call.reply.null();
        call.reply.null_array();
        return Ok(());
    };
    write_id(first, call.reply);
    write_id(last, call.reply);
    let mark = call.reply.begin_array();
    let mut count = 0;
    each_consumer(call.space, stream, group, |_, name, consumer| {
        if consumer.pending > 0 {
            call.reply.array(2);
            call.reply.bulk(name);
            call.reply.bulk_int(consumer.pending as i64);
            count += 1;
        }
        Ok(())
    })?;
    call.reply.end_array(mark, count);
    Ok(())
}

/// The first and the last pending entry of a group.
fn ends(space: &mut dyn ReadSpace, stream: &Stream<'_>, group: &Group) -> Result<Option<(StreamId, StreamId)>, Error> {
    let Some(rows) = stream.rows().filter(|_| group.pending > 0) else { return Ok(None) };
    let prefix = names::all_pending(group.id);
    let first = space.elements(rows, Some(&prefix), 1)?.into_iter().next();
    let last = space.element_before(rows, &names::behind_pending(group.id))?;
    let id = |row: Option<(storage::Slice, storage::Slice)>| {
        let name = row.filter(|(name, _)| name.starts_with(&prefix)).map(|(name, _)| name);
        name.and_then(|name| names::id_of(&name)).ok_or_else(|| stream.corrupt("group without its pending entries"))
    };
    Ok(Some((id(first)?, id(last)?)))
}

/// Calls `visit` with each consumer of a group, in the order of their names.
pub(super) fn each_consumer(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    group: &Group,
    mut visit: impl FnMut(&mut dyn ReadSpace, &[u8], &Consumer) -> Outcome,
) -> Outcome {
    let Some(rows) = stream.rows() else { return Ok(()) };
    let prefix = names::consumers(group.id);
    let mut walk = NameWalk::new(prefix.clone());
    while let Some(found) = walk.next(space, rows)? {
        for (row_name, row) in found {
            let name = names::name_behind(&row_name, &prefix);
            let name = name.ok_or_else(|| stream.corrupt("consumer without a name"))?;
            visit(space, name, &Consumer::decode(&row).map_err(|why| stream.malformed(why))?)?;
        }
    }
    Ok(())
}

/// Names of consumers by their numbers, each read once.
pub(super) struct ConsumerNames(BTreeMap<ConsumerId, Vec<u8>>);

impl ConsumerNames {
    /// None is known yet.
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The name of a consumer.
    pub(super) fn get(
        &mut self,
        space: &mut dyn ReadSpace,
        stream: &Stream<'_>,
        group: &Group,
        consumer: ConsumerId,
    ) -> Result<&[u8], Error> {
        match self.0.entry(consumer) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => Ok(unknown.insert(name_of(space, stream, group.id, consumer)?)),
        }
    }
}

fn entries(call: &mut ReadCall<'_>, stream: &Stream<'_>, group: &Group, asked: &PendingAsked<'_>) -> Outcome {
    let mut consumer = None;
    if let Some(name) = asked.consumer {
        match Consumer::load(call.space, stream, group, name)? {
            Some(found) => consumer = Some(found.id),
            None => {
                call.reply.array(0);
                return Ok(());
            }
        }
    }
    let rows = stream.rows().ok_or_else(|| stream.corrupt("small stream with a group"))?;
    let mut walk = match (consumer, asked.start.previous()) {
        (None, _) => NameWalk::from_id(group.id, asked.start),
        (Some(consumer), None) => NameWalk::new(names::all_pending_of(group.id, consumer)),
        (Some(consumer), Some(before)) => {
            NameWalk::behind(names::all_pending_of(group.id, consumer), names::pending_of(group.id, consumer, before))
        }
    };
    let now_ms = call.space.now_ms();
    let mut consumers = ConsumerNames::new();
    let mark = call.reply.begin_array();
    let (mut count, most) = (0, asked.count.min(STREAM_PENDING_SHOWN_MAX));
    'all: while count < most
        && let Some(found) = walk.next(call.space, rows)?
    {
        for (name, row) in found {
            let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
            if id > asked.end || count == most || call.reply.exceeded() {
                break 'all;
            }
            let pending = match consumer {
                None => Some(Pending::decode(&row).map_err(|why| stream.malformed(why))?),
                Some(_) => Pending::load(call.space, stream, group.id, id)?,
            };
            let pending = pending.ok_or_else(|| stream.corrupt("pending entry without its row"))?;
            let idle_ms = now_ms.saturating_sub(pending.delivered_ms);
            if !pending.is_released() && idle_ms < asked.min_idle_ms {
                continue;
            }
            call.reply.array(4);
            write_id(id, call.reply);
            call.reply.bulk(consumers.get(call.space, stream, group, pending.consumer)?);
            call.reply.int(if pending.is_released() { -1 } else { idle_ms as i64 });
            call.reply.int(pending.deliveries as i64);
            count += 1;
        }
    }
    call.reply.end_array(mark, count as usize);
    Ok(())
}
