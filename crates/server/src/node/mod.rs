//! A running node: its threads, from start to stop.

mod background;
mod server;

pub use server::Server;
