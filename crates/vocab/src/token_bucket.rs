//! A token bucket: how long to wait for what was taken, at a rate that may change at any time.
//!
//! Invariant: over any span, what was taken and waited for is at most `rate × span` plus one burst; what a caller takes
//! beyond `debt_max` costs it no more than that.

use std::time::{Duration, Instant};

/// The tokens of one bucket; its owner guards it.
#[derive(Debug)]
pub struct TokenBucket {
    /// Negative: a debt.
    tokens: f64,
    filled: Instant,
    /// What may be taken at once after a rest, as a time at the full rate.
    burst: Duration,
}

impl TokenBucket {
    /// An empty bucket.
    #[must_use]
    pub fn new(burst: Duration, now: Instant) -> Self {
        Self { tokens: 0.0, filled: now, burst }
    }

    /// Takes `count` tokens at `rate` tokens a second (0: no limit), and tells how long the debt lasts: at most `debt_max`.
    pub fn take(&mut self, count: u64, rate: u64, debt_max: Duration, now: Instant) -> Duration {
        if rate == 0 {
            return Duration::ZERO;
        }
        let rate = rate as f64;
        let earned = now.saturating_duration_since(self.filled).as_secs_f64() * rate;
        self.filled = self.filled.max(now);
        let full = (self.tokens + earned).min(rate * self.burst.as_secs_f64());
        self.tokens = (full - count as f64).max(-rate * debt_max.as_secs_f64());
        Duration::try_from_secs_f64((-self.tokens / rate).max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY_DEBT: Duration = Duration::MAX;

    #[test]
    fn no_more_than_the_rate_over_any_time() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(Duration::from_millis(250), start);
        let start = start + Duration::from_secs(10);
        assert_eq!(bucket.take(250_000, 1_000_000, ANY_DEBT, start), Duration::ZERO, "a burst after a rest");
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            waited += bucket.take(100_000, 1_000_000, ANY_DEBT, start + waited);
        }
        let missing = waited.as_secs_f64() - 10.0;
        assert!(missing.abs() < 0.001, "{waited:?}");
        assert_eq!(bucket.take(u64::MAX, 0, ANY_DEBT, start), Duration::ZERO);
    }

    #[test]
    fn a_debt_is_bounded_where_it_is_to_be() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(Duration::ZERO, now);
        assert_eq!(bucket.take(5000, 1000, ANY_DEBT, now), Duration::from_secs(5));
        assert_eq!(bucket.take(1_000_000, 1000, Duration::from_secs(1), now), Duration::from_secs(1));
        assert_eq!(bucket.take(0, 1000, ANY_DEBT, now + Duration::from_secs(3)), Duration::ZERO);
    }
}
