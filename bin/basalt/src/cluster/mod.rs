//! `basalt cluster`: a store of several nodes on this machine.

mod authority;
mod local_store;
mod options;
mod ports;
mod process;
mod roster;
mod status;
mod tend;
mod trouble;
mod up;
mod watch;

pub use local_store::{Lifetime, LocalStore};
pub use options::{ClusterOptions, StoreShape};
pub use trouble::Trouble;
pub use up::wait_until_healthy;
pub use watch::{NodeStatus, Watch};

use options::ClusterCommand;
use std::process::ExitCode;

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
