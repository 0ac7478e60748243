//! GET and SET in all their forms.

use super::args::{NOT_INTEGER, SYNTAX, WRONGTYPE, bytes_of, check_release, is_word, string_of};
use super::call::{Error, HandlerRow, Outcome, ReadCall, WriteCall, read, reads_in_steps, write};
use super::condition::Condition;
use super::steps::{Progress, ReplySteps, Rest, Step};
use crate::format::long_string::LongString;
use crate::keyspace_events::Event;
use crate::space::long_string::{self, StringView};
use crate::{Fault, Kind, Patch, ReadSpace, Record, Rules, Type, WriteSpace};
use resp::Reply;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::discriminant;
use vocab::limits::LONG_STRING_BYTES_MIN;

pub(super) const ROWS: &[HandlerRow] = &[
    read("GET", get),
    write("SET", set).answers(|args| ok_if(args.len() == 3)),
    write("SETNX", setnx),
    write("SETEX", setex).answers(ok_if_foreseen),
    write("PSETEX", psetex).answers(ok_if_foreseen),
    write("GETSET", getset),
    write("GETDEL", getdel),
    write("GETEX", getex),
    reads_in_steps("MGET", mget),
    write("MSET", mset).answers(|args| ok_if(args.len() % 2 == 1)),
    write("MSETNX", msetnx),
    write("MSETEX", msetex),
];

/// The longest expiry, in ms or s, that is foreseen to be accepted whatever the time is.
const FORESEEN_EXPIRY_MAX: i64 = 1 << 40;

/// SET and its like succeed whatever the shard holds, if their arguments are right.
fn ok_if(right: bool) -> Option<&'static [u8]> {
    right.then_some(b"+OK\r\n")
}

fn ok_if_foreseen(args: &[&[u8]]) -> Option<&'static [u8]> {
    ok_if(resp::parse_integer(args[2]).is_some_and(|n| (1..=FORESEEN_EXPIRY_MAX).contains(&n)))
}

/// Writes a string of those parts.
pub(super) fn put_string(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    parts: &[&[u8]],
) -> Result<(), Fault> {
    let record = Record::stamped_new(space.version(), Kind::STRING, expire_at_ms, parts);
    space.put(key, record)
}

/// What an edit tells, and what it changes of the string: by parts that do not meet.
pub(super) type Edited<T> = Result<(T, Patches), Error>;

/// Mostly there is one.
pub(super) type Patches = SmallVec<[Patch; 1]>;

/// What has become of an edit.
enum Done<T> {
    /// It is written, or there was nothing to write.
    Yes(T),
    /// The string is in pieces.
    InPieces(LongString, Option<u64>),
    /// It is to be kept in pieces from here on, and has so many bytes then.
    ToPieces(T, Patches, usize),
}

