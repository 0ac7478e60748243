//! KV.STAGE: a large collection that is made in slices, each an entry of its own, and out of sight until it is whole. Not for
//! clients: it is not in the command table. The node that copies a collection sends these to the shard of its key.
//!
//! | command | reply |
//! |-|-|
//! | `KV.STAGE BEGIN key` | `[prefix, until]`: where its rows go, and by when it must be whole, in ms since the epoch |
//! | `KV.STAGE ROWS key prefix until name value [name value …]` | OK |
//! | `KV.STAGE MEMBERS key prefix until score member [score member …]` | OK; of a sorted set, each score as it is stored |
//! | `KV.STAGE END key prefix until count expiry ABSENT\|ANY\|STORE [type [tail [event]]]` | 1; 0 if the key is there and should not be: then all is dropped. With STORE the count; nothing takes the place of what is there as well |
//! | `KV.STAGE END key prefix until count expiry VERSION type tail version answer [event]` | the answer, if the key has that version; TRYAGAIN otherwise |
//! | `KV.STAGE DROP key prefix until` | OK |
//! | `KV.STAGE EDIT key version REMOVE index [index …]` | how many; TRYAGAIN if the list at the key has another version |
//! | `KV.STAGE EDIT key version INSERT index element` | how many elements there are; the same |
//!
//! What is not whole in time is dropped by background collection, so that a sender may die at any moment.

use super::programs;
use crate::command::args::{SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, WriteCall, WriteHandler};
use crate::command::database::clear;
use crate::command::list;
use crate::command::zset::{self, Scored};
use crate::format::internal_commands::{CLEAR, PROGRAM, STAGE};
use crate::format::keys;
use crate::format::score::decode;
use crate::keyspace_events::Event;
use crate::{Record, Rows, Type};
use vocab::limits::STAGED_MS;

const CHANGED: &str = "TRYAGAIN what is at the key has changed meanwhile: nothing was written";
const TOO_LATE: &str = "TRYAGAIN the collection was not whole in time: nothing was written";

/// The handler of a command of entries that no client sends.
pub(crate) fn entry_handler(args: &[&[u8]]) -> Option<WriteHandler> {
    let name = *args.first()?;
    if args.len() > 2 && name.eq_ignore_ascii_case(STAGE) {
        return Some(stage as WriteHandler);
    }
    if args.len() <= 2 && name == CLEAR {
        return Some(clear as WriteHandler);
    }
    (args.len() > 2 && name == PROGRAM).then_some(programs::program as WriteHandler)
}

