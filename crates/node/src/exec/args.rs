//! Arguments of commands and the errors about them, in the words of Redis.

use super::Error;
use crate::{Kind, Record};

/// The key holds another kind of value than the command is for.
pub(super) const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// An option is unknown, or in the wrong place.
pub(super) const SYNTAX: &str = "ERR syntax error";
/// An argument should be a 64-bit integer.
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
/// An argument should be a float.
pub(super) const NOT_FLOAT: &str = "ERR value is not a valid float";
/// The command needs a key that is there.
pub(super) const NO_SUCH_KEY: &str = "ERR no such key";

/// The integer that `text` is the one decimal form of: no blanks, plus signs or leading zeros.
pub(super) fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits == b"0" {
        return (!negative).then_some(0);
    }
    if digits.is_empty() || digits.len() > 19 || digits[0] == b'0' {
        return None;
    }
    let mut n: u64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // 19 digits fit 64 bits.
        n = n * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(n) } else { i64::try_from(n).ok() }
}

/// As `parse_int`, or the error.
pub(super) fn int(text: &[u8]) -> Result<i64, Error> {
    parse_int(text).ok_or(Error::from(NOT_INTEGER))
}

/// Whether `arg` is the option `word` (upper case), in any case.
pub(super) fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The bytes of a string's record.
pub(super) fn string_of(record: &Record) -> Result<&[u8], Error> {
    let view = record.view();
    if view.kind == Kind::String { Ok(view.payload) } else { Err(WRONGTYPE.into()) }
}

#[cfg(test)]
mod tests {
    use super::parse_int;

    #[test]
    fn integers_have_one_form() {
        for (text, value) in [
            ("0", Some(0)),
            ("-0", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("9999999999999999999", None),
            ("10000000000000000000", None),
        ] {
            assert_eq!(parse_int(text.as_bytes()), value, "{text}");
        }
    }
}
