//! A leaf: members that follow one another in a large sorted set, in one row.
//!
//! ```text
//! for each: 8 bytes score, little-endian; varint, bytes: length of the member, member
//! ```

use super::scored::Scored;
use crate::format::score::{SCORE_BYTES, decode, encode};
use storage::Slice;
use vocab::{Reader, put_bytes, varint_bytes};

/// Most members of a leaf.
pub(super) const MEMBERS_MAX: usize = 24;
/// Bytes of members and scores after which a leaf is divided, if it has more than one.
const BYTES_SOFT: usize = 640;
/// A leaf of fewer members is put together with the next one, if that leaves room.
pub(super) const MEMBERS_FEW: usize = MEMBERS_MAX / 4;
/// Most members of a leaf that is filled at once, or that two are put together into.
pub(super) const FILLED_MAX: usize = MEMBERS_MAX * 3 / 4;

/// A leaf as it was read.
pub(super) struct Leaf(Slice);

impl Leaf {
    pub(super) fn new(row: Slice) -> Self {
        Self(row)
    }

    /// Its members, in order; the error says what is malformed.
    pub(super) fn members(&self) -> Result<Vec<Scored<'_>>, &'static str> {
        let mut reader = Reader::new(&self.0);
        let mut members = Vec::with_capacity(MEMBERS_MAX + 1);
        while !reader.is_empty() {
            let score = decode(&reader.array::<SCORE_BYTES>()?).ok_or("score that is no number")?;
            members.push(Scored { member: reader.bytes()?, score });
        }
        Ok(members)
    }
}

/// The row of a leaf.
pub(super) fn encode_leaf(members: &[Scored<'_>]) -> Vec<u8> {
    let mut row = Vec::with_capacity(members.iter().map(bytes_of).sum());
    for scored in members {
        row.extend_from_slice(&encode(scored.score));
        put_bytes(&mut row, scored.member);
    }
    row
}

fn bytes_of(scored: &Scored<'_>) -> usize {
    SCORE_BYTES + varint_bytes(scored.member.len() as u64) + scored.member.len()
}

/// Whether these members are one leaf, of at most `members_max`.
pub(super) fn fits(members: &[Scored<'_>], members_max: usize) -> bool {
    members.len() <= 1 || members.len() <= members_max && members.iter().map(bytes_of).sum::<usize>() <= BYTES_SOFT
}

/// The key of a leaf whose first member is `first` and before which `last` is: as short as it can be.
pub(super) fn separator(last: &Scored<'_>, first: &Scored<'_>) -> Vec<u8> {
    let (last, mut first) = (last.order_key(), first.order_key());
    let common = last.iter().zip(&first).take_while(|(a, b)| a == b).count();
    first.truncate(common + 1);
    first
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_encoded_is_read() {
        let members = [(-1.5, &b""[..]), (0.0, b"a"), (f64::INFINITY, &[7; 300])];
        let members = members.map(|(score, member)| Scored { member, score });
        let row = encode_leaf(&members);
        assert_eq!(Leaf::new(Slice::from(&row[..])).members().unwrap(), members);
        for length in 1..row.len() {
            let found = Leaf::new(Slice::from(&row[..length])).members().map(|members| members.len());
            assert!(found.is_err() || [9, 19].contains(&length), "{length}");
        }
        assert!(fits(&members[2..], 1) && !fits(&members, 2));
    }

    #[test]
    fn a_separator_lies_between() {
        let scored = |score, member| Scored { member, score };
        for (last, first) in [
            (scored(1.0, &b"a"[..]), scored(1.0, &b"ab"[..])),
            (scored(1.0, b"ab"), scored(1.0, b"b")),
            (scored(-1.0, b"z"), scored(1e300, b"")),
            (scored(1.0, b""), scored(1.0, b"\0")),
        ] {
            let key = separator(&last, &first);
            assert!(last.order_key() < key && key <= first.order_key());
        }
    }
}
