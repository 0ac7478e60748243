//! ZADD, ZINCRBY and ZREM, and how members are added and removed.
//!
//! Everything is read and checked before the first write, so that an error leaves nothing behind.

use super::build::{Kept, MEMBER_TOO_LONG, put_count, put_kept, put_score, put_whole};
use super::leaves::Visit;
use super::scored::{Scored, parse};
use super::stored::{Form, Large, SortedSet};
use crate::command::args::{SYNTAX, check_release, is_word};
use crate::command::call::{Error, Outcome, WriteCall};
use crate::command::hash::name_of;
use crate::keyspace_events::Event;
use crate::{Record, WriteSpace};
use std::cmp::Ordering;
use std::collections::HashMap;
use vocab::limits;

const TOO_MANY: &str = "ERR too many members to be removed at a time (262144 at most, or all but 16384)";
const _: () = assert!(limits::REMOVED_MEMBERS_MAX == 262_144 && limits::STORE_WHOLE_ELEMENTS_MAX == 16_384);
const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// Which members ZADD writes, and what it answers.
#[derive(Clone, Copy, Default)]
pub(in crate::command) struct Conditions {
    /// Members that are there stay as they are.
    pub(in crate::command) absent: bool,
    /// No member is added.
    pub(in crate::command) present: bool,
    /// A score only rises.
    greater: bool,
    /// A score only falls.
    less: bool,
    /// Members that change count, too.
    pub(in crate::command) changed: bool,
    /// The score is added to the one that is there.
    adds: bool,
}

/// What becomes of a member.
#[derive(Clone, Copy, PartialEq)]
enum Decision {
    /// The conditions do not hold.
    Refused,
    /// It has that score already.
    Same(f64),
    /// It gets that score.
    Score(f64),
}

impl Conditions {
    /// ZINCRBY's.
    const INCREMENT: Self =
        Self { absent: false, present: false, greater: false, less: false, changed: false, adds: true };

