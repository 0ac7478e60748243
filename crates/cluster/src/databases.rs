//! What is set for single databases: their names, which of the slots each has, and what bounds them.
//!
//! A database is a number. Its keys are in the slot of the database whose number its row has as `at`: at first of its own. SWAPDB
//! exchanges these, so that no key moves. The setting `database-settings` of the store has a row for each database of which something is set:
//!
//! ```text
//! number : word = value , word = value …   rows are separated by ;
//! 3:at=5,name=orders;5:at=3,consistency=any,keys-max=1000
//! ```
//!
//! Invariants: the numbers and what they have as `at` are the same numbers; two databases have different names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::str::FromStr;
use vocab::{Database, EVICTION_POLICIES, memory_bytes};

/// The setting of the store that holds it.
pub const DATABASES_SETTING: &str = "database-settings";
/// How long a name may be.
const NAME_BYTES_MAX: usize = 64;
/// Of how many databases something may be set.
const ROWS_MAX: usize = 1024;

/// Something that can be set of a database.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseWord {
    /// The word.
    pub name: &'static str,
    /// The first version of the protocol between nodes whose speakers all know it.
    pub since: u16,
    /// What it means.
    pub help: &'static str,
}

const fn word(name: &'static str, since: u16, help: &'static str) -> DatabaseWord {
    DatabaseWord { name, since, help }
}

/// What can be set of a database.
pub const DATABASE_WORDS: &[DatabaseWord] = &[
    word("name", 6, "a name for SELECT: a letter, then letters, digits, - and _"),
    word("consistency", 6, "absolute, or any: reads that any node with a replica answers, however old its answer"),
    word("keys-max", 6, "with so many keys the database takes no command that may add data"),
    word("max-bytes", 7, "about the most bytes, such as 64mb; then keys are evicted, or data is refused"),
    word("eviction", 7, "which keys go, as maxmemory-policy has it; where nothing is set, that policy"),
    word("ops-max", 6, "operations a second; what is more is refused"),
];

/// The first version of the protocol between nodes whose speakers know all words of a text that is read as [`Databases`]; 0: there are none.
/// Nodes that do not know one pass over the whole text.
pub(crate) fn words_since(text: &str) -> u16 {
    let words = text.split([';', ',', ':']).filter_map(|part| Some(part.split_once('=')?.0));
    let known = words.filter_map(|word| DATABASE_WORDS.iter().find(|known| known.name == word));
    known.map(|known| known.since).max().unwrap_or(0)
}

/// What is set of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseRow {
    /// The database in whose slot its keys are; none: in its own.
    at: Option<Database>,
    /// Its name.
    pub name: Option<String>,
    /// Whether any replica answers reads.
    pub reads_any: bool,
    /// Most keys.
    pub keys_max: Option<u64>,
    /// Most operations a second.
    pub ops_max: Option<u64>,
    /// About how many bytes its keys and values may take.
    pub bytes_max: Option<u64>,
    /// Which of its keys are evicted: the place of a policy's name among `EVICTION_POLICIES`; none: as of other keys.
    pub eviction: Option<usize>,
}

/// What is set for single databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Databases {
    rows: BTreeMap<Database, DatabaseRow>,
}

impl Databases {
    /// The database in whose slot the keys of a database are.
    #[must_use]
    pub fn place_of(&self, database: Database) -> Database {
        self.rows.get(&database).and_then(|row| row.at).unwrap_or(database)
    }

    /// The database whose keys are in the slot of another.
    #[must_use]
    pub fn database_at(&self, place: Database) -> Database {
        let found = self.rows.iter().find(|(_, row)| row.at == Some(place));
        found.map_or(place, |(database, _)| *database)
    }

    /// Those that have the slot of another one, and which.
    pub fn exchanged(&self) -> impl Iterator<Item = (Database, Database)> {
        self.rows.iter().filter_map(|(database, row)| Some((*database, row.at?)))
    }

    /// Whether all databases have the slots that they have by another setting.
    #[must_use]
    pub fn are_ordered_as(&self, other: &Self) -> bool {
        let mut all = self.rows.keys().chain(other.rows.keys());
        all.all(|database| self.place_of(*database) == other.place_of(*database))
    }

