//! How often a shard is asked, and where it would be divided: what its leader tells the director.
//!
//! Slots' counts lie in as many lines of memory as there are slots, and few of them are in a processor's caches: so one
//! operation in a few is noted, for all since the last that was.

use super::ShardHandle;
use vocab::{Prng, Slot};

/// So many operations pass at the most, before one is noted; in the mean half of that.
const PASS_MAX: u64 = 16;

/// One thread's operations. Which one is noted is drawn: a client that asks for the same keys in turns would else have
/// the same one noted every time.
pub struct LoadSampler {
    passed: u64,
    noted_at: u64,
    prng: Prng,
}

impl LoadSampler {
    /// The first operation is noted.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { passed: 0, noted_at: 1, prng: Prng::new(seed) }
    }

    /// So many more operations were asked of a slot.
    #[inline]
    pub fn note(&mut self, handle: &ShardHandle, slot: Slot, count: u64) {
        self.passed += count;
        if self.passed >= self.noted_at {
            handle.note_operations(slot, self.passed);
            (self.passed, self.noted_at) = (0, 1 + self.prng.below(PASS_MAX));
        }
    }
}
