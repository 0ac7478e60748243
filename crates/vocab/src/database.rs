//! Databases: namespaces for clients that do not know clusters. All keys of a database are in one slot, hence in one shard. And
//! cluster databases: the databases beyond 0 of the clients of a cluster, whose keys have the slots that their names have.
//!
//! A key of a database is stored under a name that begins with the database's prefix: `MARK`, the hash tag of the database's
//! slot, `}`. So a stored key alone tells its slot (`slot_of`), its database and the name that clients use. A client of
//! Redis Cluster that names such a key means that of the database; by chance a key begins with `MARK` once in 2^48.
//!
//! A key of a cluster database is stored under `MARK`, a hash tag of five characters, `}`, and its name: two characters for the number
//! of the database, and three letters that give the stored key the slot of the name. So the keys of a cluster database lie next to
//! each other in each shard, and those of a slot next to each other among them. The first character is no letter and no digit: no
//! key of a database lies between them.
//!
//! Invariants: `slot_of(stored key of d) = d.slot()`; two databases have different slots; for a cluster database c,
//! `slot_of(stored key of c) = slot_of(its name)`.

use crate::Slot;
use crate::slot::{LETTERS, SLOT_COUNT, crc16, slot_of, slot_tag};
use std::ops::Deref;

/// The beginning of every stored key of a database. Its last byte opens the hash tag.
const MARK: [u8; 6] = *b"\xff\0\xfed\xfe{";
/// The first key behind all that begin with `MARK`.
const BEHIND: [u8; 6] = *b"\xff\0\xfed\xfe|";
/// Separates cluster databases (before it) from databases (from it on): tags of slots are letters and digits.
const FIRST_OF_DATABASES: [u8; 7] = *b"\xff\0\xfed\xfe{0";
/// The length of a slot's tag.
pub const DATABASE_TAG_BYTES: usize = 3;
const TAG_BYTES: usize = DATABASE_TAG_BYTES;
/// The length of a database's prefix, in bytes.
pub const DATABASE_PREFIX_BYTES: usize = MARK.len() + TAG_BYTES + 1;
/// The number of characters of a cluster database's tag that are its number.
const NUMBER_BYTES: usize = 2;
/// The first character of the lowest numbers, and of how many others each is the next: none is a letter, a digit or a brace.
const FIRST_DIGIT: u8 = b'!';
const FIRST_DIGITS: u8 = b'/' - b'!' + 1;
/// The length of what all keys of a cluster database begin with, in bytes.
pub const CLUSTER_DATABASE_MARK_BYTES: usize = MARK.len() + NUMBER_BYTES;
/// The length of the prefix of a cluster database's key, in bytes.
pub const CLUSTER_DATABASE_PREFIX_BYTES: usize = CLUSTER_DATABASE_MARK_BYTES + TAG_BYTES + 1;
const SLOT_BITS: u32 = SLOT_COUNT.ilog2();
const _: () = assert!(SLOT_COUNT == 1 << SLOT_BITS);

/// The number of a database, as in SELECT: 0 to 16383.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Database(u16);

impl Database {
    /// The database of that number; `None` if there cannot be one.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| *number < SLOT_COUNT).map(Self)
    }

    /// The database whose keys are in that slot.
    #[must_use]
    pub fn of_slot(slot: Slot) -> Self {
        Self(mirrored(slot.0))
    }

    /// The database of a stored key.
    #[must_use]
    pub fn of_key(stored: &[u8]) -> Option<Self> {
        let (tag, rest) = stored.strip_prefix(&MARK)?.split_at_checked(TAG_BYTES)?;
        let slot = Slot(crc16(tag) % SLOT_COUNT);
        (rest.first() == Some(&b'}') && slot_tag(slot).as_bytes() == tag).then(|| Self::of_slot(slot))
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The slot of all its keys. Databases that follow each other are far apart, so that they are in different shards.
    #[must_use]
    pub fn slot(self) -> Slot {
        Slot(mirrored(self.0))
    }

    /// What its stored keys begin with.
    #[must_use]
    pub fn prefix(self) -> [u8; DATABASE_PREFIX_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(slot_tag(self.slot()).as_bytes());
        prefix_of_tag(tag)
    }

    /// The first key behind all its stored keys.
    #[must_use]
    pub fn end(self) -> [u8; DATABASE_PREFIX_BYTES] {
        let mut end = self.prefix();
        end[DATABASE_PREFIX_BYTES - 1] = b'}' + 1;
        end
    }
}

/// The number of a cluster database: 1 to 929. Database 0 of a cluster's clients has the keys without a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterDatabase(u16);

impl ClusterDatabase {
    /// The number of databases that two characters can name, including database 0.
    pub const COUNT_MAX: u16 = FIRST_DIGITS as u16 * LETTERS.len() as u16;

