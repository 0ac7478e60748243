//! A client that has tracking on.

use crate::subscriber::Subscriber;

/// Of whose keys a client is told that asks for prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Of keys of the cluster's clients, from every replica of the node.
    #[default]
    Cluster,
    /// Of keys of databases, from the shards that the node leads: it is told by each node of what that one leads.
    Databases,
}

/// A client that is told of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// The client.
    pub client: Subscriber,
    /// It is not told of its own changes.
    pub no_loop: bool,
}

/// Whether what a request of a client reads while it is applied is registered for that client: of a script, and of a transaction, what its
/// commands read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registers {
    /// It is not.
    #[default]
    Nothing,
    /// The client is told of all changes.
    Reads,
    /// The client is told of all changes but its own.
    ReadsNoLoop,
}

impl Registers {
    /// That of a request of a client, if it is registered.
    #[must_use]
    pub fn of(tracker: Option<Tracker>) -> Self {
        match tracker {
            None => Self::Nothing,
            Some(Tracker { no_loop: false, .. }) => Self::Reads,
            Some(Tracker { no_loop: true, .. }) => Self::ReadsNoLoop,
        }
    }

    /// As whom a client is registered, if it is.
    #[must_use]
    pub fn tracker(self, client: Subscriber) -> Option<Tracker> {
        (self != Self::Nothing).then_some(Tracker { client, no_loop: self == Self::ReadsNoLoop })
    }
}
