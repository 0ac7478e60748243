//! BITFIELD and BITFIELD_RO: integers of any width at any bit of a string.

use super::value::{BitUse, checked, offset_of};
use crate::command::args::{SYNTAX, check_release, int, is_word};
use crate::command::call::{Error, Outcome, ReadCall, WriteCall};
use crate::command::string::{Edited, Patches, edit_string, look_into};
use crate::keyspace_events::Event;
use crate::space::long_string::StringView;
use crate::{Fault, Patch};

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

    /// Its value in those bytes, of which it may be a part.
    fn get(&self, bytes: &[u8]) -> i128 {
        self.get_of(|i| bytes.get(i).copied().unwrap_or(0))
    }

    /// Its value in a string of which the bytes in `windows` are others; what lies behind the string's end is zero.
    fn get_above(&self, string: &mut StringView<'_>, windows: &Windows) -> Result<i128, Fault> {
        let first = self.first();
        let below = string.part(first, self.end())?;
        Ok(self.get_of(|i| windows.byte(i).or_else(|| below.get(i - first).copied()).unwrap_or(0)))
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
    let reply = &mut *call.reply;
    look_into(call.space, call.args[1], |string| {
        reply.array(fields.len());
        for field in fields {
            reply.int(field.get_above(string, &Windows(Vec::new()))? as i64);
        }
        Ok(())
    })
}

pub(super) fn bitfield(call: &mut WriteCall<'_>) -> Outcome {
    check_release(call.space)?;
    let actions = Actions::of(&call.args[2..]).collect::<Result<Vec<_>, Error>>()?;
    let (answers, is_changed) = edit_string(call.space, call.args[1], |string| {
        let (answers, patches) = perform(&actions, string)?;
        Ok(((answers, !patches.is_empty()), patches))
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
fn perform(actions: &[(Field, Action)], string: &mut StringView<'_>) -> Edited<Vec<Option<i64>>> {
    let written = actions.iter().filter(|(_, action)| !matches!(action, Action::Get)).map(|(field, _)| field);
    let mut windows = Windows::of(written, string)?;
    let mut answers = Vec::with_capacity(actions.len());
    for (field, action) in actions {
        let (value, overflow, answers_new) = match *action {
            Action::Get => {
                answers.push(Some(field.get_above(string, &windows)? as i64));
                continue;
            }
            Action::Set(value, overflow) => (field.argument(value), overflow, false),
            Action::IncrementBy(by, overflow) => (i128::from(by), overflow, true),
        };
        let window = windows.at(field);
        let within = window.shift(field);
        let old = within.get(&window.bytes);
        let new = field.fit(if answers_new { old + value } else { value }, overflow);
        if let Some(new) = new {
            within.set(&mut window.bytes, new);
        }
        answers.push(new.map(|new| if answers_new { new } else { old } as i64));
    }
    Ok((answers, windows.changes(string)?))
}

/// Bytes of a string that actions may write, with what they have written so far.
struct Window {
    first: usize,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> usize {
        self.first + self.bytes.len()
    }

    /// The same field, counted from the window's first byte.
    fn shift(&self, field: &Field) -> Field {
        Field { offset: field.offset - self.first as u64 * 8, ..*field }
    }
}

/// All bytes that actions may write, in their order: fields that touch lie in one window.
struct Windows(Vec<Window>);

impl Windows {
    /// They, with zeros behind the string's end.
    fn of<'f>(written: impl Iterator<Item = &'f Field>, string: &mut StringView<'_>) -> Result<Self, Fault> {
        let mut spans: Vec<(usize, usize)> = written.map(|field| (field.first(), field.end())).collect();
        spans.sort_unstable();
        spans.dedup_by(|next, before| {
            let meets = next.0 <= before.1;
            before.1 = if meets { before.1.max(next.1) } else { before.1 };
            meets
        });
        let window = |(first, end): (usize, usize)| {
            let mut bytes = string.part(first, end)?.into_owned();
            bytes.resize(end - first, 0);
            Ok(Window { first, bytes })
        };
        spans.into_iter().map(window).collect::<Result<_, Fault>>().map(Self)
    }

    /// The window of a field that is written.
    fn at(&mut self, field: &Field) -> &mut Window {
        let behind = self.0.partition_point(|window| window.first <= field.first());
        &mut self.0[behind - 1]
    }

    /// The byte of the string at that place, if it lies in a window.
    fn byte(&self, at: usize) -> Option<u8> {
        let behind = self.0.partition_point(|window| window.first <= at);
        let window = self.0[..behind].last()?;
        window.bytes.get(at - window.first).copied()
    }

    /// What is to be written: the windows in which something has changed, or that make the string longer.
    fn changes(self, string: &mut StringView<'_>) -> Result<Patches, Fault> {
        let mut changes = Patches::new();
        let mut is_changed = false;
        let is_whole = matches!(string, StringView::Whole(_));
        for window in self.0 {
            let changes_here = window.end() > string.len() || string.part(window.first, window.end())? != window.bytes;
            is_changed |= changes_here;
            // Of a string that is one row all are written: so replicas of all releases count the same.
            if changes_here || is_whole {
                changes.push(Patch { offset: window.first, bytes: window.bytes });
            }
        }
        Ok(if is_changed { changes } else { Patches::new() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Earlier releases have written all bytes between the first field and the last: what that counts for is the same on all replicas.
    #[test]
    fn of_a_string_that_is_one_row_all_windows_are_written_if_one_changes() {
        let perform = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let actions = Actions::of(&words).collect::<Result<Vec<_>, _>>().unwrap_or_default();
            let (_, patches) = perform(&actions, &mut StringView::Whole(b"abcdefgh")).unwrap_or_default();
            patches.iter().map(|patch| (patch.offset, patch.bytes.len())).collect::<Vec<_>>()
        };
        assert_eq!(perform("SET u8 #0 1 SET u8 #6 103"), [(0, 1), (6, 1)]);
        assert_eq!(perform("SET u8 #0 97 SET u8 #6 103"), []);
        assert_eq!(perform("SET u8 #0 97 SET u8 #9 0"), [(0, 1), (9, 1)]);
        assert_eq!(perform("SET u16 4 0 SET u8 #2 0 GET u8 #7"), [(0, 3)], "fields that touch are one window");
    }
}
