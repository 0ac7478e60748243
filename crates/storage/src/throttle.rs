//! The limit of bytes that background work writes, shared by all trees of a node.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vocab::TokenBucket;

/// What may be written at once after a rest, as a time at the full rate.
const BURST: Duration = Duration::from_millis(100);
/// What has been written without waiting costs no more than this.
const CHARGE_MAX: Duration = Duration::from_secs(1);
/// The longest debt that is waited for.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// The longest sleep before a stop is looked for.
const NAP: Duration = Duration::from_millis(50);

/// A limit of bytes a second.
pub(crate) struct Throttle {
    /// Bytes a second; 0 means no limit.
    rate: AtomicU64,
    stopped: AtomicBool,
    bucket: Mutex<TokenBucket>,
}

impl Throttle {
    pub(crate) fn new(rate: u64) -> Self {
        let bucket = TokenBucket::new(BURST, Instant::now());
        Self { rate: AtomicU64::new(rate), stopped: AtomicBool::new(false), bucket: Mutex::new(bucket) }
    }

    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Wakes those who wait, for good: they get `false`.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Takes `bytes` and waits until they are paid for; false if the node is being stopped.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.take_unless(bytes, || false)
    }

    /// The same, and waits no longer once `hurried` says so: the next caller pays what is owed then.
    pub(crate) fn take_unless(&self, bytes: u64, hurried: impl Fn() -> bool) -> bool {
        let mut wait = self.withdraw(bytes, WAIT_MAX, Instant::now());
        while !self.is_stopped() {
            if wait.is_zero() || hurried() {
                return true;
            }
            let nap = wait.min(NAP);
            std::thread::sleep(nap);
            wait -= nap;
        }
        false
    }

    /// Takes `bytes` that have been written already, without waiting; the debt is at most one second's worth.
    pub(crate) fn charge(&self, bytes: u64) {
        self.withdraw(bytes, CHARGE_MAX, Instant::now());
    }

    /// Takes tokens and tells how long the debt lasts.
    fn withdraw(&self, bytes: u64, debt_max: Duration, now: Instant) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let mut bucket = self.bucket.lock().expect("nothing panics while it is held");
        bucket.take(bytes, rate, debt_max, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_lasts_as_long_as_its_bytes() {
        let (throttle, now) = (Throttle::new(1000), Instant::now());
        // What a rest has saved up is spent first.
        throttle.withdraw(0, WAIT_MAX, now);
        let saved = throttle.withdraw(100, WAIT_MAX, now);
        assert!(saved <= Duration::from_millis(100), "{saved:?}");
        for (bytes, seconds) in [(5000, 5.0), (1000, 6.0)] {
            let wait = throttle.withdraw(bytes, WAIT_MAX, now).as_secs_f64();
            assert!((wait - saved.as_secs_f64() - seconds).abs() < 1e-6, "{wait}");
        }
    }

    #[test]
    fn a_charge_never_costs_more_than_a_second() {
        let (throttle, now) = (Throttle::new(1000), Instant::now());
        assert_eq!(throttle.withdraw(1_000_000, CHARGE_MAX, now), CHARGE_MAX);
        assert_eq!(throttle.withdraw(0, WAIT_MAX, now), CHARGE_MAX);
    }

    #[test]
    fn no_limit_and_a_stop_do_not_wait() {
        assert!(Throttle::new(0).take(u64::MAX));
        assert!(Throttle::new(1).take_unless(1_000_000, || true));
        let throttle = Throttle::new(1);
        throttle.stop();
        assert!(!throttle.take(1_000_000));
    }
}
