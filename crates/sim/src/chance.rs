//! Draws from a source of randomness.

use vocab::Prng;

/// What a run draws, from its seed.
pub trait Chance {
    /// Where the draws come from.
    fn source(&mut self) -> &mut Prng;

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.source().below(bound)
    }

    /// True `per_mille` times in a thousand.
    fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A number of `low..high`.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// One of `items`, which are not empty.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// A seed for a part of the run.
    fn seed(&mut self) -> u64 {
        self.source().next_u64()
    }

    /// A generator of its own for a part of the run, so that what it draws does not depend on the others.
    fn fork(&mut self) -> Prng {
        Prng::new(self.seed())
    }
}

impl Chance for Prng {
    fn source(&mut self) -> &mut Prng {
        self
    }
}
