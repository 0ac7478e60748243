//! Key → slot, exactly as the Redis Cluster specification has it: CRC16/XMODEM of the key or of its {hash tag}.

use crate::Slot;
use std::sync::OnceLock;

/// How many slots a store has.
pub const SLOT_COUNT: u16 = 16384;

/// For each byte, the checksum after 0, 1 … 7 zeros that follow it.
static TABLES: [[u16; 256]; 8] = {
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
};

/// CRC16/XMODEM (polynomial 0x1021, initial value 0): eight bytes at a time, whose parts do not wait for each other (Kounavis
/// and Berry, "A Systematic Approach to Building High Performance Software-based CRC Generators", 2005).
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let crc = eights.iter().fold(0u16, |crc, eight| {
        let [high, low] = crc.to_be_bytes();
        let first = TABLES[7][usize::from(eight[0] ^ high)] ^ TABLES[6][usize::from(eight[1] ^ low)];
        eight[2..].iter().zip(TABLES[..6].iter().rev()).fold(first, |crc, (b, table)| crc ^ table[usize::from(*b)])
    });
    rest.iter().fold(crc, |crc, &b| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ b)])
}

/// The part of `key` that is hashed: what stands between the first `{` and the next `}`, if that is not empty.
#[must_use]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    if let Some(open) = key.iter().position(|&b| b == b'{')
        && let Some(length) = key[open + 1..].iter().position(|&b| b == b'}')
        && length > 0
    {
        return &key[open + 1..open + 1 + length];
    }
    key
}

/// The slot that owns `key`.
#[must_use]
pub fn slot_of(key: &[u8]) -> Slot {
    Slot(crc16(hash_tag(key)) % SLOT_COUNT)
}

/// A hash tag whose slot is this one, the same in every release: the first of three letters and digits.
#[must_use]
pub fn slot_tag(slot: Slot) -> &'static str {
    static TAGS: OnceLock<Vec<Option<String>>> = OnceLock::new();
    let tags = TAGS.get_or_init(all_tags);
    tags.get(usize::from(slot.0)).and_then(Option::as_deref).unwrap_or_default()
}

/// What tags are made of.
pub(crate) const LETTERS: [u8; 62] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn all_tags() -> Vec<Option<String>> {
    let letters = || LETTERS.into_iter();
    let mut tags = vec![None; usize::from(SLOT_COUNT)];
    for tag in letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| [a, b, c]))) {
        let place = &mut tags[usize::from(crc16(&tag) % SLOT_COUNT)];
        if place.is_none() {
            *place = Some(String::from_utf8_lossy(&tag).into_owned());
        }
    }
    tags
}

/// The slots from one to another, both included: where the keys of one request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSpan {
    first: u16,
    last: u16,
}

impl SlotSpan {
    /// All slots.
    pub const ALL: Self = Self { first: 0, last: SLOT_COUNT - 1 };

    /// From `first` to `last`; `first ≤ last`.
    #[must_use]
    pub fn between(first: u16, last: u16) -> Self {
        debug_assert!(first <= last, "a span has slots");
        Self { first, last }
    }

    /// The same with one more slot, and with what lies between.
    #[must_use]
    pub fn with(self, slot: Slot) -> Self {
        Self { first: self.first.min(slot.0), last: self.last.max(slot.0) }
    }

    /// The same with another span, and with what lies between.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Its first slot.
    #[must_use]
    pub fn first(self) -> Slot {
        Slot(self.first)
    }

    /// Its last slot.
    #[must_use]
    pub fn last(self) -> Slot {
        Slot(self.last)
    }

    /// Whether it is one slot.
    #[must_use]
    pub fn is_one(self) -> bool {
        self.first == self.last
    }

    /// Whether a slot is in it.
    #[must_use]
    pub fn contains(self, slot: Slot) -> bool {
        (self.first..=self.last).contains(&slot.0)
    }

    /// Whether it is within a range, whose ends are both included.
    #[must_use]
    pub fn is_within(self, (first, last): (u16, u16)) -> bool {
        first <= self.first && self.last <= last
    }

    /// Whether it shares a slot with a range, whose ends are both included.
    #[must_use]
    pub fn meets(self, (first, last): (u16, u16)) -> bool {
        first <= self.last && self.first <= last
    }
}

impl From<Slot> for SlotSpan {
    fn from(slot: Slot) -> Self {
        Self { first: slot.0, last: slot.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_grows_by_slots_and_knows_what_it_meets() {
        let span = SlotSpan::from(Slot(7)).with(Slot(3)).with(Slot(5));
        assert_eq!((span.first(), span.last(), span.is_one()), (Slot(3), Slot(7), false));
        assert_eq!(span.and(SlotSpan::from(Slot(9))), SlotSpan::between(3, 9));
        assert!(SlotSpan::from(Slot(7)).is_one() && span.contains(Slot(4)) && !span.contains(Slot(8)));
        for (range, within, meets) in [
            ((3, 7), true, true),
            ((0, 9), true, true),
            ((4, 9), false, true),
            ((7, 9), false, true),
            ((8, 9), false, false),
        ] {
            assert_eq!((span.is_within(range), span.meets(range)), (within, meets), "{range:?}");
        }
    }

    #[test]
    fn eight_bytes_at_a_time_are_as_bit_by_bit() {
        let bit_by_bit = |bytes: &[u8]| {
            bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).fold(0u16, |crc, bit| {
                let out = u16::from(bit) ^ (crc >> 15);
                (crc << 1) ^ (out * 0x1021)
            })
        };
        let mut prng = crate::Prng::new(1);
        for length in 0..70 {
            let bytes: Vec<u8> = (0..length).map(|_| prng.below(256) as u8).collect();
            assert_eq!(crc16(&bytes), bit_by_bit(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn specification_examples() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
        assert_eq!(slot_of(b"foo"), Slot(12182));
        assert_eq!(slot_of(b"somekey"), Slot(11058));
    }

    #[test]
    fn every_slot_has_its_tag() {
        assert_eq!((slot_tag(Slot(0)), slot_tag(Slot(6))), ("06S", "1Y7"));
        for slot in (0..SLOT_COUNT).map(Slot) {
            assert_eq!(slot_of(format!("0-{{{}}}-0", slot_tag(slot)).as_bytes()), slot);
        }
    }
}
