//! The engine in memory: a sorted map, and snapshot files from which it comes back.

mod engine;
mod file;
mod fork;
mod ingest;
mod inspect;
mod snapshot;
mod state;

pub use engine::MemoryEngine;
pub(crate) use file::is_in;
pub(crate) use inspect::MemoryInspection;
