//! The bytes of a field, made so that a reader can check them without knowing when they were written.
//!
//! A value follows from its key, its field, its length and a *tag*, a random number drawn for each write. The tag is
//! the value's own beginning: a reader takes it from there, makes the value again and compares every byte. So a value
//! of another key or field, a torn one, a truncated one and a flipped bit are all seen; only an older value of the same
//! field is not. Values that are too short for a tag always hold the same.
//!
//! YCSB's form stays: groups of six characters from one 32-bit number, of which the first is the tag. Such values
//! deflate to about 0.8; the other forms do not compress at all, or about 5.6 : 1 as database pages often do.

use super::integrity::{self, Verdict};

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// YCSB's printable characters, which deflate to about 0.8.
    Ycsb,
    /// Random bytes.
    Incompressible,
    /// Random bytes and then text that repeats, which compress about 5.6 : 1.
    PageLike,
    /// YCSB's `dataintegrity` text, which is the same at every write.
    Integrity,
}

/// A form's values begin with the tag when they have at least this many bytes.
const TAGGED_BYTES_MIN: usize = 12;
/// Page-like values repeat in units of this many bytes (or in one unit, when shorter).
const UNIT_BYTES: usize = 256;
/// What a page's other bytes say: any text would do, as long as it is the same in every unit.
const FILLER: &[u8; UNIT_BYTES] = b"<tr><td class=\"name\">status</td><td class=\"value\">delivered</td><td class=\"time\">2026-11-21</td>\
<td class=\"unit\">pieces</td></tr><tr><td class=\"name\">remark</td><td class=\"value\">none of the parcels was late</td><td class=\"time\">2026-11-22</td></tr><!---->";

/// One step of splitmix64 at a given position: any word of a value can be made without those before it.
fn word(seed: u64, position: u64) -> u64 {
    let mut z = seed.wrapping_add((position + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Six characters of one number, in the low six bytes: character k is ((x >> 5k) & m) + 32. A part of the number lies
/// 5k bits up and its character 8k, so 3k bits are between them.
#[inline(always)]
fn six_characters(x: u32) -> u64 {
    let part = |k: u32, mask: u64| (u64::from(x) << (3 * k)) & (mask << (8 * k));
    (part(0, 31) | part(1, 63) | part(2, 95) | part(3, 31) | part(4, 63) | part(5, 95)) + 0x2020_2020_2020
}

/// The number whose characters these are; bit 30 is in none of them and is 0.
fn number_of(characters: &[u8]) -> i32 {
    let part = |k: usize| i32::from(characters[k].wrapping_sub(32));
    let low = part(0) & 31 | (part(1) & 63) << 5 | (part(2) & 31) << 10 | (part(3) & 31) << 15;
    low | (part(4) & 63) << 20 | (part(5) & 31) << 25 | (part(5) & 64) << 25
}

const TAG_MASK: u64 = 0xBFFF_FFFF;

/// What one write of one field is made from.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The record's key.
    pub key: &'a [u8],
    /// [`key_hash`] of it: made once for all fields.
    pub key_hash: u64,
    /// The field's number.
    pub field: u32,
    /// The field's name.
    pub name: &'a [u8],
}

/// The part of a value's seed that all fields of a record share.
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

impl Cell<'_> {
    fn seed(&self, tag: u64, length: usize) -> u64 {
        word(self.key_hash ^ tag.rotate_left(32), u64::from(self.field) << 32 | length as u64)
    }
}

impl ValueForm {
    /// The bits that a tag of this form may have.
    fn tag_mask(self) -> u64 {
        if self == Self::Ycsb { TAG_MASK } else { u64::MAX }
    }

    /// Appends the value of `length` bytes that a write with `tag` gives `cell`.
    pub fn write(self, cell: Cell<'_>, tag: u64, length: usize, out: &mut Vec<u8>) {
        let tag = if length < TAGGED_BYTES_MIN { 0 } else { tag & self.tag_mask() };
        let seed = cell.seed(tag, length);
        let start = out.len();
        match self {
            Self::Ycsb => {
                let first = if length < TAGGED_BYTES_MIN { word(seed, u64::MAX - 1) } else { tag };
                // Eight bytes are written where six count: the next write covers the rest.
                out.resize(start + length + 18, 0);
                let target = &mut out[start..];
                target[..8].copy_from_slice(&six_characters(first as u32).to_le_bytes());
                let (mut at, mut position) = (6, 0);
                while at < length {
                    let random = word(seed, position);
                    target[at..at + 8].copy_from_slice(&six_characters(random as u32).to_le_bytes());
                    target[at + 6..at + 14].copy_from_slice(&six_characters((random >> 32) as u32).to_le_bytes());
                    at += 12;
                    position += 1;
                }
                out.truncate(start + length);
            }
            Self::Incompressible => {
                push_random(seed, tag, length, length, out);
            }
            Self::PageLike => {
                let unit = length.clamp(1, UNIT_BYTES);
                let random = random_bytes(unit).min(unit);
                let mut written = 0;
                while written < length {
                    let here = unit.min(length - written);
                    let part = random.min(here);
                    if written == 0 {
                        push_random(seed, tag, part, length, out);
                    } else {
                        push_words(seed, (written / 8) as u64, part, out);
                    }
                    out.extend_from_slice(&FILLER[part..here]);
                    written += here;
                }
            }
            Self::Integrity => integrity::write(cell.key, cell.name, length, out),
        }
    }

    /// Whether `value` is what some write gave `cell`. `scratch` is for the work.
    pub fn check(self, cell: Cell<'_>, value: &[u8], scratch: &mut Vec<u8>) -> Verdict {
        if value.is_empty() {
            return Verdict::Empty;
        }
        let tag = match self {
            _ if value.len() < TAGGED_BYTES_MIN => 0,
            Self::Ycsb => number_of(&value[..6]) as u32 as u64,
            Self::Incompressible | Self::PageLike => {
                u64::from_le_bytes(value[..8].try_into().expect("a tagged value has eight bytes"))
            }
            Self::Integrity => 0,
        };
        scratch.clear();
        self.write(cell, tag, value.len(), scratch);
        if scratch == value { Verdict::Right } else { Verdict::Wrong }
    }

    /// The property's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ycsb => "ycsb",
            Self::Incompressible => "incompressible",
            Self::PageLike => "page",
            Self::Integrity => "dataintegrity",
        }
    }
}

/// How many random bytes a unit begins with, so that a compressor that finds the rest in one match gets 5.6 : 1.
fn random_bytes(unit: usize) -> usize {
    const MATCH_BYTES: usize = 2;
    (unit * 10 / 56).saturating_sub(MATCH_BYTES).max(TAGGED_BYTES_MIN)
}

/// The tag (where the value of `length` has one) and random bytes, `count` together.
fn push_random(seed: u64, tag: u64, count: usize, length: usize, out: &mut Vec<u8>) {
    if length < TAGGED_BYTES_MIN {
        push_words(seed, 0, count, out);
    } else {
        out.extend_from_slice(&tag.to_le_bytes());
        push_words(seed, 0, count - 8, out);
    }
}

fn push_words(seed: u64, first: u64, count: usize, out: &mut Vec<u8>) {
    let end = out.len() + count;
    let mut position = first;
    while out.len() < end {
        out.extend_from_slice(&word(seed, position).to_le_bytes());
        position += 1;
    }
    out.truncate(end);
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
