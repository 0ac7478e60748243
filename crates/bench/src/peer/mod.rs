//! Other systems: the programs that speak to them, and their servers, started and stopped on this machine.

mod build;
mod cassandra;
mod cli;
mod etcd;
mod folder;
mod options;
mod ports;
mod process;
mod redis;
mod roster;
mod site;
mod start;
mod voltdb;

pub use build::adapter;
pub use cli::PeerCommand;
pub(crate) use cli::run;
pub use options::{DurabilityOfPeer, PeerName, UpOptions};
pub use process::Process;
pub use roster::{PeerNode, Roster};
pub use start::up;
