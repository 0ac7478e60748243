//! The time of one shard: the greatest that its entries carry and its readers have gone by.

use crate::store_clock::entry_time;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::Millis;

/// Shared by the shard's worker and all its readers.
#[derive(Debug, Default)]
pub(crate) struct ShardClock(AtomicU64);

impl ShardClock {
    /// The shard's time is at least `now_ms` from now on.
    pub(crate) fn reach(&self, now_ms: Millis) {
        self.0.fetch_max(now_ms, Ordering::SeqCst);
    }

    /// The time that no later entry may be before.
    pub(crate) fn now_ms(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }

    /// The time of the next entry after one of `seen_ms`. It does not go back, unless it went by a clock that was wrong.
    pub(crate) fn next_entry(&self, now_ms: Millis, seen_ms: Millis) -> Millis {
        let seen_ms = seen_ms.max(self.now_ms());
        let time_ms = entry_time(now_ms, seen_ms);
        if time_ms < seen_ms {
            self.0.store(time_ms, Ordering::SeqCst);
        }
        time_ms
    }

    /// Whether the time of what expires at `at_ms` has come. Threads look at the clock at different moments, and it may be set
    /// back: what one has found expired stays so for all.
    pub(crate) fn is_past(&self, at_ms: Millis, now_ms: Millis) -> bool {
        if at_ms <= now_ms {
            self.reach(now_ms);
        }
        at_ms <= entry_time(now_ms, self.now_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::ShardClock;

    #[test]
    fn what_was_found_expired_stays_so_and_a_wrong_clock_is_not_followed() {
        let clock = ShardClock::default();
        assert!(!clock.is_past(1_000_500, 1_000_000) && clock.is_past(1_000_500, 1_000_500));
        assert!(clock.is_past(1_000_500, 1_000_100), "to another reader whose clock is behind");
        assert_eq!(clock.next_entry(1_000_400, 7), 1_000_500);
        // An entry of old data was ten years ahead.
        clock.reach(300_000_000_000);
        assert!(!clock.is_past(1_050_000, 1_000_600));
        assert_eq!((clock.next_entry(1_000_600, 300_000_000_000), clock.now_ms()), (1_000_600, 1_000_600));
    }
}
