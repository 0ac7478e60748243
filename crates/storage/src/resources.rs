//! What the trees of one node share: block cache, open files, the write rate, and the memory for unflushed writes.

use crate::StorageOptions;
use crate::direct::DirectFiles;
use crate::room::{Room, SharedRoom};
use crate::throttle::Throttle;
use lsm_tree::{Cache, DescriptorTable};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A smaller tree, in bytes, is never asked to flush for the sake of others.
const FLUSH_BYTES_MIN: u64 = 64 * 1024;

/// How much the debt rises when unflushed writes are twice their budget.
const OVERFILL_DEBT: f64 = 20.0;

/// What all trees of a node share. Made once a node; every tree is opened with it.
pub struct SharedResources {
    pub(crate) options: StorageOptions,
    pub(crate) cache: Arc<Cache>,
    pub(crate) descriptors: Arc<DescriptorTable>,
    pub(crate) direct: Arc<DirectFiles>,
    pub(crate) throttle: Arc<Throttle>,
    /// The rate limit of purges, in bytes that they read.
    pub(crate) purge_throttle: Arc<Throttle>,
    /// What rewrites may take of the device.
    pub(crate) room: Arc<SharedRoom>,
    /// Bytes of unflushed writes of all trees: active ones, and sealed ones that are not yet in files.
    active_bytes: AtomicU64,
    sealed_bytes: AtomicU64,
    usages: Mutex<Vec<Weak<Usage>>>,
}

/// The unflushed bytes of one tree.
pub(crate) struct Usage {
    shared: Arc<SharedResources>,
    active: AtomicU64,
    sealed: AtomicU64,
}

impl SharedResources {
    /// From the node's settings.
    #[must_use]
    pub fn new(options: StorageOptions) -> Arc<Self> {
        Arc::new(Self {
            // The cache counts a block by its length; the allocator adds a tenth.
            cache: Arc::new(Cache::with_capacity_bytes(options.block_cache_bytes / 10 * 9)),
            descriptors: Arc::new(DescriptorTable::new(options.open_files_max)),
            direct: DirectFiles::new(options.open_files_max / 2),
            throttle: Arc::new(Throttle::new(options.rate_limit_bytes_per_s)),
            purge_throttle: Arc::new(Throttle::new(0)),
            room: Arc::default(),
            options,
            active_bytes: AtomicU64::new(0),
            sealed_bytes: AtomicU64::new(0),
            usages: Mutex::new(Vec::new()),
        })
    }

    /// The settings it was made from.
    #[must_use]
    pub fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// Changes the rate limit of compaction; 0 means none.
    pub fn set_rate_limit(&self, bytes_per_s: u64) {
        self.throttle.set_rate(bytes_per_s);
    }

    /// Changes how many bytes a second purges may read, over all trees; 0, the default, means no limit.
    pub fn set_purge_rate(&self, bytes_per_s: u64) {
        self.purge_throttle.set_rate(bytes_per_s);
    }

    /// Says what the device has room for. As long as this is not called, every rewrite begins.
    pub fn set_room(&self, room: Room) {
        self.room.set(room);
    }

    /// Makes compactions under way end early, so that a node can stop. There is no way back.
    pub fn stop(&self) {
        self.throttle.stop();
        self.purge_throttle.stop();
    }

    /// Bytes of unflushed writes over all trees, as a share of their budget: writers should be slowed as it nears 1.
    #[must_use]
    pub fn memtable_fill(&self) -> f64 {
        let bytes = self.active_bytes.load(Ordering::Relaxed) + self.sealed_bytes.load(Ordering::Relaxed);
        bytes as f64 / self.options.memtable_bytes_total.max(1) as f64
    }

    /// How far flushing is behind. It rises steeply at the end of the budget, since more is memory beyond the budget.
    pub(crate) fn memtable_debt(&self) -> f64 {
        let fill = self.memtable_fill();
        fill + (fill - 1.0).max(0.0) * OVERFILL_DEBT
    }

    /// Bytes of blocks held by the block cache.
    #[must_use]
    pub fn block_cache_bytes(&self) -> u64 {
        self.cache.size()
    }

    pub(crate) fn usage(self: &Arc<Self>) -> Arc<Usage> {
        let usage = Arc::new(Usage { shared: self.clone(), active: AtomicU64::new(0), sealed: AtomicU64::new(0) });
        let mut usages = self.usages.lock().expect("nothing panics while it is held");
        usages.retain(|one| one.strong_count() > 0);
        usages.push(Arc::downgrade(&usage));
        usage
    }

    /// The most that one tree holds in its active memtable.
    fn active_bytes_max(&self) -> u64 {
        let usages = self.usages.lock().expect("nothing panics while it is held");
        usages.iter().filter_map(Weak::upgrade).map(|one| one.active.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

impl Usage {
    /// The active memtable grew by this many bytes, or became smaller.
    pub(crate) fn add(&self, bytes: i64) {
        let before = self.active.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
        assert!(before.checked_add_signed(bytes).is_some(), "a memtable of fewer than no bytes");
        self.shared.active_bytes.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
    }

    /// All active bytes become sealed; answers how many.
    pub(crate) fn seal(&self) -> u64 {
        let bytes = self.active.swap(0, Ordering::Relaxed);
        self.sealed.fetch_add(bytes, Ordering::Relaxed);
        self.shared.active_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// This many sealed bytes are now in files.
    pub(crate) fn flushed(&self, bytes: u64) {
        self.sealed.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.sealed_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.active.load(Ordering::Relaxed) + self.sealed.load(Ordering::Relaxed)
    }

    /// Whether the active memtable is large enough to be worth a flush.
    pub(crate) fn is_worth_a_flush(&self) -> bool {
        self.active.load(Ordering::Relaxed) >= FLUSH_BYTES_MIN
    }

    /// Whether this tree should seal: it holds as much as one tree may, or all trees together hold half the budget and this one is among
    /// the largest.
    pub(crate) fn is_due(&self) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        if !self.is_worth_a_flush() {
            return false;
        }
        let budget = self.shared.options.memtable_bytes_total;
        if active >= budget / 4 {
            return true;
        }
        self.shared.active_bytes.load(Ordering::Relaxed) >= budget / 2
            && active >= self.shared.active_bytes_max() / 10 * 9
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        self.shared.active_bytes.fetch_sub(self.active.load(Ordering::Relaxed), Ordering::Relaxed);
        self.shared.sealed_bytes.fetch_sub(self.sealed.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn the_biggest_tree_flushes_when_all_together_are_too_big() {
        let shared = SharedResources::new(StorageOptions { memtable_bytes_total: 16 * MIB, ..Default::default() });
        let (small, big) = (shared.usage(), shared.usage());
        big.add(3 * MIB as i64);
        small.add(2 * MIB as i64);
        assert!(!big.is_due() && !small.is_due());
        let other = shared.usage();
        other.add(3 * MIB as i64);
        assert!(big.is_due() && other.is_due() && !small.is_due());
        small.add(2 * MIB as i64);
        assert!(small.is_due(), "a quarter of the budget is one tree's share");
        let sealed = big.seal();
        assert_eq!(sealed, 3 * MIB);
        assert!(!other.is_due());
        assert!((shared.memtable_fill() - 10.0 / 16.0).abs() < 1e-9);
        drop(small);
        big.flushed(sealed);
        drop(other);
        assert!(shared.memtable_fill().abs() < 1e-9);
    }
}
