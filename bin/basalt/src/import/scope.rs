//! Which databases of a source are imported, and where their keys go.

use vocab::Database;

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
pub(super) struct Destination(Option<Database>);

impl Scope {
    /// Where the keys of a database of the source go; `None` if they are not imported.
    pub(super) fn of(self, database: u64) -> Option<Destination> {
        match self {
            Self::One { source, into } => (source == database).then_some(Destination(into)),
            Self::All => Database::of_number(database).map(|database| Destination(Some(database))),
        }
    }

    /// Of which database of the source a key is that is stored under that name.
    pub(super) fn source_of(self, stored: &[u8]) -> u64 {
        match self {
            Self::One { source, .. } => source,
            Self::All => Database::of_key(stored).map_or(0, |database| database.number().into()),
        }
    }

    /// Where a key goes whose line names a database, or none: it is one of cluster clients.
    pub(super) fn of_line(self, database: Option<u64>) -> Option<Destination> {
        match (self, database) {
            (Self::All, None) => Some(Destination(None)),
            _ => self.of(database.unwrap_or(0)),
        }
    }
}

impl Destination {
    /// The name under which the store keeps a key.
    pub(super) fn stored(self, key: &[u8]) -> Vec<u8> {
        match self.0 {
            Some(database) => [&database.prefix(), key].concat(),
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
            assert_eq!(scope.of(number), into.map(Destination), "{scope:?} {number}");
        }
        assert_eq!(Scope::All.of_line(None), Some(Destination(None)));
        assert_eq!(Scope::One { source: 0, into: three }.of_line(None), Some(Destination(three)));
        assert_eq!(Destination(None).stored(b"k"), b"k");
        let stored = Destination(three).stored(b"k");
        assert_eq!((Database::of_key(&stored), vocab::client_key(&stored)), (three, &b"k"[..]));
    }
}
