//! Blocking commands, as entries have them: what such a command does at once, or nil if it has to wait.
//!
//! Who waits is the shell's to know (`crate::blocking`): an entry never waits. Each of these commands does what a command
//! that does not block does, so it is written in terms of that one.

use super::args::SYNTAX;
use super::call::{HandlerRow, Outcome, WriteCall, write};
use super::list::{self, List};
use super::number::extended::Extended;
use super::zset::{self, SortedSet};
use super::{Call, Error};
use crate::awaited_keys::{Awaited, Holds};
use crate::{Record, Type};
use resp::Reply;
use vocab::client_key;

pub(super) const ROWS: &[HandlerRow] = &[
    write("BLPOP", |call| pop_first(call, (b"LPOP", list::lpop))),
    write("BRPOP", |call| pop_first(call, (b"RPOP", list::rpop))),
    write("BLMOVE", blmove),
    write("BRPOPLPUSH", brpoplpush),
    write("BLMPOP", |call| pop_many(call, (b"LMPOP", list::lmpop))),
    write("BZPOPMIN", |call| pop_first_scored(call, (b"ZPOPMIN", zset::zpopmin))),
    write("BZPOPMAX", |call| pop_first_scored(call, (b"ZPOPMAX", zset::zpopmax))),
    write("BZMPOP", |call| pop_many(call, (b"ZMPOP", zset::zmpop))),
];

const NEGATIVE: &str = "ERR timeout is negative";

/// Where the timeout of a command over streams is: behind the option BLOCK, of several behind the last.
pub(crate) fn block_option(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (1, None);
    while let Some(option) = args.get(at) {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        if is("STREAMS") {
            break;
        }
        if is("BLOCK") {
            found = Some(at + 1);
        }
        // Group and consumer may be called as an option is.
        at += if is("GROUP") { 3 } else { 1 };
    }
    found
}

/// For how many ms a command waits whose timeout is in seconds; `None`: without a limit. The error is its reply.
pub(crate) fn timeout_of_seconds(text: &[u8]) -> Result<Option<u64>, &'static str> {
    let ms = match Extended::parse(text).ok_or("ERR timeout is not a float or out of range")? {
        Extended::Infinite => f64::INFINITY,
        Extended::Finite { negative, mantissa, exponent } => {
            // What is too little for a double is still some time: without any, there would be no limit.
            let least = if mantissa > 0 && !negative { 1.0 } else { 0.0 };
            let ms = (mantissa as f64 * 2f64.powi(exponent) * 1000.0).ceil().max(least);
            if negative { -ms } else { ms }
        }
    };
    if ms < 0.0 {
        return Err(NEGATIVE);
    }
    if ms >= i64::MAX as f64 {
        return Err("ERR timeout is out of range");
    }
    Ok((ms > 0.0).then_some(ms as u64))
}

/// The same of a timeout in ms.
pub(crate) fn timeout_of_ms(text: &[u8]) -> Result<Option<u64>, &'static str> {
    let ms = resp::parse_integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| NEGATIVE)?;
    Ok((ms > 0).then_some(ms))
}

/// What a key holds for which clients may wait.
pub(crate) fn holds(key: &[u8], record: &Record) -> Option<Holds> {
    match record.view().kind.ty {
        Type::List => {
            let elements = List::of(key, record.clone()).and_then(|list| list.count()).ok()?;
            Some(Holds { what: Awaited::List, elements })
        }
        Type::SortedSet => {
            let elements = SortedSet::of(key, record.clone()).and_then(|set| set.count()).ok()?;
            Some(Holds { what: Awaited::SortedSet, elements })
        }
        // It serves all that wait for it, however many entries it has.
        Type::Stream => Some(Holds { what: Awaited::Stream, elements: u64::MAX }),
        Type::String | Type::Hash | Type::Set => None,
    }
}

/// A command that does not block: its name, and what runs it.
type Plain = (&'static [u8], fn(&mut WriteCall<'_>) -> Outcome);

/// Runs another command in the place of this one.
fn run(call: &mut WriteCall<'_>, (name, run): Plain, rest: &[&[u8]]) -> Outcome {
    let args: Vec<&[u8]> = std::iter::once(name).chain(rest.iter().copied()).collect();
    run(&mut Call { args: &args, space: &mut *call.space, reply: &mut *call.reply })
}

