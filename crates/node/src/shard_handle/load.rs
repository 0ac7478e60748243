//! How often a shard is asked, and where it would be split: what its leader reports to the director.
//!
//! The counts of slots lie in as many cache lines as there are slots, and few of them are in a processor's caches. So one
//! operation in a few is counted, for all since the last that was.

use super::ShardHandle;
use vocab::{Prng, Slot};

/// At most so many operations pass before one is counted; half of that on average.
const PASS_MAX: u64 = 16;

/// One thread's operations. Which one is counted is random: otherwise a client that asks for the same keys in turns would
/// have the same key counted every time.
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
