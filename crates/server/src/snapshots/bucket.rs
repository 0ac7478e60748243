//! The limit of bytes of all transfers of one direction.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vocab::TokenBucket;

/// What may go at once after a rest, as a time at the full rate: a thread that slept too long on a busy machine catches up.
const BURST: Duration = Duration::from_millis(250);

/// A limit that may change at any time.
pub(super) struct Bucket {
    /// Bytes a second; 0: no limit.
    rate: AtomicU64,
    tokens: Mutex<TokenBucket>,
}

impl Bucket {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate: AtomicU64::new(rate), tokens: Mutex::new(TokenBucket::new(BURST, Instant::now())) }
    }

    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Takes `bytes`; answers how long to wait until they are paid for.
    pub(super) fn take(&self, bytes: u64, now: Instant) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        self.tokens.lock().take(bytes, rate, Duration::MAX, now)
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
