//! The engine on disk: `lsm-tree`, with our own views of it.
//!
//! `Generation` is one tree in one folder; FLUSHALL and an ingestion begin others. `Memtable` is what is
//! not in its files yet. `View` is a picture of both. `LsmEngine` publishes views and reads through them.

mod archive;
mod blob;
mod block;
mod engine;
mod fault;
mod filter;
mod fork;
mod generation;
mod head;
mod ingest;
mod inspect;
mod install;
mod manifest;
mod memtable;
mod merge;
mod names;
mod prefetch;
mod purge;
mod snapshot;
mod sweep;
mod table;
mod view;

pub use engine::LsmEngine;
pub(crate) use generation::is_in;
pub(crate) use inspect::LsmInspection;
