//! The clocks of one node: a steady one that runs a little fast or slow, and a wall clock that jumps.

use crate::schedule::{MILLISECOND, Micros};
use vocab::Moment;

/// A steady clock runs no more than this many parts in a thousand fast or slow: what Basalt says it bears is 100
/// between two nodes.
pub const DRIFT_PER_MILLE_MAX: u64 = 45;

/// The wall clock of a run's begin, in ms since the epoch.
pub const BEGIN_WALL_MS: u64 = 1_700_000_000_000;

/// How far a node's time may be from the truth where all clocks are right, in ms: it takes another's clock as of the middle
/// between a beat and its answer, which may take 400 ms.
pub const SPREAD_MS: u64 = 250;

/// The clocks of one node.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The steady clock and true time when its rate was last set.
    base: (u64, Micros),
    /// Steady µs in a thousand true ones.
    per_mille: u64,
    wall_offset_ms: i64,
}

impl Clock {
    /// A right clock that shows `begin_us`.
    #[must_use]
    pub fn new(begin_us: u64) -> Self {
        Self { base: (begin_us, 0), per_mille: 1000, wall_offset_ms: 0 }
    }

    /// What it shows at the true time `at`.
    #[must_use]
    pub fn read(&self, at: Micros) -> Moment {
        let wall = (BEGIN_WALL_MS + at / MILLISECOND).saturating_add_signed(self.wall_offset_ms);
        Moment { wall_ms: wall, mono_us: self.base.0 + (at - self.base.1) * self.per_mille / 1000 }
    }

    /// From `at` on the steady clock runs at another rate.
    pub fn drift(&mut self, at: Micros, per_mille: u64) {
        let bound = 1000 - DRIFT_PER_MILLE_MAX..=1000 + DRIFT_PER_MILLE_MAX;
        assert!(bound.contains(&per_mille), "a clock at {per_mille} ‰ drifts more than is allowed");
        self.base = (self.read(at).mono_us, at);
        self.per_mille = per_mille;
    }

    /// The wall clock is set, and is wrong from now on.
    pub fn jump(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// The wall clock is set right.
    pub fn set_right(&mut self) {
        self.wall_offset_ms = 0;
    }

    /// Whether the wall clock shows the true time.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.wall_offset_ms == 0
    }

    /// How long it is until the steady clock has gone on by `steady`.
    #[must_use]
    pub fn until(&self, steady: Micros) -> Micros {
        (steady * 1000).div_ceil(self.per_mille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_never_goes_back_whatever_is_set() {
        let mut clock = Clock::new(77);
        let mut before = clock.read(0);
        assert_eq!(before.mono_us, 77);
        for (at, per_mille, jump) in [(1_000, 1045, -9_000), (5_000, 955, 50_000), (5_009, 1000, 0)] {
            clock.drift(at, per_mille);
            clock.jump(jump);
            let now = clock.read(at);
            assert!(now.mono_us > before.mono_us, "{now:?} after {before:?}");
            before = now;
        }
        assert_eq!(clock.read(10_009).mono_us - before.mono_us, 5_000);
        assert_eq!(clock.read(12_000).wall_ms, BEGIN_WALL_MS + 12 + 41_000);
    }
}
