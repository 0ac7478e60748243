//! Bit offsets and the bits of a value: parsed, checked, read.

use crate::command::call::Error;
use vocab::limits::VALUE_BYTES_MAX;

/// `proto-max-bulk-len` of Redis.
const REDIS_VALUE_BYTES_MAX: u64 = 512 << 20;
const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// The bit that `text` says.
pub(super) fn offset_of(text: &[u8]) -> Result<u64, Error> {
    checked(resp::parse_integer(text))
}

/// The same of a bit that is read: behind the longest string of Basalt's it is 0, up to the end of the longest of Redis's.
pub(super) fn read_offset_of(text: &[u8]) -> Result<u64, Error> {
    within(resp::parse_integer(text), REDIS_VALUE_BYTES_MAX)
}

/// A bit, at most the last of the longest string; the error if it is none.
pub(super) fn checked(offset: Option<i64>) -> Result<u64, Error> {
    within(offset, VALUE_BYTES_MAX as u64)
}

fn within(offset: Option<i64>, bytes_max: u64) -> Result<u64, Error> {
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < bytes_max).ok_or(BAD_OFFSET.into())
}
