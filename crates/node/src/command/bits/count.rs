//! BITCOUNT and BITPOS.

use crate::command::args::{SYNTAX, int, is_word, span_of};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::string::look_into_record;
use crate::space::long_string::StringView;
use std::borrow::Cow;

/// So many bytes of a string are looked at at a time.
const WINDOW_BYTES: usize = 64 << 10;

/// A run of bits of a string, both ends included.
#[derive(Clone, Copy)]
struct BitRange {
    first: u64,
    last: u64,
}

impl BitRange {
    /// From `start` to `end`, counted from the end if negative, in bits or bytes; `None` if nothing lies between them.
    fn of(length: usize, start: i64, end: i64, in_bits: bool) -> Option<Self> {
        let unit = if in_bits { 1 } else { 8 };
        let (start, end) = span_of(start, end, length as i64 * 8 / unit)?;
        Some(Self { first: (start * unit) as u64, last: (end * unit + unit - 1) as u64 })
    }

    /// The first byte that it touches, and the first behind.
    fn bytes(&self) -> (usize, usize) {
        ((self.first / 8) as usize, (self.last / 8) as usize + 1)
    }

    /// The same bits in parts, of a few bytes each, so that a long string is not put together.
    fn windows(self) -> impl Iterator<Item = Self> {
        let (first, until) = self.bytes();
        (first..until).step_by(WINDOW_BYTES).map(move |from| {
            let end = (from + WINDOW_BYTES).min(until) as u64;
            Self { first: self.first.max(from as u64 * 8), last: self.last.min(end * 8 - 1) }
        })
    }

    /// The bytes of a string that it touches.
    fn of_string<'s>(&self, string: &'s mut StringView<'_>) -> Result<Cow<'s, [u8]>, Error> {
        let (first, until) = self.bytes();
        Ok(string.part(first, until)?)
    }

    /// Which bits of the first byte that it touches belong to it, and which of the last.
    fn masks(&self) -> (u8, u8) {
        (0xFF >> (self.first % 8), 0xFF << (7 - self.last % 8))
    }

    /// How many of its bits are set, by the bytes that it touches.
    fn count(&self, touched: &[u8]) -> u64 {
        let (first_mask, last_mask) = self.masks();
        let (words, rest) = touched.as_chunks::<8>();
        let whole: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
        let whole = whole + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        let outside = |byte: Option<&u8>, mask: u8| byte.map_or(0, |byte| u64::from((byte & !mask).count_ones()));
        whole - outside(touched.first(), first_mask) - outside(touched.last(), last_mask)
    }

    /// The first of its bits that is `bit`, likewise.
    fn find(&self, touched: &[u8], bit: bool) -> Option<u64> {
        let (first_mask, last_mask) = self.masks();
        // The bits looked for are ones from here on, those outside are none.
        let flip = if bit { 0 } else { 0xFF };
        let ends = touched.len() - 1;
        let masked = |i: usize| {
            let mask = if i == 0 { first_mask } else { 0xFF } & if i == ends { last_mask } else { 0xFF };
            (touched[i] ^ flip) & mask
        };
        let skipped =
            if masked(0) != 0 { 0 } else { 1 + touched[1..].iter().take_while(|byte| **byte == flip).count() };
        let byte = (skipped..touched.len()).map(|i| (i, masked(i))).find(|(_, byte)| *byte != 0);
        byte.map(|(i, byte)| (self.first / 8 + i as u64) * 8 + u64::from(byte.leading_zeros()))
    }
}

fn unit_of(word: &[u8]) -> Result<bool, Error> {
    match () {
        () if is_word(word, "BIT") => Ok(true),
        () if is_word(word, "BYTE") => Ok(false),
        () => Err(SYNTAX.into()),
    }
}

/// Whether both lie before the end of a string, and the end before the start.
fn is_crossed(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

pub(super) fn bitcount(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.args[1];
    let Some(record) = call.space.stored(key)? else {
        call.reply.int(0);
        return Ok(());
    };
    let length = look_into_record(call.space, key, Some(&record), |string| Ok(string.len()))?;
    let (start, end, in_bits) = match call.args[2..] {
        [] => (0, -1, false),
        [start, end] => (int(start)?, int(end)?, false),
        [start, end, unit] => {
            let (start, end) = (int(start)?, int(end)?);
            // As in Redis, nothing lies between these, whatever the unit.
            (start, end, !is_crossed(start, end) && unit_of(unit)?)
        }
        _ => return Err(SYNTAX.into()),
    };
    let range = BitRange::of(length, start, end, in_bits).filter(|_| !is_crossed(start, end));
    let count = look_into_record(call.space, key, Some(&record), |string| match range {
        Some(range) => range.windows().map(|part| Ok(part.count(&part.of_string(string)?))).sum(),
        None => Ok(0),
    })?;
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn bitpos(call: &mut ReadCall<'_>) -> Outcome {
    let bit = match int(call.args[2])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let key = call.args[1];
    let Some(record) = call.space.stored(key)? else {
        call.reply.int(if bit { -1 } else { 0 });
        return Ok(());
    };
    let length = look_into_record(call.space, key, Some(&record), |string| Ok(string.len()))?;
    let (start, end, in_bits) = match call.args[3..] {
        [] => (0, None, false),
        [start] => (int(start)?, None, false),
        [start, end] => (int(start)?, Some(int(end)?), false),
        [start, end, unit] => {
            let (start, in_bits) = (int(start)?, unit_of(unit)?);
            (start, Some(int(end)?), in_bits)
        }
        _ => return Err(SYNTAX.into()),
    };
    let range = BitRange::of(length, start, end.unwrap_or(-1), in_bits);
    let found = look_into_record(call.space, key, Some(&record), |string| match range {
        Some(range) => {
            let mut found = range.windows().map(|part| Ok(part.find(&part.of_string(string)?, bit)));
            let first: Result<_, Error> = found.find_map(Result::transpose).transpose();
            Ok(Some(first?))
        }
        None => Ok(None),
    })?;
    call.reply.int(match found {
        Some(Some(at)) => at as i64,
        // Behind a string that has no end there are zeros.
        Some(None) if !bit && end.is_none() => length as i64 * 8,
        Some(None) | None => -1,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    #[test]
    fn bits_are_counted_and_found_as_one_by_one() {
        let mut prng = Prng::new(3);
        for _ in 0..3_000 {
            let plain = [0, 0xFF][prng.below(2) as usize];
            let mut bytes = vec![plain; 1 + prng.below(40) as usize];
            for _ in 0..prng.below(3) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << prng.below(8);
            }
            let bits: Vec<bool> = bytes.iter().flat_map(|byte| (0..8).map(move |i| byte >> (7 - i) & 1 == 1)).collect();
            let in_bits = prng.below(2) == 1;
            let bound = if in_bits { bits.len() } else { bytes.len() } as u64;
            let (start, end) = (prng.below(bound) as i64, prng.below(bound) as i64);
            let Some(range) = BitRange::of(bytes.len(), start, end, in_bits) else {
                assert!(start > end);
                continue;
            };
            let touched = &bytes[range.bytes().0..range.bytes().1];
            let within = &bits[range.first as usize..=range.last as usize];
            assert_eq!(range.windows().count(), 1);
            assert_eq!(range.count(touched), within.iter().filter(|bit| **bit).count() as u64);
            for bit in [false, true] {
                let expected = within.iter().position(|found| *found == bit).map(|at| range.first + at as u64);
                assert_eq!(range.find(touched, bit), expected, "{bytes:?} {start} {end} {in_bits} {bit}");
            }
        }
    }
}
