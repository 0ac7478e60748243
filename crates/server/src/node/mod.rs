//! A running node: its threads, from start to stop.

mod background;
mod eviction;
mod peer_guard;
mod server;
mod tls_files;

pub use server::{Addresses, Probe, Server};