/// The first of the keys that is there. What is there has an element, or is of another type.
fn first_there<'a>(call: &mut WriteCall<'_>, keys: &[&'a [u8]]) -> Result<Option<&'a [u8]>, Error> {
    for key in keys {
        if call.space.stored(key)?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// `BLPOP key [key ...] timeout`
fn pop_first(call: &mut WriteCall<'_>, plain: Plain) -> Outcome {
    let [_, keys @ .., timeout] = call.args else { return Err(SYNTAX.into()) };
    timeout_of_seconds(timeout)?;
    let Some(key) = first_there(call, keys)? else {
        call.reply.null_array();
        return Ok(());
    };
    call.reply.array(2);
    call.reply.bulk(client_key(key));
    run(call, plain, &[key])
}

/// `BZPOPMIN key [key ...] timeout`
fn pop_first_scored(call: &mut WriteCall<'_>, plain: Plain) -> Outcome {
    let [_, keys @ .., timeout] = call.args else { return Err(SYNTAX.into()) };
    timeout_of_seconds(timeout)?;
    let Some(key) = first_there(call, keys)? else {
        call.reply.null_array();
        return Ok(());
    };
    let mut popped = Reply::new(call.reply.proto);
    run(&mut Call { args: call.args, space: &mut *call.space, reply: &mut popped }, plain, &[key])?;
    call.reply.array(3);
    call.reply.bulk(client_key(key));
    call.reply.spend(popped.spent());
    // Member and score stand in an array of their own there.
    call.reply.raw(popped.buf.strip_prefix(b"*2\r\n").unwrap_or(&popped.buf));
    Ok(())
}

/// `BLMPOP timeout numkeys key [key ...] …`
fn pop_many(call: &mut WriteCall<'_>, plain: Plain) -> Outcome {
    let [_, timeout, rest @ ..] = call.args else { return Err(SYNTAX.into()) };
    timeout_of_seconds(timeout)?;
    run(call, plain, rest)
}

/// `BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout`
fn blmove(call: &mut WriteCall<'_>) -> Outcome {
    let [_, rest @ .., timeout] = call.args else { return Err(SYNTAX.into()) };
    list::sides_of(rest)?;
    timeout_of_seconds(timeout)?;
    run(call, (b"LMOVE", list::lmove), rest)
}

/// `BRPOPLPUSH source destination timeout`
fn brpoplpush(call: &mut WriteCall<'_>) -> Outcome {
    let [_, source, destination, timeout] = call.args else { return Err(SYNTAX.into()) };
    timeout_of_seconds(timeout)?;
    run(call, (b"LMOVE", list::lmove), &[source, destination, b"RIGHT", b"LEFT"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_timeout_counts() {
        for (line, expected) in [
            ("XREAD BLOCK 5 STREAMS s $", Some(2)),
            ("XREAD BLOCK 5 COUNT 1 BLOCK 0 STREAMS s $", Some(6)),
            ("XREADGROUP GROUP BLOCK BLOCK STREAMS BLOCK >", None),
            ("XREAD STREAMS BLOCK 0", None),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(block_option(&args), expected, "{line}");
        }
    }

    #[test]
    fn timeouts_are_read_as_redis_reads_them() {
        const NOT_FLOAT: &str = "ERR timeout is not a float or out of range";
        for (text, expected) in [
            ("0", Ok(None)),
            ("-0", Ok(None)),
            ("1", Ok(Some(1000))),
            ("0.001", Ok(Some(1))),
            ("0.0001", Ok(Some(1))),
            ("5e-324", Ok(Some(1))),
            ("1e-4000", Ok(Some(1))),
            ("0e-4000", Ok(None)),
            ("1.5", Ok(Some(1500))),
            ("1e2", Ok(Some(100_000))),
            ("-1", Err(NEGATIVE)),
            ("-0.001", Err(NEGATIVE)),
            ("0x7FFFFFFFFFFFFFFF", Err("ERR timeout is out of range")),
            ("inf", Err("ERR timeout is out of range")),
            ("nan", Err(NOT_FLOAT)),
            ("", Err(NOT_FLOAT)),
            (" 1", Err(NOT_FLOAT)),
            ("abc", Err(NOT_FLOAT)),
        ] {
            assert_eq!(timeout_of_seconds(text.as_bytes()), expected, "{text}");
        }
        const NOT_INTEGER: &str = "ERR timeout is not an integer or out of range";
        for (text, expected) in [
            ("0", Ok(None)),
            ("7", Ok(Some(7))),
            ("-7", Err(NEGATIVE)),
            ("1.5", Err(NOT_INTEGER)),
            ("x", Err(NOT_INTEGER)),
        ] {
            assert_eq!(timeout_of_ms(text.as_bytes()), expected, "{text}");
        }
    }
}
