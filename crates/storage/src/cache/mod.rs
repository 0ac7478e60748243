//! Hot rows of all shards of a node: (shard, tree key) → value, in a fixed amount of memory.
//!
//! It never serves a value older than the tree's at the time of the last `put` of that key:
//! - the applying thread calls `put` for every key that it wrote, after the entry is published in the tree and before
//!   it is acknowledged;
//! - a reader that misses holds a `Stamp` from before its read of the tree, and `fill` refuses it if the key (or one
//!   that shares its stripe) was put since, or the shard cleared.
//!
//! The keys are spread over segments, each with a mutex of its own; within one, CLOCK evicts: a row that was not hit
//! since the hand last passed goes first. And a row that is read for the first time in a while does not make another go: most
//! of what is read beyond memory is not read again soon (the doorkeeper of TinyLFU, Einziger, Friedman and Manes 2017).
//!
//! Values that are too long for a segment (`LongRows`) have a quarter of the memory at most, and other rows have what they leave.

mod long_rows;
mod segment;

use super::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use super::sync::{Mutex, MutexGuard, SMALL};
use crate::Slice;
use crate::cpu_prefetch::{Lines, Step};
use long_rows::LongKey;
pub use segment::CacheStats;
use segment::Segment;
use std::hash::{BuildHasher, RandomState};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Segments, a power of two: enough that threads seldom meet in one.
const SEGMENTS: usize = if SMALL { 2 } else { 128 };
/// Stripes of stamps in a segment, a power of two: few enough that all lie in a processor's caches.
const STRIPES: usize = if SMALL { 2 } else { 32 };
/// Epochs, which shards share by their number.
const EPOCHS: usize = if SMALL { 2 } else { vocab::limits::SHARDS_MAX as usize };

/// What a processor keeps near of rows, in bytes, roughly: of a cache that holds no more, a look-up does not wait for memory.
const PROCESSOR_BYTES: usize = 8 << 20;

/// Hot rows of all shards of a node.
pub struct RowCache {
    segments: Box<[Slot]>,
    /// By shard, modulo their number: a shard's rows of an earlier epoch are gone. Two shards that share one are
    /// cleared together, which is harmless.
    epochs: Box<[AtomicU32]>,
    seed: u64,
    /// The most bytes that it holds.
    bytes_max: AtomicUsize,
    /// Bytes of long values that are kept, or for which there is to be room.
    long_bytes: AtomicUsize,
    /// The segment that gives up its long values next.
    long_hand: AtomicUsize,
    /// How many bytes of them the segments have left room for. Locked while they are told.
    long_shared: Mutex<usize>,
}

/// Long values have this part of the memory at most.
const LONG_PART: usize = 4;
/// The segments are told when long values have come to so much more or less, as a part of the memory.
const LONG_STEP_PART: usize = 64;

/// Aligned so that two threads in two segments do not share a cache line.
#[repr(align(128))]
struct Slot {
    segment: Mutex<Segment>,
    stamps: [AtomicU32; STRIPES],
}

/// What a reader that missed must show to `fill`.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    hash: u64,
    puts: u32,
    epoch: u32,
}

/// What `put` does with a row that is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Leaves it out: for stores that are larger than memory and read rarely what they write.
    Update,
    /// Brings it in.
    Allocate,
}

/// What `fill` does with a row that others would have to go for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillMode {
    /// Brings it in if it was to be filled before, not long ago.
    Again,
    /// Brings it in: it will be looked up at once.
    Always,
}

