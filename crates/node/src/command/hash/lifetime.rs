//! When fields of a hash cease to be seen: HEXPIRE, HTTL, HPERSIST, HGETEX, HSETEX and the like.

use super::expiring::{self, Edit, FieldState, Lifetime, States};
use super::stored::Stored;
use crate::command::args::{SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::expiry::Conditions;
use crate::keyspace_events::Event;
use crate::{Rules, WriteSpace};
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
const OTHER_NUMBER: &str = "ERR The `numfields` parameter must match the number of arguments";
const TWO_CONDITIONS: &str = "ERR Only one of FXX or FNX arguments can be specified";

/// What is told of HEXPIRE and the like, as in Redis 7.4.
const OF_HEXPIRE: Texts = Texts {
    no_count: "ERR FIELDS requires at least numfields and one field argument",
    not_positive: "ERR Parameter `numFields` should be greater than 0",
    too_few: OTHER_NUMBER,
    missing: MANDATORY,
};
const OF_HGETEX: Texts = Texts { no_count: "ERR wrong number of arguments for 'hgetex' command", ..Texts::OF_REDIS_8 };
const OF_HSETEX: Texts = Texts { no_count: "ERR wrong number of arguments for 'hsetex' command", ..Texts::OF_REDIS_8 };

/// The fields of `FIELDS count field …`.
pub(super) fn counted_fields<'a>(words: &'a [&'a [u8]], not_positive: &'static str) -> Result<&'a [&'a [u8]], Error> {
    let [word, count, fields @ ..] = words else { return Err(MANDATORY.into()) };
    if !is_word(word, "FIELDS") {
        return Err(MANDATORY.into());
    }
    let count = resp::parse_integer(count).filter(|count| *count > 0).ok_or(not_positive)?;
    if count.unsigned_abs() != fields.len() as u64 {
        return Err(OTHER_NUMBER.into());
    }
    Ok(fields)
}

/// What is told of words that are wrong.
struct Texts {
    /// Nothing is behind FIELDS.
    no_count: &'static str,
    not_positive: &'static str,
    /// There are fewer fields than their number says.
    too_few: &'static str,
    /// FIELDS is not there.
    missing: &'static str,
}

impl Texts {
    const OF_REDIS_8: Self = Self {
        no_count: "",
        not_positive: "ERR invalid number of fields",
        too_few: "ERR wrong number of arguments",
        missing: "ERR missing FIELDS argument",
    };
}

/// The words of HEXPIRE, HGETEX and HSETEX: `FIELDS count field …` among options, in any order.
struct Words<'a> {
    /// What is counted: fields, or fields and values in turn.
    fields: &'a [&'a [u8]],
    /// How many options there are.
    options: usize,
    /// All of them are before FIELDS.
    is_fields_last: bool,
}

