//! How a command fails: with an error reply, or a fault.

use crate::Fault;
use std::borrow::Cow;

/// How a command fails. An error never leaves part of a command's writes behind.
#[derive(Debug)]
pub enum Error {
    /// The text of the error reply, its code first: `ERR syntax error`.
    Reply(Cow<'static, str>),
    /// The space could not be read.
    Fault(Fault),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<&'static str> for Error {
    fn from(text: &'static str) -> Self {
        Self::Reply(Cow::Borrowed(text))
    }
}

/// What the record of a key holds is not what was written.
pub(super) fn corrupt(key: &[u8], detail: &str) -> Error {
    corrupt_at(format!("the record of {}", key.escape_ascii()), detail)
}

/// The same of rows, by the prefix that they share.
pub(super) fn corrupt_rows(prefix: &[u8], detail: &str) -> Error {
    corrupt_at(format!("the rows {}", prefix.escape_ascii()), detail)
}

/// The same of what `place` names.
pub(super) fn corrupt_at(place: String, detail: &str) -> Error {
    Error::Fault(Fault::Storage(storage::Error::Corrupt { path: place.into(), detail: detail.to_owned() }))
}

/// A handler's result.
pub type Outcome = Result<(), Error>;
