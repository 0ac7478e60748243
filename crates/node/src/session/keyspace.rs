//! Which keys the requests of a connection name.

use vocab::Database;

/// Whose keys the requests of a connection name: that follows from where the connection came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keyspace {
    /// A client of Redis Cluster: keys are stored under the names that it uses.
    #[default]
    Cluster,
    /// A client of this database, as of a Redis without cluster mode.
    Database(Database),
    /// Another node, for its clients: it names keys as they are stored.
    Stored,
}

impl Keyspace {
    /// Whether its channels of slots are plain: those of clients that do not know clusters, who are behind other nodes too.
    pub(super) fn has_plain_channels(self) -> bool {
        self != Self::Cluster
    }

    /// The database, if it is one's.
    #[must_use]
    pub fn database(self) -> Option<Database> {
        match self {
            Self::Database(database) => Some(database),
            Self::Cluster | Self::Stored => None,
        }
    }
}
