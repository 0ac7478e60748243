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
