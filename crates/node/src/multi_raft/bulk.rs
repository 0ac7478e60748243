//! Large requests on their way through a node.
//!
//! While they last, a step that others wait for may take seconds, here or on another replica's node: an fsync behind
//! hundreds of MB, or a thread that gets no processor. A leader that is slow for that reason keeps its place, as long as the
//! link to its node is up.

use vocab::Moment;
use vocab::limits::DISK_BYTES_PER_US_MIN;

/// A message or a log write of fewer bytes is not counted.
pub const BULK_BYTES_MIN: usize = 4 << 20;
/// They count for this long, in µs, besides the time in which the slowest disk takes their bytes.
const AFTER_US: u64 = 5_000_000;

/// The large requests that a node has seen lately.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    until_us: u64,
}

impl Bulk {
    /// So many bytes of one request are received, written or sent.
    pub(super) fn note(&mut self, bytes: usize, now: Moment) {
        if bytes >= BULK_BYTES_MIN {
            let until_us = now.mono_us + AFTER_US + bytes as u64 / DISK_BYTES_PER_US_MIN;
            self.until_us = self.until_us.max(until_us);
        }
    }

    /// For how long, in µs, steps may take longer than on an idle machine.
    pub(super) fn left_us(&self, now: Moment) -> u64 {
        self.until_us.saturating_sub(now.mono_us)
    }

    /// Whether a large request is under way, or was a moment ago.
    pub(super) fn is_under_way(&self, now: Moment) -> bool {
        self.left_us(now) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_request_counts_for_longest_and_small_ones_do_not_count() {
        let at = |mono_us: u64| Moment { mono_us, ..Moment::default() };
        let mut bulk = Bulk::default();
        bulk.note(BULK_BYTES_MIN - 1, at(1_000));
        assert!(!bulk.is_under_way(at(1_000)));
        bulk.note(80_000_000, at(1_000));
        bulk.note(BULK_BYTES_MIN, at(2_000));
        let end = 1_000 + AFTER_US + 10_000_000;
        assert_eq!(bulk.left_us(at(2_000)), end - 2_000);
        assert!(bulk.is_under_way(at(end - 1)) && !bulk.is_under_way(at(end)));
    }
}
