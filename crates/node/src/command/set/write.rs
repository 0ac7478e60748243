//! SADD, SREM, SPOP and SMOVE.
//!
//! Everything is read and checked before the first write, so that an error leaves nothing behind.

use crate::command::args::{NOT_POSITIVE, SYNTAX, check_release, natural};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::command::hash::{self, Form, Stored};
use crate::keyspace_events::Event;
use crate::{Type, WriteSpace};
use vocab::limits;

pub(super) fn sadd(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let set = Stored::load_of(Type::Set, call.space, key)?;
    let added = add(call.space, key, set.as_ref(), &call.args[2..])?;
    call.reply.int(added as i64);
    Ok(())
}

/// Adds members to the set at `key`, which `set` is; answers how many are new.
fn add(space: &mut dyn WriteSpace, key: &[u8], set: Option<&Stored<'_>>, members: &[&[u8]]) -> Result<usize, Error> {
    check_release(space)?;
    // A set that has them all is not written again.
    if let (Some(set), [member]) = (set, members)
        && set.get(space, member)?.is_some()
    {
        return Ok(0);
    }
    let pairs: Vec<&[u8]> = members.iter().flat_map(|member| [*member, &b""[..]]).collect();
    let added = hash::put(space, Type::Set, key, set, &pairs)?;
    if added > 0 {
        space.notify(Event::SADD, key);
    }
    Ok(added)
}

pub(super) fn srem(call: &mut WriteCall<'_>) -> Outcome {
    let removed = match Stored::load_of(Type::Set, call.space, call.args[1])? {
        Some(set) => hash::remove_told(call.space, Event::SREM, &set, &call.args[2..])?,
        None => 0,
    };
    call.reply.int(removed as i64);
    Ok(())
}

pub(super) fn spop(call: &mut WriteCall<'_>) -> Outcome {
    let count = match call.args[2..] {
        [] => return pop_one(call),
        [count] => natural(count, NOT_POSITIVE)?,
        _ => return Err(SYNTAX.into()),
    };
    let set = Stored::load_of(Type::Set, call.space, call.args[1])?;
    let Some(set) = set.filter(|_| count > 0) else {
        call.reply.set(0);
        return Ok(());
    };
    let size = set.count()?;
    let count = count.min(size);
    // Drawing most of a large set reads all of it.
    if count > limits::POPPED_MEMBERS_MAX {
        return Err("ERR too many members at a time (262144 at most)".into());
    }
    let mut drawn: Vec<Vec<u8>> = Vec::new();
    hash::distinct(call.space, &set, count, &mut |member, _| drawn.push(member.to_vec()))?;
    call.reply.set(drawn.len());
    drawn.iter().for_each(|member| call.reply.bulk(member));
    if count == size {
        call.space.delete(set.key)?;
        call.space.notify_removal(Event::SPOP, set.key, true);
    } else {
        let members: Vec<&[u8]> = drawn.iter().map(|member| &member[..]).collect();
        hash::remove_told(call.space, Event::SPOP, &set, &members)?;
    }
    Ok(())
}

const _: () = assert!(limits::POPPED_MEMBERS_MAX == 262_144, "SPOP's error says how many");

fn pop_one(call: &mut WriteCall<'_>) -> Outcome {
    let Some(set) = Stored::load_of(Type::Set, call.space, call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    if let Form::Large(rows) = &set.form
        && let Some(name) = call.space.draw_element(rows)?
    {
        call.reply.bulk(set.field_of(&name)?);
        return hash::remove_drawn(call.space, Event::SPOP, &set, rows, &name);
    }
    let member = hash::one_of(call.space, &set)?;
    call.reply.bulk(&member);
    hash::remove_told(call.space, Event::SPOP, &set, &[&member])?;
    Ok(())
}

pub(super) fn smove(call: &mut WriteCall<'_>) -> Outcome {
    let (from, to, member) = (call.args[1], call.args[2], call.args[3]);
    let Some(source) = Stored::load_of(Type::Set, call.space, from)? else {
        call.reply.int(0);
        return Ok(());
    };
    let target = Stored::load_of(Type::Set, call.space, to)?;
    let moved = source.get(call.space, member)?.is_some();
    if moved && from != to {
        check_release(call.space)?;
        hash::remove_told(call.space, Event::SREM, &source, &[member])?;
        add(call.space, to, target.as_ref(), &[member])?;
    }
    call.reply.int(i64::from(moved));
    Ok(())
}
