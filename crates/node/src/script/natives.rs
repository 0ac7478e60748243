//! The functions in Rust of which the prelude makes what scripts see.

use super::calls::{Calls, WORD_INSTRUCTIONS, Word};
use super::context::EngineVersion;
use super::direct::{bound_all, directly};
use super::library::{Arguments, format_g};
use super::meter::Meter;
use super::patterns;
use super::raised::{PRELUDE, Raised};
use super::stand_in::{less, stand_in};
use super::values::number_of;
use mlua::{Lua, MultiValue, Table, Value};
use resp::{Proto, table};
use sha1::{Digest, Sha1};
use smallvec::SmallVec;
use std::rc::Rc;
use vocab::limits::SCRIPT_CALL_INSTRUCTIONS;

/// The prelude's functions, by their names.
pub(super) fn natives(
    lua: &Lua,
    meter: &Rc<Meter>,
    calls: &Rc<Calls>,
    (version, is_used_again): (EngineVersion, bool),
) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    let mut calling = Vec::new();
    for (name, raises) in [("call", true), ("pcall", false)] {
        let functions = (calls.function(lua, raises)?, calls.function_of_table(lua, raises)?);
        calling.push((name, directly(lua, calls, functions, is_used_again)?));
    }
    natives.raw_set("version", version.redis_version())?;
    natives.raw_set("version_number", version_number(version.redis_version()))?;
    let of = meter.clone();
    natives.raw_set("sha1hex", lua.create_function(move |lua, args: MultiValue| sha1_of(lua, &of, &args))?)?;
    natives
        .raw_set("error_text", lua.create_function(|lua, text: mlua::String| lua.create_string(error_text(&text)))?)?;
    natives.raw_set("position", lua.create_function(|lua, ()| Ok(position(lua)))?)?;
    let of = (meter.clone(), calls.clone());
    natives.raw_set("acl_check_cmd", lua.create_function(move |lua, words: MultiValue| may_run(lua, &of, &words))?)?;
    let of = meter.clone();
    natives.raw_set("log", lua.create_function(move |lua, args: MultiValue| log_of(lua, &of, &args))?)?;
    natives.raw_set("set_repl", lua.create_function(|_, args: MultiValue| set_repl(&args))?)?;
    natives.raw_set(
        "value_of",
        lua.create_function(|lua, failure: Value| match &failure {
            Value::Error(error) => Raised::of(error).map_or(Ok(Value::Nil), |raised| raised.to_value(lua)),
            _ => Ok(failure),
        })?,
    )?;
    natives.raw_set("stand_in", lua.create_function(stand_in)?)?;
    natives.raw_set("maths", maths(lua, meter)?)?;
    natives.raw_set("strings", strings(lua, meter)?)?;
    let of = meter.clone();
    natives.raw_set("is_over", lua.create_function(move |_, failure: Value| Ok(of.is_over(&failure)))?)?;
    let of = meter.clone();
    natives.raw_set("random", lua.create_function(move |lua, args: MultiValue| random(lua, &of, &args))?)?;
    let of = meter.clone();
    natives.raw_set(
        "randomseed",
        lua.create_function(move |lua, args: MultiValue| {
            let seed = args
                .front()
                .and_then(number_of)
                .ok_or_else(|| Raised::here(lua, "bad argument #1 to 'randomseed' (number expected)"))?;
            of.since_seventh(MATHS_INSTRUCTIONS)?;
            of.seed(seed as i64 as u64);
            Ok(())
        })?,
    )?;
    let of = meter.clone();
    natives.raw_set("work", lua.create_function(move |_, instructions: f64| of.work(instructions as u64))?)?;
    if version >= EngineVersion::Fifth {
        let of = meter.clone();
        natives.raw_set("more", lua.create_function(move |_, instructions: f64| of.more(instructions as u64))?)?;
    }
    let of = meter.clone();
    natives.raw_set("clock", lua.create_function(move |_, ()| Ok(of.clock() as f64 / 1e8))?)?;
    let of = meter.clone();
    natives.raw_set("setresp", lua.create_function(move |_, args: MultiValue| set_proto(&of, &args))?)?;
    if version >= EngineVersion::Sixth {
        natives.raw_set("later", true)?;
        natives.raw_set("less", less(lua)?)?;
    }
    bound_all(lua, &natives)?;
    calling.into_iter().try_for_each(|(name, function)| natives.raw_set(name, function))?;
    Ok(natives)
}

