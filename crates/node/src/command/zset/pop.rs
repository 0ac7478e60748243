//! ZPOPMIN, ZPOPMAX and ZMPOP.

use super::build::Kept;
use super::stored::SortedSet;
use super::write::take_range;
use crate::WriteSpace;
use crate::command::args::{NOT_POSITIVE, SYNTAX, at_least_one, is_word, natural};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::keyspace_events::Event;
use resp::{Proto, Reply};
use vocab::{client_key, limits};

const TOO_MANY: &str = "ERR too many members at a time (262144 at most)";

const _: () = assert!(limits::POPPED_MEMBERS_MAX == 262_144, "TOO_MANY says how many");

/// From which end members are popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum End {
    /// Those of the lowest scores.
    Min,
    /// Those of the highest scores.
    Max,
}

pub(in crate::command) fn zpopmin(call: &mut WriteCall<'_>) -> Outcome {
    zpop(call, End::Min)
}

pub(in crate::command) fn zpopmax(call: &mut WriteCall<'_>) -> Outcome {
    zpop(call, End::Max)
}

fn zpop(call: &mut WriteCall<'_>, end: End) -> Outcome {
    let count = match call.args[2..] {
        [] => None,
        [count] => Some(natural(count, NOT_POSITIVE)?),
        _ => return Err(SYNTAX.into()),
    };
    let set = SortedSet::load(call.space, call.args[1])?.filter(|_| count != Some(0));
    let popped = match set {
        Some(set) => pop(call.space, &set, end, count.unwrap_or(1))?,
        None => Vec::new(),
    };
    let nested = call.reply.proto == Proto::Resp3 && count.is_some();
    call.reply.array(if nested { popped.len() } else { 2 * popped.len() });
    answer(call.reply, &popped, nested);
    Ok(())
}

pub(in crate::command) fn zmpop(call: &mut WriteCall<'_>) -> Outcome {
    let asked = PopAsked::parse(&call.args[1..])?;
    for key in asked.keys {
        if let Some(set) = SortedSet::load(call.space, key)? {
            let popped = pop(call.space, &set, asked.end, asked.count)?;
            call.reply.array(2);
            call.reply.bulk(client_key(key));
            call.reply.array(popped.len());
            answer(call.reply, &popped, true);
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}

/// What ZMPOP asks for.
struct PopAsked<'r, 'a> {
    keys: &'r [&'a [u8]],
    end: End,
    count: u64,
}

impl<'r, 'a> PopAsked<'r, 'a> {
    /// `numkeys key [key ...] MIN|MAX [COUNT count]`
    fn parse(args: &'r [&'a [u8]]) -> Result<Self, Error> {
        let numkeys = at_least_one(args[0], "ERR numkeys should be greater than 0")?;
        let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
        let (keys, words) = args[1..].split_at_checked(numkeys).ok_or(SYNTAX)?;
        let (end, options) = words.split_first().ok_or(SYNTAX)?;
        let end = match () {
            () if is_word(end, "MIN") => End::Min,
            () if is_word(end, "MAX") => End::Max,
            () => return Err(SYNTAX.into()),
        };
        let count = match options {
            [] => 1,
            [word, count] if is_word(word, "COUNT") => at_least_one(count, "ERR count should be greater than 0")?,
            _ => return Err(SYNTAX.into()),
        };
        Ok(Self { keys, end, count })
    }
}

/// Removes up to `count` members from one end and answers them, the outermost first.
fn pop(space: &mut dyn WriteSpace, set: &SortedSet<'_>, end: End, count: u64) -> Result<Vec<Kept>, Error> {
    let total = set.count()?;
    let count = count.min(total);
    if count > limits::POPPED_MEMBERS_MAX {
        return Err(TOO_MANY.into());
    }
    let mut popped = take_range(space, set, if end == End::Min { 0 } else { total - count }, count)?;
    if end == End::Max {
        popped.reverse();
    }
    space.notify_removal(if end == End::Min { Event::ZPOPMIN } else { Event::ZPOPMAX }, set.key, count == total);
    Ok(popped)
}

fn answer(reply: &mut Reply, popped: &[Kept], nested: bool) {
    for Kept { member, score } in popped {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(*score);
    }
}
