//! When fields of a hash cease to be seen: HEXPIRE, HTTL, HPERSIST, HGETEX, HSETEX and the like.

use super::expiring::{self, Edit, FieldState, Lifetime, States};
use super::stored::Stored;
use crate::command::args::{check_release, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::expiry::Conditions;
use crate::keyspace_events::Event;
use std::borrow::Cow;

/// The last time at which a field may expire, in ms since the epoch, as in Redis.
const AT_MS_MAX: i64 = (1 << 46) - 1;

const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const REFUSED: i64 = 0;
const SET: i64 = 1;
/// The field is gone: the time has come already.
const REMOVED: i64 = 2;

/// The error about a number of fields, where no other is told.
pub(super) const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";
const MANDATORY: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const TWO_CONDITIONS: &str = "ERR Only one of FXX or FNX arguments can be specified";
const TWO_LIFETIMES: &str = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
const HSETEX_ARITY: &str = "ERR wrong number of arguments for 'hsetex' command";

/// The fields of `FIELDS count field …`.
pub(super) fn counted_fields<'a>(words: &'a [&'a [u8]], not_positive: &'static str) -> Result<&'a [&'a [u8]], Error> {
    let [word, count, fields @ ..] = words else { return Err(MANDATORY.into()) };
    if !is_word(word, "FIELDS") {
        return Err(MANDATORY.into());
    }
    let count = resp::parse_integer(count).filter(|count| *count > 0).ok_or(not_positive)?;
    if count.unsigned_abs() != fields.len() as u64 {
        return Err("ERR The `numfields` parameter must match the number of arguments".into());
    }
    Ok(fields)
}

/// A time at which fields expire, in ms since the epoch, of an argument in units of `scale` ms.
fn time_of(text: &[u8], command: &str, scale: i64, base_ms: i64) -> Result<u64, Error> {
    let amount = int(text)?;
    if amount < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let at_ms = amount.checked_mul(scale).and_then(|ms| ms.checked_add(base_ms)).filter(|at_ms| *at_ms <= AT_MS_MAX);
    let invalid = || Error::Reply(Cow::Owned(format!("ERR invalid expire time in '{command}' command")));
    at_ms.map(i64::unsigned_abs).ok_or_else(invalid)
}

/// The time of an option that names one, such as EX; `None` if the word is another.
fn time_option(word: &[u8], argument: Option<&&[u8]>, command: &str, now_ms: u64) -> Result<Option<u64>, Error> {
    let now_ms = now_ms as i64;
    let table = [("EX", 1000, now_ms), ("PX", 1, now_ms), ("EXAT", 1000, 0), ("PXAT", 1, 0)];
    let Some((_, scale, base_ms)) = table.into_iter().find(|(name, ..)| is_word(word, name)) else { return Ok(None) };
    let argument = argument.ok_or("ERR missing expire time")?;
    time_of(argument, command, scale, base_ms).map(Some)
}

/// HEXPIRE and the like.
pub(super) fn expire(call: &mut WriteCall<'_>, command: &str, scale: i64, from_now: bool) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    let now_ms = call.space.now_ms();
    let at_ms = time_of(call.args[2], command, scale, if from_now { now_ms as i64 } else { 0 })?;
    let conditions = usize::from(Conditions::has(call.args[3]));
    let (conditions, words) = call.args[3..].split_at(conditions);
    let conditions = Conditions::parse(conditions)?;
    let fields = counted_fields(words, "ERR Parameter `numFields` should be greater than 0")?;
    check_release(call.space)?;
    call.reply.array(fields.len());
    let Some(hash) = hash else {
        fields.iter().for_each(|_| call.reply.int(NO_FIELD));
        return Ok(());
    };
    let mut edit = Edit::begin(&hash, call.space)?;
    let mut event = None;
    for field in fields {
        let Some(was_ms) = edit.state(call.space, field)? else {
            call.reply.int(NO_FIELD);
            continue;
        };
        let holds = conditions.hold(was_ms.map(|was_ms| was_ms as i64), at_ms as i64);
        let becomes = (at_ms > now_ms).then_some(Some(at_ms));
        if holds {
            edit.set(field, becomes);
            event = Some(event_of(becomes));
        }
        call.reply.int(match (holds, becomes) {
            (false, _) => REFUSED,
            (true, Some(_)) => SET,
            (true, None) => REMOVED,
        });
    }
    write_told(edit, call, event)
}