/// The SHA1 of a text, in hexadecimal digits: what names a script.
#[must_use]
pub fn sha1_hex(text: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = Sha1::digest(text);
    digits.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Whether a word can name a script.
#[must_use]
pub fn is_sha(word: &[u8]) -> bool {
    word.len() == 40 && word.iter().all(u8::is_ascii_hexdigit)
}

/// For how many instructions the SHA1 of an empty text counts, from the seventh engine on.
const SHA1_INSTRUCTIONS: u64 = 100;

fn sha1_of(lua: &Lua, meter: &Meter, args: &MultiValue) -> mlua::Result<mlua::String> {
    if args.len() != 1 {
        return Err(Raised::reply("ERR wrong number of arguments"));
    }
    let number =
        args.front().filter(|_| EngineVersion::of_state(lua) >= EngineVersion::Seventh).and_then(|value| match value {
            Value::Integer(n) => Some(*n as f64),
            Value::Number(n) => Some(*n),
            _ => None,
        });
    let word = match number {
        // As Lua makes a text of it. Engines before the seventh have more digits.
        Some(number) => Some(Word::OfNumber(SmallVec::from_slice(format_g(number, 14).as_bytes()))),
        None => args.front().and_then(Word::of),
    };
    let text: &[u8] = word.as_deref().unwrap_or_default();
    meter.work(text.len() as u64 / 8)?;
    meter.values(text.len() as u64 / 2)?;
    meter.since_seventh(SHA1_INSTRUCTIONS)?;
    lua.create_string(sha1_hex(text))
}

/// Functions over patterns, and others that do much in one instruction.
fn strings(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let strings = lua.create_table()?;
    let of = meter.clone();
    let find = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "find", values: &values };
        let (text, pattern) = (arguments.bytes(1)?, arguments.bytes(2)?);
        let is_plain = !matches!(arguments.value(4), None | Some(Value::Nil | Value::Boolean(false)));
        patterns::find(lua, &of, (&text, &pattern), arguments.integer_or(3, 1)?, is_plain)
    })?;
    strings.raw_set("find", find)?;
    let of = meter.clone();
    let match_of = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "match", values: &values };
        let (text, pattern) = (arguments.bytes(1)?, arguments.bytes(2)?);
        patterns::match_of(lua, &of, (&text, &pattern), arguments.integer_or(3, 1)?)
    })?;
    strings.raw_set("match", match_of)?;
    let of = meter.clone();
    let next_match = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "gmatch", values: &values };
        let (text, pattern) = (arguments.bytes(1)?, arguments.bytes(2)?);
        let from = usize::try_from(arguments.integer_or(3, 0)?).unwrap_or(usize::MAX);
        let may_be_anchored = matches!(arguments.value(4), Some(Value::Boolean(true)));
        patterns::next_match(lua, &of, (&text, &pattern), from, may_be_anchored)
    })?;
    strings.raw_set("next_match", next_match)?;
    let of = meter.clone();
    let replace = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "gsub", values: &values };
        let (text, pattern, by) = (arguments.bytes(1)?, arguments.bytes(2)?, arguments.bytes(3)?);
        let count_max = usize::try_from(arguments.integer_or(4, i64::MAX)?).unwrap_or(0);
        let (made, count) = patterns::replace(lua, &of, (&text, &pattern), &by, count_max)?;
        Ok((lua.create_string(made)?, count as f64))
    })?;
    strings.raw_set("replace", replace)?;
    let of = meter.clone();
    let rep = lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, name: "rep", values: &values };
        let (text, times) = (arguments.bytes(1)?, arguments.number(2)? as i64);
        // Lua would count up to the number for an empty text, too.
        let times = if text.is_empty() { 0 } else { usize::try_from(times).unwrap_or(0) };
        of.build(text.len().saturating_mul(times))?;
        lua.create_string(text.repeat(times))
    })?;
    strings.raw_set("rep", rep)?;
    for &(name, changed) in CHANGING {
        let of = meter.clone();
        let change = lua.create_function(move |lua, values: MultiValue| {
            let arguments = Arguments { lua, name, values: &values };
            let text = arguments.bytes(1)?;
            of.build(text.len())?;
            lua.create_string(changed(&text))
        })?;
        strings.raw_set(name, change)?;
    }
    Ok(strings)
}

/// What is made of a whole text, byte by byte: in C that takes longer than a copy.
type Changed = fn(&[u8]) -> Vec<u8>;

const CHANGING: &[(&str, Changed)] = &[
    ("upper", <[u8]>::to_ascii_uppercase),
    ("lower", <[u8]>::to_ascii_lowercase),
    ("reverse", |text| text.iter().rev().copied().collect()),
];

