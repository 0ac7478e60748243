//! Which databases of a source are imported, and where their keys go.

use crate::lines::KeyPlace;
use vocab::{ClusterDatabase, Database, Namespace};

/// Which databases of a source are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// One of them.
    One {
        /// Its number at the source.
        source: u64,
        /// Whose keys they become; none: those of cluster clients.
        into: Option<Database>,
    },
    /// All of them, each into the database of its number.
    All,
}

/// Whose keys the keys of a database become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination(Option<Namespace>);

impl Scope {
    /// Where the keys of a database of the source go; `None` if they are not imported.
    pub(super) fn of(self, database: u64) -> Option<Destination> {
        match self {
            Self::One { source, into } => (source == database).then_some(Destination(into.map(Namespace::Database))),
            Self::All => Database::of_number(database).map(|into| Destination(Some(Namespace::Database(into)))),
        }
    }

    /// Of which database of the source a key is that is stored under that name.
    pub(super) fn source_of(self, stored: &[u8]) -> u64 {
        match self {
            Self::One { source, .. } => source,
            Self::All => Namespace::of_key(stored).map_or(0, |namespace| namespace.number().into()),
        }
    }

    /// Where the key of a line goes.
    pub(super) fn of_line(self, place: KeyPlace) -> Option<Destination> {
        match (self, place) {
            (Self::All, KeyPlace::Cluster) => Some(Destination(None)),
            (Self::All, KeyPlace::ClusterDatabase(number)) => {
                ClusterDatabase::of_number(number).map(|into| Destination(Some(Namespace::Cluster(into))))
            }
            (Self::All | Self::One { .. }, KeyPlace::Database(number)) => self.of(number),
            (Self::One { .. }, KeyPlace::Cluster) => self.of(0),
            (Self::One { .. }, KeyPlace::ClusterDatabase(number)) => self.of(number),
        }
    }
}

impl Destination {
    /// The name under which the store keeps a key.
    pub(super) fn stored(self, key: &[u8]) -> Vec<u8> {
        match self.0 {
            Some(namespace) => namespace.stored(key),
            None => key.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_go_where_they_are_sent() {
        let three = Database::of_number(3);
        for (scope, number, into) in [
            (Scope::One { source: 0, into: None }, 0, Some(None)),
            (Scope::One { source: 0, into: None }, 1, None),
            (Scope::One { source: 7, into: three }, 7, Some(three)),
            (Scope::All, 3, Some(three)),
            (Scope::All, 16_384, None),
        ] {
            let into = into.map(|into: Option<Database>| Destination(into.map(Namespace::Database)));
            assert_eq!(scope.of(number), into, "{scope:?} {number}");
        }
        let three_of_cluster = ClusterDatabase::of_number(3).map(Namespace::Cluster);
        assert_eq!(Scope::All.of_line(KeyPlace::Cluster), Some(Destination(None)));
        assert_eq!(Scope::All.of_line(KeyPlace::ClusterDatabase(3)), Some(Destination(three_of_cluster)));
        let (one, three) = (Scope::One { source: 0, into: three }, three.map(Namespace::Database));
        assert_eq!(one.of_line(KeyPlace::Cluster), Some(Destination(three)));
        assert_eq!((one.of_line(KeyPlace::Database(1)), one.of_line(KeyPlace::ClusterDatabase(1))), (None, None));
        assert_eq!(Destination(None).stored(b"k"), b"k");
        let stored = Destination(three).stored(b"k");
        assert_eq!((Namespace::of_key(&stored), vocab::client_key(&stored)), (three, &b"k"[..]));
    }
}
