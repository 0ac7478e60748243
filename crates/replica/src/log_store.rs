//! What replicas need of a log, so that tests and the simulator can put another one in its place.

use crate::error::{Error, Result};
use crate::log_write::LogWrite;
use raft::eraftpb::{ConfState, Entry, HardState};
use vocab::{ReplicaId, ShardId};

/// The log that all groups of a node share. Writes are kept in the order in which they are made, and a crash loses none
/// before one that it keeps.
pub trait LogStore: Send + Sync {
    /// What it holds about a group; `None` for a group that it does not know.
    fn state(&self, shard: ShardId) -> Result<Option<GroupState>>;

    /// Entries `low..high` of a group, at least one, no more than about `bytes_max` bytes.
    fn fetch(&self, shard: ShardId, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>>;

    /// Writes; with `sync`, everything written so far is on the disk afterwards. A failed fsync poisons the store.
    fn write(&self, write: LogWrite, sync: bool) -> Result<()>;

    /// Brings everything that was written to the disk. A failure poisons the store.
    fn sync(&self) -> Result<()>;

    /// Groups that it knows, in order.
    fn groups(&self) -> Vec<ShardId>;
}

/// What the log holds about one group, besides its entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupState {
    /// Which replica of the group this is.
    pub replica: ReplicaId,
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// The members.
    pub conf_state: ConfState,
    /// The entry as of which they are the members.
    pub conf_index: u64,
    /// Index and term of the last entry that was truncated away.
    pub truncated: (u64, u64),
    /// First and last entry held; the first is the greater one when there is none.
    pub bounds: (u64, u64),
}

impl GroupState {
    /// Whether it meets a tree that holds everything up to entry `applied`: no entry is missing between the two.
    pub(crate) fn meets(&self, shard: ShardId, applied: u64) -> Result<()> {
        let last = self.bounds.1.max(self.truncated.0);
        if applied > last {
            return Err(Error::Corrupt(format!(
                "the tree of shard {shard} holds entry {applied}, the log ends at {last}: log files are missing"
            )));
        }
        if applied < self.truncated.0 || applied + 1 < self.bounds.0 {
            return Err(Error::Corrupt(format!(
                "the tree of shard {shard} ends at entry {applied}, the log begins at {}: what is between is lost",
                self.bounds.0
            )));
        }
        Ok(())
    }
}
