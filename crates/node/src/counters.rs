//! How many keys each slot of a shard holds, and how many of those have an expiry: exact, because every change goes
//! through apply, and kept in the tree so that a restart need not count. And how often each slot was asked lately: about,
//! and in memory only.

use crate::format::slots::Slots;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::Slot;

/// The counts of one shard. Written by the thread that applies, read by all.
#[derive(Debug)]
pub(crate) struct Counters {
    cells: ArcSwap<Cells>,
    total: AtomicU64,
    expiring: AtomicU64,
    /// Operations since the shard was opened.
    operations: AtomicU64,
    /// How often those of slots were looked at since they faded.
    looks: AtomicU64,
}

/// For so many looks at where a slot's operations lie, they are remembered whole; then half of them is forgotten.
const LOOKS_REMEMBERED: u64 = 60;

/// The counts of a range of slots. Another one takes their place when a shard comes by slots beyond them.
#[derive(Debug)]
struct Cells {
    first: u16,
    by_slot: Box<[Cell]>,
}

#[derive(Debug, Default)]
struct Cell {
    keys: AtomicU64,
    expiring: AtomicU64,
    /// Operations, those of long ago counted less.
    operations: AtomicU64,
}

/// Which of the two counts of a slot.
#[derive(Clone, Copy)]
enum Which {
    Keys,
    Expiring,
}

impl Cell {
    fn of(&self, which: Which) -> &AtomicU64 {
        match which {
            Which::Keys => &self.keys,
            Which::Expiring => &self.expiring,
        }
    }
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
}

impl Counters {
    /// Zero for those slots.
    pub(crate) fn new(slots: &Slots) -> Self {
        let cells = ArcSwap::from_pointee(Cells::new(slots.span()));
        let zero = || AtomicU64::new(0);
        Self { cells, total: zero(), expiring: zero(), operations: zero(), looks: zero() }
    }

    /// So many operations were asked of a slot.
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
        slots.halves(|slot| cells.cell(slot).map_or(0, |cell| cell.keys.load(Ordering::Relaxed)))
    }

    /// Where they fall into two parts that were asked as often lately: to be looked at in about equal intervals.
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

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// How many keys have an expiry.
    pub(crate) fn expiring(&self) -> u64 {
        self.expiring.load(Ordering::Relaxed)
    }

    pub(crate) fn in_slot(&self, slot: Slot) -> u64 {
        self.cells.load().cell(slot).map_or(0, |cell| cell.keys.load(Ordering::Relaxed))
    }

    /// So many keys came, or went.
    pub(crate) fn change(&self, slot: Slot, by: i64) {
        self.change_one(slot, by, Which::Keys);
    }

    /// So many keys got an expiry, or lost it.
    pub(crate) fn change_expiring(&self, slot: Slot, by: i64) {
        self.change_one(slot, by, Which::Expiring);
    }

    fn change_one(&self, slot: Slot, by: i64, which: Which) {
        let total = match which {
            Which::Keys => &self.total,
            Which::Expiring => &self.expiring,
        };
        if let Some(cell) = self.cells.load().cell(slot) {
            let before = cell.of(which).fetch_add(by.cast_unsigned(), Ordering::Relaxed);
            assert!(before.checked_add_signed(by).is_some(), "slot {slot} would hold fewer than no keys");
            total.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        for (_, cell) in self.cells.load().each() {
            cell.keys.store(0, Ordering::Relaxed);
            cell.expiring.store(0, Ordering::Relaxed);
        }
        self.total.store(0, Ordering::Relaxed);
        self.expiring.store(0, Ordering::Relaxed);
    }

    /// Zero again, and room for `slots`.
    pub(crate) fn restart(&self, slots: &Slots) {
        self.cells.store(Arc::new(Cells::new(slots.span())));
        self.clear();
    }

    /// Those of `slots` are another shard's now.
    pub(crate) fn forget(&self, slots: &Slots) {
        for slot in slots.iter() {
            let cells = self.cells.load();
            let Some(cell) = cells.cell(slot) else { continue };
            self.total.fetch_sub(cell.keys.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            self.expiring.fetch_sub(cell.expiring.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            cell.operations.store(0, Ordering::Relaxed);
        }
    }

    /// The counts of `slots`, or of all, that are not zero: slot (u16) and count (u64), little-endian.
    pub(crate) fn encode(&self, slots: Option<&Slots>) -> Stored {
        let cells = self.cells.load();
        let of = |which: Which| {
            let mut bytes = Vec::new();
            for (slot, cell) in cells.each().filter(|(slot, _)| slots.is_none_or(|slots| slots.owns(*slot))) {
                let count = cell.of(which).load(Ordering::Relaxed);
                if count > 0 {
                    bytes.extend_from_slice(&slot.0.to_le_bytes());
                    bytes.extend_from_slice(&count.to_le_bytes());
                }
            }
            bytes
        };
        Stored { keys: of(Which::Keys), expiring: of(Which::Expiring) }
    }

    /// Takes over what `encode` wrote of keys: after `restart`.
    pub(crate) fn load_keys(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.load(bytes, Which::Keys)
    }

    /// Takes over what `encode` wrote of keys that have an expiry: after `restart`.
    pub(crate) fn load_expiring(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.load(bytes, Which::Expiring)
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
