//! Bit offsets and the bits of a value: parsed, checked, read.

use crate::command::call::Error;
use vocab::limits::VALUE_BYTES_MAX;

/// `proto-max-bulk-len` of Redis.
const REDIS_VALUE_BYTES_MAX: u64 = 512 << 20;
const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// What a bit is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BitUse {
    /// To be read: behind the longest string of Basalt's it is 0, up to the end of the longest of Redis's.
    Read,
    /// To be written.
    Write,
}

/// The bit that `text` says.
pub(super) fn offset_of(text: &[u8], wanted: BitUse) -> Result<u64, Error> {
    checked(resp::parse_integer(text), wanted)
}

/// A bit that there may be; the error if there is none.
pub(super) fn checked(offset: Option<i64>, wanted: BitUse) -> Result<u64, Error> {
    let bytes_max = if wanted == BitUse::Read { REDIS_VALUE_BYTES_MAX } else { VALUE_BYTES_MAX as u64 };
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < bytes_max).ok_or(BAD_OFFSET.into())
}
