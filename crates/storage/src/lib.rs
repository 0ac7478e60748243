//! One shard's ordered, versioned map.
//!
//! `Engine` is the map of tree keys to values at an index; `LsmEngine` keeps it on disk, `MemoryEngine` in memory.
//! `RowCache` holds hot values above either. docs/FORMATS.md has the byte layouts.

mod aligned;
mod allocation;
mod batch;
mod block_read;
mod cache;
#[cfg(all(test, not(miri)))]
#[path = "cache/interleavings.rs"]
mod cache_interleavings;
#[cfg(test)]
#[path = "cache/tests.rs"]
mod cache_tests;
mod cpu_prefetch;
mod direct;
mod dropped;
mod durable_write;
mod engine;
mod envelope;
mod error;
mod extent;
mod files;
mod folded_key;
mod hash_index;
mod health;
mod huge_page;
mod ingest;
mod inspect;
mod lsm;
mod memory;
mod open;
mod open_files;
mod options;
#[cfg(test)]
mod required;
mod resources;
mod ring;
mod room;
mod stats;
mod sync;
mod throttle;
mod unit_buffer;
mod value_record;

pub use batch::{Keep, Span, VALUE_HEAD_BYTES, WriteBatch};
pub use block_read::{BlockRead, HeldBlock, Look};
pub use cache::{CacheStats, FillMode, PutMode, RowCache, Stamp};
pub use cpu_prefetch::{Lines, Step};
pub use durable_write::DurableWriter;
pub use engine::{Cursor, Engine, Short, Snapshot, tail_of};
pub use error::{Error, Result};
pub use extent::Extent;
pub use files::open_direct_to_write;
pub use hash_index::HashIndex;
pub use huge_page::{HugePage, Piece};
pub use ingest::{Ingest, Ingested, NotInstalled};
pub use inspect::{Inspection, inspect_engine};
pub use lsm::LsmEngine;
/// Reference-counted bytes; short ones are held inline.
pub use lsm_tree::Slice;
pub use memory::MemoryEngine;
pub use open::open_engine;
pub use options::{Compression, EngineKind, StorageOptions};
pub use resources::SharedResources;
pub use ring::{Buffer, Ring};
pub use room::Room;
pub use stats::EngineStats;
pub use unit_buffer::{UNIT, UnitBuffer};
