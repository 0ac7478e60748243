//! The errors of the log and its groups.

use std::fmt;

/// Why the log could not be opened, written or read.
#[derive(Clone, Debug)]
pub enum Error {
    /// The log is damaged; names the file where it can be told.
    Corrupt(String),
    /// The operating system refused.
    Io(String),
    /// An fsync failed: nothing more is written until restart.
    Poisoned(String),
    /// This replica does not lead its group.
    NotLeader,
    /// The group holds as many uncommitted bytes as it may.
    Busy,
    /// The entry has so many bytes, which is more than other replicas accept.
    TooLarge(usize),
    /// Leadership is being handed over: in a moment another replica leads, or this one again.
    HandingOver,
    /// Members cannot be changed now, or not so.
    Members(&'static str),
    /// A message that no replica sends. It was dropped.
    Malformed(String),
    /// This replica applied what its group never agreed on: it must not serve, and be made anew from the others.
    Diverged(String),
}

/// The result of a log call.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(detail) => write!(f, "the log is corrupt: {detail}"),
            Self::Io(detail) => write!(f, "the log cannot be used: {detail}"),
            Self::Poisoned(detail) => write!(f, "the store is poisoned until restart: {detail}"),
            Self::NotLeader => write!(f, "this replica is not the leader"),
            Self::Busy => write!(f, "too many writes are under way"),
            Self::TooLarge(bytes) => {
                write!(f, "an entry of {bytes} bytes is too large: replicas accept {}", vocab::limits::ENTRY_BYTES_MAX)
            }
            Self::HandingOver => write!(f, "leadership is being handed over"),
            Self::Members(detail) => write!(f, "members cannot be changed: {detail}"),
            Self::Malformed(detail) => write!(f, "a message that no replica sends: {detail}"),
            Self::Diverged(detail) => write!(f, "this replica has diverged from its group: {detail}"),
        }
    }
}

impl std::error::Error for Error {}

/// What an error of raft-rs, which none is expected of, means for a replica.
pub(crate) fn raft_error(shard: vocab::ShardId, error: &raft::Error) -> Error {
    Error::Corrupt(format!("shard {shard}: {error}"))
}

impl From<raft_engine::Error> for Error {
    fn from(error: raft_engine::Error) -> Self {
        match error {
            raft_engine::Error::Io(e) => Self::Io(e.to_string()),
            raft_engine::Error::Corruption(detail) => Self::Corrupt(detail),
            other => Self::Corrupt(other.to_string()),
        }
    }
}
