//! The head of a stream's record, beside its entries: ids and counts.
//!
//! ```text
//! 16 bytes  last id        u64 ms, u64 number
//! 16 bytes  highest id that XDEL removed
//! 16 bytes  id of the first entry
//! u64       entries ever added
//! u64       entries
//! u64       ordinal of the first entry
//! u64       ordinal of the next entry
//! u64       bytes of fields and values, about
//! u64       groups
//! u64       number of the next group
//! ```
//! Little-endian.

use super::id::StreamId;
use crate::Rules;
use vocab::{Malformed, Reader};

/// How long it is.
pub(super) const META_BYTES: usize = 3 * 16 + 7 * 8;

/// Where an entry is among those that were added: ordinals rise by one, and none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ordinal(pub(super) u64);

/// The number of a group within its stream; none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(pub(super) u64);

/// See the module's layout.
///
/// Invariants: `first ≤ next`, `length ≤ next - first`; the entry at `first` is there if `length > 0`, and
/// `first = next` otherwise; `first_id ≤ last_id`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    /// The highest id of all entries that there were.
    pub(super) last_id: StreamId,
    /// The highest id of those that XDEL removed.
    pub(super) max_deleted_id: StreamId,
    /// The id of the first entry; 0-0 if there is none.
    pub(super) first_id: StreamId,
    /// How many entries were ever added, as XSETID may have it.
    pub(super) added: u64,
    /// How many entries there are.
    pub(super) length: u64,
    /// The first entry's; no row lies before it.
    pub(super) first: Ordinal,
    /// The one that the next entry gets.
    pub(super) next: Ordinal,
    /// Bytes of all fields and values, about.
    pub(super) bytes: u64,
    /// How many groups there are.
    pub(super) groups: u64,
    /// What the next group gets.
    pub(super) next_group: GroupId,
}

impl Meta {
    /// Its bytes.
    pub(super) fn encode(&self) -> [u8; META_BYTES] {
        let words = [
            self.last_id.ms,
            self.last_id.seq,
            self.max_deleted_id.ms,
            self.max_deleted_id.seq,
            self.first_id.ms,
            self.first_id.seq,
            self.added,
            self.length,
            self.first.0,
            self.next.0,
            self.bytes,
            self.groups,
            self.next_group.0,
        ];
        let mut bytes = [0; META_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Takes it from the beginning of some bytes.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = |reader: &mut Reader<'_>| Ok(StreamId { ms: reader.u64_le()?, seq: reader.u64_le()? });
        let meta = Self {
            last_id: id(reader)?,
            max_deleted_id: id(reader)?,
            first_id: id(reader)?,
            added: reader.u64_le()?,
            length: reader.u64_le()?,
            first: Ordinal(reader.u64_le()?),
            next: Ordinal(reader.u64_le()?),
            bytes: reader.u64_le()?,
            groups: reader.u64_le()?,
            next_group: GroupId(reader.u64_le()?),
        };
        if meta.is_valid() { Ok(meta) } else { Err(Malformed::TooLarge) }
    }

    fn is_valid(&self) -> bool {
        let there = self.next.0.checked_sub(self.first.0);
        there.is_some_and(|there| self.length <= there && (self.length > 0 || there == 0))
            && self.first_id <= self.last_id
    }

    /// How many of the ordinals between the first and the next have no entry any more.
    pub(super) fn gone(&self) -> u64 {
        self.next.0 - self.first.0 - self.length
    }

    /// So many entries went; `bytes` follows in proportion, since theirs is not known.
    pub(super) fn shorten(&mut self, by: u64) {
        let left = self.length.saturating_sub(by);
        self.bytes = match self.length {
            0 => 0,
            length => (u128::from(self.bytes) * u128::from(left) / u128::from(length)) as u64,
        };
        self.length = left;
    }

    /// How many entries lie before that id, counted from the first that was ever added; `None` if that is not known.
    pub(super) fn added_up_to(&self, id: StreamId, rules: Rules) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= self.last_id {
            return Some(self.added);
        }
        // As Redis has it since 7.4.2: some of those behind it are gone.
        if rules >= Rules::Fourth && id != StreamId::ZERO && id < self.max_deleted_id {
            return None;
        }
        if id == self.last_id {
            return Some(self.added);
        }
        if id > self.last_id || self.max_deleted_id != StreamId::ZERO && self.max_deleted_id >= self.first_id {
            return None;
        }
        let before_first = self.added.wrapping_sub(self.length);
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Whether an entry at or behind `start` was removed by XDEL, as far as that is known. Before `Rules::Fourth` one before the first entry
    /// did not count, as in Redis 7.0.
    pub(super) fn has_gone_since(&self, start: StreamId, rules: Rules) -> bool {
        self.length > 0
            && self.max_deleted_id != StreamId::ZERO
            && (rules >= Rules::Fourth || self.first_id <= self.max_deleted_id)
            && start <= self.max_deleted_id
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_what_is_invalid_is_refused() {
        let meta = Meta {
            last_id: StreamId { ms: 5, seq: 6 },
            max_deleted_id: StreamId { ms: 1, seq: 2 },
            first_id: StreamId { ms: 3, seq: 4 },
            added: 9,
            length: 2,
            first: Ordinal(6),
            next: Ordinal(9),
            bytes: 77,
            groups: 1,
            next_group: GroupId(3),
        };
        let bytes = meta.encode();
        assert_eq!(Meta::decode(&mut Reader::new(&bytes)), Ok(meta.clone()));
        assert_eq!(meta.gone(), 1);
        for bad in [
            Meta { length: 4, ..meta.clone() },
            Meta { first: Ordinal(10), ..meta.clone() },
            Meta { length: 0, ..meta.clone() },
            Meta { first_id: StreamId::MAX, ..meta },
        ] {
            assert!(Meta::decode(&mut Reader::new(&bad.encode())).is_err(), "{bad:?}");
        }
    }
}
