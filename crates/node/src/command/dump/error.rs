//! What is wrong with a dump, or with a value that is to be dumped.

pub(super) const TOO_LARGE: &str = "ERR value is too large to dump (proto-max-bulk-len)";
pub(super) const TORN: &str = "ERR DUMP payload version or checksum are wrong";
pub(super) const BAD_DATA: &str = "ERR Bad data format";
