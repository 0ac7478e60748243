//! A leaf: members that follow one another in a large sorted set, in one row.
//!
//! ```text
//! for each: 8 bytes score, little-endian; varint, bytes: length of the member, member
//! ```

use super::scored::Scored;
use crate::format::score::{SCORE_BYTES, decode, encode};
use std::cmp::Ordering;
use std::ops::Range;
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

    /// The row with one more member, which is not among the `count` it has; `None` if that is more than one leaf. The same as by way
    /// of `members` and `encode_leaf`, but that the others are not encoded anew.
    pub(super) fn with(&self, scored: &Scored<'_>, count: u64) -> Result<Option<Vec<u8>>, &'static str> {
        let bytes = self.0.len() + bytes_of(scored);
        if count >= MEMBERS_MAX as u64 || bytes > BYTES_SOFT {
            return Ok(None);
        }
        let at = self.place(scored)?.start;
        let mut row = Vec::with_capacity(bytes);
        row.extend_from_slice(&self.0[..at]);
        push(&mut row, scored);
        row.extend_from_slice(&self.0[at..]);
        Ok(Some(row))
    }

    /// The row without a member; `None` if it is not there. Likewise.
    pub(super) fn without(&self, scored: &Scored<'_>) -> Result<Option<Vec<u8>>, &'static str> {
        let place = self.place(scored)?;
        Ok((!place.is_empty()).then(|| [&self.0[..place.start], &self.0[place.end..]].concat()))
    }

    /// The row without `count` members from number `first` on, each of them shown; `None` if there are not so many. Likewise.
    pub(super) fn without_range(
        &self,
        first: usize,
        count: usize,
        visit: &mut dyn FnMut(Scored<'_>),
    ) -> Result<Option<Vec<u8>>, &'static str> {
        let mut reader = Reader::new(&self.0);
        let (mut start, mut at) = (0, 0);
        while at < first + count {
            if reader.is_empty() {
                return Ok(None);
            }
            let score = decode(&reader.array::<SCORE_BYTES>()?).ok_or("score that is no number")?;
            let scored = Scored { member: reader.bytes()?, score };
            at += 1;
            if at > first {
                visit(scored);
            } else {
                start = self.0.len() - reader.left();
            }
        }
        Ok(Some([&self.0[..start], &self.0[self.0.len() - reader.left()..]].concat()))
    }

    /// Where a member is; where it would begin, and of no length, if it is not there.
    fn place(&self, scored: &Scored<'_>) -> Result<Range<usize>, &'static str> {
        let mut reader = Reader::new(&self.0);
        loop {
            let start = self.0.len() - reader.left();
            if reader.is_empty() {
                return Ok(start..start);
            }
            let score = decode(&reader.array::<SCORE_BYTES>()?).ok_or("score that is no number")?;
            let other = Scored { member: reader.bytes()?, score };
            match other.order(scored) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(start..self.0.len() - reader.left()),
                Ordering::Greater => return Ok(start..start),
            }
        }
    }
}

/// The row of a leaf.
pub(super) fn encode_leaf(members: &[Scored<'_>]) -> Vec<u8> {
    let mut row = Vec::with_capacity(members.iter().map(bytes_of).sum());
    members.iter().for_each(|scored| push(&mut row, scored));
    row
}

fn push(row: &mut Vec<u8>, scored: &Scored<'_>) {
    row.extend_from_slice(&encode(scored.score));
    put_bytes(row, scored.member);
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
    fn one_member_more_or_less_is_what_encoding_all_makes() {
        let members: Vec<Vec<u8>> = (0..MEMBERS_MAX).map(|n| vec![b'm'; n * 3 % 20]).collect();
        let mut all: Vec<Scored<'_>> =
            members.iter().zip(0u8..).map(|(m, n)| Scored { member: m, score: f64::from(n / 3) }).collect();
        all.sort_by(Scored::order);
        all.dedup_by(|a, b| a.order(b) == Ordering::Equal);
        for at in 0..all.len() {
            let mut rest = all.clone();
            let one = rest.remove(at);
            let (whole, less) = (encode_leaf(&all), encode_leaf(&rest));
            let leaf = |row: &[u8]| Leaf::new(Slice::from(row));
            assert_eq!(leaf(&less).with(&one, rest.len() as u64).unwrap().as_ref(), Some(&whole));
            assert_eq!(leaf(&whole).without(&one).unwrap(), Some(less.clone()));
            assert_eq!(leaf(&less).without(&one).unwrap(), None);
            assert_eq!(leaf(&less).with(&one, MEMBERS_MAX as u64).unwrap(), None);
        }
        for (first, count) in [(0, 1), (0, 5), (3, 1), (3, 4), (all.len() - 1, 1), (0, all.len())] {
            let (mut rest, mut shown) = (all.clone(), Vec::new());
            let taken: Vec<Scored<'_>> = rest.drain(first..first + count).collect();
            let leaf = Leaf::new(Slice::from(encode_leaf(&all)));
            let mut show = |scored: Scored<'_>| shown.push((scored.member.to_vec(), scored.score));
            assert_eq!(leaf.without_range(first, count, &mut show).unwrap(), Some(encode_leaf(&rest)));
            let taken: Vec<_> = taken.into_iter().map(|scored| (scored.member.to_vec(), scored.score)).collect();
            assert_eq!(shown, taken);
            assert_eq!(leaf.without_range(first + 1, all.len() - first, &mut |_| {}).unwrap(), None);
        }
        let long = Scored { member: &[7; BYTES_SOFT], score: 1.0 };
        assert_eq!(Leaf::new(Slice::empty()).with(&long, 0).unwrap(), None);
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
