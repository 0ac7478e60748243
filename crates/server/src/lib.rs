//! The shell for the real world: sockets, clocks, threads and disks around the node.

mod access;
mod api;
mod clients;
mod cold_reads;
mod directory;
mod disk_reads;
mod embedded;
mod holdings;
pub mod links;
mod log_sync;
mod mailbox;
mod net;
mod node;
mod os;
mod peers;
mod replicas;
mod scatter_gather;
mod shared;
pub mod snapshots;
mod worker;

pub use api::http::openapi_document;
pub use embedded::Caller;
pub use node::Server;
pub use shared::{DataDir, Identity, read_map};
