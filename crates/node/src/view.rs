//! What all threads share of a shard: its tree, its part of the row cache, its counters and whether it may be read.

use crate::counters::Counters;
use crate::keys;
use crate::{Fault, Record};
use replica::ReplicaStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use storage::{Engine, RowCache, Slice, Span};
use vocab::{ShardId, Slot};

/// The row of a key that is known not to be there: no record is as short. Only readers put it into the cache, and only
/// while nothing newer is on its way: a removal takes the row out instead, or readers would see it too early.
pub(crate) const ABSENT: &[u8] = &[];

/// The shared part of one shard. Only the thread that owns the shard writes; any thread reads.
pub struct ShardView {
    id: ShardId,
    slots: (u16, u16),
    engine: Arc<dyn Engine>,
    cache: Arc<RowCache>,
    counters: Counters,
    serving: AtomicBool,
    /// The newest entry that is being, or has been, written to the tree: ahead of the applied index for a moment.
    writing: AtomicU64,
    /// No key expires before this time, in ms since the epoch.
    next_expiry_ms: AtomicU64,
    /// The latest time at which an entry was applied or a key was found to have expired.
    clock_ms: AtomicU64,
    /// Keys removed because their time had come.
    expired: AtomicU64,
    /// Whether there may be elements to collect.
    has_garbage: AtomicBool,
    /// Where the replica stood when it last changed.
    status: Mutex<ReplicaStatus>,
}

impl ShardView {
    /// The view of a tree that has just been opened.
    pub fn open(
        id: ShardId,
        slots: (u16, u16),
        engine: Arc<dyn Engine>,
        cache: Arc<RowCache>,
    ) -> storage::Result<Arc<Self>> {
        let view = Self {
            id,
            slots,
            engine,
            cache,
            counters: Counters::new(slots.0, slots.1),
            serving: AtomicBool::new(false),
            writing: AtomicU64::new(0),
            next_expiry_ms: AtomicU64::new(0),
            clock_ms: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            has_garbage: AtomicBool::new(true),
            status: Mutex::default(),
        };
        if let Some(bytes) = view.engine.meta(keys::META_COUNTERS)? {
            view.counters.load(&bytes).map_err(|detail| view.corrupt(detail))?;
        }
        view.counters.set_expiring(view.stored_expiring()?);
        Ok(Arc::new(view))
    }

    /// How many keys have an expiry, as the tree has it: before anything is applied.
    fn stored_expiring(&self) -> storage::Result<u64> {
        if let Some(bytes) = self.engine.meta(keys::META_EXPIRING)? {
            let count = bytes[..].try_into().map_err(|_| self.corrupt("the count of expiries has a wrong length"))?;
            return Ok(u64::from_le_bytes(count));
        }
        // A tree that was last sealed before this was kept, or never.
        let (start, end) = keys::expiries();
        let snapshot = self.engine.snapshot();
        let mut index = snapshot.cursor(Span { start, end }, false);
        let mut count = 0;
        while index.advance()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// First and last slot, both inclusive.
    #[must_use]
    pub fn slots(&self) -> (u16, u16) {
        self.slots
    }

    /// Its tree.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Whether this node may answer linearizable reads of the shard.
    #[must_use]
    pub fn serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// How many keys it holds.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.counters.total()
    }

    /// How many keys have an expiry (those whose time has come but are not yet collected included).
    #[must_use]
    pub fn expiring(&self) -> u64 {
        self.counters.expiring()
    }