/// Edits the string at `key`; an absent one is empty. `edit` answers what is to be told and what is to be written.
pub(super) fn edit_string<T>(
    space: &mut dyn WriteSpace,
    key: &[u8],
    mut edit: impl FnMut(&mut StringView<'_>) -> Edited<T>,
) -> Result<T, Error> {
    let keeps_pieces = space.rules() >= Rules::Pieces;
    let mut done: Option<Result<Done<T>, Error>> = None;
    space.edit(key, &mut |view| {
        let bytes = match view {
            Some(view) if view.kind == Kind::large(Type::String) => {
                done = view.rows(key).map(|rows| Ok(Done::InPieces(LongString::at(rows), view.expire_at_ms)));
                return None;
            }
            Some(view) if view.kind != Kind::STRING => Err(WRONGTYPE.into()),
            view => Ok(view.map_or(&[][..], |view| view.payload)),
        };
        match bytes.and_then(|bytes| Ok((edit(&mut StringView::Whole(bytes))?, bytes))) {
            Ok(((told, patches), bytes)) => {
                let length = patches.iter().map(Patch::end).max().unwrap_or(0).max(bytes.len());
                if keeps_pieces && length >= LONG_STRING_BYTES_MIN && !patches.is_empty() {
                    done = Some(Ok(Done::ToPieces(told, patches, length)));
                    return None;
                }
                done = Some(Ok(Done::Yes(told)));
                Patch::joined(&patches, bytes)
            }
            Err(error) => {
                done = Some(Err(error));
                None
            }
        }
    })?;
    match done.expect("an edit looks at the value")? {
        Done::Yes(told) => Ok(told),
        Done::ToPieces(told, patches, length) => {
            // Before its bytes are in memory: they are copied, and written.
            space.afford(2 * length)?;
            space.may_store(length)?;
            let record = space.stored(key)?;
            let expire_at_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
            let bytes = Patch::all_applied(&patches, bytes_of(record.as_ref())?);
            long_string::store(space, key, expire_at_ms, &bytes)?;
            Ok(told)
        }
        Done::InPieces(mut string, expire_at_ms) => {
            let (told, patches) = edit(&mut StringView::Pieces(&string, space))?;
            if !patches.is_empty() {
                for patch in &patches {
                    long_string::write(&mut string, space, patch)?;
                }
                long_string::put(&string, space, key, expire_at_ms)?;
            }
            Ok(told)
        }
    }
}

/// Looks at parts of the string at `key`; an absent one is empty.
pub(super) fn look_into<T>(
    space: &mut dyn ReadSpace,
    key: &[u8],
    look: impl FnOnce(&mut StringView<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let record = space.stored(key)?;
    look_into_record(space, key, record.as_ref(), look)
}

/// Looks at parts of the string whose stored record is that of `key`.
pub(super) fn look_into_record<T>(
    space: &mut dyn ReadSpace,
    key: &[u8],
    record: Option<&Record>,
    look: impl FnOnce(&mut StringView<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    match record.and_then(|record| LongString::of(key, record)) {
        Some(string) => look(&mut StringView::Pieces(&string, space)),
        None => look(&mut StringView::Whole(bytes_of(record)?)),
    }
}

/// Writes a string, and tells it: what SET and its like do.
pub(super) fn set_string(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    value: &[u8],
) -> Result<(), Fault> {
    put_string(space, key, expire_at_ms, &[value])?;
    space.notify(Event::SET, key);
    Ok(())
}

/// Writes a record again with another expiry, or removes its key if that has passed, and tells it.
pub(super) fn put_expiry(
    space: &mut dyn WriteSpace,
    key: &[u8],
    record: &Record,
    expire_at_ms: Option<u64>,
) -> Result<(), Fault> {
    if expire_at_ms.is_some_and(|at| at <= space.now_ms()) {
        space.delete_told(key)?;
        return Ok(());
    }
    let view = record.view();
    let record = Record::stamped_new(space.version(), view.kind, expire_at_ms, &[view.payload]);
    space.put(key, record)?;
    space.notify(if expire_at_ms.is_some() { Event::EXPIRE } else { Event::PERSIST }, key);
    Ok(())
}

fn get(call: &mut ReadCall<'_>) -> Outcome {
    let record = call.space.get(call.args[1])?;
    answer(record.as_ref(), call.reply)
}

/// Answers the string of a record; null if there is none.
fn answer(record: Option<&Record>, reply: &mut Reply) -> Outcome {
    match record {
        Some(record) => reply.bulk(string_of(record)?),
        None => reply.null(),
    }
    Ok(())
}

/// How an expiry is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// EX: seconds from now.
    Seconds,
    /// PX: milliseconds from now.
    Millis,
    /// EXAT: seconds since the epoch.
    AtSeconds,
    /// PXAT: milliseconds since the epoch.
    AtMillis,
}

impl Unit {
    pub(super) fn of_word(word: &[u8]) -> Option<Self> {
        // One comparison of lengths spares four of words for most arguments.
        match word.len() {
            2 if is_word(word, "EX") => Some(Self::Seconds),
            2 if is_word(word, "PX") => Some(Self::Millis),
            4 if is_word(word, "EXAT") => Some(Self::AtSeconds),
            4 if is_word(word, "PXAT") => Some(Self::AtMillis),
            _ => None,
        }
    }

    /// The time of expiry that `text` means to SET, GETEX and the like (`command`).
    pub(super) fn expiry(self, text: &[u8], now_ms: u64, command: &str) -> Result<u64, Error> {
        let amount = resp::parse_integer(text).ok_or(NOT_INTEGER)?;
        let scale = if matches!(self, Self::Seconds | Self::AtSeconds) { 1000 } else { 1 };
        let base = if matches!(self, Self::Seconds | Self::Millis) { now_ms } else { 0 };
        let at = (amount > 0).then(|| amount.checked_mul(scale)?.checked_add_unsigned(base)).flatten();
        let invalid = || Error::Reply(Cow::Owned(format!("ERR invalid expire time in '{command}' command")));
        at.map(i64::unsigned_abs).ok_or_else(invalid)
    }
}

/// The options of SET and GETEX.
#[derive(Default)]
struct Options<'a> {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    expiry: Option<(Unit, &'a [u8])>,
    condition: Option<Condition<'a>>,
    /// A condition stands there several times: the last one counts.
    has_more_conditions: bool,
}

