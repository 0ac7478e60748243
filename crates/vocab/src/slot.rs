//! Key → slot, exactly as the Redis Cluster specification has it: CRC16/XMODEM of the key or of its {hash tag}.

use crate::Slot;
use std::sync::OnceLock;

/// How many slots a store has.
pub const SLOT_COUNT: u16 = 16384;

const TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// CRC16/XMODEM (polynomial 0x1021, initial value 0).
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &b| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ b)])
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

fn all_tags() -> Vec<Option<String>> {
    let letters = || (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z');
    let mut tags = vec![None; usize::from(SLOT_COUNT)];
    for tag in letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| [a, b, c]))) {
        let place = &mut tags[usize::from(crc16(&tag) % SLOT_COUNT)];
        if place.is_none() {
            *place = Some(String::from_utf8_lossy(&tag).into_owned());
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

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
