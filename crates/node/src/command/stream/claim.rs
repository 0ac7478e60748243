//! XCLAIM and XAUTOCLAIM: pending entries that go from one consumer to another.

use super::entry::{Entry, write_id};
use super::group::{GroupChange, NameWalk, Pending};
use super::groups::no_group;
use super::id::StreamId;
use super::names::{self, ConsumerId};
use super::stored::Stream;
use crate::WriteSpace;
use crate::command::args::{SYNTAX, check_release, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use resp::Reply;
use vocab::limits::STREAM_DELIVERED_MAX;

/// Pending entries that XAUTOCLAIM looks at for each that it is asked for, as in Redis.
const LOOKS: u64 = 10;
/// What XAUTOCLAIM gives if it is not told how many.
const COUNT: u64 = 100;
/// The highest count that Redis takes.
const COUNT_MAX: i64 = i64::MAX / 16;

/// How entries change hands.
struct Claim<'a> {
    consumer: &'a [u8],
    /// The consumer, once it takes part.
    taker: Option<ConsumerId>,
    /// Entries that were delivered later stay where they are, in ms.
    min_idle_ms: u64,
    delivered_ms: u64,
    /// How often they count as delivered from now on.
    deliveries: Option<u64>,
    ids_only: bool,
}

impl Claim<'_> {
    /// Whether an entry was delivered too lately to be taken.
    fn is_too_new(&self, pending: &Pending, now_ms: u64) -> bool {
        !pending.is_released() && now_ms.saturating_sub(pending.delivered_ms) < self.min_idle_ms
    }

    /// Gives an entry to the consumer, and answers it.
    fn take(
        &mut self,
        space: &mut dyn WriteSpace,
        stream: &Stream<'_>,
        change: &mut GroupChange<'_>,
        (entry, before, base): (&Entry, Option<Pending>, Pending),
        reply: &mut Reply,
    ) -> Outcome {
        let consumer = match self.taker {
            Some(consumer) => consumer,
            None => *self.taker.insert(change.take_part(space, stream, self.consumer)?.0),
        };
        change.is_active(consumer, space.now_ms());
        let counted = if self.ids_only { base.deliveries } else { base.next_delivery() };
        let deliveries = self.deliveries.unwrap_or(counted);
        let pending = Pending { consumer, delivered_ms: self.delivered_ms, deliveries, ..base };
        change.put(space, stream, entry.id, before, pending)?;
        if self.ids_only {
            write_id(entry.id, reply);
            return Ok(());
        }
        entry.write(reply).map_err(|why| stream.malformed(why))
    }
}

/// The stream and the group that a command is about.
pub(super) fn found<'a>(call: &mut WriteCall<'a>) -> Result<(Stream<'a>, GroupChange<'a>), Error> {
    let stream = Stream::load(call.space, call.args[1])?;
    let change = match &stream {
        Some(stream) => GroupChange::load(call.space, stream, call.args[2])?,
        None => None,
    };
    match (stream, change) {
        (Some(stream), Some(change)) => Ok((stream, change)),
        _ => Err(no_group(call.args[1], call.args[2], "")),
    }
}

/// The words of XCLAIM behind its shortest idle time.
#[derive(Default)]
struct ClaimWords {
    ids: Vec<StreamId>,
    last_id: StreamId,
    delivered_ms: Option<i64>,
    deliveries: Option<u64>,
    forces: bool,
    ids_only: bool,
}