impl<'a> Options<'a> {
    /// The options in `words`, of SET or (without NX, XX, GET and KEEPTTL, but with PERSIST) of GETEX.
    fn parse(words: &[&'a [u8]], of_set: bool) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(unit) = Unit::of_word(word) {
                let other = options.expiry.is_some_and(|(earlier, _)| earlier != unit);
                let amount = words.next().ok_or(SYNTAX)?;
                if other || options.keep_ttl || options.persist {
                    return Err(SYNTAX.into());
                }
                options.expiry = Some((unit, amount));
            } else if of_set && let Some(condition) = Condition::parse(word, words.as_slice().first())? {
                words.next();
                let before = options.condition.replace(condition);
                let is_same = before.is_some_and(|before| discriminant(&before) == discriminant(&condition));
                if before.is_some() && !is_same || options.if_absent || options.if_present {
                    return Err(SYNTAX.into());
                }
                options.has_more_conditions |= is_same;
            } else if of_set && is_word(word, "NX") && !options.if_present && options.condition.is_none() {
                options.if_absent = true;
            } else if of_set && is_word(word, "XX") && !options.if_absent && options.condition.is_none() {
                options.if_present = true;
            } else if of_set && is_word(word, "GET") {
                options.get = true;
            } else if of_set && is_word(word, "KEEPTTL") && options.expiry.is_none() {
                options.keep_ttl = true;
            } else if !of_set && is_word(word, "PERSIST") && options.expiry.is_none() {
                options.persist = true;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }

    /// Refuses a condition that not all replicas would understand in the same way.
    fn check_condition(&self, space: &dyn WriteSpace) -> Outcome {
        let Some(condition) = self.condition else { return Ok(()) };
        check_release(space)?;
        if space.rules() >= Rules::Fourth {
            return Ok(());
        }
        if self.has_more_conditions { Err(SYNTAX.into()) } else { condition.check_digest() }
    }

    fn expire_at_ms(&self, now_ms: u64, command: &str) -> Result<Option<u64>, Error> {
        self.expiry.map(|(unit, text)| unit.expiry(text, now_ms, command)).transpose()
    }
}

fn set(call: &mut WriteCall<'_>) -> Outcome {
    let (key, value) = (call.args[1], call.args[2]);
    if call.args.len() == 3 {
        set_string(call.space, key, None, value)?;
        call.reply.ok();
        return Ok(());
    }
    let options = Options::parse(&call.args[3..], true)?;
    let mut expire_at_ms = options.expire_at_ms(call.space.now_ms(), "set")?;
    options.check_condition(call.space)?;
    if options.get || options.if_absent || options.if_present || options.keep_ttl || options.condition.is_some() {
        // Whether it is there, and when it expires, its head tells.
        let shows = options.get || options.condition.is_some();
        let old = if shows { call.space.get(key)? } else { call.space.stored(key)? };
        let holds = match options.condition {
            Some(condition) => condition.holds(old.as_ref().map(string_of).transpose()?)?,
            None => true,
        };
        if options.get {
            match &old {
                Some(record) => call.reply.bulk(string_of(record)?),
                None => call.reply.null(),
            }
        }
        if options.if_absent && old.is_some() || options.if_present && old.is_none() || !holds {
            if !options.get {
                call.reply.null();
            }
            return Ok(());
        }
        if options.keep_ttl {
            expire_at_ms = old.and_then(|record| record.view().expire_at_ms);
        }
    }
    put_unless_past(call.space, key, expire_at_ms, value, options.expiry.is_some())?;
    if !options.get {
        call.reply.ok();
    }
    Ok(())
}

/// A string whose expiry has already passed is gone at once. `expires`: the request gives the expiry. It was there, for those who watched an absent key.
fn put_unless_past(
    space: &mut dyn WriteSpace,
    key: &[u8],
    expire_at_ms: Option<u64>,
    value: &[u8],
    expires: bool,
) -> Result<(), Fault> {
    let is_past = expire_at_ms.is_some_and(|at| at <= space.now_ms());
    set_string(space, key, expire_at_ms.filter(|_| !is_past), value)?;
    end_write(space, key, expires, is_past)
}

/// Ends a write that may have set an expiry, even one that is past: such a key goes at once.
pub(super) fn end_write(space: &mut dyn WriteSpace, key: &[u8], expires: bool, is_past: bool) -> Result<(), Fault> {
    if expires {
        space.notify(Event::EXPIRE, key);
    }
    if is_past {
        space.delete(key)?;
        space.notify(Event::EXPIRED, key);
    }
    Ok(())
}

fn setnx(call: &mut WriteCall<'_>) -> Outcome {
    let absent = call.space.stored(call.args[1])?.is_none();
    if absent {
        set_string(call.space, call.args[1], None, call.args[2])?;
    }
    call.reply.int(i64::from(absent));
    Ok(())
}

fn setex(call: &mut WriteCall<'_>) -> Outcome {
    set_expiring(call, Unit::Seconds, "setex")
}

fn psetex(call: &mut WriteCall<'_>) -> Outcome {
    set_expiring(call, Unit::Millis, "psetex")
}

fn set_expiring(call: &mut WriteCall<'_>, unit: Unit, command: &str) -> Outcome {
    let at = unit.expiry(call.args[2], call.space.now_ms(), command)?;
    set_string(call.space, call.args[1], Some(at), call.args[3])?;
    call.space.notify(Event::EXPIRE, call.args[1]);
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut WriteCall<'_>) -> Outcome {
    let record = call.space.get(call.args[1])?;
    answer(record.as_ref(), call.reply)?;
    set_string(call.space, call.args[1], None, call.args[2])?;
    Ok(())
}

fn getdel(call: &mut WriteCall<'_>) -> Outcome {
    let Some(record) = call.space.get(call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    call.reply.bulk(string_of(&record)?);
    call.space.delete_told(call.args[1])?;
    Ok(())
}

fn getex(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.args[1];
    let options = Options::parse(&call.args[2..], false)?;
    let Some(stored) = call.space.stored(key)? else {
        call.reply.null();
        return Ok(());
    };
    let record = call.space.whole(key, stored.clone())?;
    let value = string_of(&record)?;
    let expire_at_ms = options.expire_at_ms(call.space.now_ms(), "getex")?;
    call.reply.bulk(value);
    if expire_at_ms.is_some() || options.persist && stored.view().expire_at_ms.is_some() {
        put_expiry(call.space, key, &stored, expire_at_ms)?;
    }
    Ok(())
}

fn mget(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let keys = &call.args[1..];
    call.reply.array(keys.len());
    let made = values_of(keys.iter().copied(), call.space, call.reply)?;
    let left: Vec<Vec<u8>> = keys[made..].iter().map(|key| key.to_vec()).collect();
    Ok((!left.is_empty()).then(|| Box::new(KeysLeft { keys: left.into_iter() }) as _))
}

/// Writes the values of keys until a step is over; answers of how many.
fn values_of<'k>(
    keys: impl Iterator<Item = &'k [u8]>,
    space: &mut dyn ReadSpace,
    reply: &mut Reply,
) -> Result<usize, Error> {
    let mut step = Step::begin(reply);
    let mut made = 0;
    for key in keys {
        let record = space.get(key)?;
        reply.bulk_or_null(record.as_ref().and_then(|record| string_of(record).ok()));
        made += 1;
        if !step.goes_on(reply) {
            break;
        }
    }
    Ok(made)
}

/// The values of these keys are still to be answered.
struct KeysLeft {
    keys: std::vec::IntoIter<Vec<u8>>,
}

impl ReplySteps for KeysLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let made = values_of(self.keys.as_slice().iter().map(Vec::as_slice), space, reply)?;
        self.keys.by_ref().take(made).for_each(drop);
        Ok(if self.keys.as_slice().is_empty() { Progress::Done } else { Progress::More })
    }
}

