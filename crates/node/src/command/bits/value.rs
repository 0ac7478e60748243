//! What all commands over bits check, and the string whose bits they are over.

use crate::command::args::string_of;
use crate::command::call::{Error, WriteCall};
use crate::{Evaluation, Record};
use vocab::limits::VALUE_BYTES_MAX;

pub(super) const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// The bit that `text` says, at most the last of the longest string.
pub(super) fn offset_of(text: &[u8]) -> Result<u64, Error> {
    let offset = resp::parse_integer(text).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < VALUE_BYTES_MAX as u64).ok_or(BAD_OFFSET.into())
}

/// The bytes of a string's record; those of an absent key are none.
pub(super) fn bytes_of(record: Option<&Record>) -> Result<&[u8], Error> {
    record.map_or(Ok(&[]), string_of)
}

/// Nodes of a release that has no bitmaps would evaluate the entry in another way.
pub(super) fn check_release(call: &WriteCall<'_>) -> Result<(), Error> {
    if call.space.evaluation() == Evaluation::First {
        return Err("ERR not while nodes of an earlier release hold replicas".into());
    }
    Ok(())
}
