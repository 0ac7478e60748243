//! The engine on disk: `lsm-tree`, with our own views of it.
//!
//! `Generation` is one tree in one folder; FLUSHALL and an ingestion begin others. `View` is an immutable picture of a
//! generation: its memtables and its tables. `LsmEngine` publishes views and reads through them.

mod archive;
mod blob;
mod engine;
mod fault;
mod filter;
mod generation;
mod ingest;
mod inspect;
mod install;
mod manifest;
mod merge;
mod snapshot;
mod sweep;
mod view;

pub use engine::LsmEngine;
pub(crate) use generation::is_in;
pub(crate) use inspect::LsmInspection;
