//! What an error says where no client is.

use crate::Fault;
use crate::command::Error;

/// The error of a command, or of a space, in words.
pub(super) fn told<E: Into<Error>>(error: E) -> String {
    match error.into() {
        Error::Reply(text) => text.into_owned(),
        Error::Fault(Fault::Storage(error)) => error.to_string(),
        Error::Fault(fault) => format!("{fault:?}"),
    }
}
