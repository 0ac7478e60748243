//! Whole stores in a world of their own: virtual time, a network and disks that fail, clients, and checks after every
//! step. One seed makes everything; the same seed makes the same trace, byte for byte.
//!
//! A run has a faulty phase and a healing phase. In between and afterwards what was seen is held against what must
//! hold: see `check`, a file an invariant.

mod bug;
mod bulk;
mod casualties;
mod chance;
pub mod check;
mod checkers;
mod client;
mod client_read;
mod clients;
mod clock;
mod collection_clients;
mod collection_serving;
mod collections;
mod control;
mod disk;
mod effects;
mod environment;
mod event;
mod faults;
mod fork;
pub mod history;
mod host;
mod hostile;
mod kept_map;
mod log_pipe;
mod message_clients;
mod message_serving;
mod messages;
mod network;
mod nodes;
mod operator;
mod panics;
mod places;
mod plan;
mod planner;
mod prefetch;
mod reading;
mod recovery;
mod report;
mod request;
mod rounds;
mod run;
mod schedule;
mod serving;
mod sessions;
mod splitting;
mod store;
mod trace;
mod tree;
mod waiting_reads;
mod wall_clocks;
mod wires;
mod workload;
mod world;

pub use bug::{BUGS, Bug};
pub use environment::Counts;
pub use run::{Failure, Report, RunOptions, run};
pub use schedule::SECOND;
