//! Names of commands that nodes send each other and clients cannot send: they are not in the command table.

/// Asks the leader of a shard for a page of its keys.
pub const SHARD_PAGE: &[u8] = b"KV.PART";
/// Writes what the metadata group keeps of the store's programs.
pub const PROGRAM: &[u8] = b"KV.PROGRAM";
/// Writes a part of a large collection that is being copied.
pub const STAGE: &[u8] = b"KV.STAGE";
/// Removes every key of a shard that has all of the store, or those of one database of a cluster's clients: FLUSHALL and FLUSHDB within
/// a transaction.
pub(crate) const CLEAR: &[u8] = b"KV.CLEAR";
