//! How many keys each cluster database has in each slot of a shard, and how many of these have an expiry: exact, and as many
//! numbers as slots have keys of such databases.
//!
//! In the tree, where they are kept with the counts of `counters`: varint slot, varint number, varint keys, varint those with an
//! expiry, for each pair that has keys, in this order.
//!
//! Invariants: those with an expiry ≤ keys; the sums are those of the pairs.

use crate::format::slots::Slots;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::{ClusterDatabase, Reader, Slot, put_varint};

/// Keys, and those of them that have an expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyCount {
    pub(crate) keys: u64,
    pub(crate) expiring: u64,
}

impl KeyCount {
    fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Counts that a release without them has kept may be short of some: none is below 0.
    fn change(&mut self, (keys, expiring): (i64, i64)) {
        self.keys = self.keys.saturating_add_signed(keys);
        self.expiring = self.expiring.saturating_add_signed(expiring);
    }
}

/// How many keys a cluster database has in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterDatabaseKeys {
    /// The database.
    pub database: ClusterDatabase,
    /// Its keys, those included whose time has come and that are not yet collected.
    pub keys: u64,
    /// How many of them have an expiry.
    pub expiring: u64,
}

/// The counts of one shard. Written by the thread that applies, read by all.
#[derive(Debug, Default)]
pub(crate) struct ClusterDatabaseCounts {
    /// Whether there are any: asked without a lock.
    any: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_slot: BTreeMap<(Slot, ClusterDatabase), KeyCount>,
    sums: BTreeMap<ClusterDatabase, KeyCount>,
}

impl Counts {
    fn change(&mut self, slot: Slot, database: ClusterDatabase, by: (i64, i64)) {
        let place = self.by_slot.entry((slot, database)).or_default();
        place.change(by);
        if place.is_none() {
            self.by_slot.remove(&(slot, database));
        }
        let sum = self.sums.entry(database).or_default();
        sum.change(by);
        if sum.is_none() {
            self.sums.remove(&database);
        }
    }

    fn in_slot(&self, slot: Slot) -> impl Iterator<Item = (ClusterDatabase, KeyCount)> {
        let counts = self.by_slot.range((slot, ClusterDatabase::FIRST)..=(slot, ClusterDatabase::LAST));
        counts.map(|((_, database), count)| (*database, *count))
    }
}

impl ClusterDatabaseCounts {
    /// So many keys of a slot came or went, and so many got an expiry or lost it.
    pub(crate) fn change(&self, slot: Slot, database: ClusterDatabase, by: (i64, i64)) {
        let mut counts = self.counts.lock();
        counts.change(slot, database, by);
        self.any.store(!counts.sums.is_empty(), Ordering::Release);
    }

    fn read<T: Default>(&self, read: impl FnOnce(&Counts) -> T) -> T {
        if self.any.load(Ordering::Acquire) { read(&self.counts.lock()) } else { T::default() }
    }

    /// Those of all databases in a slot.
    pub(crate) fn in_slot(&self, slot: Slot) -> KeyCount {
        self.read(|counts| {
            let add = |a: KeyCount, (_, b): (_, KeyCount)| KeyCount {
                keys: a.keys + b.keys,
                expiring: a.expiring + b.expiring,
            };
            counts.in_slot(slot).fold(KeyCount::default(), add)
        })
    }

    /// Those of a database in a slot.
    pub(crate) fn of_slot(&self, slot: Slot, database: ClusterDatabase) -> KeyCount {
        self.read(|counts| counts.by_slot.get(&(slot, database)).copied().unwrap_or_default())
    }

    /// Those of a database.
    pub(crate) fn of(&self, database: ClusterDatabase) -> KeyCount {
        self.read(|counts| counts.sums.get(&database).copied().unwrap_or_default())
    }

    /// The databases that have keys, in the order of their numbers.
    pub(crate) fn each(&self) -> Vec<ClusterDatabaseKeys> {
        let of = |(database, count): (&ClusterDatabase, &KeyCount)| ClusterDatabaseKeys {
            database: *database,
            keys: count.keys,
            expiring: count.expiring,
        };
        self.read(|counts| counts.sums.iter().map(of).collect())
    }

