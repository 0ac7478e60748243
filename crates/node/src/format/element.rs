//! The names of a large hash's elements.
//!
//! ```text
//! bytes 0..6  position, big-endian: 0 for the empty field, else max(1, the upper 48 bits of XXH3-64 of the field)
//! rest        the field
//! ```
//! Elements lie in byte order, so a hash is walked by position. A position says where to go on without the node
//! remembering anything (HSCAN's cursor), survives restarts, moves and writes in between, and is spread evenly enough
//! to draw fields at random. It has 48 bits because some clients keep cursors in doubles.

use xxhash_rust::xxh3::xxh3_64;

/// Positions are below this.
pub(crate) const POSITIONS: u64 = 1 << 48;

const POSITION_BYTES: usize = 6;

/// The name of `field`'s element.
pub(crate) fn name_of(field: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(POSITION_BYTES + field.len());
    name.extend_from_slice(&before(position_of_field(field)));
    name.extend_from_slice(field);
    name
}

/// The field of the element of that name; `None` if it is no element's name.
pub(crate) fn field_of(name: &[u8]) -> Option<&[u8]> {
    name.get(POSITION_BYTES..)
}

/// The position of the element of that name.
pub(crate) fn position_of(name: &[u8]) -> Option<u64> {
    let (head, _) = name.split_at_checked(POSITION_BYTES)?;
    Some(head.iter().fold(0, |position, &byte| position << 8 | u64::from(byte)))
}

/// What stands before every element at `position` (from 1 on) and after all below it: the empty field, the only one
/// whose name is as short as this, is at position 0.
pub(crate) fn before(position: u64) -> [u8; POSITION_BYTES] {
    debug_assert!(position < POSITIONS);
    let bytes = position.to_be_bytes();
    bytes[8 - POSITION_BYTES..].try_into().expect("six of eight bytes")
}

/// The position of a field's element.
pub(crate) fn position_of_field(field: &[u8]) -> u64 {
    if field.is_empty() { 0 } else { (xxh3_64(field) >> 16).max(1) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_ordered_by_position() {
        let mut names: Vec<_> = (0..1000).map(|i| name_of(format!("field{i}").as_bytes())).collect();
        names.push(name_of(b""));
        names.sort();
        assert_eq!(names[0], [0; 6]);
        assert_eq!(field_of(&names[0]), Some(&b""[..]));
        for pair in names.windows(2) {
            let position = position_of(&pair[1]).unwrap();
            assert!(position_of(&pair[0]).unwrap() <= position && position < POSITIONS);
            assert!(before(position)[..] < pair[1][..], "the element is after what stands before it");
            assert!(pair[0][..] <= before(position)[..] || position_of(&pair[0]).unwrap() == position);
        }
        assert_eq!(position_of(b"12345"), None);
    }

    #[test]
    fn names_are_a_format() {
        // What the last release wrote must be found again.
        assert_eq!(name_of(b"field0"), b"0\xdb\x9d&k\x00field0");
    }
}
