//! Which databases of a source are imported, and where their keys go.

use crate::lines::KeyPlace;
use cluster::Databases;
use vocab::{ClusterDatabase, Database, Namespace, SLOT_COUNT};
use xxhash_rust::xxh3::xxh3_64;

/// Which databases of a source are imported, into a store whose databases have these slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) chosen: Chosen,
    /// What the store has set for its databases: SWAPDB has exchanged some.
    pub(super) places: &'a Databases,
    /// How many databases the store's clients may choose from.
    pub(super) count: u64,
}

/// Which databases of a source are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
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

impl Chosen {
    /// Whether keys go to databases, which may be exchanged.
    pub(super) fn has_databases(self) -> bool {
        !matches!(self, Self::One { into: None, .. })
    }
}

impl Scope<'_> {
    /// Where the keys of a database of the source go; `None` if they are not imported.
    pub(super) fn of(self, database: u64) -> Option<Destination> {
        let to = |into: Database| Namespace::Database(self.places.place_of(into));
        match self.chosen {
            Chosen::One { source, into } => (source == database).then_some(Destination(into.map(to))),
            Chosen::All => {
                let into = Database::of_number(database).filter(|_| database < self.count);
                into.map(|into| Destination(Some(to(into))))
            }
        }
    }

    /// Of which database of the source a key is that is stored under that name.
    pub(super) fn source_of(self, stored: &[u8]) -> u64 {
        match (self.chosen, Namespace::of_key(stored)) {
            (Chosen::One { source, .. }, _) => source,
            (Chosen::All, Some(Namespace::Database(place))) => self.places.database_at(place).number().into(),
            (Chosen::All, of_cluster) => of_cluster.map_or(0, |namespace| namespace.number().into()),
        }
    }

    /// The number that the only database of the source has that is imported.
    pub(super) fn number(self) -> Option<u64> {
        match self.chosen {
            Chosen::One { source, .. } => Some(source),
            Chosen::All => None,
        }
    }

    /// Where all keys of the source may be in the store.
    pub(super) fn destinations(self) -> Vec<Destination> {
        match self.chosen {
            Chosen::One { source, .. } => self.of(source).into_iter().collect(),
            // There is a slot for each.
            Chosen::All => (0..self.count.min(SLOT_COUNT.into())).filter_map(|number| self.of(number)).collect(),
        }
    }

    /// Tells these places from others: SWAPDB of the store's clients changes them.
    pub(super) fn places_hash(self) -> u64 {
        xxh3_64(format!("{:?}", self.destinations()).as_bytes())
    }

    /// Where the key of a line goes.
    pub(super) fn of_line(self, place: KeyPlace) -> Option<Destination> {
        match (self.chosen, place) {
            (Chosen::All, KeyPlace::Cluster) => Some(Destination(None)),
            (Chosen::All, KeyPlace::ClusterDatabase(number)) => {
                ClusterDatabase::of_number(number).map(|into| Destination(Some(Namespace::Cluster(into))))
            }
            (Chosen::All | Chosen::One { .. }, KeyPlace::Database(number)) => self.of(number),
            (Chosen::One { .. }, KeyPlace::Cluster) => self.of(0),
            (Chosen::One { .. }, KeyPlace::ClusterDatabase(number)) => self.of(number),
        }
    }
}

impl Destination {
    /// Whether it is a database, of databases or of the cluster, rather than the keys of cluster clients.
    pub(super) fn is_database(self) -> bool {
        self.0.is_some()
    }

    /// The words with which SCAN walks through its keys.
    pub(super) fn walked(self) -> Vec<Vec<u8>> {
        match self.0 {
            None => vec![b"STORE".to_vec()],
            Some(Namespace::Database(place)) => vec![b"DATABASE".to_vec(), place.number().to_string().into_bytes()],
            Some(Namespace::Cluster(database)) => {
                vec![b"STORE".to_vec(), b"SELECTED".to_vec(), database.number().to_string().into_bytes()]
            }
        }
    }

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
        let (three, places) = (Database::of_number(3), Databases::default());
        let scope = |chosen: Chosen| Scope { chosen, places: &places, count: 16 };
        for (chosen, number, into) in [
            (Chosen::One { source: 0, into: None }, 0, Some(None)),
            (Chosen::One { source: 0, into: None }, 1, None),
            (Chosen::One { source: 7, into: three }, 7, Some(three)),
            (Chosen::All, 3, Some(three)),
            (Chosen::All, 16, None),
        ] {
            let into = into.map(|into: Option<Database>| Destination(into.map(Namespace::Database)));
            assert_eq!(scope(chosen).of(number), into, "{chosen:?} {number}");
        }
        let three_of_cluster = ClusterDatabase::of_number(3).map(Namespace::Cluster);
        assert_eq!(scope(Chosen::All).of_line(KeyPlace::Cluster), Some(Destination(None)));
        assert_eq!(scope(Chosen::All).of_line(KeyPlace::ClusterDatabase(3)), Some(Destination(three_of_cluster)));
        let (one, three) = (scope(Chosen::One { source: 0, into: three }), three.map(Namespace::Database));
        assert_eq!(one.of_line(KeyPlace::Cluster), Some(Destination(three)));
        assert_eq!((one.of_line(KeyPlace::Database(1)), one.of_line(KeyPlace::ClusterDatabase(1))), (None, None));
        assert_eq!(Destination(None).stored(b"k"), b"k");
        let stored = Destination(three).stored(b"k");
        assert_eq!((Namespace::of_key(&stored), vocab::client_key(&stored)), (three, &b"k"[..]));
    }

    #[test]
    fn keys_go_to_the_slots_that_databases_have_been_given() {
        let database = |number| Database::of_number(number).unwrap();
        let mut places = Databases::default();
        places.swap(database(3), database(5));
        let place = |number| Some(Destination(Some(Namespace::Database(database(number)))));
        let all = Scope { chosen: Chosen::All, places: &places, count: 16 };
        assert_eq!([all.of(3), all.of(5), all.of(4)], [place(5), place(3), place(4)]);
        assert_eq!(all.of_line(KeyPlace::Database(3)), place(5));
        assert_eq!(all.source_of(&place(5).unwrap().stored(b"k")), 3);
        let most = Scope { count: 5000, ..all };
        assert!(most.destinations().contains(&most.of(4999).unwrap()), "what is imported is walked through");
        assert_ne!(all.places_hash(), Scope { places: &Databases::default(), ..all }.places_hash());
        let one = Scope { chosen: Chosen::One { source: 0, into: Some(database(3)) }, places: &places, count: 16 };
        assert_eq!((one.of(0), one.source_of(&place(5).unwrap().stored(b"k"))), (place(5), 0));
    }
}
