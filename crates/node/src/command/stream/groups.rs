//! XGROUP, XACK and XREADGROUP: groups, the entries that they are given, and those that they acknowledge.

use super::entry::{Entry, write_id};
use super::group::{Group, GroupChange, NameWalk, Pending};
use super::id::StreamId;
use super::meta::Ordinal;
use super::names;
use super::read::{ReadWords, begin_stream};
use super::stored::Stream;
use crate::command::args::{check_release, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::keyspace_events::Event;
use crate::{ReadSpace, WriteSpace};
use resp::{Proto, Reply};
use vocab::client_key;
use vocab::limits::STREAM_DELIVERED_MAX;

const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.";
const READ_NEGATIVE: &str = "ERR value for ENTRIESREAD must be positive or -1";

/// The error of a request that names a group of a stream that is not there.
pub(super) fn no_group(key: &[u8], group: &[u8], rest: &str) -> Error {
    let (key, group) = (String::from_utf8_lossy(client_key(key)), String::from_utf8_lossy(group));
    Error::Reply(format!("NOGROUP No such key '{key}' or consumer group '{group}'{rest}").into())
}

/// The same of a command of XGROUP or XINFO, whose key is there.
pub(super) fn no_group_of(key: &[u8], group: &[u8]) -> Error {
    let (key, group) = (String::from_utf8_lossy(client_key(key)), String::from_utf8_lossy(group));
    Error::Reply(format!("NOGROUP No such consumer group '{group}' for key name '{key}'").into())
}

/// The error about words that a subcommand does not know.
pub(super) fn unknown_words(container: &str, subcommand: &[u8]) -> Error {
    let subcommand = String::from_utf8_lossy(&subcommand[..subcommand.len().min(128)]);
    let text = format!("ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try {container} HELP.");
    Error::Reply(text.into())
}

/// The options of XGROUP CREATE and SETID.
#[derive(Default)]
struct Options {
    makes_stream: bool,
    read: Option<u64>,
}

impl Options {
    fn parse(call: &WriteCall<'_>, of_create: bool) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = call.args[5..].iter();
        while let Some(word) = words.next() {
            if of_create && is_word(word, "MKSTREAM") {
                options.makes_stream = true;
            } else if is_word(word, "ENTRIESREAD")
                && let Some(n) = words.next()
            {
                options.read = match int(n)? {
                    -1 => None,
                    n => Some(u64::try_from(n).map_err(|_| Error::from(READ_NEGATIVE))?),
                };
            } else {
                return Err(unknown_words("XGROUP", call.args[1]));
            }
        }
        Ok(options)
    }
}

pub(super) fn create(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let options = Options::parse(call, true)?;
    let (key, name) = (call.args[2], call.args[3]);
    let stream = Stream::load(call.space, key)?;
    if stream.is_none() && !options.makes_stream {
        return Err(NO_KEY.into());
    }
    let id = match call.args[4] {
        b"$" => stream.as_ref().map_or(StreamId::ZERO, |stream| stream.meta.last_id),
        id => StreamId::parse(id, 0)?,
    };
    let is_new = stream.is_none();
    let mut stream = stream.unwrap_or_else(|| Stream::new(key));
    if Group::load(call.space, &stream, name)?.is_some() {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    Group::create(call.space, &mut stream, name, id, options.read)?;
    if is_new { stream.save(call.space) } else { stream.save_quietly(call.space) }?;
    call.space.notify(Event::XGROUP_CREATE, key);
    call.reply.ok();
    Ok(())
}

/// The stream and the group that a subcommand of XGROUP is about.
fn found<'a>(call: &mut WriteCall<'a>) -> Result<(Stream<'a>, Option<GroupChange<'a>>), Error> {
    check_release(call.space)?;
    let stream = Stream::load(call.space, call.args[2])?.ok_or(NO_KEY)?;
    let group = GroupChange::load(call.space, &stream, call.args[3])?;
    Ok((stream, group))
}

fn found_both<'a>(call: &mut WriteCall<'a>) -> Result<(Stream<'a>, GroupChange<'a>), Error> {
    let (stream, group) = found(call)?;
    let group = group.ok_or_else(|| no_group_of(call.args[2], call.args[3]))?;
    Ok((stream, group))
}

