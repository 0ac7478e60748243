//! The shell for the real world: sockets, clocks, threads and disks around the node.

mod background;
mod commit;
mod connection;
mod data_dir;
mod dispatch;
mod embedded;
mod host;
mod inbox;
pub mod links;
mod log_thread;
mod outbox;
mod pool;
mod process;
mod requests;
mod server;
mod store;
mod vital;
mod worker;

pub use data_dir::{DataDir, Identity};
pub use embedded::Caller;
pub use server::Server;
pub use store::slots_of;
