//! BITFIELD and BITFIELD_RO: integers of any width at any bit of a string.

use super::value::{checked, offset_of};
use crate::command::args::{SYNTAX, bytes_of, check_release, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::string::put_string;

const BAD_TYPE: &str =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";

/// A place in a string that holds an integer.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    /// Its width.
    bits: u32,
    /// Its first bit.
    offset: u64,
}

/// What happens to a result that the field cannot hold.
#[derive(Clone, Copy)]
enum Overflow {
    /// Its highest bits are lost.
    Wrap,
    /// The nearest that it can hold takes its place.
    Saturate,
    /// The field stays as it was, and the answer is null.
    Fail,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    IncrementBy(i64, Overflow),
}

impl Field {
    fn parse(ty: &[u8], offset: &[u8]) -> Result<Self, Error> {
        let (is_signed, digits) = match ty {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(BAD_TYPE.into()),
        };
        let bits = resp::parse_integer(digits).and_then(|bits| u32::try_from(bits).ok());
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = bits.filter(|bits| (1..=bits_max).contains(bits)).ok_or(BAD_TYPE)?;
        let offset = match offset {
            [b'#', index @ ..] => {
                checked(resp::parse_integer(index).and_then(|index| index.checked_mul(i64::from(bits))))?
            }
            offset => offset_of(offset)?,
        };
        // The last bit must be there, too.
        checked(i64::try_from(offset + u64::from(bits) - 1).ok())?;
        Ok(Self { is_signed, bits, offset })
    }

    /// How many bytes a string must have to hold it.
    fn end(&self) -> usize {
        ((self.offset + u64::from(self.bits)).div_ceil(8)) as usize
    }

    /// Its value; what lies behind the string's end is zero.
    fn get(&self, bytes: &[u8]) -> i128 {
        let first = (self.offset / 8) as usize;
        let window =
            (first..self.end()).fold(0u128, |all, i| all << 8 | u128::from(bytes.get(i).copied().unwrap_or(0)));
        let below = (self.end() as u64 * 8 - self.offset - u64::from(self.bits)) as u32;
        self.truncated((window >> below) as i128)
    }

    fn set(&self, bytes: &mut [u8], value: i128) {
        for i in 0..self.bits {
            let at = self.offset + u64::from(i);
            let bit = (value >> (self.bits - 1 - i) & 1) as u8;
            let (byte, shift) = (&mut bytes[(at / 8) as usize], 7 - at % 8);
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }

    fn bounds(&self) -> (i128, i128) {
        if self.is_signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    /// The lowest bits of `value` as the field's type reads them.
    fn truncated(&self, value: i128) -> i128 {
        let low = value & ((1 << self.bits) - 1);
        let (_, max) = self.bounds();
        if low > max { low - (1 << self.bits) } else { low }
    }

    /// What the field holds after `value` is put into it; `None`: it stays as it was.
    fn fit(&self, value: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = self.bounds();
        match overflow {
            _ if (min..=max).contains(&value) => Some(value),
            Overflow::Wrap => Some(self.truncated(value)),
            Overflow::Saturate => Some(value.clamp(min, max)),
            Overflow::Fail => None,
        }
    }

    /// An argument of SET: Redis takes a negative one for an unsigned field as a very large one.
    fn argument(&self, value: i64) -> i128 {
        if self.is_signed { i128::from(value) } else { i128::from(value.cast_unsigned()) }
    }
}

/// All operations of a request.
fn parse(words: &[&[u8]], only_reads: bool) -> Result<Vec<(Field, Action)>, Error> {
    let mut actions = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = words;
    loop {
        let (field, action, after) = match rest {
            [] => return Ok(actions),
            [word, ty, offset, after @ ..] if is_word(word, "GET") => (Field::parse(ty, offset)?, Action::Get, after),
            [word, how, after @ ..] if is_word(word, "OVERFLOW") => {
                overflow = match () {
                    () if is_word(how, "WRAP") => Overflow::Wrap,
                    () if is_word(how, "SAT") => Overflow::Saturate,
                    () if is_word(how, "FAIL") => Overflow::Fail,
                    () => return Err("ERR Invalid OVERFLOW type specified".into()),
                };
                rest = after;
                continue;
            }
            [word, ty, offset, value, after @ ..] if is_word(word, "SET") => {
                (Field::parse(ty, offset)?, Action::Set(int(value)?, overflow), after)
            }
            [word, ty, offset, by, after @ ..] if is_word(word, "INCRBY") => {
                (Field::parse(ty, offset)?, Action::IncrementBy(int(by)?, overflow), after)
            }
            _ => return Err(SYNTAX.into()),
        };
        if only_reads && !matches!(action, Action::Get) {
            return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
        }
        actions.push((field, action));
        rest = after;
    }
}

pub(super) fn bitfield_ro(call: &mut ReadCall<'_>) -> Outcome {
    let actions = parse(&call.args[2..], true)?;
    let record = call.space.get(call.args[1])?;
    let bytes = bytes_of(record.as_ref())?;
    call.reply.array(actions.len());
    for (field, _) in actions {
        call.reply.int(field.get(bytes) as i64);
    }
    Ok(())
}

pub(super) fn bitfield(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let key = call.args[1];
    let actions = parse(&call.args[2..], false)?;
    let record = call.space.get(key)?;
    let mut bytes = bytes_of(record.as_ref())?.to_vec();
    let written =
        actions.iter().filter(|(_, action)| !matches!(action, Action::Get)).map(|(field, _)| field.end()).max();
    bytes.resize(bytes.len().max(written.unwrap_or(0)), 0);
    call.reply.array(actions.len());
    for (field, action) in actions {
        let old = field.get(&bytes);
        let (new, answers_new) = match action {
            Action::Get => {
                call.reply.int(old as i64);
                continue;
            }
            Action::Set(value, overflow) => (field.fit(field.argument(value), overflow), false),
            Action::IncrementBy(by, overflow) => (field.fit(old + i128::from(by), overflow), true),
        };
        match new {
            Some(new) => {
                field.set(&mut bytes, new);
                call.reply.int(if answers_new { new } else { old } as i64);
            }
            None => call.reply.null(),
        }
    }
    if written.is_some() && bytes != bytes_of(record.as_ref())? {
        let expire_at_ms = record.as_ref().and_then(|record| record.view().expire_at_ms);
        put_string(call.space, key, expire_at_ms, &[&bytes])?;
    }
    Ok(())
}
