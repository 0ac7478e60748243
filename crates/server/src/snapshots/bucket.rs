//! A token bucket for the bytes of all transfers of one direction.
//!
//! Invariant: over any span the bytes taken and waited for are at most `rate × span` plus one burst.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What may go at once after a rest, as a time at the full rate: whoever slept too long on a busy machine makes up for it.
const BURST: Duration = Duration::from_millis(250);

/// See the module's words.
pub(super) struct Bucket {
    /// Bytes a second; 0: no limit.
    rate: AtomicU64,
    level: Mutex<Level>,
}

struct Level {
    /// Negative: a debt.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate: AtomicU64::new(rate), level: Mutex::new(Level { tokens: 0.0, at: Instant::now() }) }
    }

    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Takes `bytes`; answers how long to wait until they are paid for.
    pub(super) fn take(&self, bytes: u64, now: Instant) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed) as f64;
        if rate == 0.0 {
            return Duration::ZERO;
        }
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = now.saturating_duration_since(level.at).as_secs_f64() * rate;
        level.at = level.at.max(now);
        level.tokens = (level.tokens + earned).min(rate * BURST.as_secs_f64()) - bytes as f64;
        // A debt at an old rate is no reason to wait for hours at a new one.
        Duration::try_from_secs_f64((-level.tokens / rate).max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_rate_over_any_time() {
        let bucket = Bucket::new(1_000_000);
        let start = Instant::now() + Duration::from_secs(10);
        assert_eq!(bucket.take(250_000, start), Duration::ZERO, "a burst after a rest");
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            waited += bucket.take(100_000, start + waited);
        }
        let missing = waited.as_secs_f64() - 10.0;
        assert!(missing.abs() < 0.001, "{waited:?}");
        bucket.set_rate(0);
        assert_eq!(bucket.take(u64::MAX, start), Duration::ZERO);
    }
}
