//! A running node: its threads, from start to stop.

mod background;
mod eviction;
mod server;

pub use server::Server;
