//! Records that are collections: what queues, leaderboards, feeds, tags and streams are used for.
//!
//! | record | load | UPDATE | READ | SCAN | READ-MODIFY-WRITE |
//! |-|-|-|-|-|-|
//! | queue | LPUSH of elements | LPUSH of one | LRANGE 0 0 | LRANGE 0 n | RPOP: takes one |
//! | leaderboard | ZADD of members | ZINCRBY of one | ZREVRANK of one | ZREVRANGE 0 n WITHSCORES | as UPDATE |
//! | feed | LPUSH of posts | LPUSH of one | LRANGE 0 9 | LRANGE 0 n | as UPDATE |
//! | tags | SADD of tags | SADD of one | SISMEMBER of one | SRANDMEMBER n | as UPDATE |
//! | stream | XGROUP CREATE | XADD | XRANGE of one | XRANGE of n | XREADGROUP, then XACK of what it gave |
//!
//! What is verified, beside the form of each element: no element of a queue is taken twice, nor is a queue or a stream found
//! empty while something must be in it; no entry of a stream is given
//! twice to its group; each increment of a member's score, and each post of a feed, answers a number of its own, so that two
//! which answer the same tell a lost update; a tag that was added is found by the client that added it.

use std::io::Write as _;

/// Digits of an element's number.
const DIGITS: usize = 16;

/// What kind of collection a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// A list: elements come in at one end, and are taken at the other.
    Queue,
    /// A sorted set: members whose scores rise.
    Leaderboard,
    /// A list: the newest posts are read.
    Feed,
    /// A set.
    Tags,
    /// A stream with a group.
    Stream,
}

impl Collection {
    /// All, by the words of `basalt.record`.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("queue", Self::Queue),
        ("leaderboard", Self::Leaderboard),
        ("feed", Self::Feed),
        ("tags", Self::Tags),
        ("stream", Self::Stream),
    ];
}

/// Writes the element of that number: hexadecimal digits, and filler up to `length` bytes.
pub fn write_element(number: u64, length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    write!(out, "{number:016x}").expect("a Vec takes all that is written");
    for byte in b"abcdefghijklmnopqrstuvwxyz".iter().cycle().take(length.saturating_sub(DIGITS)) {
        out.push(*byte);
    }
    debug_assert_eq!(out.len() - start, length.max(DIGITS));
}

/// The number of an element; `None` if it is none of these, or not of that length.
#[must_use]
pub fn element_number(element: &[u8], length: usize) -> Option<u64> {
    let (digits, filler) = element.split_at_checked(DIGITS)?;
    let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    let is_filler = filler.iter().zip(b"abcdefghijklmnopqrstuvwxyz".iter().cycle()).all(|(a, b)| a == b);
    (is_filler && element.len() == length.max(DIGITS)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_known_by_its_number() {
        for (number, length) in [(0, 16), (0xdead_beef, 100), (u64::MAX, 3)] {
            let mut element = Vec::new();
            write_element(number, length, &mut element);
            assert_eq!(element_number(&element, length), Some(number));
            assert_eq!(element_number(&element[1..], length), None);
            element[0] = b'z';
            assert_eq!(element_number(&element, length), None);
        }
    }
}
