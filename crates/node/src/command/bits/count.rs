//! BITCOUNT and BITPOS.

use crate::command::args::{SYNTAX, int, is_word, span_of, string_of};
use crate::command::call::{Error, Outcome, ReadCall};

/// A run of bits of a string, both ends included.
#[derive(Clone, Copy)]
struct BitRange {
    first: u64,
    last: u64,
}

impl BitRange {
    /// From `start` to `end`, counted from the end if negative, in bits or bytes; `None` if nothing lies between them.
    fn of(bytes: &[u8], start: i64, end: i64, in_bits: bool) -> Option<Self> {
        let unit = if in_bits { 1 } else { 8 };
        let (start, end) = span_of(start, end, bytes.len() as i64 * 8 / unit)?;
        Some(Self { first: (start * unit) as u64, last: (end * unit + unit - 1) as u64 })
    }

    /// The bytes that it touches, and which bits of the first and of the last of them belong to it.
    fn of_bytes<'b>(&self, bytes: &'b [u8]) -> (&'b [u8], u8, u8) {
        let touched = &bytes[(self.first / 8) as usize..=(self.last / 8) as usize];
        (touched, 0xFF >> (self.first % 8), 0xFF << (7 - self.last % 8))
    }

    /// How many of its bits are set.
    fn count(&self, bytes: &[u8]) -> u64 {
        let (touched, first_mask, last_mask) = self.of_bytes(bytes);
        let (words, rest) = touched.as_chunks::<8>();
        let whole: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
        let whole = whole + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        let outside = |byte: Option<&u8>, mask: u8| byte.map_or(0, |byte| u64::from((byte & !mask).count_ones()));
        whole - outside(touched.first(), first_mask) - outside(touched.last(), last_mask)
    }

    /// The first of its bits that is `bit`.
    fn find(&self, bytes: &[u8], bit: bool) -> Option<u64> {
        let (touched, first_mask, last_mask) = self.of_bytes(bytes);
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
    let Some(record) = call.space.get(call.args[1])? else {
        call.reply.int(0);
        return Ok(());
    };
    let bytes = string_of(&record)?;
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
    let range = BitRange::of(bytes, start, end, in_bits).filter(|_| !is_crossed(start, end));
    call.reply.int(range.map_or(0, |range| range.count(bytes)) as i64);
    Ok(())
}

pub(super) fn bitpos(call: &mut ReadCall<'_>) -> Outcome {
    let bit = match int(call.args[2])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(record) = call.space.get(call.args[1])? else {
        call.reply.int(if bit { -1 } else { 0 });
        return Ok(());
    };
    let bytes = string_of(&record)?;
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
    let found = BitRange::of(bytes, start, end.unwrap_or(-1), in_bits).map(|range| range.find(bytes, bit));
    call.reply.int(match found {
        Some(Some(at)) => at as i64,
        // Behind a string that has no end there are zeros.
        Some(None) if !bit && end.is_none() => bytes.len() as i64 * 8,
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
            let Some(range) = BitRange::of(&bytes, start, end, in_bits) else {
                assert!(start > end);
                continue;
            };
            let within = &bits[range.first as usize..=range.last as usize];
            assert_eq!(range.count(&bytes), within.iter().filter(|bit| **bit).count() as u64);
            for bit in [false, true] {
                let expected = within.iter().position(|found| *found == bit).map(|at| range.first + at as u64);
                assert_eq!(range.find(&bytes, bit), expected, "{bytes:?} {start} {end} {in_bits} {bit}");
            }
        }
    }
}
