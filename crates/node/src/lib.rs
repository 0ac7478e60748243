//! The node: routes, executes and counts; no socket, no clock, no thread.

pub mod config;
pub mod exec;
mod glob;
mod record;
mod space;
pub mod stats;

pub use record::{Kind, Record, RecordView, Spread};
pub use space::{Fault, Shards, Space};