pub(super) fn set_id(call: &mut WriteCall<'_>) -> Outcome {
    let options = Options::parse(call, false)?;
    let (stream, mut change) = found_both(call)?;
    let id = match call.args[4] {
        b"$" => stream.meta.last_id,
        id => StreamId::parse_bound(id, 0)?,
    };
    change.group.last_id = id;
    change.group.next = stream.behind_id(call.space, id)?;
    change.group.read = options.read;
    change.save(call.space)?;
    call.space.notify(Event::XGROUP_SETID, stream.key);
    call.reply.ok();
    Ok(())
}

pub(super) fn destroy(call: &mut WriteCall<'_>) -> Outcome {
    let (mut stream, change) = found(call)?;
    let is_there = change.is_some();
    if let Some(change) = change {
        change.destroy(call.space)?;
        stream.meta.groups = stream.meta.groups.saturating_sub(1);
        stream.save_quietly(call.space)?;
        call.space.notify(Event::XGROUP_DESTROY, stream.key);
    }
    call.reply.int(i64::from(is_there));
    Ok(())
}

pub(super) fn create_consumer(call: &mut WriteCall<'_>) -> Outcome {
    let (stream, mut change) = found_both(call)?;
    let is_new = !change.has(call.space, &stream, call.args[4])?;
    if is_new {
        change.take_part(call.space, &stream, call.args[4])?;
        change.save(call.space)?;
    }
    call.reply.int(i64::from(is_new));
    Ok(())
}

pub(super) fn delete_consumer(call: &mut WriteCall<'_>) -> Outcome {
    let (stream, mut change) = found_both(call)?;
    let pending = change.remove_consumer(call.space, &stream, call.args[4])?;
    change.save(call.space)?;
    if pending.is_some() {
        call.space.notify(Event::XGROUP_DELCONSUMER, stream.key);
    }
    call.reply.int(pending.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn xack(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let stream = Stream::load(call.space, call.args[1])?;
    let change = match &stream {
        Some(stream) => GroupChange::load(call.space, stream, call.args[2])?,
        None => None,
    };
    let (Some(stream), Some(mut change)) = (stream, change) else {
        call.reply.int(0);
        return Ok(());
    };
    let ids: Vec<StreamId> = call.args[3..].iter().map(|id| StreamId::parse(id, 0)).collect::<Result<_, _>>()?;
    let mut acknowledged = 0;
    for id in ids {
        if let Some(pending) = Pending::load(call.space, &stream, change.group.id, id)? {
            change.remove(call.space, &stream, id, pending)?;
            acknowledged += 1;
        }
    }
    if acknowledged > 0 {
        change.save(call.space)?;
    }
    call.reply.int(acknowledged);
    Ok(())
}

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
    let words = ReadWords::parse(call.args, true)?;
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
            let Some(first) = next_of(space, &stream, &change.group)? else {
                if change.note_asking(space, &stream, consumer)?.is_some() {
                    change.save(space)?;
                }
                return Ok(false);
            };
            begin_stream(key, reply);
            deliver(space, &stream, &mut change, consumer, first, most, words.no_ack, reply)?;
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

/// Answers up to `most` entries from `first` on, and notes that they were given to a consumer.
#[expect(clippy::too_many_arguments, reason = "what is delivered to whom, and how")]
fn deliver(
    space: &mut dyn WriteSpace,
    stream: &Stream<'_>,
    change: &mut GroupChange<'_>,
    consumer: &[u8],
    first: (Ordinal, Entry),
    most: u64,
    no_ack: bool,
    reply: &mut Reply,
) -> Outcome {
    let now_ms = space.now_ms();
    let (consumer, _) = change.take_part(space, stream, consumer)?;
    change.is_active(consumer, now_ms);
    let mark = reply.begin_array();
    let (mut next, mut count) = (Some(first), 0);
    while let Some((at, entry)) = next {
        entry.write(reply).map_err(|why| stream.malformed(why))?;
        change.group.deliver(&stream.meta, entry.id, at);
        if !no_ack {
            let before = match change.group.pending {
                0 => None,
                _ => Pending::load(space, stream, change.group.id, entry.id)?,
            };
            let pending = Pending { consumer, delivered_ms: now_ms, deliveries: 1, at };
            change.put(space, stream, entry.id, before, pending)?;
        }
        count += 1;
        // Behind the bound of an answer nothing is kept.
        if count == most || reply.exceeded() {
            break;
        }
        next = stream.live_from(space, Ordinal(at.0 + 1), stream.meta.next)?;
    }
    reply.end_array(mark, count as usize);
    Ok(())
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
                    let again = Pending { delivered_ms: now_ms, deliveries: pending.deliveries + 1, ..pending };
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
