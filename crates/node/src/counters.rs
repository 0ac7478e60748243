//! How many keys each slot of a shard holds, and how many of the shard's keys have an expiry: exact, because every
//! change goes through apply, and kept in the tree so that a restart need not count.

use std::sync::atomic::{AtomicU64, Ordering};
use vocab::Slot;

/// The counts of one shard. Written by the thread that applies, read by all.
#[derive(Debug)]
pub(crate) struct Counters {
    first: u16,
    by_slot: Box<[AtomicU64]>,
    total: AtomicU64,
    expiring: AtomicU64,
}

impl Counters {
    /// Zero for the slots `first..=last`.
    pub(crate) fn new(first: u16, last: u16) -> Self {
        let by_slot = (first..=last).map(|_| AtomicU64::new(0)).collect();
        Self { first, by_slot, total: AtomicU64::new(0), expiring: AtomicU64::new(0) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// How many keys have an expiry.
    pub(crate) fn expiring(&self) -> u64 {
        self.expiring.load(Ordering::Relaxed)
    }

    /// So many keys got an expiry, or lost it.
    pub(crate) fn change_expiring(&self, by: i64) {
        let before = self.expiring.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
        assert!(before.checked_add_signed(by).is_some(), "fewer than no keys would have an expiry");
    }

    pub(crate) fn set_expiring(&self, count: u64) {
        self.expiring.store(count, Ordering::Relaxed);
    }

    pub(crate) fn in_slot(&self, slot: Slot) -> u64 {
        self.cell(slot).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// So many keys came, or went.
    pub(crate) fn change(&self, slot: Slot, by: i64) {
        if let Some(count) = self.cell(slot) {
            let before = count.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
            assert!(before.checked_add_signed(by).is_some(), "slot {slot} would hold fewer than no keys");
            self.total.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        for count in &self.by_slot {
            count.store(0, Ordering::Relaxed);
        }
        self.total.store(0, Ordering::Relaxed);
        self.expiring.store(0, Ordering::Relaxed);
    }

    /// The counts that are not zero: slot (u16) and count (u64), little-endian.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, count) in self.by_slot.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                bytes.extend_from_slice(&(self.first + i as u16).to_le_bytes());
                bytes.extend_from_slice(&count.to_le_bytes());
            }
        }
        bytes
    }

    /// Takes over what `encode` wrote.
    pub(crate) fn load(&self, bytes: &[u8]) -> Result<(), &'static str> {
        self.clear();
        let mut total = 0;
        for (slot, count) in decode(bytes)? {
            self.cell(slot).ok_or("a key counter for a slot of another shard")?.store(count, Ordering::Relaxed);
            total += count;
        }
        self.total.store(total, Ordering::Relaxed);
        Ok(())
    }

    fn cell(&self, slot: Slot) -> Option<&AtomicU64> {
        self.by_slot.get(usize::from(slot.0.checked_sub(self.first)?))
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