/// A function of one number.
type OfOne = fn(f64) -> f64;
/// A function of two numbers.
type OfTwo = fn(f64, f64) -> f64;

/// Functions whose last bits differ between C libraries: these are the same on every replica.
const OF_ONE: &[(&str, OfOne)] = &[
    ("sin", libm::sin),
    ("cos", libm::cos),
    ("tan", libm::tan),
    ("asin", libm::asin),
    ("acos", libm::acos),
    ("atan", libm::atan),
    ("sinh", libm::sinh),
    ("cosh", libm::cosh),
    ("tanh", libm::tanh),
    ("exp", libm::exp),
    ("log", libm::log),
    ("log10", libm::log10),
];

/// The same of two numbers.
const OF_TWO: &[(&str, OfTwo)] = &[("atan2", libm::atan2), ("pow", libm::pow)];

/// For how many instructions a function of numbers counts, besides those that call it.
const MATHS_INSTRUCTIONS: u64 = 8;

fn maths(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let maths = lua.create_table()?;
    let argument = |lua: &Lua, args: &MultiValue, at: usize, name: &str| {
        let given = args.get(at);
        given.and_then(number_of).ok_or_else(|| {
            let given = given.map_or("no value", Value::type_name);
            Raised::here(lua, &format!("bad argument #{} to '{name}' (number expected, got {given})", at + 1))
        })
    };
    for &(name, run) in OF_ONE {
        let of = meter.clone();
        let function = lua.create_function(move |lua, args: MultiValue| {
            of.work(MATHS_INSTRUCTIONS)?;
            Ok(run(argument(lua, &args, 0, name)?))
        })?;
        maths.raw_set(name, function)?;
    }
    for &(name, run) in OF_TWO {
        let of = meter.clone();
        let function = lua.create_function(move |lua, args: MultiValue| {
            of.work(MATHS_INSTRUCTIONS)?;
            Ok(run(argument(lua, &args, 0, name)?, argument(lua, &args, 1, name)?))
        })?;
        maths.raw_set(name, function)?;
    }
    Ok(maths)
}

/// As Redis has it: Lua's own with other bits.
fn random(lua: &Lua, meter: &Meter, args: &MultiValue) -> mlua::Result<f64> {
    meter.since_seventh(MATHS_INSTRUCTIONS)?;
    let r = meter.random();
    let bound = |at: usize| {
        let number = args.get(at).and_then(number_of);
        let text = || format!("bad argument #{} to 'random' (number expected)", at + 1);
        number.map(f64::trunc).ok_or_else(|| Raised::here(lua, &text()))
    };
    let (low, high) = match args.len() {
        0 => return Ok(r),
        1 => (1.0, bound(0)?),
        2 => (bound(0)?, bound(1)?),
        _ => return Err(Raised::here(lua, "wrong number of arguments")),
    };
    if low > high {
        let text = format!("bad argument #{} to 'random' (interval is empty)", args.len());
        return Err(Raised::here(lua, &text));
    }
    Ok((r * (high - low + 1.0)).floor() + low)
}

/// Bytes of a line that a script logs: what Redis allows its own.
const LOGGED_BYTES_MAX: usize = 1024;

/// Charges a run for the words that a function is given which are read, from the seventh engine on.
fn charge_words(lua: &Lua, meter: &Meter, words: &MultiValue) -> mlua::Result<()> {
    if EngineVersion::of_state(lua) < EngineVersion::Seventh {
        return Ok(());
    }
    let bytes: usize = words.iter().filter_map(Value::as_string).map(|text| text.as_bytes().len()).sum();
    meter.work(words.len() as u64 * WORD_INSTRUCTIONS + meter.instructions_of(bytes))
}

/// The texts and numbers among the values, with spaces between, as far as there is room.
fn logged_line<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<u8> {
    let mut line = Vec::new();
    for (place, word) in values.filter_map(Word::of).enumerate() {
        if place > 0 {
            line.push(b' ');
        }
        let room = LOGGED_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&word[..word.len().min(room)]);
        if line.len() >= LOGGED_BYTES_MAX {
            break;
        }
    }
    line
}

