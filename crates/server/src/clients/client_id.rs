//! Which connection of a worker.

/// A connection, and what tells it from those that had its place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientId {
    pub(super) id: usize,
    pub(super) generation: u32,
}