    /// The database of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Database> {
        let is_named = |row: &DatabaseRow| row.name.as_deref() == Some(name);
        self.rows.iter().find(|(_, row)| is_named(row)).map(|(database, _)| *database)
    }

    /// What is set of a database, if anything is.
    #[must_use]
    pub fn row(&self, database: Database) -> Option<&DatabaseRow> {
        self.rows.get(&database)
    }

    /// Whether reads of some database may go to any replica.
    #[must_use]
    pub fn some_read_any(&self) -> bool {
        self.rows.values().any(|row| row.reads_any)
    }

    /// The databases in whose slots there may be so many keys.
    pub fn keys_max(&self) -> impl Iterator<Item = (Database, u64)> {
        self.rows.iter().filter_map(|(database, row)| Some((self.place_of(*database), row.keys_max?)))
    }

    /// Two databases exchange their keys.
    pub fn swap(&mut self, one: Database, other: Database) {
        let (at, other_at) = (self.place_of(one), self.place_of(other));
        for (database, at) in [(one, other_at), (other, at)] {
            self.rows.entry(database).or_default().at = Some(at).filter(|at| *at != database);
        }
        self.tidy();
    }

    /// Sets a word of a database; an empty value takes it back. The error says what is wrong.
    pub fn set(&mut self, database: Database, word: &str, value: &str) -> Result<(), String> {
        if word == "name" && self.named(value).is_some_and(|other| other != database) {
            return Err(format!("another database has the name {value}"));
        }
        self.rows.entry(database).or_default().set(word, value)?;
        self.tidy();
        Ok(())
    }

    fn tidy(&mut self) {
        self.rows.retain(|_, row| *row != DatabaseRow::default());
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<&'static str> {
        let places: BTreeSet<Database> = self.rows.keys().map(|database| self.place_of(*database)).collect();
        let moved = self.rows.iter().filter(|(_, row)| row.at.is_some());
        let names: Vec<&String> = self.rows.values().filter_map(|row| row.name.as_ref()).collect();
        let distinct: BTreeSet<&&String> = names.iter().collect();
        if self.rows.len() > ROWS_MAX {
            Some("too many databases")
        } else if places.len() != self.rows.len()
            || !moved.clone().all(|(_, row)| row.at.is_some_and(|at| self.rows.contains_key(&at)))
        {
            Some("two databases are at one place")
        } else if distinct.len() != names.len() {
            Some("two databases have one name")
        } else {
            None
        }
    }
}

impl DatabaseRow {
    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        let number = || match value {
            "" => Ok(None),
            text => text.parse::<u64>().map(Some).map_err(|_| format!("{word}: a number is wanted")),
        };
        match word {
            "at" => {
                let at = number()?.map(|number| Database::of_number(number).ok_or("at: no such database"));
                self.at = at.transpose()?;
            }
            "name" if value.is_empty() || is_name(value) => {
                self.name = Some(value.to_owned()).filter(|name| !name.is_empty());
            }
            "name" => return Err("name: a letter, then letters, digits, - and _ (64 bytes)".to_owned()),
            "consistency" => {
                self.reads_any = match value {
                    "" | "absolute" => false,
                    "any" => true,
                    _ => return Err("consistency: absolute or any".to_owned()),
                }
            }
            "keys-max" => self.keys_max = number()?,
            "ops-max" => self.ops_max = number()?.filter(|ops| *ops > 0),
            "max-bytes" => {
                let wanted = || "max-bytes: a number of bytes is wanted, such as 64mb".to_owned();
                let bytes =
                    (!value.is_empty()).then(|| memory_bytes(value.as_bytes()).ok_or_else(wanted)).transpose()?;
                self.bytes_max = bytes.filter(|bytes| *bytes > 0);
            }
            "eviction" => {
                let at = EVICTION_POLICIES.iter().position(|name| *name == value);
                let wanted = || format!("eviction: one of {}", EVICTION_POLICIES.join(", "));
                self.eviction = (!value.is_empty()).then(|| at.ok_or_else(wanted)).transpose()?;
            }
            _ => return Err(format!("{word} cannot be set of a database")),
        }
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= NAME_BYTES_MAX
        && bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

impl Display for DatabaseRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |word: &str, n: Option<u64>| n.map(|n| format!("{word}={n}"));
        let words = [
            self.at.map(|at| format!("at={}", at.number())),
            self.name.as_ref().map(|name| format!("name={name}")),
            self.reads_any.then(|| "consistency=any".to_owned()),
            number("keys-max", self.keys_max),
            number("max-bytes", self.bytes_max),
            self.eviction.and_then(|at| EVICTION_POLICIES.get(at)).map(|name| format!("eviction={name}")),
            number("ops-max", self.ops_max),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

impl Display for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (database, row)) in self.rows.iter().enumerate() {
            let between = if n > 0 { ";" } else { "" };
            write!(f, "{between}{}:{row}", database.number())?;
        }
        Ok(())
    }
}