    /// None is left.
    pub(crate) fn clear(&self) {
        *self.counts.lock() = Counts::default();
        self.any.store(false, Ordering::Release);
    }

    /// Those of `slots` are another shard's now.
    pub(crate) fn forget(&self, slots: &Slots) {
        let gone: Vec<_> = self.read(|counts| {
            let of_slots = counts.by_slot.iter().filter(|((slot, _), _)| slots.owns(*slot));
            of_slots.map(|(at, count)| (*at, *count)).collect()
        });
        for ((slot, database), count) in gone {
            self.change(slot, database, (-count.keys.cast_signed(), -count.expiring.cast_signed()));
        }
    }

    /// The counts of `slots`, or of all.
    pub(crate) fn encode(&self, slots: Option<&Slots>) -> Vec<u8> {
        self.read(|counts| {
            let mut bytes = Vec::new();
            for ((slot, database), count) in &counts.by_slot {
                if slots.is_none_or(|slots| slots.owns(*slot)) {
                    for number in [u64::from(slot.0), u64::from(database.number()), count.keys, count.expiring] {
                        put_varint(&mut bytes, number);
                    }
                }
            }
            bytes
        })
    }

    /// Takes over what `encode` wrote: after `clear`.
    pub(crate) fn load(&self, bytes: &[u8]) -> Result<(), &'static str> {
        const MALFORMED: &str = "the counters of cluster databases cannot be read";
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let mut number = || reader.varint().map_err(|_| MALFORMED);
            let (slot, database, keys, expiring) = (number()?, number()?, number()?, number()?);
            let slot = u16::try_from(slot).map(Slot).map_err(|_| MALFORMED)?;
            let database = ClusterDatabase::of_number(database).ok_or(MALFORMED)?;
            let signed = |count: u64| i64::try_from(count).map_err(|_| MALFORMED);
            self.change(slot, database, (signed(keys)?, signed(expiring)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn database(number: u64) -> ClusterDatabase {
        ClusterDatabase::of_number(number).unwrap()
    }

    fn keys(counts: &ClusterDatabaseCounts) -> Vec<(u16, u64, u64)> {
        counts.each().iter().map(|of| (of.database.number(), of.keys, of.expiring)).collect()
    }

    #[test]
    fn counts_are_by_slot_and_by_database() {
        let counts = ClusterDatabaseCounts::default();
        for (slot, number, by) in [(5, 1, (2, 1)), (5, 2, (3, 0)), (6, 1, (4, 4)), (9, 929, (1, 0)), (6, 1, (-1, -2))] {
            counts.change(Slot(slot), database(number), by);
        }
        assert_eq!(keys(&counts), [(1, 5, 3), (2, 3, 0), (929, 1, 0)]);
        assert_eq!(counts.in_slot(Slot(5)), KeyCount { keys: 5, expiring: 1 });
        assert_eq!(counts.of_slot(Slot(5), database(2)).keys, 3);
        assert_eq!((counts.of(database(1)).keys, counts.of(database(3)).keys), (5, 0));
        let again = ClusterDatabaseCounts::default();
        again.load(&counts.encode(None)).unwrap();
        assert_eq!((keys(&again), again.encode(None)), (keys(&counts), counts.encode(None)));
        let slots = Slots::from((6, 9));
        let part = ClusterDatabaseCounts::default();
        part.load(&counts.encode(Some(&slots))).unwrap();
        assert_eq!(keys(&part), [(1, 3, 2), (929, 1, 0)]);
        counts.forget(&slots);
        assert_eq!(keys(&counts), [(1, 2, 1), (2, 3, 0)]);
        counts.change(Slot(5), database(2), (-9, -1));
        assert_eq!(keys(&counts), [(1, 2, 1)], "none is below 0");
        counts.clear();
        assert_eq!((keys(&counts), counts.encode(None)), (vec![], vec![]));
        for wrong in [&b"\x05"[..], b"\x05\x01\x01", b"\x05\x00\x01\x01", b"\xff\xff\x7f\x01\x01\x01"] {
            assert!(again.load(wrong).is_err(), "{wrong:?}");
        }
    }
}