/// What is told of fields that become so.
fn event_of(becomes: FieldState) -> Event {
    match becomes {
        None => Event::HDEL,
        Some(None) => Event::HPERSIST,
        Some(Some(_)) => Event::HEXPIRE,
    }
}

/// Writes what has become of fields, and tells it.
fn write_told(edit: Edit<'_>, call: &mut WriteCall<'_>, event: Option<Event>) -> Outcome {
    let is_gone = edit.write(call.space)?;
    if let Some(event) = event {
        call.space.notify_removal(event, call.args[1], is_gone);
    }
    Ok(())
}

/// HTTL and the like: a figure of the time of expiry and of now for each field.
pub(super) fn tell(call: &mut ReadCall<'_>, figure: fn(i64, i64) -> i64) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    let fields = counted_fields(&call.args[2..], NOT_POSITIVE)?;
    let now_ms = call.space.now_ms() as i64;
    call.reply.array(fields.len());
    let states = match &hash {
        Some(hash) => Some(States::of(hash, call.space)?),
        None => None,
    };
    for field in fields {
        let state: FieldState = match &states {
            Some(states) => states.get(call.space, field)?,
            None => None,
        };
        call.reply.int(match state {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at_ms)) => figure(at_ms as i64, now_ms),
        });
    }
    Ok(())
}

pub(super) fn persist(call: &mut WriteCall<'_>) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    let fields = counted_fields(&call.args[2..], NOT_POSITIVE)?;
    check_release(call.space)?;
    call.reply.array(fields.len());
    let Some(hash) = hash else {
        fields.iter().for_each(|_| call.reply.int(NO_FIELD));
        return Ok(());
    };
    let mut edit = Edit::begin(&hash, call.space)?;
    let mut event = None;
    for field in fields {
        let state = edit.state(call.space, field)?;
        if matches!(state, Some(Some(_))) {
            edit.set(field, Some(None));
            event = Some(Event::HPERSIST);
        }
        call.reply.int(match state {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => SET,
        });
    }
    write_told(edit, call, event)
}

/// HGETEX: answers fields, and changes when they expire.
pub(super) fn hgetex(call: &mut WriteCall<'_>) -> Outcome {
    let hash = Stored::load(call.space, call.args[1])?;
    let now_ms = call.space.now_ms();
    // What the fields become: nothing if no option says so.
    let (becomes, words): (Option<FieldState>, _) = if is_word(call.args[2], "PERSIST") {
        (Some(Some(None)), &call.args[3..])
    } else {
        match time_option(call.args[2], call.args.get(3), "hgetex", now_ms)? {
            Some(at_ms) => (Some((at_ms > now_ms).then_some(Some(at_ms))), &call.args[4..]),
            None => (None, &call.args[2..]),
        }
    };
    let fields = counted_fields(words, NOT_POSITIVE)?;
    check_release(call.space)?;
    call.reply.array(fields.len());
    let Some(hash) = hash else {
        fields.iter().for_each(|_| call.reply.null());
        return Ok(());
    };
    let mut edit = Edit::begin(&hash, call.space)?;
    let mut event = None;
    for field in fields {
        let value = edit.value(call.space, field)?;
        call.reply.bulk_or_null(value.as_deref());
        if let (Some(_), Some(becomes)) = (value, becomes) {
            let was = edit.state(call.space, field)?;
            edit.set(field, becomes);
            // A field that does not expire is not told to persist.
            event = event.or((becomes != Some(None) || was != becomes).then_some(event_of(becomes)));
        }
    }
    write_told(edit, call, event)
}