    /// The cluster database with the lowest number.
    pub const FIRST: Self = Self(1);
    /// The cluster database with the highest number.
    pub const LAST: Self = Self(Self::COUNT_MAX - 1);

    /// The cluster database of that number; `None`: there cannot be one, or it is database 0.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| (1..Self::COUNT_MAX).contains(number)).map(Self)
    }

    /// The cluster database of a stored key.
    #[must_use]
    pub fn of_key(stored: &[u8]) -> Option<Self> {
        let (prefix, name) = stored.split_first_chunk::<CLUSTER_DATABASE_PREFIX_BYTES>()?;
        let database = Self::of_mark(prefix.get(..CLUSTER_DATABASE_MARK_BYTES)?)?;
        (database.prefix_of_slot(slot_of(name)) == *prefix).then_some(database)
    }

    /// The cluster database whose keys of a slot begin with this: the inverse of `prefix_of_slot`.
    #[must_use]
    pub fn of_prefix(prefix: &[u8]) -> Option<Self> {
        let database = Self::of_mark(prefix.get(..CLUSTER_DATABASE_MARK_BYTES)?)?;
        (database.prefix_of_slot(slot_of(prefix)) == *prefix).then_some(database)
    }

    /// The cluster database whose keys all begin with this.
    #[must_use]
    pub fn of_mark(mark: &[u8]) -> Option<Self> {
        let [high, low] = *mark.strip_prefix(&MARK)? else { return None };
        let high = high.checked_sub(FIRST_DIGIT).filter(|digit| *digit < FIRST_DIGITS)?;
        let low = LETTERS.iter().position(|letter| *letter == low)?;
        Self::of_number((usize::from(high) * LETTERS.len() + low) as u64)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// What all its stored keys begin with, and no others.
    #[must_use]
    pub fn mark(self) -> [u8; CLUSTER_DATABASE_MARK_BYTES] {
        let count = LETTERS.len() as u16;
        let mut mark = [0; CLUSTER_DATABASE_MARK_BYTES];
        mark[..MARK.len()].copy_from_slice(&MARK);
        mark[MARK.len()] = FIRST_DIGIT + (self.0 / count) as u8;
        mark[MARK.len() + 1] = LETTERS[usize::from(self.0 % count)];
        mark
    }

    /// What its stored keys begin with whose names are in this slot.
    #[must_use]
    pub fn prefix_of_slot(self, slot: Slot) -> [u8; CLUSTER_DATABASE_PREFIX_BYTES] {
        let mark = self.mark();
        let mut tag = [0; NUMBER_BYTES + TAG_BYTES];
        tag[..NUMBER_BYTES].copy_from_slice(&mark[MARK.len()..]);
        // The sum is linear: that of five letters is that of the first two, with zeros behind them, plus that of the other three.
        let of_number = crc16(&tag) % SLOT_COUNT;
        tag[NUMBER_BYTES..].copy_from_slice(slot_tag(Slot(slot.0 ^ of_number)).as_bytes());
        let mut prefix = [b'}'; CLUSTER_DATABASE_PREFIX_BYTES];
        prefix[..MARK.len()].copy_from_slice(&MARK);
        prefix[MARK.len()..CLUSTER_DATABASE_PREFIX_BYTES - 1].copy_from_slice(&tag);
        prefix
    }
}

/// What the stored names of keys begin with, except those of database 0 of a cluster's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// A database, by the place of its keys.
    Database(Database),
    /// A cluster database.
    Cluster(ClusterDatabase),
}

impl Namespace {
    /// The namespace of a stored key; `None`: database 0 of a cluster's clients.
    #[must_use]
    pub fn of_key(stored: &[u8]) -> Option<Self> {
        if !is_database_key(stored) {
            return None;
        }
        let of_cluster = || ClusterDatabase::of_key(stored).map(Self::Cluster);
        Database::of_key(stored).map(Self::Database).or_else(of_cluster)
    }

    /// The namespace of a mark: the prefix of a database, or what all keys of a cluster database begin with.
    #[must_use]
    pub fn of_mark(mark: &[u8]) -> Option<Self> {
        match mark.len() {
            DATABASE_PREFIX_BYTES => Database::of_key(mark).map(Self::Database),
            CLUSTER_DATABASE_MARK_BYTES => ClusterDatabase::of_mark(mark).map(Self::Cluster),
            _ => None,
        }
    }

    /// What all its stored keys begin with.
    #[must_use]
    pub fn mark(self) -> KeyPrefix {
        match self {
            Self::Database(database) => KeyPrefix::of(&database.prefix()),
            Self::Cluster(database) => KeyPrefix::of(&database.mark()),
        }
    }

