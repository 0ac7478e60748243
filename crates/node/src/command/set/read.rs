//! SCARD, SISMEMBER, SMISMEMBER, SINTER, SINTERCARD, SUNION and SDIFF.

use super::combination::{Combination, Operation};
use crate::Type;
use crate::command::args::{SYNTAX, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::gathered::GATHERED_OVERHEAD_BYTES;
use crate::command::hash::Stored;

pub(super) fn scard(call: &mut ReadCall<'_>) -> Outcome {
    let count = match Stored::load_of(Type::Set, call.space, call.args[1])? {
        Some(set) => set.count()?,
        None => 0,
    };
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn sismember(call: &mut ReadCall<'_>) -> Outcome {
    let found = match Stored::load_of(Type::Set, call.space, call.args[1])? {
        Some(set) => set.get(call.space, call.args[2])?.is_some(),
        None => false,
    };
    call.reply.int(i64::from(found));
    Ok(())
}

pub(super) fn smismember(call: &mut ReadCall<'_>) -> Outcome {
    let set = Stored::load_of(Type::Set, call.space, call.args[1])?;
    let members = &call.args[2..];
    call.reply.array(members.len());
    for member in members {
        let found = match &set {
            Some(set) => set.get(call.space, member)?.is_some(),
            None => false,
        };
        call.reply.int(i64::from(found));
    }
    Ok(())
}

pub(super) fn sinter(call: &mut ReadCall<'_>) -> Outcome {
    combine(call, Operation::Intersection)
}

pub(super) fn sunion(call: &mut ReadCall<'_>) -> Outcome {
    combine(call, Operation::Union)
}

pub(super) fn sdiff(call: &mut ReadCall<'_>) -> Outcome {
    combine(call, Operation::Difference)
}

fn combine(call: &mut ReadCall<'_>, operation: Operation) -> Outcome {
    let mut combination = Combination::begin(operation, call.space, &call.args[1..])?;
    let (mut members, mut bytes) = (Vec::new(), 0);
    // More than the reply may hold is not gathered: it is refused all the same.
    while bytes <= call.reply.room()
        && let Some(member) = combination.next(call.space)?
    {
        bytes += member.len() + GATHERED_OVERHEAD_BYTES;
        members.push(member);
    }
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}

pub(super) fn sintercard(call: &mut ReadCall<'_>) -> Outcome {
    let (keys, limit) = counted_keys(call.args)?;
    let mut combination = Combination::begin(Operation::Intersection, call.space, keys)?;
    let mut count = 0;
    while (limit == 0 || count < limit) && combination.next(call.space)?.is_some() {
        count += 1;
    }
    call.reply.int(count as i64);
    Ok(())
}

/// The keys of `SINTERCARD numkeys key [key ...] [LIMIT limit]` and the limit; 0: none.
fn counted_keys<'r, 'a>(args: &'r [&'a [u8]]) -> Result<(&'r [&'a [u8]], u64), Error> {
    let count = int(args[1]).ok().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let count = count.ok_or("ERR numkeys should be greater than 0")?;
    let (keys, options) =
        args[2..].split_at_checked(count).ok_or("ERR Number of keys can't be greater than number of args")?;
    let mut limit = 0;
    for option in options.chunks(2) {
        match option {
            [word, n] if is_word(word, "LIMIT") => {
                limit = int(n).ok().and_then(|n| u64::try_from(n).ok()).ok_or("ERR LIMIT can't be negative")?;
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok((keys, limit))
}
