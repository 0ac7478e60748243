//! How many keys each slot of a shard holds, how many of those have an expiry, and the same of a database's keys: exact,
//! because every change goes through apply, and kept in the tree so that a restart need not count. And how often each slot
//! was asked lately: about, and in memory only.
//!
//! Keys of cluster databases are counted as those of a database, as releases before there were any do, and in
//! `ClusterDatabaseCounts` besides: what is in no cluster database is the difference.
//!
//! Invariant: of each slot, keys of a database ≤ keys, and those with an expiry likewise.

use crate::cluster_database_counts::{ClusterDatabaseCounts, ClusterDatabaseKeys};
use crate::format::slots::Slots;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::{ClusterDatabase, Database, Slot, is_database_key, slot_of};

/// The counts of one shard. Written by the thread that applies, read by all.
#[derive(Debug)]
pub(crate) struct Counters {
    cells: ArcSwap<Cells>,
    cluster_databases: ClusterDatabaseCounts,
    /// The sums over all slots, by `Which`.
    totals: [AtomicU64; COUNTS],
    /// Operations since the shard was opened.
    operations: AtomicU64,
    /// How often the operations of slots were looked at: every `LOOKS_REMEMBERED`th look halves them.
    looks: AtomicU64,
}

/// After this many looks at the slots' operations their counts are halved, so that older ones count less.
const LOOKS_REMEMBERED: u64 = 60;

/// The counts of a range of slots. Another one takes their place when a shard comes by slots beyond them.
#[derive(Debug)]
struct Cells {
    first: u16,
    by_slot: Box<[Cell]>,
}

#[derive(Debug, Default)]
struct Cell {
    /// By `Which`.
    counts: [AtomicU64; COUNTS],
    /// Operations; older ones count less.
    operations: AtomicU64,
}

/// Which of the counts of a slot.
#[derive(Clone, Copy)]
enum Which {
    /// Keys.
    Keys,
    /// Those of them that have an expiry.
    Expiring,
    /// Keys of the slot's database, and of cluster databases.
    OfDatabase,
    /// Those of them that have an expiry.
    ExpiringOfDatabase,
}

const COUNTS: usize = 4;
const EACH: [Which; COUNTS] = [Which::Keys, Which::Expiring, Which::OfDatabase, Which::ExpiringOfDatabase];

impl Cell {
    fn of(&self, which: Which) -> &AtomicU64 {
        &self.counts[which as usize]
    }

    fn read(&self, which: Which) -> u64 {
        self.of(which).load(Ordering::Relaxed)
    }
}

/// The counts to which a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    /// Its slot.
    pub(crate) slot: Slot,
    /// Whether it is a key of a database or of a cluster database.
    of_database: bool,
    /// Its cluster database.
    of_cluster: Option<ClusterDatabase>,
}

impl Counted {
    /// The counts to which `key` belongs.
    #[inline]
    pub(crate) fn of(key: &[u8]) -> Self {
        let of_database = is_database_key(key);
        let of_cluster = if of_database { ClusterDatabase::of_key(key) } else { None };
        Self { slot: slot_of(key), of_database, of_cluster }
    }

    /// Whether it is a key of a database.
    pub(crate) fn is_of_database(&self) -> bool {
        self.of_database && self.of_cluster.is_none()
    }
}

/// How many keys a database has in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseKeys {
    /// The database.
    pub database: Database,
    /// Its keys, those included whose time has come and that are not yet collected.
    pub keys: u64,
    /// How many of them have an expiry.
    pub expiring: u64,
}

impl Cells {
    fn new((first, last): (u16, u16)) -> Self {
        Self { first, by_slot: (first..=last).map(|_| Cell::default()).collect() }
    }

    fn cell(&self, slot: Slot) -> Option<&Cell> {
        self.by_slot.get(usize::from(slot.0.checked_sub(self.first)?))
    }

    fn each(&self) -> impl Iterator<Item = (Slot, &Cell)> {
        (self.first..).map(Slot).zip(&self.by_slot)
    }
}

/// Counts by slot, as they are kept in the tree.
pub(crate) struct Stored {
    /// Of keys.
    pub(crate) keys: Vec<u8>,
    /// Of keys that have an expiry.
    pub(crate) expiring: Vec<u8>,
    /// Of keys of databases.
    pub(crate) of_databases: Vec<u8>,
    /// Of keys of databases that have an expiry.
    pub(crate) expiring_of_databases: Vec<u8>,
    /// Of keys of cluster databases.
    pub(crate) of_cluster_databases: Vec<u8>,
}

impl Counters {
    /// Counts of zero for these slots.
    pub(crate) fn new(slots: &Slots) -> Self {
        let cells = ArcSwap::from_pointee(Cells::new(slots.span()));
        let zero = || AtomicU64::new(0);
        let cluster_databases = ClusterDatabaseCounts::default();
        Self { cells, cluster_databases, totals: EACH.map(|_| zero()), operations: zero(), looks: zero() }
    }

