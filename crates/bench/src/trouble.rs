//! Why a command has failed.

use std::io;

/// A command that could not be done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The options cannot be.
    Usage(String),
    /// Something failed.
    Failed(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}
