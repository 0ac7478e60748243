//! The ids of entries: a time in ms and a number within it.

use crate::command::call::Error;
use std::fmt;

/// The error about what is no id.
pub(super) const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";
/// Longest id that is looked at, in bytes, as in Redis.
const TEXT_BYTES_MAX: usize = 127;
/// Bytes of an id in a row's name: big-endian, so that byte order is the ids' order.
pub(super) const ID_BYTES: usize = 16;

/// The id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamId {
    /// When it was added, as a rule: in ms since the epoch.
    pub(super) ms: u64,
    /// Tells it from others of that time.
    pub(super) seq: u64,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl StreamId {
    /// Before all ids of entries.
    pub(super) const ZERO: Self = Self { ms: 0, seq: 0 };
    /// The last one.
    pub(super) const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The next id; `None` behind the last.
    pub(super) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before; `None` before the first.
    pub(super) fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// As a row's name has it.
    pub(super) fn to_bytes(self) -> [u8; ID_BYTES] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The id of such bytes.
    pub(super) fn of_bytes(bytes: [u8; ID_BYTES]) -> Self {
        let whole = u128::from_be_bytes(bytes);
        Self { ms: (whole >> 64) as u64, seq: whole as u64 }
    }

    /// An id without `-` and `+`. One without a number gets `missing_seq`.
    pub(super) fn parse(text: &[u8], missing_seq: u64) -> Result<Self, Error> {
        match NewId::parse(text, missing_seq)? {
            NewId::Given(id) => Ok(id),
            NewId::NextOf(_) => Err(INVALID.into()),
        }
    }

    /// An id, or `-` or `+` for the first and the last.
    pub(super) fn parse_bound(text: &[u8], missing_seq: u64) -> Result<Self, Error> {
        match text {
            b"-" => Ok(Self::ZERO),
            b"+" => Ok(Self::MAX),
            _ => Self::parse(text, missing_seq),
        }
    }

    /// The first id of an interval: behind `(` comes one that is not in it.
    pub(super) fn parse_start(text: &[u8]) -> Result<Self, Error> {
        match text {
            [b'(', rest @ ..] if !rest.is_empty() => {
                Self::parse(rest, 0)?.next().ok_or_else(|| "ERR invalid start ID for the interval".into())
            }
            _ => Self::parse_bound(text, 0),
        }
    }

    /// The last id of an interval.
    pub(super) fn parse_end(text: &[u8]) -> Result<Self, Error> {
        match text {
            [b'(', rest @ ..] if !rest.is_empty() => {
                Self::parse(rest, u64::MAX)?.previous().ok_or_else(|| "ERR invalid end ID for the interval".into())
            }
            _ => Self::parse_bound(text, u64::MAX),
        }
    }
}

/// What XADD is told of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// The whole of it.
    Given(StreamId),
    /// Its time: `5-*`.
    NextOf(u64),
}

impl NewId {
    /// The id in `text`; `missing_seq` is the number of one that has none.
    pub(super) fn parse(text: &[u8], missing_seq: u64) -> Result<Self, Error> {
        let parsed = || {
            if text.len() > TEXT_BYTES_MAX {
                return None;
            }
            let Some(dash) = text.iter().position(|byte| *byte == b'-') else {
                return Some(Self::Given(StreamId { ms: number(text)?, seq: missing_seq }));
            };
            let ms = number(&text[..dash])?;
            match &text[dash + 1..] {
                b"*" => Some(Self::NextOf(ms)),
                seq => Some(Self::Given(StreamId { ms, seq: number(seq)? })),
            }
        };
        parsed().ok_or_else(|| INVALID.into())
    }
}

/// A number as C's `strtoull` reads it: blanks and a plus in front are allowed, and zeros.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    #[test]
    fn ids_are_parsed_as_redis_does() {
        for (text, expected) in [
            ("5-1", Some(NewId::Given(id(5, 1)))),
            ("5", Some(NewId::Given(id(5, 9)))),
            ("5-*", Some(NewId::NextOf(5))),
            ("007-01", Some(NewId::Given(id(7, 1)))),
            ("18446744073709551615-18446744073709551615", Some(NewId::Given(StreamId::MAX))),
            ("18446744073709551616-0", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("-5", None),
            ("5-", None),
            ("5-1-1", None),
            ("x", None),
            ("*", None),
        ] {
            assert_eq!(NewId::parse(text.as_bytes(), 9).ok(), expected, "{text}");
        }
        assert!(NewId::parse(&[b'0'; 128], 0).is_err());
    }

    #[test]
    fn ids_have_neighbours() {
        for (lower, upper) in [(id(0, 0), id(0, 1)), (id(4, u64::MAX), id(5, 0)), (id(7, 8), id(7, 9))] {
            assert_eq!((lower.next(), upper.previous()), (Some(upper), Some(lower)));
            assert!(lower < upper && lower.to_bytes() < upper.to_bytes());
            assert_eq!(StreamId::of_bytes(upper.to_bytes()), upper);
        }
        assert_eq!((StreamId::MAX.next(), StreamId::ZERO.previous()), (None, None));
        assert_eq!(StreamId::parse_start(b"(4-18446744073709551615").unwrap(), id(5, 0));
        assert_eq!(StreamId::parse_end(b"(5-0").unwrap(), id(4, u64::MAX));
        assert_eq!(StreamId::parse_end(b"5").unwrap(), id(5, u64::MAX));
        assert!(StreamId::parse_start(b"(").is_err() && StreamId::parse_end(b"(0-0").is_err());
    }
}
