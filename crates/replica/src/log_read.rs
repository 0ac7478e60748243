//! Entries that followers lack and that only the log has, read by any thread: the event loop does not wait for the disk.

use crate::error::Result;
use crate::log_store::LogStore;
use raft::eraftpb::Entry;
use std::sync::Arc;
use vocab::{ReplicaId, ShardId};

/// What is to be read, for a replica that leads in a term.
pub struct LogRead {
    pub(crate) log: Arc<dyn LogStore>,
    pub(crate) shard: ShardId,
    pub(crate) replica: ReplicaId,
    pub(crate) term: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) bytes_max: u64,
}

/// What was read.
pub struct LogEntries {
    pub(crate) shard: ShardId,
    pub(crate) replica: ReplicaId,
    pub(crate) term: u64,
    pub(crate) low: u64,
    pub(crate) entries: Result<Vec<Entry>>,
}

impl LogRead {
    /// Whose entries these are.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Reads at least one entry. Blocks.
    #[must_use]
    pub fn run(self) -> LogEntries {
        let Self { log, shard, replica, term, low, high, bytes_max } = self;
        let entries = log.fetch(shard, low, high, bytes_max);
        LogEntries { shard, replica, term, low, entries }
    }
}

impl LogEntries {
    /// Whose entries these are.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }
}
