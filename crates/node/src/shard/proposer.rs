//! Who has proposed an entry that is evaluated.

/// What the replica that evaluates an entry knows of who has proposed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proposer {
    /// This replica has: it alone tells the events of the entry.
    pub(crate) is_here: bool,
    /// One of the clients of the entry may begin to wait for keys that the entry writes.
    pub(crate) may_wait: bool,
    /// One of the clients of the entry is to be told of changes of what its item reads.
    pub(crate) registers: bool,
}
