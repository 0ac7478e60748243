//! `basalt cluster`: a store of several nodes on this machine.

mod local_store;
mod options;
mod process;
mod roster;
mod status;
mod tend;
mod up;
mod watch;

pub use local_store::{Lifetime, LocalStore};
pub use options::{ClusterOptions, StoreShape};
pub use up::wait_until_healthy;
pub use watch::{Told, Watch};

use options::ClusterCommand;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why a command could not be done.
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

/// Does what the options say. True is exit code 0, false 1.
pub fn run(options: &ClusterOptions) -> ExitCode {
    let done = match &options.command {
        ClusterCommand::Up(options) => up::run(options),
        ClusterCommand::Down(place) => tend::down(&place.data),
        ClusterCommand::Status { place, json } => tend::status(&place.data, *json),
        ClusterCommand::Kill { node, place } => tend::kill(*node, &place.data),
        ClusterCommand::Restart { node, place } => tend::restart(*node, &place.data),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => trouble.tell("cluster"),
    }
}