    /// Adds operations on a slot.
    pub(crate) fn note_operations(&self, slot: Slot, count: u64) {
        self.operations.fetch_add(count, Ordering::Relaxed);
        if let Some(cell) = self.cells.load().cell(slot) {
            cell.operations.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Operations since the shard was opened.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Where `slots` fall into two parts with as many keys each.
    pub(crate) fn halves_by_keys(&self, slots: &Slots) -> Option<(Slot, u16)> {
        let cells = self.cells.load();
        slots.halves(|slot| cells.cell(slot).map_or(0, |cell| cell.read(Which::Keys)))
    }

    /// Where they fall into two parts with as many recent operations each. Call it at about equal intervals.
    pub(crate) fn halves_by_load(&self, slots: &Slots) -> Option<(Slot, u16)> {
        let cells = self.cells.load();
        let halves = slots.halves(|slot| cells.cell(slot).map_or(0, |cell| cell.operations.load(Ordering::Relaxed)));
        if self.looks.fetch_add(1, Ordering::Relaxed) % LOOKS_REMEMBERED == LOOKS_REMEMBERED - 1 {
            for (_, cell) in cells.each() {
                let half = |count: u64| Some(count / 2);
                let _ = cell.operations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, half);
            }
        }
        halves
    }

    fn total_of(&self, which: Which) -> u64 {
        self.totals[which as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total_of(Which::Keys)
    }

    /// How many keys have an expiry.
    pub(crate) fn expiring(&self) -> u64 {
        self.total_of(Which::Expiring)
    }

    /// How many keys are no database's, and no cluster database's.
    pub(crate) fn total_of_cluster(&self) -> u64 {
        self.total().saturating_sub(self.total_of(Which::OfDatabase))
    }

    pub(crate) fn in_slot(&self, slot: Slot) -> u64 {
        self.read(slot, Which::Keys)
    }

    /// How many keys of a slot are no database's, and no cluster database's.
    pub(crate) fn of_cluster_in_slot(&self, slot: Slot) -> u64 {
        self.in_slot(slot).saturating_sub(self.read(slot, Which::OfDatabase))
    }

    /// How many keys of a slot are those of its database.
    pub(crate) fn of_database_in_slot(&self, slot: Slot) -> u64 {
        self.read(slot, Which::OfDatabase).saturating_sub(self.cluster_databases.in_slot(slot).keys)
    }

    /// The cluster databases.
    pub(crate) fn cluster_databases(&self) -> &ClusterDatabaseCounts {
        &self.cluster_databases
    }

    /// The cluster databases that have keys in the shard.
    pub(crate) fn each_cluster_database(&self) -> Vec<ClusterDatabaseKeys> {
        self.cluster_databases.each()
    }

    fn read(&self, slot: Slot, which: Which) -> u64 {
        self.cells.load().cell(slot).map_or(0, |cell| cell.read(which))
    }

    /// The databases that have keys in the shard, in the order of their slots.
    pub(crate) fn databases(&self) -> Vec<DatabaseKeys> {
        if self.total_of(Which::OfDatabase) == 0 {
            return Vec::new();
        }
        let of = |(slot, cell): (Slot, &Cell)| {
            let others = self.cluster_databases.in_slot(slot);
            DatabaseKeys {
                database: Database::of_slot(slot),
                keys: cell.read(Which::OfDatabase).saturating_sub(others.keys),
                expiring: cell.read(Which::ExpiringOfDatabase).saturating_sub(others.expiring),
            }
        };
        let cells = self.cells.load();
        let counted = cells.each().filter(|(_, cell)| cell.read(Which::OfDatabase) > 0);
        counted.map(of).filter(|of| of.keys > 0).collect()
    }

    /// So many keys came, or went.
    pub(crate) fn change(&self, counted: Counted, by: i64) {
        self.change_one(counted.slot, by, Which::Keys);
        if counted.of_database {
            self.change_one(counted.slot, by, Which::OfDatabase);
        }
        if let Some(database) = counted.of_cluster {
            self.cluster_databases.change(counted.slot, database, (by, 0));
        }
    }

    /// So many keys got an expiry, or lost it.
    pub(crate) fn change_expiring(&self, counted: Counted, by: i64) {
        self.change_one(counted.slot, by, Which::Expiring);
        if counted.of_database {
            self.change_one(counted.slot, by, Which::ExpiringOfDatabase);
        }
        if let Some(database) = counted.of_cluster {
            self.cluster_databases.change(counted.slot, database, (0, by));
        }
    }

    /// One of the keys that are counted already has an expiry; those of databases are counted apart.
    pub(crate) fn note_expiring(&self, key: &[u8]) {
        self.change_one(slot_of(key), 1, Which::Expiring);
    }

    /// One of the keys that are counted already is that of a database, with an expiry or without.
    pub(crate) fn note_of_database(&self, key: &[u8], expires: bool) {
        self.change_one(slot_of(key), 1, Which::OfDatabase);
        self.change_one(slot_of(key), i64::from(expires), Which::ExpiringOfDatabase);
    }

    /// One of those is that of a cluster database, with an expiry or without.
    pub(crate) fn note_of_cluster_database(&self, key: &[u8], expires: bool) {
        if let Some(database) = ClusterDatabase::of_key(key) {
            self.cluster_databases.change(slot_of(key), database, (1, i64::from(expires)));
        }
    }

    fn change_one(&self, slot: Slot, by: i64, which: Which) {
        let total = &self.totals[which as usize];
        if let Some(cell) = self.cells.load().cell(slot) {
            let before = cell.of(which).fetch_add(by.cast_unsigned(), Ordering::Relaxed);
            assert!(before.checked_add_signed(by).is_some(), "slot {slot} would hold fewer than no keys");
            total.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        for (_, cell) in self.cells.load().each() {
            cell.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        self.totals.iter().for_each(|total| total.store(0, Ordering::Relaxed));
        self.cluster_databases.clear();
    }

    /// Zero again, and room for `slots`.
    pub(crate) fn restart(&self, slots: &Slots) {
        self.cells.store(Arc::new(Cells::new(slots.span())));
        self.clear();
    }

    /// Removes the counts of `slots`, which belong to another shard now.
    pub(crate) fn forget(&self, slots: &Slots) {
        self.cluster_databases.forget(slots);
        for slot in slots.iter() {
            let cells = self.cells.load();
            let Some(cell) = cells.cell(slot) else { continue };
            for (total, count) in self.totals.iter().zip(&cell.counts) {
                total.fetch_sub(count.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
            cell.operations.store(0, Ordering::Relaxed);
        }
    }

    /// The counts of `slots`, or of all, that are not zero: slot (u16) and count (u64), little-endian.
    pub(crate) fn encode(&self, slots: Option<&Slots>) -> Stored {
        let cells = self.cells.load();
        let mut rows: [Vec<u8>; COUNTS] = Default::default();
        // Where a slot has no keys, it has none of any kind.
        let counted = cells.each().filter(|(_, cell)| cell.read(Which::Keys) > 0);
        for (slot, cell) in counted.filter(|(slot, _)| slots.is_none_or(|slots| slots.owns(*slot))) {
            for which in EACH {
                let count = cell.read(which);
                if count > 0 {
                    let row = &mut rows[which as usize];
                    row.extend_from_slice(&slot.0.to_le_bytes());
                    row.extend_from_slice(&count.to_le_bytes());
                }
            }
        }
        let [keys, expiring, of_databases, expiring_of_databases] = rows;
        Stored {
            keys,
            expiring,
            of_databases,
            expiring_of_databases,
            of_cluster_databases: self.cluster_databases.encode(slots),
        }
    }

    /// Takes over what `encode` wrote of keys: after `restart`.
    pub(crate) fn load_keys(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.load(bytes, Which::Keys)
    }

    /// Takes over what `encode` wrote of keys that have an expiry: after `restart`.
    pub(crate) fn load_expiring(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.load(bytes, Which::Expiring)
    }

    /// Takes over what `encode` wrote of keys of databases: after `restart`.
    pub(crate) fn load_of_databases(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.load(bytes, Which::OfDatabase)
    }

    /// Takes over what `encode` wrote of keys of databases that have an expiry: after `restart`.
    pub(crate) fn load_expiring_of_databases(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.load(bytes, Which::ExpiringOfDatabase)
    }

    /// Takes over what `encode` wrote of keys of cluster databases: after `restart`.
    pub(crate) fn load_of_cluster_databases(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.cluster_databases.load(bytes)
    }

    fn load(&self, bytes: &[u8], which: Which) -> Result<(), &'static str> {
        for (slot, count) in decode(bytes)? {
            self.cells.load().cell(slot).ok_or("a key counter for a slot of another shard")?;
            self.change_one(slot, i64::try_from(count).map_err(|_| "a key counter out of range")?, which);
        }
        Ok(())
    }
}

/// The counts that `encode` wrote.
pub(crate) fn decode(bytes: &[u8]) -> Result<impl Iterator<Item = (Slot, u64)>, &'static str> {
    if !bytes.len().is_multiple_of(10) {
        return Err("the key counters have a wrong length");
    }
    Ok(bytes.chunks_exact(10).map(|pair| {
        let count = u64::from_le_bytes(pair[2..].try_into().expect("8 bytes"));
        (Slot(u16::from_le_bytes([pair[0], pair[1]])), count)
    }))
}
