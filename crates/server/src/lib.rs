//! The shell for the real world: sockets, clocks, threads and disks around the node.

mod api;
mod clients;
mod disk_reads;
pub mod links;
mod log_sync;
mod mailbox;
mod net;
mod node;
mod os;
mod peers;
mod replicas;
pub mod security;
mod shared;
pub mod snapshots;
mod sync;
#[cfg(test)]
mod testing;
mod worker;

pub use api::Caller;
pub use api::http::openapi_document;
pub use node::{Addresses, Probe, Server};
pub use shared::{DataDir, Identity, read_map, read_map_changes};
