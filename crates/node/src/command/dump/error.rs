//! The errors of a dump, and of a value that cannot be dumped.

pub(super) const TOO_LARGE: &str = "ERR value is too large to dump (proto-max-bulk-len)";
pub(super) const TORN: &str = "ERR DUMP payload version or checksum are wrong";
pub(super) const BAD_DATA: &str = "ERR Bad data format";
