//! Draws from the run's one source of randomness.

use vocab::Prng;

/// What a run draws, from its seed.
pub trait Chance {
    /// True `per_mille` times in a thousand.
    fn happens(&mut self, per_mille: u64) -> bool;

    /// A number of `low..high`.
    fn between(&mut self, low: u64, high: u64) -> u64;

    /// One of `items`, which are not empty.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T;

    /// A generator of its own for a part of the run, so that what it draws does not depend on the others.
    fn fork(&mut self) -> Prng;
}

impl Chance for Prng {
    fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    fn fork(&mut self) -> Prng {
        Prng::new(self.next_u64())
    }
}
