//! A member with its score, and the order of the two.

use crate::command::args::NOT_FLOAT;
use crate::command::call::Error;
use crate::format::score::{SCORE_BYTES, encode};
use std::cmp::Ordering;
use vocab::put_bytes;

/// A member and its score, which is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::command) struct Scored<'a> {
    pub(in crate::command) member: &'a [u8],
    pub(in crate::command) score: f64,
}

impl Scored<'_> {
    /// Sorted sets are in this order: by score, and of equal scores by the bytes of the member.
    pub(super) fn order(&self, other: &Scored<'_>) -> Ordering {
        order_of(self.score, other.score).then_with(|| self.member.cmp(other.member))
    }

    /// Bytes whose order is that of members with their scores.
    pub(super) fn order_key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(SCORE_BYTES + self.member.len());
        key.extend_from_slice(&sortable(self.score).to_be_bytes());
        key.extend_from_slice(self.member);
        key
    }

    /// Appends it as a packed sorted set has it: as a field of a hash and its value.
    pub(super) fn pack(&self, payload: &mut Vec<u8>) {
        put_bytes(payload, self.member);
        put_bytes(payload, &encode(self.score));
    }
}

/// The order of two scores.
pub(super) fn order_of(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// A number whose order is that of scores: zero and minus zero are one.
pub(super) fn sortable(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// A score in an argument, or the error.
pub(in crate::command) fn parse(text: &[u8]) -> Result<f64, Error> {
    resp::parse_double(text).ok_or(Error::from(NOT_FLOAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_scores_and_members() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -1.5, -1.0, -1e-310, -0.0, 0.0, 1e-310, 0.1, 2.0, 1e300, f64::INFINITY];
        let all =
            scores.iter().flat_map(|&score| [&b""[..], b"\0", b"a", b"ab"].map(|member| Scored { member, score }));
        let all: Vec<Scored<'_>> = all.collect();
        for a in &all {
            for b in &all {
                assert_eq!(a.order(b), a.order_key().cmp(&b.order_key()), "{a:?} {b:?}");
            }
        }
    }
}
