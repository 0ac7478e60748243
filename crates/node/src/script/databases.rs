//! The databases that a script may choose, as they are when its request comes. All replicas go by them, whatever they know of the map.

use vocab::{Database, Namespace, Reader, put_varint};

/// What a script's context says of databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptDatabases {
    /// How many there are: a script chooses among the numbers below.
    pub count: u64,
    /// Those that SWAPDB has exchanged: the number that clients use, and that of the database whose slot it has.
    pub exchanged: Vec<(Database, Database)>,
}

impl ScriptDatabases {
    /// The database in whose slot the keys of a database are.
    pub(super) fn place_of(&self, named: Database) -> Database {
        self.exchanged.iter().find(|(number, _)| *number == named).map_or(named, |(_, place)| *place)
    }

    /// The number that clients use of the database that is stored under a namespace.
    pub(super) fn number_of(&self, namespace: Namespace) -> u16 {
        let Namespace::Database(at) = namespace else { return namespace.number() };
        self.exchanged.iter().find(|(_, place)| *place == at).map_or(at, |(number, _)| *number).number()
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.count);
        put_varint(bytes, self.exchanged.len() as u64);
        for (number, place) in &self.exchanged {
            put_varint(bytes, number.number().into());
            put_varint(bytes, place.number().into());
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.varint().ok()?;
        let exchanged = reader.varint().ok()?;
        let mut database = || Database::of_number(reader.varint().ok()?);
        let exchanged = (0..exchanged).map(|_| Some((database()?, database()?))).collect::<Option<_>>()?;
        Some(Self { count, exchanged })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_number_is_found_by_its_place_and_back() {
        let database = |number| Database::of_number(number).unwrap();
        // As after SWAPDB 0 1 and SWAPDB 1 2.
        let exchanged = vec![(database(0), database(1)), (database(1), database(2)), (database(2), database(0))];
        let databases = ScriptDatabases { count: 16, exchanged };
        for (number, place) in [(0, 1), (1, 2), (2, 0), (3, 3)] {
            assert_eq!(databases.place_of(database(number)), database(place));
            let namespace = Namespace::Database(database(place));
            assert_eq!(u64::from(databases.number_of(namespace)), number);
        }
    }
}
