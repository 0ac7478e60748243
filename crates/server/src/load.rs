//! How often slots are asked: a worker notes one read in a few, for all since the last that it noted.

use node::ShardView;
use vocab::{Prng, Slot};

/// So many reads pass at the most, before one is noted; in the mean half of that.
const PASS_MAX: u64 = 16;

/// One worker's reads. Which one is noted is drawn: a client that asks for the same keys in turns would else have the same
/// one noted every time.
pub(crate) struct ReadSampler {
    passed: u64,
    noted_at: u64,
    prng: Prng,
}

impl ReadSampler {
    pub(crate) fn new(seed: u64) -> Self {
        Self { passed: 0, noted_at: 1, prng: Prng::new(seed) }
    }

    /// One more read was made.
    #[inline]
    pub(crate) fn note(&mut self, view: &ShardView, slot: Slot) {
        self.passed += 1;
        if self.passed >= self.noted_at {
            view.note_operations(slot, self.passed);
            (self.passed, self.noted_at) = (0, 1 + self.prng.below(PASS_MAX));
        }
    }
}
