//! The node: routes, executes and counts; no socket, no clock, no thread.

pub mod exec;
mod record;
mod space;

pub use record::{Kind, Record, RecordView, Spread};
pub use space::{Fault, Shards, Space};
