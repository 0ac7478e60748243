//! Other systems: the programs that speak to them, and their servers, started and stopped on this machine.

mod build;
mod cassandra;
mod cli;
mod etcd;
mod folder;
mod process;
mod redis;
mod roster;
mod site;
mod voltdb;

pub use build::adapter;
pub(crate) use cli::run;
pub use cli::{DurabilityOfPeer, PeerCommand, PeerName, UpOptions};
pub use process::{DATA_VARIABLE, Process};
pub use roster::{PeerNode, Roster};
pub use site::up;
