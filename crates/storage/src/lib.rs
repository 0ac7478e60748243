//! One shard's ordered, versioned map.
//!
//! `Engine` is the map of tree keys to values at an index; `LsmEngine` keeps it on disk, `MemoryEngine` in memory.
//! `RowCache` holds hot values above either. docs/FORMATS.md has the byte layouts.

mod engine;


pub use engine::{Engine, EngineStats, Error, Result, Snapshot, Span, WriteBatch};
/// Reference-counted bytes; short ones are held inline.
pub use lsm_tree::Slice;