impl FromStr for Databases {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut databases = Self::default();
        for row in text.split(';').filter(|row| !row.is_empty()) {
            let (number, words) = row.split_once(':').ok_or("databases: a number and : are wanted")?;
            let database = number.parse().ok().and_then(Database::of_number).ok_or("databases: no such database")?;
            let made = databases.rows.entry(database).or_default();
            for word in words.split(',').filter(|word| !word.is_empty()) {
                let (word, value) = word.split_once('=').ok_or("databases: a word and = are wanted")?;
                made.set(word, value)?;
            }
        }
        databases.tidy();
        databases.fault().map_or(Ok(databases), |fault| Err(format!("databases: {fault}")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn database(number: u64) -> Database {
        Database::of_number(number).unwrap()
    }

    #[test]
    fn what_is_set_is_read_as_it_was_written() {
        for text in [
            "",
            "3:at=5,name=orders,keys-max=7;5:at=3,consistency=any,ops-max=9",
            "3:max-bytes=1048576,eviction=volatile-ttl",
        ] {
            assert_eq!(text.parse::<Databases>().unwrap().to_string(), text);
        }
        for wrong in [
            "3",
            "x:name=a",
            "3:name=1",
            "3:name=a;4:name=a",
            "3:at=5",
            "3:at=5;5:at=5",
            "3:size=4",
            "3:keys-max=x",
            "3:max-bytes=x",
            "3:eviction=none",
        ] {
            assert!(wrong.parse::<Databases>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_newest_word_says_who_knows_a_text() {
        for (text, since) in [
            ("", 0),
            ("3:at=5;5:at=3", 0),
            ("3:name=max-bytes", 6),
            ("3:name=a,keys-max=7;5:consistency=any,max-bytes=9", 7),
            ("3:eviction=volatile-ttl", 7),
        ] {
            assert_eq!(words_since(text), since, "{text}");
        }
    }

    #[test]
    fn swaps_are_exchanges_of_places() {
        let mut databases = Databases::default();
        let mut model: Vec<u64> = (0..5).collect();
        let mut prng = vocab::Prng::new(3);
        for _ in 0..200 {
            let (one, other) = (prng.below(5), prng.below(5));
            databases.swap(database(one), database(other));
            model.swap(one as usize, other as usize);
            for number in 0..5 {
                let place = databases.place_of(database(number));
                assert_eq!(u64::from(place.number()), model[number as usize]);
                assert_eq!(databases.database_at(place), database(number));
            }
            assert_eq!(databases.to_string().parse::<Databases>().as_ref(), Ok(&databases));
        }
    }

    #[test]
    fn words_are_set_and_taken_back() {
        let mut databases = Databases::default();
        databases.set(database(3), "name", "orders").unwrap();
        assert_eq!(databases.named("orders"), Some(database(3)));
        assert!(databases.set(database(4), "name", "orders").is_err(), "it is another's");
        databases.set(database(3), "consistency", "any").unwrap();
        assert!(databases.row(database(3)).unwrap().reads_any);
        for (word, value) in [("max-bytes", "1mb"), ("eviction", "allkeys-lru")] {
            databases.set(database(3), word, value).unwrap();
        }
        let row = databases.row(database(3)).unwrap();
        assert_eq!((row.bytes_max, row.eviction.map(|at| EVICTION_POLICIES[at])), (Some(1 << 20), Some("allkeys-lru")));
        databases.set(database(3), "max-bytes", "").unwrap();
        databases.set(database(3), "eviction", "").unwrap();
        databases.set(database(3), "name", "").unwrap();
        databases.set(database(3), "consistency", "").unwrap();
        assert_eq!(databases, Databases::default());
    }
}
