//! How old a replica's rows may be: the shard's owner writes it, and reads that allow a lag ask it.

use crate::store_clock::AHEAD_MS_MAX;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The bound on the age of one replica's rows, as all threads see it.
#[derive(Debug, Default)]
pub struct FreshnessCell {
    /// When the leader's node last told something that is all applied here, by its wall clock, in ms; 0: never.
    fresh_ms: AtomicU64,
    /// A read needs a tighter bound than this replica knows.
    wanted: AtomicBool,
}

impl FreshnessCell {
    /// How far the replica may be behind its leader at `now_ms`, in ms: since when it is not known to have had all that
    /// was committed by then. By the wall clocks of both nodes. `None`: that is not known at all. A moment that is further ahead than clocks
    /// are apart is of before the store's time went back: it says nothing, and is forgotten, so that an earlier one can take its place.
    #[must_use]
    pub fn lag_ms(&self, now_ms: u64) -> Option<u64> {
        let fresh_ms = self.fresh_ms.load(Ordering::Acquire);
        if fresh_ms > now_ms.saturating_add(AHEAD_MS_MAX) {
            // Unless it has been replaced meanwhile.
            let _ = self.fresh_ms.compare_exchange(fresh_ms, 0, Ordering::AcqRel, Ordering::Acquire);
            return None;
        }
        (fresh_ms > 0).then(|| now_ms.saturating_sub(fresh_ms))
    }

    /// A read waits until the replica knows that it is less old: its leader is asked.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a read has waited since the last call.
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// The replica has all that its leader had told at `at_ms`.
    pub(crate) fn reach(&self, at_ms: u64) {
        self.fresh_ms.fetch_max(at_ms, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD_MS_MAX, FreshnessCell};

    #[test]
    fn the_lag_counts_from_the_newest_moment_that_was_reached() {
        let freshness = FreshnessCell::default();
        assert_eq!(freshness.lag_ms(1_000), None);
        freshness.reach(900);
        freshness.reach(700);
        assert_eq!((freshness.lag_ms(1_000), freshness.lag_ms(800)), (Some(100), Some(0)));
        assert!(!freshness.take_wanted());
        freshness.want();
        assert!(freshness.take_wanted() && !freshness.take_wanted());
    }

    #[test]
    fn a_moment_of_before_time_went_back_says_nothing() {
        let freshness = FreshnessCell::default();
        freshness.reach(900_000);
        assert_eq!(freshness.lag_ms(900_000 - AHEAD_MS_MAX), Some(0), "clocks may be so far apart");
        freshness.reach(880_000);
        assert_eq!(freshness.lag_ms(900_100), Some(100), "the newest counts");
        assert_eq!(freshness.lag_ms(900_000 - AHEAD_MS_MAX - 1), None);
        assert_eq!(freshness.lag_ms(900_000), None, "it is forgotten");
        freshness.reach(300_000);
        assert_eq!(freshness.lag_ms(300_250), Some(250), "what is told since then counts");
    }
}
