//! Systems that are reached through their own published client libraries: a program beside the laboratory, the
//! *adapter*, uses the library and is asked over a Unix socket. Keys, values, clocks, checks and histograms stay here,
//! and so are the same for all systems. docs/PEERS.md tells the protocol.

mod bound;
mod hello;
mod program;
mod target;
#[cfg(test)]
mod tests;
mod transport;
mod watch;
mod wire;

pub(crate) use bound::check_frame;
pub use hello::AdapterUrl;
pub use target::AdapterTarget;
pub use watch::DATA_VARIABLE;
