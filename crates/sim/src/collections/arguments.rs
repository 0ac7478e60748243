//! Arguments and replies of commands on the plain model.

use resp::Value;

/// The integer that a word is; 0 if it is none.
pub fn number(word: &[u8]) -> i64 {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The place that an index means among `length`; a negative one counts from the end.
pub fn place(length: usize, index: &[u8]) -> Option<usize> {
    let index = number(index);
    usize::try_from(if index < 0 { index + length as i64 } else { index }).ok()
}

/// The places from one index up to and with another.
pub fn range(length: usize, first: &[u8], last: &[u8]) -> (usize, usize) {
    let last = place(length, last).map_or(0, |last| last + 1).min(length);
    (place(length, first).unwrap_or(0).min(last), last)
}

/// A count as it is replied.
pub fn count(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