    /// What comes before the name of a key.
    #[must_use]
    pub fn prefix(self, name: &[u8]) -> KeyPrefix {
        match self {
            Self::Database(database) => KeyPrefix::of(&database.prefix()),
            Self::Cluster(database) => KeyPrefix::of(&database.prefix_of_slot(slot_of(name))),
        }
    }

    /// The stored key of a name.
    #[must_use]
    pub fn stored(self, name: &[u8]) -> Vec<u8> {
        [&*self.prefix(name), name].concat()
    }

    /// The number of bytes before the name of a key.
    #[must_use]
    pub fn prefix_bytes(self) -> usize {
        match self {
            Self::Database(_) => DATABASE_PREFIX_BYTES,
            Self::Cluster(_) => CLUSTER_DATABASE_PREFIX_BYTES,
        }
    }

    /// The number of the database.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Database(database) => database.number(),
            Self::Cluster(database) => database.number(),
        }
    }

    /// The slot of all its keys, if there is one.
    #[must_use]
    pub fn slot(self) -> Option<Slot> {
        match self {
            Self::Database(database) => Some(database.slot()),
            Self::Cluster(_) => None,
        }
    }
}

/// What the stored keys of a namespace begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPrefix {
    bytes: [u8; CLUSTER_DATABASE_PREFIX_BYTES],
    length: usize,
}

impl KeyPrefix {
    fn of(prefix: &[u8]) -> Self {
        let mut bytes = [0; CLUSTER_DATABASE_PREFIX_BYTES];
        bytes[..prefix.len()].copy_from_slice(prefix);
        Self { bytes, length: prefix.len() }
    }
}

