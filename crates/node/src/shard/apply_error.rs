//! Why an entry could not be applied.

use crate::Fault;
use vocab::ShardId;

/// Why an entry could not be applied.
#[derive(Debug)]
pub(crate) enum ApplyError {
    Malformed(&'static str),
    Fault(Fault),
    Storage(storage::Error),
    Log(replica::Error),
    Panicked,
}

impl ApplyError {
    /// The failure of this replica's storage, if it is one.
    pub(super) fn storage(&self) -> Option<&storage::Error> {
        match self {
            Self::Fault(Fault::Storage(error)) | Self::Storage(error) => Some(error),
            _ => None,
        }
    }

    /// What an operator can do about entry `index`, to be told behind the error.
    pub(super) fn advice(&self, shard: ShardId, index: u64) -> String {
        if !self.is_of_entry() {
            return String::new();
        }
        format!(
            "; if other replicas have applied it, this one is to be rebuilt from them; if none can, --skip-entry {shard}:{index} on each node \
             that has one goes on without it"
        )
    }

    /// Whether it comes of the entry, so that every replica of the same release meets it, rather than of this replica's disk.
    pub(super) fn is_of_entry(&self) -> bool {
        match self {
            Self::Malformed(_)
            | Self::Panicked
            | Self::Fault(Fault::WouldBlock | Fault::Writes { .. } | Fault::Remote(_)) => true,
            Self::Fault(Fault::Storage(_)) | Self::Storage(_) | Self::Log(_) => false,
        }
    }
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panicked => f.write_str("its evaluation panicked, see the lines before"),
            Self::Malformed(detail) => f.write_str(detail),
            Self::Log(e) => write!(f, "{e}"),
            Self::Fault(Fault::Storage(e)) | Self::Storage(e) => write!(f, "{e}"),
            Self::Fault(Fault::Remote(text)) => f.write_str(text),
            Self::Fault(Fault::WouldBlock) => f.write_str("a read at apply would not wait for the disk"),
            Self::Fault(Fault::Writes { .. }) => f.write_str("a read of an entry writes"),
        }
    }
}

impl From<&'static str> for ApplyError {
    fn from(detail: &'static str) -> Self {
        Self::Malformed(detail)
    }
}

impl From<Fault> for ApplyError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<replica::Error> for ApplyError {
    fn from(error: replica::Error) -> Self {
        Self::Log(error)
    }
}

impl From<storage::Error> for ApplyError {
    fn from(error: storage::Error) -> Self {
        Self::Storage(error)
    }
}