    /// Takes the options from the front of ZADD's arguments.
    fn parse<'r, 'a>(mut args: &'r [&'a [u8]]) -> (Self, &'r [&'a [u8]]) {
        let mut conditions = Self::default();
        while let Some((word, rest)) = args.split_first() {
            let flag = match () {
                () if is_word(word, "NX") => &mut conditions.absent,
                () if is_word(word, "XX") => &mut conditions.present,
                () if is_word(word, "GT") => &mut conditions.greater,
                () if is_word(word, "LT") => &mut conditions.less,
                () if is_word(word, "CH") => &mut conditions.changed,
                () if is_word(word, "INCR") => &mut conditions.adds,
                () => break,
            };
            *flag = true;
            args = rest;
        }
        (conditions, args)
    }

    /// Checks that these conditions can hold together, for so many members.
    fn check(&self, members: usize) -> Outcome {
        if self.absent && self.present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if [self.absent, self.greater, self.less].into_iter().filter(|given| *given).count() > 1 {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if self.adds && members > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// What becomes of a member whose score is `current`, if it is there.
    fn decide(&self, current: Option<f64>, given: f64) -> Result<Decision, Error> {
        let Some(current) = current else {
            return Ok(if self.present { Decision::Refused } else { Decision::Score(given) });
        };
        if self.absent {
            return Ok(Decision::Refused);
        }
        let score = if self.adds { current + given } else { given };
        if score.is_nan() {
            return Err(NOT_A_NUMBER.into());
        }
        if (self.less && score >= current) || (self.greater && score <= current) {
            return Ok(Decision::Refused);
        }
        Ok(if score == current { Decision::Same(score) } else { Decision::Score(score) })
    }
}

/// What adding members came to.
#[derive(Clone, Copy, Default)]
pub(in crate::command) struct Added {
    /// How many are new.
    added: u64,
    /// How many got another score.
    updated: u64,
    /// The score of the last member that the conditions held for.
    score: Option<f64>,
}

impl Added {
    fn note(&mut self, was_there: bool, decision: Decision) {
        match decision {
            Decision::Refused => {}
            Decision::Same(score) => self.score = Some(score),
            Decision::Score(score) => {
                self.score = Some(score);
                *(if was_there { &mut self.updated } else { &mut self.added }) += 1;
            }
        }
    }

    /// How many ZADD answers.
    pub(in crate::command) fn count(&self, conditions: &Conditions) -> i64 {
        (if conditions.changed { self.added + self.updated } else { self.added }) as i64
    }
}

pub(super) fn zadd(call: &mut WriteCall<'_>) -> Outcome {
    let (conditions, pairs) = Conditions::parse(&call.args[2..]);
    add_pairs(call, conditions, pairs)
}

pub(super) fn zincrby(call: &mut WriteCall<'_>) -> Outcome {
    add_pairs(call, Conditions::INCREMENT, &call.args[2..])
}

fn add_pairs(call: &mut WriteCall<'_>, conditions: Conditions, pairs: &[&[u8]]) -> Outcome {
    let (pairs, odd) = pairs.as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return Err(SYNTAX.into());
    }
    conditions.check(pairs.len())?;
    let mut members = Vec::with_capacity(pairs.len());
    for [score, member] in pairs {
        members.push(Scored { member, score: parse(score)? });
    }
    let done = add(call.space, call.args[1], conditions, &members)?;
    match done.score {
        _ if !conditions.adds => call.reply.int(done.count(&conditions)),
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

/// Adds members to the sorted set at `key`, each as the conditions have it, one after the other.
pub(in crate::command) fn add(
    space: &mut dyn WriteSpace,
    key: &[u8],
    conditions: Conditions,
    members: &[Scored<'_>],
) -> Result<Added, Error> {
    let set = SortedSet::load(space, key)?;
    check_release(space)?;
    if members.iter().any(|scored| scored.member.len() > limits::FIELD_BYTES_MAX) {
        return Err(MEMBER_TOO_LONG.into());
    }
    let done = match set {
        None => add_small(space, key, None, Vec::new(), conditions, members)?,
        Some(SortedSet { expire_at_ms, form: Form::Large(large), .. }) => {
            add_large(space, key, expire_at_ms, &large, conditions, members)?
        }
        Some(SortedSet { expire_at_ms, form: Form::Small(record), key }) => {
            let set = SortedSet { key, expire_at_ms, form: Form::Small(record.clone()) };
            add_small(space, key, expire_at_ms, set.packed(&record)?, conditions, members)?
        }
    };
    if done.added + done.updated > 0 {
        space.notify(if conditions.adds { Event::ZINCR } else { Event::ZADD }, key);
    }
    Ok(done)
}

/// Makes the sorted set anew of the members it had and those that are added.
fn add_small<'a>(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    mut all: Vec<Scored<'a>>,
    conditions: Conditions,
    members: &[Scored<'a>],
) -> Result<Added, Error> {
    let mut done = Added::default();
    if let [scored] = members {
        let at = all.iter().position(|other| other.member == scored.member);
        let decision = conditions.decide(at.map(|at| all[at].score), scored.score)?;
        done.note(at.is_some(), decision);
        if let Decision::Score(score) = decision {
            if let Some(at) = at {
                all.remove(at);
            }
            let new = Scored { score, ..*scored };
            let at = all.partition_point(|other| other.order(&new) == Ordering::Less);
            all.insert(at, new);
        }
    } else {
        let mut places: HashMap<&[u8], usize> = all.iter().enumerate().map(|(at, old)| (old.member, at)).collect();
        for scored in members {
            let at = places.get(scored.member).copied();
            let decision = conditions.decide(at.map(|at| all[at].score), scored.score)?;
            done.note(at.is_some(), decision);
            match (decision, at) {
                (Decision::Score(score), Some(at)) => all[at].score = score,
                (Decision::Score(score), None) => {
                    places.insert(scored.member, all.len());
                    all.push(Scored { score, ..*scored });
                }
                _ => {}
            }
        }
        all.sort_unstable_by(Scored::order);
    }
    if done.added + done.updated > 0 {
        put_whole(space, key, expire_at_ms, &all)?;
    }
    Ok(done)
}

fn add_large(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    large: &Large,
    conditions: Conditions,
    members: &[Scored<'_>],
) -> Result<Added, Error> {
    let mut done = Added::default();
    for scored in members {
        let current = large.score(space, scored.member)?;
        let decision = conditions.decide(current, scored.score)?;
        done.note(current.is_some(), decision);
        let Decision::Score(score) = decision else { continue };
        let new = Scored { score, ..*scored };
        match current {
            Some(current) => large.leaves.change(space, scored.member, current, score)?,
            None => large.leaves.insert(space, new)?,
        }
        put_score(space, large, &new)?;
    }
    if done.added + done.updated > 0 {
        put_count(space, key, expire_at_ms, &large.rows.with_count(large.rows.count + done.added))?;
    }
    Ok(done)
}

pub(super) fn zrem(call: &mut WriteCall<'_>) -> Outcome {
    let removed = match SortedSet::load(call.space, call.args[1])? {
        Some(set) => remove(call.space, &set, &call.args[2..])?,
        None => 0,
    };
    call.reply.int(removed as i64);
    Ok(())
}

/// Removes members and, with the last of them, the key. Answers how many there were.
fn remove(space: &mut dyn WriteSpace, set: &SortedSet<'_>, members: &[&[u8]]) -> Result<u64, Error> {
    let removed = match &set.form {
        Form::Small(record) => remove_small(space, set, record, members)?,
        Form::Large(large) => remove_large(space, set, large, members)?,
    };
    if removed > 0 {
        space.notify_removal(Event::ZREM, set.key, removed == set.count()?);
    }
    Ok(removed)
}

fn remove_small(
    space: &mut dyn WriteSpace,
    set: &SortedSet<'_>,
    record: &Record,
    members: &[&[u8]],
) -> Result<u64, Error> {
    let mut all = set.packed(record)?;
    let before = all.len();
    if let [member] = members {
        all.retain(|scored| scored.member != *member);
    } else {
        let mut ordered = members.to_vec();
        ordered.sort_unstable();
        all.retain(|scored| ordered.binary_search(&scored.member).is_err());
    }
    let removed = (before - all.len()) as u64;
    if removed > 0 {
        put_whole(space, set.key, set.expire_at_ms, &all)?;
    }
    Ok(removed)
}

fn remove_large(
    space: &mut dyn WriteSpace,
    set: &SortedSet<'_>,
    large: &Large,
    members: &[&[u8]],
) -> Result<u64, Error> {
    let mut ordered = members.to_vec();
    ordered.sort_unstable();
    ordered.dedup();
    let mut found = Vec::new();
    for member in ordered {
        if let Some(score) = large.score(space, member)? {
            found.push(Scored { member, score });
        }
    }
    let removed = found.len() as u64;
    if removed == large.rows.count {
        // The rows go with the record.
        space.delete(set.key)?;
    } else if removed > 0 {
        for scored in found {
            large.leaves.remove(space, scored)?;
            space.element_delete(&large.scores, &name_of(scored.member))?;
        }
        put_count(space, set.key, set.expire_at_ms, &large.rows.with_count(large.rows.count - removed))?;
    }
    Ok(removed)
}

/// Removes `count` members from number `from` on and, with the last of them, the key. Where fewer are left than are removed,
/// those are written anew: the others go with their rows.
pub(super) fn remove_range(space: &mut dyn WriteSpace, set: &SortedSet<'_>, from: u64, count: u64) -> Outcome {
    let total = set.count()?;
    if count == 0 {
        return Ok(());
    }
    if count >= total {
        space.delete(set.key)?;
        return Ok(());
    }
    space.visit_many(count)?;
    match &set.form {
        Form::Small(record) => {
            let mut all = set.packed(record)?;
            all.drain(from as usize..(from + count) as usize);
            put_whole(space, set.key, set.expire_at_ms, &all)
        }
        Form::Large(large) => {
            let left = total - count;
            if count > left
                && let Some(kept) = keep_rest(space, large, from, count)?
            {
                return put_kept(space, set.key, set.expire_at_ms, &kept);
            }
            if count > limits::REMOVED_MEMBERS_MAX {
                return Err(TOO_MANY.into());
            }
            remove_few(space, set, large, (from, count), &mut |_| {})
        }
    }
}

/// Removes `count` members from number `from` on, each shown; some are left.
fn remove_few(
    space: &mut dyn WriteSpace,
    set: &SortedSet<'_>,
    large: &Large,
    (from, count): (u64, u64),
    visit: Visit<'_>,
) -> Outcome {
    let mut names = Vec::with_capacity(count as usize);
    large.leaves.remove_range(space, from, count, &mut |scored| {
        names.push(name_of(scored.member));
        visit(scored);
    })?;
    for name in names {
        space.element_delete(&large.scores, &name)?;
    }
    put_count(space, set.key, set.expire_at_ms, &large.rows.with_count(large.rows.count - count))
}

/// Removes `count` members from number `from` on, at most `limits::POPPED_MEMBERS_MAX`, and answers them in rising order.
pub(super) fn take_range(
    space: &mut dyn WriteSpace,
    set: &SortedSet<'_>,
    from: u64,
    count: u64,
) -> Result<Vec<Kept>, Error> {
    space.visit_many(count)?;
    let mut taken = Vec::with_capacity(count as usize);
    match &set.form {
        Form::Large(large) if count > 0 && count <= set.count()? / 2 => {
            remove_few(space, set, large, (from, count), &mut |scored| taken.push(Kept::from(scored)))?;
        }
        _ => {
            set.visit(space, from, count, false, &mut |scored| taken.push(Kept::from(scored)))?;
            remove_range(space, set, from, count)?;
        }
    }
    Ok(taken)
}

/// All members but the `count` from number `from` on; `None` if they are too many to be written anew.
fn keep_rest(space: &mut dyn WriteSpace, large: &Large, from: u64, count: u64) -> Result<Option<Vec<Kept>>, Error> {
    let total = large.rows.count;
    if total - count > limits::STORE_WHOLE_ELEMENTS_MAX {
        return Ok(None);
    }
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for (first, count) in [(0, from), (from + count, total - from - count)] {
        large.leaves.visit(space, first, count, false, &mut |scored| {
            bytes += scored.member.len();
            // Too many bytes are not gathered: they are counted.
            if bytes <= limits::GATHERED_BYTES_MAX {
                kept.push(Kept::from(scored));
            }
        })?;
    }
    Ok((bytes <= limits::GATHERED_BYTES_MAX).then_some(kept))
}
