//! Arguments of commands and the errors about them, in the words of Redis.

use super::call::{Error, Outcome};
use crate::{Evaluation, Kind, Record, WriteSpace};
use vocab::{ClusterDatabase, Database, Namespace};

/// The key holds another kind of value than the command is for.
pub(super) const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// An option is unknown, or in the wrong place.
pub(super) const SYNTAX: &str = "ERR syntax error";
/// The error about a union of so many small sets that they do not fit into memory together.
pub(super) const TOO_MANY_SETS: &str = "ERR too many sets to be united at once (32 MiB of small ones)";
const _: () = assert!(vocab::limits::UNITED_BYTES_MAX == 32 << 20, "it says how many");
/// An argument should be a 64-bit integer.
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
/// An argument should be a natural number.
pub(super) const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
/// An argument is a number beyond what the command takes.
pub(super) const OUT_OF_RANGE: &str = "ERR value is out of range";
/// An argument should be a float.
pub(super) const NOT_FLOAT: &str = "ERR value is not a valid float";
/// Only fields of hashes have values.
pub(super) const NO_VALUES: &str = "ERR NOVALUES option can only be used in HSCAN";
/// The command needs a key that is there.
pub(super) const NO_SUCH_KEY: &str = "ERR no such key";

/// There is no database of that number.
const NO_SUCH_DATABASE: &str = "ERR DB index is out of range";

/// The integer that `text` is the one decimal form of, or the error.
pub(super) fn int(text: &[u8]) -> Result<i64, Error> {
    resp::parse_integer(text).ok_or(Error::from(NOT_INTEGER))
}

/// The natural number that `text` is the one decimal form of, or `error`.
pub(super) fn natural(text: &[u8], error: &'static str) -> Result<u64, Error> {
    int(text).ok().and_then(|n| u64::try_from(n).ok()).ok_or(Error::from(error))
}

/// The same of a number that is not 0.
pub(super) fn at_least_one(text: &[u8], error: &'static str) -> Result<u64, Error> {
    natural(text, error).and_then(|n| if n > 0 { Ok(n) } else { Err(error.into()) })
}

/// The namespace that a question about all keys names by `DATABASE number` or `SELECTED number`; none if it is another pair of words.
pub(super) fn named_namespace(word: &[u8], number: &[u8]) -> Result<Option<Namespace>, Error> {
    Ok(if is_word(word, "DATABASE") {
        Some(Namespace::Database(database(number)?))
    } else if is_word(word, "SELECTED") {
        Some(Namespace::Cluster(cluster_database(number)?))
    } else {
        None
    })
}

/// The words of such a question, and the namespace that it ends in: it was put behind what the client has sent, so that it is no value
/// of an option.
pub(super) fn within_namespace<'w, 'a>(words: &'w [&'a [u8]]) -> Result<(&'w [&'a [u8]], Option<Namespace>), Error> {
    let [sent @ .., word, number] = words else { return Ok((words, None)) };
    let named = named_namespace(word, number)?;
    Ok((if named.is_some() { sent } else { words }, named))
}

/// The database of that number.
fn database(text: &[u8]) -> Result<Database, Error> {
    natural(text, NOT_INTEGER).and_then(|n| Database::of_number(n).ok_or(Error::from(NO_SUCH_DATABASE)))
}

/// The cluster database of that number.
fn cluster_database(text: &[u8]) -> Result<ClusterDatabase, Error> {
    natural(text, NOT_INTEGER).and_then(|n| ClusterDatabase::of_number(n).ok_or(Error::from(NO_SUCH_DATABASE)))
}

/// Whether `arg` is the option `word` (upper case), in any case.
pub(super) fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The bytes of a string's record.
pub(super) fn string_of(record: &Record) -> Result<&[u8], Error> {
    let view = record.view();
    if view.kind == Kind::STRING { Ok(view.payload) } else { Err(WRONGTYPE.into()) }
}

/// The bytes of a string's record; those of an absent key are none.
pub(super) fn bytes_of(record: Option<&Record>) -> Result<&[u8], Error> {
    record.map_or(Ok(&[]), string_of)
}

/// The first and the last place from `start` to `end` in something of that length, both counted from the end if negative;
/// `None` if nothing lies between them. An end before the beginning means the first place, as in Redis.
pub(super) fn span_of(start: i64, end: i64, length: i64) -> Option<(i64, i64)> {
    let place = |index: i64| if index < 0 { length.saturating_add(index).max(0) } else { index };
    let (start, end) = (place(start), place(end).min(length - 1));
    (start <= end).then_some((start, end))
}

/// Refuses what nodes of an earlier release, which evaluate by the first rules, would evaluate in another way.
pub(super) fn check_release(space: &dyn WriteSpace) -> Outcome {
    if space.evaluation() == Evaluation::First {
        return Err("ERR not while nodes of an earlier release hold replicas".into());
    }
    Ok(())
}

/// The decimal form of an integer, without a heap.
pub(super) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    /// The form of `n`.
    pub(super) fn of(n: i64) -> Self {
        let mut digits = [0; 20];
        let mut start = digits.len();
        let mut rest = n.unsigned_abs();
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if n < 0 {
            start -= 1;
            digits[start] = b'-';
        }
        Self { digits, start }
    }

    /// Its characters.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn integers_in_decimal() {
        for n in [0, 7, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(Decimal::of(n).bytes(), n.to_string().as_bytes());
        }
    }
}
