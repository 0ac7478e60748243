//! Which entry of which shard's log.

use vocab::ShardId;

/// An entry of a shard's log. The term is a part of it: another leader may put another entry at the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId {
    /// The shard.
    pub shard: ShardId,
    /// Its place in the log.
    pub index: u64,
    /// The term of the leader that has proposed it.
    pub term: u64,
}
