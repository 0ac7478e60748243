//! XREADGROUP: what a consumer of a group is given of streams. That is what is new, with CLAIM what has been pending for long before it, or
//! what is pending for the consumer itself.

use super::entry::{Entry, write_id};
use super::group::{Group, GroupChange, NameWalk, Pending};
use super::groups::no_group;
use super::id::StreamId;
use super::meta::Ordinal;
use super::names::{self, ConsumerId};
use super::read::{ReadWords, begin_stream};
use super::stored::Stream;
use crate::command::args::check_release;
use crate::command::call::{Error, Outcome, WriteCall};
use crate::{ReadSpace, Rules, WriteSpace};
use resp::{Proto, Reply};
use vocab::limits::STREAM_DELIVERED_MAX;

/// What XREADGROUP asks of one stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupAsked {
    /// What was not delivered yet: `>`.
    New,
    /// What is pending for the consumer, behind an id.
    Pending(StreamId),
}

pub(super) fn xreadgroup(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let words = ReadWords::parse(call.args, true, call.space.rules())?;
    let Some((group, consumer)) = words.group else { return Err("ERR Missing GROUP option for XREADGROUP".into()) };
    super::group::check_name(consumer)?;
    let mut asked = Vec::with_capacity(words.keys.len());
    for (key, id) in words.keys.iter().zip(words.ids) {
        let stream = Stream::load(call.space, key)?;
        let found = match &stream {
            Some(stream) => Group::load(call.space, stream, group)?,
            None => None,
        };
        if found.is_none() {
            return Err(no_group(key, group, " in XREADGROUP with GROUP option"));
        }
        asked.push(match *id {
            b"$" => return Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.".into()),
            b"+" => return Err("ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.".into()),
            b">" => GroupAsked::New,
            id => GroupAsked::Pending(StreamId::parse(id, 0)?),
        });
    }
    let mark = call.reply.begin_array();
    let mut served = 0;
    for (key, asked) in words.keys.iter().zip(asked) {
        served += usize::from(serve(call.space, key, asked, &words, (group, consumer), call.reply)?);
    }
    match (served, call.reply.proto) {
        // Nothing was written since.
        (0, _) => call.reply.null_array(),
        (_, Proto::Resp2) => call.reply.end_array(mark, served),
        (_, Proto::Resp3) => call.reply.end_map(mark, served),
    }
    Ok(())
}

/// Answers what a consumer is given of one stream; false if that is nothing new.
fn serve(
    space: &mut dyn WriteSpace,
    key: &[u8],
    asked: GroupAsked,
    words: &ReadWords<'_>,
    (group, consumer): (&[u8], &[u8]),
    reply: &mut Reply,
) -> Result<bool, Error> {
    // A stream that is named twice has changed meanwhile.
    let Some(stream) = Stream::load(space, key)? else { return Ok(false) };
    let Some(mut change) = GroupChange::load(space, &stream, group)? else { return Ok(false) };
    let most = words.count.unwrap_or(STREAM_DELIVERED_MAX).min(STREAM_DELIVERED_MAX);
    match asked {
        GroupAsked::New => {
            let idle = match words.claim_ms {
                Some(min_idle_ms) => idle_of(space, &stream, &change.group, min_idle_ms)?,
                None => Vec::new(),
            };
            let first = next_of(space, &stream, &change.group)?;
            if idle.is_empty() && first.is_none() {
                if change.note_asking(space, &stream, consumer)?.is_some() {
                    change.save(space)?;
                }
                return Ok(false);
            }
            begin_stream(key, reply);
            let mut delivery = Delivery::begin(space, &stream, &mut change, consumer, most)?;
            let mark = reply.begin_array();
            delivery.give_idle(space, &mut change, idle, reply)?;
            if delivery.given == 0 || !delivery.is_over(reply) {
                delivery.give_new(space, &mut change, first, words, reply)?;
            }
            reply.end_array(mark, delivery.given as usize);
        }
        GroupAsked::Pending(after) => {
            begin_stream(key, reply);
            deliver_again(space, &stream, &mut change, consumer, after, most, reply)?;
        }
    }
    change.save(space)?;
    Ok(true)
}

/// The first entry that the group was not given.
fn next_of(space: &mut dyn ReadSpace, stream: &Stream<'_>, group: &Group) -> Result<Option<(Ordinal, Entry)>, Error> {
    let end = stream.meta.next;
    match stream.live_from(space, group.next.max(stream.meta.first), end)? {
        // Ids have begun anew, by XSETID.
        Some((_, entry)) if entry.id <= group.last_id => {
            let at = stream.behind_id(space, group.last_id)?;
            stream.live_from(space, at, end)
        }
        found => Ok(found),
    }
}

/// An entry that has been pending for long.
struct Idle {
    id: StreamId,
    pending: Pending,
}

/// What of a group has been pending for so long, the longest first; the first of these is there still. It looks at the first so many of
/// what is pending, by their ids: there is no order by time.
fn idle_of(
    space: &mut dyn ReadSpace,
    stream: &Stream<'_>,
    group: &Group,
    min_idle_ms: u64,
) -> Result<Vec<Idle>, Error> {
    let Some(rows) = stream.rows().filter(|_| group.pending > 0 && stream.meta.length > 0) else {
        return Ok(Vec::new());
    };
    let now_ms = space.now_ms();
    // What is pending before the first entry is of entries that are gone.
    let (mut walk, mut looks_left, mut idle) =
        (NameWalk::from_id(group.id, stream.meta.first_id), STREAM_DELIVERED_MAX, Vec::new());
    while looks_left > 0
        && let Some(found) = walk.next(space, rows)?
    {
        for (name, row) in found.into_iter().take(looks_left as usize) {
            looks_left -= 1;
            let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
            let pending = Pending::decode(&row).map_err(|why| stream.malformed(why))?;
            if now_ms.saturating_sub(pending.delivered_ms) >= min_idle_ms {
                idle.push(Idle { id, pending });
            }
        }
    }
    idle.sort_by_key(|idle| (idle.pending.delivered_ms, idle.id));
    let mut gone = 0;
    while gone < idle.len() && !stream.has_entry_at(space, idle[gone].pending.at)? {
        gone += 1;
    }
    idle.drain(..gone);
    Ok(idle)
}