/// The arguments of HSETEX behind the key.
struct SetArguments<'a> {
    /// All fields must be there, or none of them.
    all_there: Option<bool>,
    lifetime: Lifetime,
    /// Fields and values in turn.
    pairs: &'a [&'a [u8]],
}

impl<'a> SetArguments<'a> {
    fn parse(words: &'a [&'a [u8]], now_ms: u64) -> Result<Self, Error> {
        let (mut all_there, mut lifetime, mut rest) = (None, None, words);
        while let [word, behind @ ..] = rest {
            rest = behind;
            if is_word(word, "FIELDS") {
                let [count, pairs @ ..] = behind else { return Err(HSETEX_ARITY.into()) };
                let count = resp::parse_integer(count).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
                let count = count.ok_or("ERR invalid number of fields")?;
                if pairs.len() as u64 != 2 * count.unsigned_abs() {
                    return Err(HSETEX_ARITY.into());
                }
                return Ok(Self { all_there, lifetime: lifetime.unwrap_or(Lifetime::None), pairs });
            }
            if let Some(is_there) = Self::condition(word) {
                if all_there.replace(is_there).is_some() {
                    return Err(TWO_CONDITIONS.into());
                }
                continue;
            }
            let is_kept = is_word(word, "KEEPTTL");
            let is_time = ["EX", "PX", "EXAT", "PXAT"].iter().any(|name| is_word(word, name));
            if (is_kept || is_time) && lifetime.is_some() {
                return Err(TWO_LIFETIMES.into());
            }
            lifetime = if is_kept {
                Some(Lifetime::Kept)
            } else if let Some(at_ms) = time_option(word, behind.first(), "hsetex", now_ms)? {
                rest = &behind[1..];
                Some(Lifetime::Until(at_ms))
            } else {
                let text = format!("ERR unknown argument: {}", String::from_utf8_lossy(word));
                return Err(Error::Reply(text.into()));
            };
        }
        Err("ERR missing FIELDS argument".into())
    }

    fn condition(word: &[u8]) -> Option<bool> {
        if is_word(word, "FXX") {
            Some(true)
        } else if is_word(word, "FNX") {
            Some(false)
        } else {
            None
        }
    }
}

/// HSETEX: sets fields, and when they expire, if all of them are there, or none.
pub(super) fn hsetex(call: &mut WriteCall<'_>) -> Outcome {
    let now_ms = call.space.now_ms();
    let arguments = SetArguments::parse(&call.args[2..], now_ms)?;
    let hash = Stored::load(call.space, call.args[1])?;
    check_release(call.space)?;
    if let Some(all_there) = arguments.all_there {
        let states = match &hash {
            Some(hash) => Some(States::of(hash, call.space)?),
            None => None,
        };
        for field in arguments.pairs.iter().step_by(2) {
            let is_there = match &states {
                Some(states) => states.get(call.space, field)?.is_some(),
                None => false,
            };
            if is_there != all_there {
                call.reply.int(0);
                return Ok(());
            }
        }
    }
    match (arguments.lifetime, &hash) {
        // What would have expired by now is removed.
        (Lifetime::Until(at_ms), hash) if at_ms <= now_ms => {
            let fields: Vec<&[u8]> = arguments.pairs.iter().step_by(2).copied().collect();
            let is_gone = match hash {
                Some(hash) => expiring::remove(call.space, hash, &fields)?.is_gone,
                None => true,
            };
            call.space.notify(Event::HSET, call.args[1]);
            call.space.notify_removal(Event::HDEL, call.args[1], is_gone);
        }
        (lifetime, hash) => {
            expiring::put(call.space, call.args[1], hash.as_ref(), arguments.pairs, lifetime)?;
            call.space.notify(Event::HSET, call.args[1]);
            if let Lifetime::Until(_) = lifetime {
                call.space.notify(Event::HEXPIRE, call.args[1]);
            }
        }
    }
    call.reply.int(1);
    Ok(())
}
