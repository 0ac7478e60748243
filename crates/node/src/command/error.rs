//! How a command ends.

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

/// A handler's result.
pub type Outcome = Result<(), Error>;
