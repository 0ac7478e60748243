//! Why a command could not be done.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// A command that could not be done.
#[derive(Debug)]
pub enum Trouble {
    /// The options cannot be.
    Usage(String),
    /// Something failed.
    Failed(String),
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Failed(text)) = self;
        out.write_str(text)
    }
}

impl Trouble {
    /// Says it, for the command of that name.
    #[must_use]
    pub fn tell(&self, command: &str) -> ExitCode {
        bench::note!("basalt {command}: {self}");
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}