impl Deref for KeyPrefix {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The bits of a slot's number in the opposite order.
fn mirrored(number: u16) -> u16 {
    number.reverse_bits() >> (u16::BITS - SLOT_BITS)
}

/// Whether a key is that of a database or of a cluster database, or would be if its tag were right: no list of the keys of database 0 of
/// the cluster shows it.
#[inline]
#[must_use]
pub fn is_database_key(key: &[u8]) -> bool {
    key.starts_with(&MARK)
}

/// What a stored key with this tag begins with.
#[inline]
#[must_use]
pub fn prefix_of_tag(tag: [u8; DATABASE_TAG_BYTES]) -> [u8; DATABASE_PREFIX_BYTES] {
    let mut prefix = [b'}'; DATABASE_PREFIX_BYTES];
    prefix[..MARK.len()].copy_from_slice(&MARK);
    prefix[MARK.len()..MARK.len() + TAG_BYTES].copy_from_slice(&tag);
    prefix
}

/// The tag of a key that begins as one of a database does, and what follows on `prefix_of_tag`; `None`: it begins otherwise. The tag
/// may be none of a slot, but it does not begin with 0.
#[inline]
#[must_use]
pub fn split_tag(stored: &[u8]) -> Option<([u8; DATABASE_TAG_BYTES], &[u8])> {
    let (prefix, rest) = stored.split_first_chunk::<DATABASE_PREFIX_BYTES>()?;
    let [.., a, b, c, end] = *prefix;
    (prefix.starts_with(&MARK) && end == b'}' && a != 0).then_some(([a, b, c], rest))
}

/// The name that clients use for a stored key.
#[inline]
#[must_use]
pub fn client_key(stored: &[u8]) -> &[u8] {
    if !is_database_key(stored) {
        return stored;
    }
    let ends_at = |bytes: usize| stored.get(bytes - 1) == Some(&b'}');
    let ends = [DATABASE_PREFIX_BYTES, CLUSTER_DATABASE_PREFIX_BYTES].into_iter().find(|bytes| ends_at(*bytes));
    ends.map_or(stored, |bytes| &stored[bytes..])
}

/// The keys of all databases and of all cluster databases are within: the first one inclusive, the second one exclusive.
#[must_use]
pub fn database_keys() -> (&'static [u8], &'static [u8]) {
    (&MARK, &BEHIND)
}

/// The keys of all cluster databases are within, and none of a database.
#[must_use]
pub fn cluster_database_keys() -> (&'static [u8], &'static [u8]) {
    (&MARK, &FIRST_OF_DATABASES)
}

/// The keys of all databases are within, and none of a cluster database.
#[must_use]
pub fn keys_of_databases_alone() -> (&'static [u8], &'static [u8]) {
    (&FIRST_OF_DATABASES, &BEHIND)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::slot_of;
    use std::collections::BTreeSet;

    #[test]
    fn a_stored_key_tells_its_slot_its_database_and_its_name() {
        let mut slots = BTreeSet::new();
        for number in 0..u64::from(SLOT_COUNT) {
            let database = Database::of_number(number).unwrap();
            assert!(slots.insert(database.slot()), "a slot of its own");
            for name in [&b""[..], b"key", b"{tag}", b"}{x}", b"\xff\0\xfed\xfe{06S}key"] {
                let stored = [&database.prefix()[..], name].concat();
                assert_eq!(slot_of(&stored), database.slot());
                assert_eq!((Database::of_key(&stored), client_key(&stored)), (Some(database), name));
                let (first, behind) = database_keys();
                assert!(is_database_key(&stored) && first < &stored[..] && &stored[..] < behind);
            }
        }
        assert_eq!(Database::of_number(u64::from(SLOT_COUNT)), None);
        let slots_of_first = [0, 1, 2, 3].map(|number| Database(number).slot().0);
        assert_eq!(slots_of_first, [0, 8192, 4096, 12288], "far apart");
    }

    #[test]
    fn a_key_of_a_cluster_database_has_the_slot_of_its_name() {
        let mut prefixes = BTreeSet::new();
        for number in [1, 2, 61, 62, 500, 929] {
            let database = ClusterDatabase::of_number(number).unwrap();
            assert_eq!(ClusterDatabase::of_mark(&database.mark()), Some(database));
            for slot in (0..SLOT_COUNT).map(Slot) {
                let prefix = database.prefix_of_slot(slot);
                assert!(prefixes.insert(prefix) && prefix.starts_with(&database.mark()));
                assert_eq!(ClusterDatabase::of_prefix(&prefix), Some(database));
                assert_eq!(ClusterDatabase::of_prefix(&[&prefix[..], b"k"].concat()), None);
                assert_eq!(slot_of(&[&prefix[..], b"name"].concat()), slot, "{number}");
            }
            for name in [&b""[..], b"key", b"{tag}x", b"}{x}", b"\xff\0\xfed\xfe{06S}key", b"\xff\0\xfed\xfe{!106S}key"]
            {
                let namespace = Namespace::Cluster(database);
                let stored = namespace.stored(name);
                assert_eq!((slot_of(&stored), client_key(&stored)), (slot_of(name), name));
                assert_eq!((Namespace::of_key(&stored), Database::of_key(&stored)), (Some(namespace), None));
                assert_eq!(namespace.prefix_bytes() + name.len(), stored.len());
                let (first, behind) = database_keys();
                assert!(is_database_key(&stored) && first < &stored[..] && &stored[..] < behind);
            }
        }
        for number in [0, u64::from(ClusterDatabase::COUNT_MAX)] {
            assert_eq!(ClusterDatabase::of_number(number), None);
        }
    }

    #[test]
    fn a_mark_says_which_namespace() {
        let (database, of_cluster) = (Database::of_number(3).unwrap(), ClusterDatabase::of_number(3).unwrap());
        for namespace in [Namespace::Database(database), Namespace::Cluster(of_cluster)] {
            assert_eq!(Namespace::of_mark(&namespace.mark()), Some(namespace));
            assert_eq!((namespace.number(), Namespace::of_key(&namespace.stored(b"k"))), (3, Some(namespace)));
        }
        let behind_all = [0, 16_000].map(|number| Database(number).prefix().to_vec());
        let mark = ClusterDatabase::of_number(929).unwrap().mark();
        assert!(
            behind_all.iter().all(|prefix| prefix[..] > mark[..]),
            "no database between the keys of a cluster database"
        );
        let of_other_slot = [&of_cluster.prefix_of_slot(Slot(7))[..], b"k"].concat();
        for other in
            [&b""[..], b"key", b"\xff\0\xfed\xfe{!0", b"\xff\0\xfed\xfe{!-", b"\xff\0\xfed\xfe{!1S", &of_other_slot]
        {
            assert_eq!((Namespace::of_mark(other), Namespace::of_key(other)), (None, None), "{other:?}");
        }
    }

    #[test]
    fn a_key_is_its_tag_and_the_rest() {
        let database = Database::of_number(3).unwrap();
        for name in [&b""[..], b"key", b"}"] {
            let stored = [&database.prefix()[..], name].concat();
            let (tag, rest) = split_tag(&stored).unwrap();
            assert_eq!((prefix_of_tag(tag), rest), (database.prefix(), name));
        }
        for whole in [&b""[..], b"key:000000012345", b"\xff\0\xfed\xfe{06Skey", b"\xff\0\xfed\xfe{\x006S}key"] {
            assert_eq!(split_tag(whole), None, "{whole:?}");
        }
    }

    #[test]
    fn other_keys_are_no_databases() {
        for key in [&b""[..], b"key", b"\xff", b"\xff\0\xfed\xfe", b"\xff\0\xfed\xfe{06S", b"\xff\0\xfed\xfe{zzz}key"] {
            assert_eq!(Database::of_key(key), None, "{key:?}");
        }
        for key in [&b""[..], b"key", b"{06S}key", b"\xff\xfe"] {
            assert!(!is_database_key(key) && client_key(key) == key, "{key:?}");
        }
    }
}
