//! Bit offsets and the bits of a value: parsed, checked, read.

use crate::command::call::Error;
use vocab::limits::VALUE_BYTES_MAX;

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// The bit that `text` says.
pub(super) fn offset_of(text: &[u8]) -> Result<u64, Error> {
    checked(resp::parse_integer(text))
}

/// A bit, at most the last of the longest string; the error if it is none.
pub(super) fn checked(offset: Option<i64>) -> Result<u64, Error> {
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < VALUE_BYTES_MAX as u64).ok_or(BAD_OFFSET.into())
}
