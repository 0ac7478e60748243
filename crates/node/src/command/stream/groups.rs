//! XGROUP and XACK: groups, their consumers, and the entries that they acknowledge.

use super::group::{Group, GroupChange, Pending};
use super::id::StreamId;
use super::meta::Meta;
use super::stored::Stream;
use crate::Rules;
use crate::command::args::{check_release, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::keyspace_events::Event;
use vocab::client_key;

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

    /// How many entries the group counts as read: no more than there ever were, as in Redis 8.2.2.
    fn counted(&self, meta: &Meta, rules: Rules) -> Option<u64> {
        self.read.map(|read| if rules >= Rules::Fourth { read.min(meta.added) } else { read })
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
    let read = options.counted(&stream.meta, call.space.rules());
    Group::create(call.space, &mut stream, name, id, read)?;
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
    change.group.read = options.counted(&stream.meta, call.space.rules());
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
