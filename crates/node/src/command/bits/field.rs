//! BITFIELD and BITFIELD_RO: integers of any width at any bit of a string.

use super::value::{BitUse, checked, offset_of};
use crate::Patch;
use crate::command::args::{SYNTAX, bytes_of, check_release, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::string::edit_string;
use crate::keyspace_events::Event;

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
    fn parse(ty: &[u8], offset: &[u8], wanted: BitUse) -> Result<Self, Error> {
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
                checked(resp::parse_integer(index).and_then(|index| index.checked_mul(i64::from(bits))), wanted)?
            }
            offset => offset_of(offset, wanted)?,
        };
        // What is written must have a place to its last bit.
        if wanted == BitUse::Write {
            checked(i64::try_from(offset + u64::from(bits) - 1).ok(), wanted)?;
        }
        Ok(Self { is_signed, bits, offset })
    }

    /// How many bytes a string must have to hold it.
    fn end(&self) -> usize {
        ((self.offset + u64::from(self.bits)).div_ceil(8)) as usize
    }

    /// The first byte that holds a part of it.
    fn first(&self) -> usize {
        (self.offset / 8) as usize
    }

    /// Its value; what lies behind the string's end is zero.
    fn get(&self, bytes: &[u8]) -> i128 {
        self.get_of(|i| bytes.get(i).copied().unwrap_or(0))
    }

    /// Its value in a string whose bytes within `window` are others.
    fn get_above(&self, bytes: &[u8], window: &Window, changed: &[u8]) -> i128 {
        let within = |i: usize| i.checked_sub(window.first).and_then(|i| changed.get(i));
        self.get_of(|i| within(i).or_else(|| bytes.get(i)).copied().unwrap_or(0))
    }

    fn get_of(&self, byte: impl Fn(usize) -> u8) -> i128 {
        let window = (self.first()..self.end()).fold(0u128, |all, i| all << 8 | u128::from(byte(i)));
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

/// The operations of a request, one after the other; an error is the last.
struct Actions<'r, 'a> {
    rest: &'r [&'a [u8]],
    overflow: Overflow,
}

impl<'r, 'a> Actions<'r, 'a> {
    fn of(words: &'r [&'a [u8]]) -> Self {
        Self { rest: words, overflow: Overflow::Wrap }
    }

    fn parse_next(&mut self) -> Result<Option<(Field, Action)>, Error> {
        loop {
            let (field, action, after) = match self.rest {
                [] => return Ok(None),
                [word, ty, offset, after @ ..] if is_word(word, "GET") => {
                    (Field::parse(ty, offset, BitUse::Read)?, Action::Get, after)
                }
                [word, how, after @ ..] if is_word(word, "OVERFLOW") => {
                    self.overflow = match () {
                        () if is_word(how, "WRAP") => Overflow::Wrap,
                        () if is_word(how, "SAT") => Overflow::Saturate,
                        () if is_word(how, "FAIL") => Overflow::Fail,
                        () => return Err("ERR Invalid OVERFLOW type specified".into()),
                    };
                    self.rest = after;
                    continue;
                }
                [word, ty, offset, value, after @ ..] if is_word(word, "SET") => {
                    (Field::parse(ty, offset, BitUse::Write)?, Action::Set(int(value)?, self.overflow), after)
                }
                [word, ty, offset, by, after @ ..] if is_word(word, "INCRBY") => {
                    (Field::parse(ty, offset, BitUse::Write)?, Action::IncrementBy(int(by)?, self.overflow), after)
                }
                _ => return Err(SYNTAX.into()),
            };
            self.rest = after;
            return Ok(Some((field, action)));
        }
    }
}

impl Iterator for Actions<'_, '_> {
    type Item = Result<(Field, Action), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.parse_next().transpose()
    }
}

pub(super) fn bitfield_ro(call: &mut ReadCall<'_>) -> Outcome {
    let only_reads = |found: Result<(Field, Action), Error>| -> Result<Field, Error> {
        match found? {
            (field, Action::Get) => Ok(field),
            _ => Err("ERR BITFIELD_RO only supports the GET subcommand".into()),
        }
    };
    let fields = Actions::of(&call.args[2..]).map(only_reads).collect::<Result<Vec<Field>, Error>>()?;
    let record = call.space.get(call.args[1])?;
    let bytes = bytes_of(record.as_ref())?;
    call.reply.array(fields.len());
    for field in fields {
        call.reply.int(field.get(bytes) as i64);
    }
    Ok(())
}

pub(super) fn bitfield(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let actions = Actions::of(&call.args[2..]).collect::<Result<Vec<_>, Error>>()?;
    let (answers, is_changed) = edit_string(call.space, call.args[1], |bytes| {
        let (answers, patch) = perform(&actions, bytes);
        Ok(((answers, patch.is_some()), patch))
    })?;
    if is_changed {
        call.space.notify(Event::SETBIT, call.args[1]);
    }
    call.reply.array(actions.len());
    for answer in answers {
        match answer {
            Some(answer) => call.reply.int(answer),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// By how many bytes BITFIELD may make a string longer.
pub(super) fn growth(args: &[&[u8]]) -> usize {
    let mut growth = 0;
    for action in Actions::of(&args[2..]) {
        match action {
            Ok((_, Action::Get)) => {}
            Ok((field, _)) => growth = growth.max(field.end()),
            // It writes nothing.
            Err(_) => return 0,
        }
    }
    growth
}

/// What the actions answer, and what they change of a string.
fn perform(actions: &[(Field, Action)], bytes: &[u8]) -> (Vec<Option<i64>>, Option<Patch>) {
    let written = || actions.iter().filter(|(_, action)| !matches!(action, Action::Get)).map(|(field, _)| field);
    let window = Window {
        first: written().map(Field::first).min().unwrap_or(0),
        end: written().map(Field::end).max().unwrap_or(0),
    };
    let mut changed = window.of(bytes);
    let mut answers = Vec::with_capacity(actions.len());
    for (field, action) in actions {
        let old = match action {
            Action::Get if !window.touches(field) => field.get(bytes),
            // What it may see of earlier actions lies within the window, and the rest of it beside.
            Action::Get => field.get_above(bytes, &window, &changed),
            _ => window.shift(field).get(&changed),
        };
        let (new, answers_new) = match *action {
            Action::Get => {
                answers.push(Some(old as i64));
                continue;
            }
            Action::Set(value, overflow) => (field.fit(field.argument(value), overflow), false),
            Action::IncrementBy(by, overflow) => (field.fit(old + i128::from(by), overflow), true),
        };
        if let Some(new) = new {
            window.shift(field).set(&mut changed, new);
        }
        answers.push(new.map(|new| if answers_new { new } else { old } as i64));
    }
    let is_changed = window.end > bytes.len() || changed != bytes[window.first..window.end];
    (answers, is_changed.then_some(Patch { offset: window.first, bytes: changed }))
}

/// The bytes of a string that actions may write.
struct Window {
    first: usize,
    end: usize,
}

impl Window {
    /// They, with zeros behind the string's end.
    fn of(&self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = bytes[self.first.min(bytes.len())..self.end.min(bytes.len())].to_vec();
        copy.resize(self.end - self.first, 0);
        copy
    }

    fn touches(&self, field: &Field) -> bool {
        field.first() < self.end && field.end() > self.first
    }

    /// The same field, counted from the window's first byte.
    fn shift(&self, field: &Field) -> Field {
        Field { offset: field.offset - self.first as u64 * 8, ..*field }
    }
}