/// Entries of one stream on their way to a consumer.
struct Delivery<'s, 'k> {
    stream: &'s Stream<'k>,
    consumer: ConsumerId,
    now_ms: u64,
    /// How many it may be given.
    most: u64,
    /// How many it has been given.
    given: u64,
}

impl<'s, 'k> Delivery<'s, 'k> {
    /// To a consumer, which is made if there is none.
    fn begin(
        space: &mut dyn WriteSpace,
        stream: &'s Stream<'k>,
        change: &mut GroupChange<'_>,
        consumer: &[u8],
        most: u64,
    ) -> Result<Self, Error> {
        let now_ms = space.now_ms();
        let (consumer, _) = change.take_part(space, stream, consumer)?;
        change.is_active(consumer, now_ms);
        Ok(Self { stream, consumer, now_ms, most, given: 0 })
    }

    /// Whether it is given no more. Behind the bound of an answer nothing is kept.
    fn is_over(&self, reply: &Reply) -> bool {
        self.given >= self.most || reply.exceeded()
    }

    /// Answers what has been pending for long, which is pending for this consumer from now on.
    fn give_idle(
        &mut self,
        space: &mut dyn WriteSpace,
        change: &mut GroupChange<'_>,
        idle: Vec<Idle>,
        reply: &mut Reply,
    ) -> Outcome {
        for Idle { id, pending } in idle {
            // One that is gone stays pending where it is.
            let Some(entry) = self.stream.entry_at(space, pending.at)? else { continue };
            let idle_ms = self.now_ms.saturating_sub(pending.delivered_ms);
            entry.write_pending(idle_ms, pending.deliveries, reply).map_err(|why| self.stream.malformed(why))?;
            let (consumer, deliveries) = (self.consumer, pending.next_delivery());
            let again = Pending { consumer, delivered_ms: self.now_ms, deliveries, ..pending };
            change.put(space, self.stream, id, Some(pending), again)?;
            self.given += 1;
            if self.is_over(reply) {
                break;
            }
        }
        Ok(())
    }

    /// Answers entries that the group was not given, from the first on, and notes that they were given to the consumer.
    fn give_new(
        &mut self,
        space: &mut dyn WriteSpace,
        change: &mut GroupChange<'_>,
        first: Option<(Ordinal, Entry)>,
        words: &ReadWords<'_>,
        reply: &mut Reply,
    ) -> Outcome {
        let (stream, rules) = (self.stream, space.rules());
        let mut next = first;
        while let Some((at, entry)) = next {
            let written = match words.claim_ms {
                Some(_) => entry.write_pending(0, 0, reply),
                None => entry.write(reply),
            };
            written.map_err(|why| stream.malformed(why))?;
            change.group.deliver(&stream.meta, entry.id, at, rules);
            if !words.no_ack {
                let before = match change.group.pending {
                    0 => None,
                    _ => Pending::load(space, stream, change.group.id, entry.id)?,
                };
                let pending = Pending { consumer: self.consumer, delivered_ms: self.now_ms, deliveries: 1, at };
                change.put(space, stream, entry.id, before, pending)?;
            }
            self.given += 1;
            if self.is_over(reply) {
                break;
            }
            next = stream.live_from(space, Ordinal(at.0 + 1), stream.meta.next)?;
        }
        Ok(())
    }
}

/// Answers what is pending for a consumer behind an id.
fn deliver_again(
    space: &mut dyn WriteSpace,
    stream: &Stream<'_>,
    change: &mut GroupChange<'_>,
    consumer: &[u8],
    after: StreamId,
    most: u64,
    reply: &mut Reply,
) -> Outcome {
    let now_ms = space.now_ms();
    let (consumer, _) = change.take_part(space, stream, consumer)?;
    let group = change.group.id;
    let rows = stream.rows().cloned().ok_or_else(|| stream.corrupt("small stream with a group"))?;
    let mark = reply.begin_array();
    let mut walk = NameWalk::behind(names::all_pending_of(group, consumer), names::pending_of(group, consumer, after));
    let mut count = 0;
    'all: while let Some(found) = walk.next(space, &rows)? {
        for (name, _) in found {
            let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
            let pending = Pending::load(space, stream, group, id)?;
            let pending = pending.ok_or_else(|| stream.corrupt("pending entry without its row"))?;
            match stream.entry_at(space, pending.at)? {
                Some(entry) => {
                    entry.write(reply).map_err(|why| stream.malformed(why))?;
                    let is_fourth = space.rules() >= Rules::Fourth;
                    let deliveries = if is_fourth { pending.next_delivery() } else { pending.deliveries + 1 };
                    let again = Pending { delivered_ms: now_ms, deliveries, ..pending };
                    change.put(space, stream, id, Some(pending), again)?;
                }
                None => {
                    reply.array(2);
                    write_id(id, reply);
                    reply.null_array();
                }
            }
            count += 1;
            if count == most || reply.exceeded() {
                break 'all;
            }
        }
    }
    if count > 0 {
        change.is_active(consumer, now_ms);
    }
    reply.end_array(mark, count as usize);
    Ok(())
}