impl<'a> Words<'a> {
    /// Reads them; a field has `size` words. `option` is told an option, what is behind it and whether it is behind the fields. It answers how
    /// many of the words behind it are its own.
    fn read(
        words: &'a [&'a [u8]],
        size: usize,
        texts: &Texts,
        mut option: impl FnMut(&'a [u8], &'a [&'a [u8]], bool) -> Result<usize, Error>,
    ) -> Result<Self, Error> {
        let (mut fields, mut options, mut is_fields_last, mut rest) = (None, 0, false, words);
        while let [word, behind @ ..] = rest {
            if !is_word(word, "FIELDS") {
                rest = &behind[option(word, behind, fields.is_some())?..];
                (options, is_fields_last) = (options + 1, false);
                continue;
            }
            if fields.is_some() {
                return Err("ERR FIELDS keyword specified multiple times".into());
            }
            let [count, behind @ ..] = behind else { return Err(texts.no_count.into()) };
            let count = resp::parse_integer(count).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
            let count = count.ok_or(texts.not_positive)?.unsigned_abs() as usize;
            let (found, behind) = behind.split_at_checked(size * count).ok_or(texts.too_few)?;
            (fields, is_fields_last, rest) = (Some(found), true, behind);
        }
        Ok(Self { fields: fields.ok_or(texts.missing)?, options, is_fields_last })
    }

    /// Refuses, by their rules, what earlier releases do: options behind the fields, and more of them than so many.
    fn check_order(&self, space: &dyn WriteSpace, options_max: usize) -> Outcome {
        let is_known = self.is_fields_last && self.options <= options_max || space.rules() >= Rules::Fourth;
        if is_known { Ok(()) } else { Err(MANDATORY.into()) }
    }
}

fn unknown(word: &[u8]) -> Error {
    Error::Reply(format!("ERR unknown argument: {}", String::from_utf8_lossy(word)).into())
}

/// Whether a word is an option that names a time.
fn is_time(word: &[u8]) -> bool {
    ["EX", "PX", "EXAT", "PXAT"].iter().any(|name| is_word(word, name))
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
    let (mut condition, mut is_one): (Option<&[u8]>, _) = (None, true);
    let words = Words::read(&call.args[3..], 1, &OF_HEXPIRE, |word, _, is_behind| {
        if !Conditions::has(word) {
            return Err(if is_behind { OTHER_NUMBER } else { MANDATORY }.into());
        }
        is_one &= condition.replace(word).is_none_or(|before| before.eq_ignore_ascii_case(word));
        Ok(0)
    })?;
    words.check_order(call.space, 1)?;
    if !is_one {
        return Err("ERR Multiple condition flags specified".into());
    }
    let conditions = Conditions::parse(condition.as_slice())?;
    let fields = words.fields;
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
    let mut becomes: Option<FieldState> = None;
    let words = Words::read(&call.args[2..], 1, &OF_HGETEX, |word, behind, _| {
        let is_persistent = is_word(word, "PERSIST");
        if becomes.is_some() && (is_persistent || is_time(word)) {
            return Err("ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified".into());
        }
        if is_persistent {
            becomes = Some(Some(None));
            return Ok(0);
        }
        let at_ms = time_option(word, behind.first(), "hgetex", now_ms)?.ok_or_else(|| unknown(word))?;
        becomes = Some((at_ms > now_ms).then_some(Some(at_ms)));
        Ok(1)
    })?;
    words.check_order(call.space, 1)?;
    let fields = words.fields;
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

/// What options of HSETEX say.
struct SetOptions {
    /// The hash must be there, or must not.
    hash_there: Option<bool>,
    /// All fields must be there, or none of them.
    all_there: Option<bool>,
    lifetime: Option<Lifetime>,
    now_ms: u64,
    rules: Rules,
}

impl SetOptions {
    /// Takes an option, and what is behind it. Answers how many of the words behind it are its own.
    fn take(&mut self, word: &[u8], behind: &[&[u8]]) -> Result<usize, Error> {
        // As in Valkey 9.
        let hash_there = is_word(word, "XX");
        if self.rules >= Rules::Fourth && (hash_there || is_word(word, "NX")) {
            let before = self.hash_there.replace(hash_there);
            return if before.is_none_or(|before| before == hash_there) { Ok(0) } else { Err(SYNTAX.into()) };
        }
        let all_there = is_word(word, "FXX");
        if all_there || is_word(word, "FNX") {
            return if self.all_there.replace(all_there).is_none() { Ok(0) } else { Err(TWO_CONDITIONS.into()) };
        }
        let is_kept = is_word(word, "KEEPTTL");
        if (is_kept || is_time(word)) && self.lifetime.is_some() {
            return Err("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified".into());
        }
        if is_kept {
            self.lifetime = Some(Lifetime::Kept);
            return Ok(0);
        }
        let at_ms = time_option(word, behind.first(), "hsetex", self.now_ms)?.ok_or_else(|| unknown(word))?;
        self.lifetime = Some(Lifetime::Until(at_ms));
        Ok(1)
    }
}

/// HSETEX: sets fields, and when they expire, if all of them are there, or none, and if the hash is there, or is not.
pub(super) fn hsetex(call: &mut WriteCall<'_>) -> Outcome {
    let now_ms = call.space.now_ms();
    let rules = call.space.rules();
    let mut options = SetOptions { hash_there: None, all_there: None, lifetime: None, now_ms, rules };
    let words = Words::read(&call.args[2..], 2, &OF_HSETEX, |word, behind, _| options.take(word, behind))?;
    words.check_order(call.space, usize::MAX)?;
    let (pairs, lifetime) = (words.fields, options.lifetime.unwrap_or(Lifetime::None));
    let hash = Stored::load(call.space, call.args[1])?;
    check_release(call.space)?;
    if options.hash_there.is_some_and(|there| there != hash.is_some()) {
        call.reply.int(0);
        return Ok(());
    }
    if let Some(all_there) = options.all_there {
        let states = match &hash {
            Some(hash) => Some(States::of(hash, call.space)?),
            None => None,
        };
        for field in pairs.iter().step_by(2) {
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
    match (lifetime, &hash) {
        // What would have expired by now is removed.
        (Lifetime::Until(at_ms), hash) if at_ms <= now_ms => {
            let fields: Vec<&[u8]> = pairs.iter().step_by(2).copied().collect();
            let is_gone = match hash {
                Some(hash) => expiring::remove(call.space, hash, &fields)?.is_gone,
                None => true,
            };
            call.space.notify(Event::HSET, call.args[1]);
            call.space.notify_removal(Event::HDEL, call.args[1], is_gone);
        }
        (lifetime, hash) => {
            expiring::put(call.space, call.args[1], hash.as_ref(), pairs, lifetime)?;
            call.space.notify(Event::HSET, call.args[1]);
            if let Lifetime::Until(_) = lifetime {
                call.space.notify(Event::HEXPIRE, call.args[1]);
            }
        }
    }
    call.reply.int(1);
    Ok(())
}