impl ClaimWords {
    fn parse(words: &[&[u8]], now_ms: u64) -> Result<Self, Error> {
        let ids = words.iter().map_while(|word| StreamId::parse(word, 0).ok()).collect();
        let mut parsed = Self { ids, ..Self::default() };
        let number = |text: &[u8], error: &'static str| resp::parse_integer(text).ok_or_else(|| Error::from(error));
        let mut options = words[parsed.ids.len()..].iter();
        while let Some(word) = options.next() {
            let has_more = !options.as_slice().is_empty();
            let mut argument = || options.next().copied().unwrap_or_default();
            if is_word(word, "FORCE") {
                parsed.forces = true;
            } else if is_word(word, "JUSTID") {
                parsed.ids_only = true;
            } else if is_word(word, "IDLE") && has_more {
                let idle = number(argument(), "ERR Invalid IDLE option argument for XCLAIM")?;
                parsed.delivered_ms = Some((now_ms as i64).wrapping_sub(idle));
            } else if is_word(word, "TIME") && has_more {
                parsed.delivered_ms = Some(number(argument(), "ERR Invalid TIME option argument for XCLAIM")?);
            } else if is_word(word, "RETRYCOUNT") && has_more {
                let count = number(argument(), "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                parsed.deliveries = u64::try_from(count).ok();
            } else if is_word(word, "LASTID") && has_more {
                parsed.last_id = StreamId::parse(argument(), 0)?;
            } else {
                let text = format!("ERR Unrecognized XCLAIM option '{}'", String::from_utf8_lossy(word));
                return Err(Error::Reply(text.into()));
            }
        }
        Ok(parsed)
    }
}

pub(super) fn xclaim(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let (stream, mut change) = found(call)?;
    let min_idle = resp::parse_integer(call.args[4]).ok_or("ERR Invalid min-idle-time argument for XCLAIM")?;
    let now_ms = call.space.now_ms();
    let words = ClaimWords::parse(&call.args[5..], now_ms)?;
    super::group::check_name(call.args[3])?;
    if words.last_id > change.group.last_id {
        change.group.last_id = words.last_id;
        change.group.next = stream.behind_id(call.space, words.last_id)?;
    }
    let delivered_ms = words.delivered_ms.and_then(|at| u64::try_from(at).ok()).filter(|at| *at <= now_ms);
    let mut claim = Claim {
        consumer: call.args[3],
        taker: None,
        min_idle_ms: u64::try_from(min_idle).unwrap_or(0),
        delivered_ms: delivered_ms.unwrap_or(now_ms),
        deliveries: words.deliveries,
        ids_only: words.ids_only,
    };
    claim.taker = change.note_asking(call.space, &stream, claim.consumer)?;
    let mark = call.reply.begin_array();
    let mut count = 0;
    for id in words.ids {
        let before = Pending::load(call.space, &stream, change.group.id, id)?;
        let found = match before {
            Some(pending) => stream.entry_at(call.space, pending.at)?.map(|entry| (pending.at, entry)),
            None if words.forces => stream.get(call.space, id)?,
            None => continue,
        };
        let Some((at, entry)) = found else {
            if let Some(pending) = before {
                change.remove(call.space, &stream, id, pending)?;
            }
            continue;
        };
        if before.is_some_and(|pending| claim.is_too_new(&pending, now_ms)) {
            continue;
        }
        let made = Pending { consumer: ConsumerId::default(), delivered_ms: now_ms, deliveries: 1, at };
        let base = before.unwrap_or(made);
        claim.take(call.space, &stream, &mut change, (&entry, before, base), call.reply)?;
        count += 1;
    }
    call.reply.end_array(mark, count);
    change.save(call.space)
}

/// The words of XAUTOCLAIM behind its first id.
fn autoclaim_words(words: &[&[u8]]) -> Result<(u64, bool), Error> {
    let (mut count, mut ids_only) = (COUNT, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if is_word(word, "COUNT")
            && let Some(n) = words.next()
        {
            let n = resp::parse_integer(n).filter(|n| (1..=COUNT_MAX).contains(n));
            count = n.ok_or("ERR COUNT must be > 0")?.unsigned_abs();
        } else if is_word(word, "JUSTID") {
            ids_only = true;
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok((count.min(STREAM_DELIVERED_MAX), ids_only))
}

pub(super) fn xautoclaim(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let min_idle = resp::parse_integer(call.args[4]).ok_or("ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = StreamId::parse_start(call.args[5])?;
    let (count, ids_only) = autoclaim_words(&call.args[6..])?;
    let (stream, mut change) = found(call)?;
    super::group::check_name(call.args[3])?;
    let now_ms = call.space.now_ms();
    let mut claim = Claim {
        consumer: call.args[3],
        taker: None,
        min_idle_ms: u64::try_from(min_idle).unwrap_or(0),
        delivered_ms: now_ms,
        deliveries: None,
        ids_only,
    };
    let rows = stream.rows().cloned().ok_or_else(|| stream.corrupt("small stream with a group"))?;
    let mut walk = NameWalk::from_id(change.group.id, start);
    let (mut looks_left, mut left, mut cursor) = (count * LOOKS, count, StreamId::ZERO);
    let (mut taken, mut gone) = (0, Vec::new());
    claim.taker = change.note_asking(call.space, &stream, claim.consumer)?;
    call.reply.array(3);
    // The cursor, which is known last, comes first.
    let cursor_at = call.reply.buf.len();
    let mark = call.reply.begin_array();
    'all: while let Some(found) = walk.next(call.space, &rows)? {
        for (name, row) in found {
            let id = names::id_of(&name).ok_or_else(|| stream.corrupt("pending entry without an id"))?;
            if looks_left == 0 || left == 0 || call.reply.exceeded() {
                cursor = id;
                break 'all;
            }
            looks_left -= 1;
            let pending = Pending::decode(&row).map_err(|why| stream.malformed(why))?;
            let Some(entry) = stream.entry_at(call.space, pending.at)? else {
                change.remove(call.space, &stream, id, pending)?;
                gone.push(id);
                left -= 1;
                continue;
            };
            if claim.is_too_new(&pending, now_ms) {
                continue;
            }
            claim.take(call.space, &stream, &mut change, (&entry, Some(pending), pending), call.reply)?;
            taken += 1;
            left -= 1;
        }
    }
    call.reply.end_array(mark, taken);
    let mut first = Reply::new(call.reply.proto);
    write_id(cursor, &mut first);
    call.reply.spend(first.spent());
    call.reply.buf.splice(cursor_at..cursor_at, first.buf);
    call.reply.array(gone.len());
    gone.into_iter().for_each(|id| write_id(id, call.reply));
    change.save(call.space)
}