fn log_of(lua: &Lua, meter: &Meter, args: &MultiValue) -> mlua::Result<()> {
    meter.work(SCRIPT_CALL_INSTRUCTIONS)?;
    charge_words(lua, meter, args)?;
    if args.len() < 2 {
        return Err(Raised::reply("ERR redis.log() requires two arguments or more."));
    }
    let level = args.front().and_then(number_of);
    let level = level.ok_or_else(|| Raised::reply("ERR First argument must be a number (log level)."))?;
    let level = match level as i64 {
        0 | 1 => log::Level::Debug,
        2 => log::Level::Info,
        3 => log::Level::Warn,
        _ => return Err(Raised::reply("ERR Invalid debug level.")),
    };
    log::log!(level, "a script says: {}", String::from_utf8_lossy(&logged_line(args.iter().skip(1))));
    Ok(())
}

fn set_repl(args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(Raised::reply("ERR redis.set_repl() requires two arguments."));
    }
    match args.front().and_then(number_of).unwrap_or(0.0) as i64 {
        0..=3 => Ok(()),
        _ => Err(Raised::reply("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")),
    }
}

fn set_proto(meter: &Meter, args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(Raised::reply("ERR redis.setresp() requires one argument."));
    }
    match args.front().and_then(number_of).unwrap_or(0.0) as i64 {
        2 => meter.set_proto(Proto::Resp2),
        3 => meter.set_proto(Proto::Resp3),
        _ => return Err(Raised::reply("ERR RESP version must be 2 or 3.")),
    }
    Ok(())
}

/// The text of an error that a script makes: its code and what it says.
fn error_text(text: &mlua::String) -> Vec<u8> {
    let text = text.as_bytes();
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let end = text.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |at| at + 1);
    let text = &text[..end];
    if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
}

/// The line of the script that runs: the innermost that is neither of the prelude nor in Rust.
fn position(lua: &Lua) -> (Option<String>, Option<usize>) {
    let mut level = 1;
    loop {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let of_script = !matches!(source.what, "C" | "tail") && source.source.as_deref() != Some(PRELUDE);
            of_script.then(|| (source.source.map(|source| source.into_owned()), debug.current_line()))
        });
        match found {
            None => return (None, None),
            Some(Some(position)) => return position,
            Some(None) => level += 1,
        }
    }
}

/// Whether the user of the script may run a command.
fn may_run(lua: &Lua, (meter, calls): &(Rc<Meter>, Rc<Calls>), words: &MultiValue) -> mlua::Result<bool> {
    if words.is_empty() {
        return Err(Raised::reply("ERR Please specify at least one argument for this redis lib call"));
    }
    meter.later(20)?;
    if EngineVersion::of_state(lua) >= EngineVersion::Seventh {
        meter.work(SCRIPT_CALL_INSTRUCTIONS)?;
    }
    charge_words(lua, meter, words)?;
    let texts: Option<SmallVec<[Word<'_>; 8]>> = words.iter().map(Word::of).collect();
    let texts =
        texts.ok_or_else(|| Raised::reply("ERR Lua redis lib command arguments must be strings or integers"))?;
    let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|word| &**word).collect();
    let spec = args.first().and_then(|name| table::lookup(name)).and_then(|spec| match args.get(1) {
        Some(name) if spec.is_container() => table::subcommand(spec, name),
        _ => Some(spec),
    });
    let spec = spec.ok_or_else(|| Raised::reply("ERR Invalid command passed to redis.acl_check_cmd()"))?;
    calls.may_run(spec, &args)
}

/// `7.0.15` as 0x0007000f.
fn version_number(version: &str) -> u32 {
    let parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    parts.fold(0, |number, part| number << 8 | part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_redis() {
        assert_eq!(sha1_hex(b"return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let number = |version: EngineVersion| version_number(version.redis_version());
        assert_eq!(number(EngineVersion::First), 0x0007_000F);
        assert_eq!(number(EngineVersion::Second), 0x0007_000F);
        assert_eq!(number(EngineVersion::Third), 0x0007_0407);
        assert!(is_sha(sha1_hex(b"").as_bytes()) && !is_sha(b"e0e1") && !is_sha(&[b'g'; 40]));
    }

    #[test]
    fn a_line_that_is_logged_has_a_bound() {
        let lua = Lua::new();
        let long = Value::String(lua.create_string("x".repeat(1000)).unwrap());
        let values = [Value::Number(1.5), Value::Nil, Value::Integer(7), long.clone()];
        assert_eq!(logged_line(values[..3].iter()), b"1.5 7");
        assert_eq!(logged_line(values.iter()).len(), 6 + 1000);
        let line = logged_line(std::iter::repeat_n(&long, 6000));
        assert_eq!((line.len(), line[1000], line[1001]), (LOGGED_BYTES_MAX, b' ', b'x'));
    }
}
