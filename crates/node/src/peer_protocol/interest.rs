//! What a node tells others of what its clients listen to.

use std::sync::Arc;

/// A change of a node's interest: its clients listen to a name from now on, or none of them does any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// A channel, or a pattern.
    pub name: Arc<[u8]>,
    /// It is a pattern.
    pub is_pattern: bool,
    /// Whether its messages are wanted.
    pub wanted: bool,
}

/// What a node tells another of its interest.
///
/// Numbers rise by one from message to message, so that the receiver sees whether one was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// The number of this message on its link.
    pub number: u64,
    /// What was told before does not count any more.
    pub begins: bool,
    /// The changes, in order.
    pub wishes: Vec<Wish>,
}
