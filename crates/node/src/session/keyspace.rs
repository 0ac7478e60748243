//! Which keys the requests of a connection name.

use vocab::{ClusterDatabase, Database, Namespace};

/// Whose keys the requests of a connection name: that follows from where the connection came in, and of SELECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keyspace {
    /// A client of Redis Cluster, in database 0: keys are stored under the names that it uses.
    #[default]
    Cluster,
    /// A client of Redis Cluster that has chosen another database.
    ClusterDatabase(ClusterDatabase),
    /// A client of this database, as of a Redis without cluster mode.
    Database(Database),
    /// Another node, for its clients: it names keys as they are stored.
    Stored,
}

impl Keyspace {
    /// That of a client of Redis Cluster which has chosen the database of that number; `None`: there cannot be one.
    #[must_use]
    pub fn of_cluster(number: u64) -> Option<Self> {
        if number == 0 { Some(Self::Cluster) } else { ClusterDatabase::of_number(number).map(Self::ClusterDatabase) }
    }

    /// Whether its channels of slots are plain: those of clients that do not know clusters, who are behind other nodes too.
    pub(super) fn has_plain_channels(self) -> bool {
        !self.is_of_cluster()
    }

    /// Whether it is that of a client of Redis Cluster.
    #[must_use]
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Self::Cluster | Self::ClusterDatabase(_))
    }

    /// The database, if it is one's of clients that do not know clusters.
    #[must_use]
    pub fn database(self) -> Option<Database> {
        match self {
            Self::Database(database) => Some(database),
            Self::Cluster | Self::ClusterDatabase(_) | Self::Stored => None,
        }
    }

    /// The namespace of its keys, by the number of the database that its client names; `None`: keys are stored as they are named.
    #[inline]
    #[must_use]
    pub fn namespace(self) -> Option<Namespace> {
        match self {
            Self::Database(database) => Some(Namespace::Database(database)),
            Self::ClusterDatabase(database) => Some(Namespace::Cluster(database)),
            Self::Cluster | Self::Stored => None,
        }
    }

    /// The number of its database.
    #[must_use]
    pub fn number(self) -> u16 {
        self.namespace().map_or(0, Namespace::number)
    }
}