    /// How many keys have been removed because their time had come, since the shard was opened.
    #[must_use]
    pub fn expired_ever(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    pub(crate) fn expired(&self, keys: u64) {
        self.expired.fetch_add(keys, Ordering::Relaxed);
    }

    /// How many keys one of its slots holds.
    #[must_use]
    pub fn keys_in_slot(&self, slot: Slot) -> u64 {
        self.counters.in_slot(slot)
    }

    /// Whether the row cache holds the record of `key`: then a command that needs it will not wait for the disk.
    #[must_use]
    pub fn is_cached(&self, key: &[u8]) -> bool {
        self.cache.get_with(self.id.0, key, |_| ()).is_ok()
    }

    /// Whether background collection has something to do at `now_ms`.
    #[must_use]
    pub fn wants_housekeeping(&self, now_ms: u64) -> bool {
        self.next_expiry_ms.load(Ordering::Relaxed) <= now_ms || self.has_garbage.load(Ordering::Relaxed)
    }

    /// Whether the tree at index `applied` is all that there is: only then may a row read from it be cached.
    pub(crate) fn is_newest(&self, applied: u64) -> bool {
        self.writing.load(Ordering::SeqCst) <= applied
    }

    pub(crate) fn begin_write(&self, index: u64) {
        self.writing.store(index, Ordering::SeqCst);
    }

    /// Where the replica stood when it last applied something.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_status(&self, status: ReplicaStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    pub(crate) fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Release);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn cache(&self) -> &RowCache {
        &self.cache
    }

    pub(crate) fn expires_at(&self, at_ms: u64) {
        self.next_expiry_ms.fetch_min(at_ms, Ordering::Relaxed);
    }

    pub(crate) fn next_expiry(&self, at_ms: u64) {
        self.next_expiry_ms.store(at_ms, Ordering::Relaxed);
    }

    pub(crate) fn garbage(&self, has: bool) {
        self.has_garbage.store(has, Ordering::Relaxed);
    }

    /// The shard's time is at least `now_ms` from now on.
    pub(crate) fn reach(&self, now_ms: u64) {
        self.clock_ms.fetch_max(now_ms, Ordering::SeqCst);
    }

    /// The time that no later entry may be before.
    pub(crate) fn clock_ms(&self) -> u64 {
        self.clock_ms.load(Ordering::SeqCst)
    }

    /// A record that a reader found, unless its time has come. Threads look at the clock at different moments, and the
    /// clock may be set back: what one has found expired stays so for all.
    pub(crate) fn live(&self, record: Option<Record>, now_ms: u64) -> Option<Record> {
        let Some(at_ms) = record.as_ref()?.view().expire_at_ms else { return record };
        if at_ms <= now_ms {
            self.reach(now_ms);
        }
        record.filter(|_| at_ms > now_ms.max(self.clock_ms()))
    }

    pub(crate) fn decode(&self, bytes: Slice) -> Result<Record, Fault> {
        Record::decode(bytes).map_err(|detail| Fault::Storage(self.corrupt(detail)))
    }

    pub(crate) fn corrupt(&self, detail: &str) -> storage::Error {
        storage::Error::Corrupt { path: format!("shard {}", self.id).into(), detail: detail.to_owned() }
    }
}

/// A record that is there and whose time has not come.
pub(crate) fn live(record: Option<Record>, now_ms: u64) -> Option<Record> {
    record.filter(|record| record.view().expire_at_ms.is_none_or(|at| at > now_ms))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use storage::{EngineKind, SharedResources, StorageOptions, WriteBatch, open_engine};

    #[test]
    fn expiries_that_nobody_counted_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let engine = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
        let keys = [keys::expiry(5, b"a"), keys::expiry(7, b"b"), keys::record(b"c"), keys::garbage(b"d", 1)];
        let writes = keys.map(|key| (Slice::from(key), Some(Slice::from(&b"1"[..])))).into();
        engine.apply(1, WriteBatch { writes });
        let open = || ShardView::open(ShardId(0), (0, 16383), engine.clone(), Arc::new(RowCache::new(0))).unwrap();
        assert_eq!(open().expiring(), 2);
        engine.seal(vec![(Slice::from(keys::META_EXPIRING), Slice::from(&3u64.to_le_bytes()[..]))]);
        engine.flush().unwrap();
        assert_eq!(open().expiring(), 3);
    }
}
