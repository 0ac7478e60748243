//! Rows from elsewhere, built aside until they replace a whole map.

use crate::{Error, Result, Slice};
use std::any::Any;
use std::fmt;

/// Builds a map aside from rows of another replica, while the engine's own goes on. Dropped before `finish`, it leaves
/// nothing behind.
///
/// Invariant: memory is bounded by one batch of rows, whatever the size of the map (except for the memory engine, whose
/// maps are in memory).
pub trait Ingest: Send {
    /// Takes the next row; keys rise. A row that no engine could have sent (of a reserved, an empty or too long a key,
    /// of too long a value, or out of order) is refused as corrupt. Blocks: for background threads. After an error
    /// the ingestion is of no more use.
    fn put(&mut self, key: Slice, value: Slice) -> Result<()>;

    /// Makes all of it durable as the map of entry `index`, with all its meta records.
    fn finish(self: Box<Self>, index: u64, meta: Vec<(Slice, Slice)>) -> Result<Box<dyn Ingested>>;
}

/// A complete, durable map that waits for `Engine::install` of the engine that it was built with. Dropped without
/// that, it is removed.
pub trait Ingested: Send + Any {
    /// The index that it is the map of.
    fn index(&self) -> u64;

    /// What it takes on disk, in bytes.
    fn disk_bytes(&self) -> u64;
}

/// Why a map was not installed. Nothing has changed.
pub struct NotInstalled {
    /// What failed.
    pub error: Error,
    /// The map, where room, descriptors or memory lacked: it may be tried again once there are some.
    pub rows: Option<Box<dyn Ingested>>,
}

impl NotInstalled {
    pub(crate) fn of(error: Error, rows: Box<dyn Ingested>) -> Self {
        let rows = error.is_lack().then_some(rows);
        Self { error, rows }
    }
}

impl fmt::Debug for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotInstalled").field("error", &self.error).finish_non_exhaustive()
    }
}

impl From<NotInstalled> for Error {
    fn from(not: NotInstalled) -> Self {
        not.error
    }
}

/// What is wrong with a row that comes from elsewhere, if anything.
pub(crate) fn refusal(last: Option<&Slice>, key: &[u8], value: &[u8]) -> Option<&'static str> {
    let is_out_of_order = || last.is_some_and(|last| &last[..] >= key);
    crate::batch::refusal(key, value).or_else(|| is_out_of_order().then_some("a row that is out of order"))
}