fn stage(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    match call.args[1..] {
        [word, key] if is_word(word, "BEGIN") => begin(call, key),
        [word, _, prefix, until, ref pairs @ ..] if is_word(word, "ROWS") => {
            let rows = staged(call, prefix, until)?;
            let (pairs, odd) = pairs.as_chunks::<2>();
            if !odd.is_empty() {
                return Err(SYNTAX.into());
            }
            for [name, value] in pairs {
                call.space.element_put(&rows, name, value)?;
            }
            call.reply.ok();
            Ok(())
        }
        [word, _, prefix, until, ref pairs @ ..] if is_word(word, "MEMBERS") => members(call, prefix, until, pairs),
        [word, key, prefix, until, count, expiry, how, ref of @ ..] if is_word(word, "END") && of.len() < 6 => {
            let rows = staged(call, prefix, until)?.with_count(number(count)?);
            let ty = of.first().map_or(Some(Type::Hash), |name| Type::of_name(name)).ok_or(SYNTAX)?;
            let tail = of.get(1).copied().unwrap_or_default();
            let record = Record::large_with_tail(ty, 0, expiry_of(number(expiry)?), &rows, tail);
            let condition = Condition::parse(how, of)?;
            let event = event_of(&condition, of);
            end(call, key, record, number(until)?, &condition, event)
        }
        [word, key, version, ref words @ ..] if is_word(word, "EDIT") => list::edit(call, key, number(version)?, words),
        [word, _, prefix, until] if is_word(word, "DROP") => {
            let rows = staged(call, prefix, until)?;
            call.space.unstage(&rows, number(until)?)?;
            call.space.drop_rows(&rows)?;
            call.reply.ok();
            Ok(())
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Puts members into a sorted set that is being made.
fn members(call: &mut WriteCall<'_>, prefix: &[u8], until: &[u8], pairs: &[&[u8]]) -> Outcome {
    let rows = staged(call, prefix, until)?;
    let (pairs, odd) = pairs.as_chunks::<2>();
    if !odd.is_empty() || pairs.iter().any(|[score, _]| decode(score).is_none()) {
        return Err(SYNTAX.into());
    }
    for [score, member] in pairs {
        let score = decode(score).ok_or(SYNTAX)?;
        zset::stage(call.space, &rows, Scored { member, score })?;
    }
    call.reply.ok();
    Ok(())
}

fn begin(call: &mut WriteCall<'_>, key: &[u8]) -> Outcome {
    let until_ms = call.space.now_ms() + STAGED_MS;
    let rows = call.space.new_rows(key)?;
    call.space.stage(&rows, until_ms)?;
    call.reply.array(2);
    call.reply.bulk(&rows.prefix);
    call.reply.int(until_ms as i64);
    Ok(())
}

/// The events of keys that commands change in slices, as they are too large for one entry.
const NAMED: [Event; 13] = [
    Event::SINTERSTORE,
    Event::SUNIONSTORE,
    Event::SDIFFSTORE,
    Event::ZINTERSTORE,
    Event::ZUNIONSTORE,
    Event::ZDIFFSTORE,
    Event::ZRANGESTORE,
    Event::SORTSTORE,
    Event::GEOSEARCHSTORE,
    Event::GEORADIUSSTORE,
    Event::ZREMRANGEBYRANK,
    Event::ZREMRANGEBYSCORE,
    Event::ZREMRANGEBYLEX,
];

/// The event of what becomes visible. An earlier release does not name that of a result which is stored.
fn event_of(condition: &Condition, words: &[&[u8]]) -> Option<Event> {
    let named = |at: usize| NAMED.into_iter().find(|event| words.get(at) == Some(&event.name.as_bytes()));
    match condition {
        Condition::Any | Condition::Absent => Some(Event::COPY_TO),
        Condition::Version(..) => Some(named(4).unwrap_or(Event::LREM)),
        Condition::Store => named(2),
    }
}

fn expiry_of(ms: u64) -> Option<u64> {
    (ms > 0).then_some(ms)
}

/// What must hold for rows that are whole to become visible.
enum Condition {
    Any,
    Absent,
    /// Nothing may take the place of what is there as well.
    Store,
    /// The key has this version; the answer is that number then.
    Version(u64, u64),
}

impl Condition {
    fn parse(how: &[u8], what: &[&[u8]]) -> Result<Self, Error> {
        match what {
            [_, _, version, answer, ..] if is_word(how, "VERSION") => {
                Ok(Self::Version(number(version)?, number(answer)?))
            }
            _ if is_word(how, "ANY") => Ok(Self::Any),
            _ if is_word(how, "ABSENT") => Ok(Self::Absent),
            _ if is_word(how, "STORE") => Ok(Self::Store),
            _ => Err(SYNTAX.into()),
        }
    }
}

/// Puts the record of rows that are whole, or drops them.
fn end(
    call: &mut WriteCall<'_>,
    key: &[u8],
    record: Record,
    until_ms: u64,
    condition: &Condition,
    event: Option<Event>,
) -> Outcome {
    let rows = &record.view().rows(key).ok_or(SYNTAX)?;
    call.space.unstage(rows, until_ms)?;
    let (allowed, answer) = match condition {
        Condition::Any => (true, 1),
        Condition::Absent => (call.space.stored(key)?.is_none(), 1),
        Condition::Store => (true, rows.count),
        Condition::Version(version, answer) => {
            (call.space.stored(key)?.is_some_and(|there| there.view().version == *version), *answer)
        }
    };
    let is_empty = rows.count == 0;
    let removes = is_empty && matches!(condition, Condition::Store | Condition::Version(..));
    if !allowed || is_empty {
        call.space.drop_rows(rows)?;
    }
    if !allowed && matches!(condition, Condition::Version(..)) {
        call.reply.error(CHANGED);
        return Ok(());
    }
    if allowed && removes {
        if let (Condition::Version(..), Some(event)) = (condition, event) {
            call.space.notify(event, key);
        }
        call.space.delete_told(key)?;
    } else if allowed && !is_empty {
        call.space.put(key, record.stamped(call.space.version()))?;
        if matches!(condition, Condition::Any | Condition::Absent) {
            call.space.notify(Event::NEW, key);
        }
        if let Some(event) = event {
            call.space.notify(event, key);
        }
    }
    let done = allowed && (removes || !is_empty);
    call.reply.int(if done { answer as i64 } else { 0 });
    Ok(())
}

/// The rows that are being made there, if it is not too late.
fn staged(call: &mut WriteCall<'_>, prefix: &[u8], until: &[u8]) -> Result<Rows, Error> {
    if !keys::is_rows_prefix(prefix) {
        return Err(SYNTAX.into());
    }
    let rows = Rows { prefix: prefix.to_vec(), count: 0 };
    if call.space.is_staged(&rows, number(until)?)? { Ok(rows) } else { Err(TOO_LATE.into()) }
}

fn number(text: &[u8]) -> Result<u64, Error> {
    u64::try_from(int(text)?).map_err(|_| SYNTAX.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::call::Call;
    use crate::command::testspace::TestSpace;
    use crate::{CollectionCopy, Kind, ReadSpace, StagedAt, WriteSpace};
    use resp::Reply;

    fn run(space: &mut TestSpace, args: &[&[u8]]) -> Result<Vec<u8>, String> {
        space.version += 1;
        let mut reply = Reply::default();
        match stage(&mut Call { args, space, reply: &mut reply }) {
            Ok(()) => Ok(reply.buf),
            Err(Error::Reply(text)) => Err(text.into_owned()),
            Err(Error::Fault(fault)) => panic!("{fault:?}"),
        }
    }

    #[test]
    fn a_collection_appears_when_it_is_whole_and_only_in_time() {
        let mut space = TestSpace::new();
        let first = CollectionCopy::first(b"to");
        let answer = run(&mut space, &first.args()).unwrap();
        let place = StagedAt::of_answer(&answer).unwrap();
        let (prefix, until) = place.parts();
        let until = until.to_string();
        let rows = |pairs: &[&'static [u8]]| {
            let mut args: Vec<&[u8]> = vec![STAGE, b"ROWS", b"to", &prefix, until.as_bytes()];
            args.extend(pairs);
            args
        };
        assert_eq!(run(&mut space, &rows(&[b"\0\0\0\0\0\x01a", b"1"])).unwrap(), b"+OK\r\n");
        assert!(run(&mut space, &rows(&[b"odd"])).is_err());
        assert!(space.get(b"to").unwrap().is_none());
        space.validate();
        let end = |how: &'static [u8]| [STAGE, b"END", b"to", &prefix, until.as_bytes(), b"1", b"0", how];
        space.put(b"to", Record::new(Kind::STRING, None, &[b"there"])).unwrap();
        assert_eq!(run(&mut space, &end(b"ABSENT")).unwrap(), b":0\r\n");
        space.validate();
        assert_eq!(run(&mut space, &rows(&[])).unwrap_err(), TOO_LATE);
        assert_eq!(run(&mut space, &end(b"ANY")).unwrap_err(), TOO_LATE);
        assert!(space.get(b"to").unwrap().is_some_and(|record| !record.view().kind.is_large()));
    }

    #[test]
    fn a_copy_replaces_or_is_dropped() {
        let mut space = TestSpace::new();
        for (drops, there) in [(true, false), (false, true)] {
            let place = StagedAt::of_answer(&run(&mut space, &CollectionCopy::first(b"to").args()).unwrap()).unwrap();
            let (prefix, until) = place.parts();
            let until = until.to_string();
            let rows = [STAGE, b"ROWS", b"to", &prefix, until.as_bytes(), b"\0\0\0\0\0\x01a", b"1"];
            run(&mut space, &rows).unwrap();
            if drops {
                run(&mut space, &[STAGE, b"DROP", b"to", &prefix, until.as_bytes()]).unwrap();
            } else {
                let end = [STAGE, b"END", b"to", &prefix, until.as_bytes(), b"1", b"0", b"ANY"];
                assert_eq!(run(&mut space, &end).unwrap(), b":1\r\n");
            }
            space.validate();
            assert_eq!(space.get(b"to").unwrap().is_some(), there);
        }
        assert_eq!(space.element_count(b"to"), 1);
    }
}
