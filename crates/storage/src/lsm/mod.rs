//! The engine on disk: `lsm-tree`, with our own views of it.
//!
//! `Generation` is one tree in one folder; FLUSHALL and an ingestion begin others. `Memtable` is what is
//! not in its files yet. `View` is a picture of both. `LsmEngine` publishes views and reads through them.

mod archive;
mod blob;
mod blob_dir_sync;
mod block;
mod collector;
mod damage;
mod engine;
mod fault;
mod filter;
mod fork;
mod garbage;
mod generation;
mod ingest;
mod inspect;
mod key_prefix;
mod lookup;
mod manifest;
mod memtable;
mod merge;
mod removed;
mod sample;
mod snapshot;
mod sweep;
mod table;
mod tree_files;
mod try_get;
mod unwanted;
mod view;
mod wear;

pub use engine::LsmEngine;
pub(crate) use generation::is_in;
pub(crate) use inspect::LsmInspection;