fn pairs<'a>(call: &WriteCall<'a>, command: &str) -> Result<std::slice::ChunksExact<'a, &'a [u8]>, Error> {
    if call.args.len().is_multiple_of(2) {
        let text = format!("ERR wrong number of arguments for '{command}' command");
        return Err(Error::Reply(Cow::Owned(text)));
    }
    Ok(call.args[1..].chunks_exact(2))
}

fn mset(call: &mut WriteCall<'_>) -> Outcome {
    for pair in pairs(call, "mset")? {
        set_string(call.space, pair[0], None, pair[1])?;
    }
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut WriteCall<'_>) -> Outcome {
    let pairs = pairs(call, "msetnx")?;
    for pair in pairs.clone() {
        if call.space.stored(pair[0])?.is_some() {
            call.reply.int(0);
            return Ok(());
        }
    }
    for pair in pairs {
        set_string(call.space, pair[0], None, pair[1])?;
    }
    call.reply.int(1);
    Ok(())
}

/// MSETEX: sets keys, and when they expire, if all of them are there, or none.
fn msetex(call: &mut WriteCall<'_>) -> Outcome {
    let count = resp::parse_integer(call.args[1]).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or("ERR invalid numkeys value")?;
    let (pairs, words) = usize::try_from(count)
        .ok()
        .and_then(|count| call.args[2..].split_at_checked(2 * count))
        .ok_or("ERR wrong number of key-value pairs")?;
    let options = Options::parse(words, true)?;
    if options.get || options.condition.is_some() {
        return Err(SYNTAX.into());
    }
    let now_ms = call.space.now_ms();
    let expire_at_ms = options.expire_at_ms(now_ms, "msetex")?;
    check_release(call.space)?;
    let mut expiries = Vec::new();
    for pair in pairs.chunks_exact(2) {
        if !(options.if_absent || options.if_present || options.keep_ttl) {
            break;
        }
        let old = call.space.stored(pair[0])?;
        if options.if_absent && old.is_some() || options.if_present && old.is_none() {
            call.reply.int(0);
            return Ok(());
        }
        expiries.push(old.and_then(|record| record.view().expire_at_ms));
    }
    for (at, pair) in pairs.chunks_exact(2).enumerate() {
        let kept = if options.keep_ttl { expiries.get(at).copied().flatten() } else { expire_at_ms };
        put_unless_past(call.space, pair[0], kept, pair[1], options.expiry.is_some())?;
    }
    call.reply.int(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("strings");
    }
}