impl RowCache {
    /// An empty cache that will hold at most `bytes`, everything included, and for a moment a little more, where long values take the place
    /// of others. 0: it holds nothing.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let segment = || Slot {
            segment: Mutex::new(Segment::new(bytes / SEGMENTS)),
            stamps: [const { AtomicU32::new(0) }; STRIPES],
        };
        Self {
            segments: (0..SEGMENTS).map(|_| segment()).collect(),
            epochs: (0..EPOCHS).map(|_| AtomicU32::new(0)).collect(),
            // Not known to clients: they cannot aim at one segment.
            seed: RandomState::new().hash_one(0),
            bytes_max: AtomicUsize::new(bytes),
            long_bytes: AtomicUsize::new(0),
            long_hand: AtomicUsize::new(0),
            long_shared: Mutex::new(0),
        }
    }

    /// The value of a row, without copying it.
    pub fn get(&self, shard: u32, key: &[u8]) -> Result<Slice, Stamp> {
        self.find(shard, key, Slice::clone)
    }

    /// Runs `read` on the value of a row while its segment is locked: keep it short.
    pub fn get_with<R>(&self, shard: u32, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<R, Stamp> {
        self.find(shard, key, |value| read(value))
    }

    /// How long the value of a row is, in bytes, as far as is known: also of rows that are too long to be held. A hint: such a row may
    /// have another length by now.
    #[must_use]
    pub fn likely_bytes(&self, shard: u32, key: &[u8]) -> Option<usize> {
        let hash = self.hash(shard, key);
        let epoch = self.epoch(shard).load(Ordering::SeqCst);
        let mut segment = self.slot(hash).lock();
        let held = segment.find(hash, shard, epoch, key).map(|row| row.value().len());
        held.or_else(|| segment.long.bytes_of(hash, epoch))
    }

    /// A stamp for a `fill`, without a lookup. To be taken before the tree is read.
    #[must_use]
    pub fn stamp(&self, shard: u32, key: &[u8]) -> Stamp {
        let hash = self.hash(shard, key);
        let puts = self.slot(hash).stripe(hash).load(Ordering::Acquire);
        Stamp { hash, puts, epoch: self.epoch(shard).load(Ordering::SeqCst) }
    }

    /// By what `note` finds a row.
    #[must_use]
    pub fn hash(&self, shard: u32, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed ^ u64::from(shard))
    }

    /// Whether it holds so much that a look-up waits for memory, as a rule.
    #[must_use]
    pub fn is_beyond_processor(&self) -> bool {
        // Rows are spread evenly.
        self.segments[0].lock().bytes() > PROCESSOR_BYTES / SEGMENTS
    }

    /// Notes what the other calls will look at for rows of those hashes, for one step.
    pub fn note(&self, hashes: &[u64], step: Step, lines: &mut Lines) {
        hashes.iter().for_each(|&hash| self.slot(hash).lock().note(hash, step, lines));
    }

    /// Brings in a copy of what a reader found in the tree after it got `stamp`; false if it may be out of date by now,
    /// is too large, or if there is no room for a row that is new.
    pub fn fill(&self, shard: u32, key: &[u8], value: &[u8], stamp: Stamp, mode: FillMode) -> bool {
        let slot = self.slot(stamp.hash);
        let mut segment = slot.lock();
        let current = self.is_current(shard, stamp);
        if current && !segment.takes(key.len() + value.len()) {
            let of = LongKey { hash: stamp.hash, epoch: stamp.epoch, shard, key };
            // As others, one comes in that was refused a short while ago.
            if segment.long.bytes_of(of.hash, of.epoch).is_some() {
                drop(segment);
                return self.fill_long(of, value, stamp);
            }
            let forgotten = segment.long.note(of, value.len());
            drop(segment);
            self.gave_back(forgotten);
            return false;
        }
        // A copy, for what was found may be a part of a block. What is too long is not copied: others wait for the segment.
        current
            && (mode == FillMode::Always || segment.admits(stamp.hash, key, value))
            && segment.insert(stamp.hash, shard, stamp.epoch, key, Slice::from(value))
    }

    /// Tells the cache what the tree holds from now on; `None`: nothing. The value is shared, so it must own its bytes:
    /// a part of a larger buffer would keep the whole in memory.
    pub fn put(&self, shard: u32, key: &[u8], value: Option<&Slice>, mode: PutMode) {
        let hash = self.hash(shard, key);
        let slot = self.slot(hash);
        let epoch = self.epoch(shard).load(Ordering::SeqCst);
        let mut segment = slot.lock();
        // Under the lock: a `fill` sees either the stamp from before and is overwritten here, or this one.
        slot.stripe(hash).fetch_add(1, Ordering::Release);
        match value {
            Some(value) if !segment.takes(key.len() + value.len()) => {
                segment.remove(hash, shard, key);
                let of = LongKey { hash, epoch, shard, key };
                let is_again = segment.long.bytes_of(hash, epoch).is_some() && mode == PutMode::Allocate;
                // What it had before makes room for it.
                let before = segment.long.forget(hash);
                self.long_bytes.fetch_sub(before, Ordering::Relaxed);
                let is_kept = is_again && self.has_long_room(key.len() + value.len());
                let forgotten = match is_kept {
                    true => segment.long.keep(of, value.clone()),
                    false => segment.long.note(of, value.len()),
                };
                drop(segment);
                if is_again && !is_kept {
                    self.release_next();
                }
                return self.gave_back(forgotten);
            }
            Some(value) if mode == PutMode::Allocate || segment.contains(hash, shard, epoch, key) => {
                segment.insert(hash, shard, epoch, key, value.clone());
            }
            _ => segment.remove(hash, shard, key),
        }
        let forgotten = segment.long.forget(hash);
        drop(segment);
        if forgotten > 0 {
            self.gave_back(forgotten);
        }
    }

    /// Keeps a copy of a long value that a reader has found, as `fill` does.
    fn fill_long(&self, of: LongKey<'_>, value: &[u8], stamp: Stamp) -> bool {
        if !self.make_long_room(of.key.len() + value.len()) {
            return false;
        }
        let copy = Slice::from(value);
        let slot = self.slot(of.hash);
        let mut segment = slot.lock();
        let current = self.is_current(of.shard, stamp);
        let forgotten = if current { segment.long.keep(of, copy) } else { of.key.len() + value.len() };
        drop(segment);
        self.gave_back(forgotten);
        current
    }

    /// Whether nothing was put since the stamp was given. To be asked while the row's segment is locked.
    fn is_current(&self, shard: u32, stamp: Stamp) -> bool {
        self.slot(stamp.hash).stripe(stamp.hash).load(Ordering::Relaxed) == stamp.puts
            && self.epoch(shard).load(Ordering::SeqCst) == stamp.epoch
    }

    /// Takes room for a long value of so many bytes, if there is any.
    fn has_long_room(&self, bytes: usize) -> bool {
        let most = self.bytes_max.load(Ordering::Relaxed) / LONG_PART;
        let with = |taken: usize| taken.checked_add(bytes).filter(|bytes| *bytes <= most);
        self.long_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    /// The same; others are given up for it.
    fn make_long_room(&self, bytes: usize) -> bool {
        if bytes > self.bytes_max.load(Ordering::Relaxed) / LONG_PART {
            return false;
        }
        for _ in 0..SEGMENTS {
            if self.has_long_room(bytes) {
                return true;
            }
            self.release_next();
        }
        self.has_long_room(bytes)
    }

    /// Gives up the long values of the next segment that has any.
    fn release_next(&self) {
        for _ in 0..SEGMENTS {
            let next = self.long_hand.fetch_add(1, Ordering::Relaxed) % SEGMENTS;
            let released = self.segments[next].lock().long.release();
            self.long_bytes.fetch_sub(released, Ordering::Relaxed);
            if released > 0 {
                return;
            }
        }
    }

    /// So many bytes of long values are kept no longer. Other rows get what these leave.
    fn gave_back(&self, bytes: usize) {
        self.long_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut shared = self.long_shared.lock().expect("a panic in a cache segment is not survived");
        // As of now: two threads that give back do not tell the segments an older sum last.
        let (long, bytes_max) = (self.long_bytes.load(Ordering::Relaxed), self.bytes_max.load(Ordering::Relaxed));
        if long.abs_diff(*shared) > bytes_max / LONG_STEP_PART {
            *shared = long;
            for slot in &self.segments {
                slot.lock().leave_room(bytes_max.saturating_sub(long) / SEGMENTS);
            }
        }
    }

    /// Forgets every row of a shard, at once.
    pub fn clear_shard(&self, shard: u32) {
        self.epoch(shard).fetch_add(1, Ordering::SeqCst);
    }

    /// Changes the most bytes that it may hold; evicts what is too much.
    pub fn resize(&self, bytes: usize) {
        let mut shared = self.long_shared.lock().expect("a panic in a cache segment is not survived");
        self.bytes_max.store(bytes, Ordering::Relaxed);
        *shared = 0;
        for slot in &self.segments {
            let mut segment = slot.lock();
            let released = segment.long.release();
            self.long_bytes.fetch_sub(released, Ordering::Relaxed);
            segment.resize(bytes / SEGMENTS);
        }
    }

    /// Figures, summed over the segments.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let mut sum = CacheStats::default();
        for slot in &self.segments {
            slot.lock().add_to(&mut sum);
        }
        sum.bytes += self.long_bytes.load(Ordering::Relaxed) as u64;
        sum.bytes_max = self.bytes_max.load(Ordering::Relaxed) as u64;
        sum
    }

    fn slot(&self, hash: u64) -> &Slot {
        // The table takes the lowest 32 bits.
        &self.segments[(hash >> 40) as usize % SEGMENTS]
    }

    fn epoch(&self, shard: u32) -> &AtomicU32 {
        &self.epochs[shard as usize % self.epochs.len()]
    }

    fn find<R>(&self, shard: u32, key: &[u8], read: impl FnOnce(&Slice) -> R) -> Result<R, Stamp> {
        let hash = self.hash(shard, key);
        let slot = self.slot(hash);
        let epoch = self.epoch(shard).load(Ordering::SeqCst);
        let mut segment = slot.lock();
        if let Some(row) = segment.find(hash, shard, epoch, key) {
            return Ok(read(row.value()));
        }
        if let Some(kept) = segment.long.value_of(LongKey { hash, epoch, shard, key }).cloned() {
            segment.found_long();
            drop(segment);
            return Ok(read(&kept));
        }
        // Before the tree is read, which is what counts.
        Err(Stamp { hash, puts: slot.stripe(hash).load(Ordering::Acquire), epoch })
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Segment> {
        self.segment.lock().expect("a panic in a cache segment is not survived")
    }

    fn stripe(&self, hash: u64) -> &AtomicU32 {
        &self.stamps[(hash >> 48) as usize % STRIPES]
    }
}
