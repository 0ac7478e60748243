//! The numbers of inserted records: handed out once each, and readable once all before them are acknowledged.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far an acknowledged number may be ahead of one that is not.
pub const WINDOW: u64 = 1 << 20;

/// A counter whose limit advances over the contiguous acknowledged prefix.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    /// One past the last number before which all are acknowledged.
    end: AtomicU64,
    /// A bit for each number of the window: acknowledged, but not yet contiguous.
    window: Box<[AtomicU64]>,
    advancing: Mutex<()>,
}

/// An insert was acknowledged too far ahead of one that never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFull;

impl AcknowledgedCounter {
    /// The first number handed out is `start`; all before it count as acknowledged.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self {
            next: AtomicU64::new(start),
            end: AtomicU64::new(start),
            window: (0..WINDOW / 64).map(|_| AtomicU64::new(0)).collect(),
            advancing: Mutex::new(()),
        }
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// One past the last number that was handed out.
    pub fn handed_out_end(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// One past the limit: every number below has been acknowledged.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Notes that the insert of `number` was answered, and advances the limit as far as it goes.
    ///
    /// # Errors
    /// `number` is too far ahead of the limit.
    pub fn acknowledge(&self, number: u64) -> Result<(), WindowFull> {
        if number.wrapping_sub(self.end()) >= WINDOW {
            return Err(WindowFull);
        }
        let (word, bit) = Self::place(number);
        self.window[word].fetch_or(bit, Ordering::AcqRel);
        // The thread that holds the lock may look at our bit too early; then the limit waits for the next acknowledgement.
        while self.is_set(self.end()) {
            let Some(_guard) = self.advancing.try_lock() else { return Ok(()) };
            self.advance();
        }
        Ok(())
    }

    fn advance(&self) {
        let mut end = self.end();
        while self.is_set(end) {
            let (word, bit) = Self::place(end);
            self.window[word].fetch_and(!bit, Ordering::AcqRel);
            end += 1;
        }
        self.end.store(end, Ordering::Release);
    }

    fn place(number: u64) -> (usize, u64) {
        (((number % WINDOW) / 64) as usize, 1 << (number % 64))
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.window[word].load(Ordering::Acquire) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_limit_waits_for_the_gap() {
        let counter = AcknowledgedCounter::new(1000);
        assert_eq!(counter.end(), 1000);
        let numbers: Vec<u64> = (0..4).map(|_| counter.next()).collect();
        assert_eq!(numbers, [1000, 1001, 1002, 1003]);
        assert_eq!(counter.handed_out_end(), 1004);
        for (number, end) in [(1001, 1000), (1003, 1000), (1000, 1002), (1002, 1004)] {
            counter.acknowledge(number).unwrap();
            assert_eq!(counter.end(), end, "after {number}");
        }
        assert_eq!(counter.acknowledge(1004 + WINDOW), Err(WindowFull));
    }

    #[test]
    fn many_threads_and_more_than_a_window() {
        let counter = AcknowledgedCounter::new(7);
        for round in 1..=5 {
            // Less than a window a round, so that a thread that sleeps cannot fill it.
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..WINDOW / 16 {
                            counter.acknowledge(counter.next()).unwrap();
                        }
                    });
                }
            });
            counter.acknowledge(counter.next()).unwrap();
            assert_eq!(counter.end(), 7 + round * (WINDOW / 4 + 1));
        }
    }
}
