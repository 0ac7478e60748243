//! Databases: namespaces for clients that do not know clusters. All keys of a database are in one slot, hence in one shard.
//!
//! A key of a database is stored under a name that begins with the database's prefix: `MARK`, the hash tag of the database's
//! slot, `}`. So a stored key alone tells its slot (`slot_of`), its database and the name that clients use. A client of
//! Redis Cluster that names such a key means that of the database; by chance a key begins with `MARK` once in 2^48.
//!
//! Invariants: `slot_of(stored key of d) = d.slot()`; two databases have different slots.

use crate::Slot;
use crate::slot::{SLOT_COUNT, crc16, slot_tag};

/// The beginning of every stored key of a database. Its last byte opens the hash tag.
const MARK: [u8; 6] = *b"\xff\0\xfed\xfe{";
/// The first key behind all that begin with `MARK`.
const BEHIND: [u8; 6] = *b"\xff\0\xfed\xfe|";
/// How long the tag of a slot is.
pub const DATABASE_TAG_BYTES: usize = 3;
const TAG_BYTES: usize = DATABASE_TAG_BYTES;
/// How many bytes the prefix of a database takes.
pub const DATABASE_PREFIX_BYTES: usize = MARK.len() + TAG_BYTES + 1;
const SLOT_BITS: u32 = SLOT_COUNT.ilog2();
const _: () = assert!(SLOT_COUNT == 1 << SLOT_BITS);

/// The number of a database, as SELECT has it: 0 to 16383.
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

    /// With what its stored keys begin.
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

/// The bits of a slot's number in the opposite order.
fn mirrored(number: u16) -> u16 {
    number.reverse_bits() >> (u16::BITS - SLOT_BITS)
}

/// Whether a key is that of a database, or would be if its tag were right: no list of the cluster's keys shows it.
#[inline]
#[must_use]
pub fn is_database_key(key: &[u8]) -> bool {
    key.starts_with(&MARK)
}

/// What a stored key begins with that has this tag.
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
    if is_database_key(stored) { stored.get(DATABASE_PREFIX_BYTES..).unwrap_or(stored) } else { stored }
}

/// The keys of all databases are within: the first one inclusive, the second one exclusive.
#[must_use]
pub fn database_keys() -> (&'static [u8], &'static [u8]) {
    (&MARK, &BEHIND)
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
