//! The shell for the real world: sockets, clocks, threads and disks around the node.

mod access;
mod admin;
mod background;
mod backup;
mod calls;
mod commit;
mod connection;
mod data_dir;
mod directory;
mod dispatch;
mod embedded;
mod holdings;
mod host;
mod inbox;
pub mod links;
mod log_thread;
mod neighbours;
mod opening;
mod outbox;
mod peers;
mod pool;
mod process;
mod reads;
mod requests;
mod server;
pub mod snapshots;
mod store;
mod transfers;
mod vital;
mod waits;
mod whole_store;
mod worker;
mod writes;

pub use data_dir::{DataDir, Identity, read_map};
pub use embedded::Caller;
pub use server::Server;
