//! The store's time as this node has it: what entries carry, and what expiry goes by.
//!
//! time = steady clock + offset. A jump of the machine's wall clock changes neither; [`ClockKeeper`](crate::ClockKeeper)
//! moves the offset, slowly, to what the wall clocks of most nodes say. Shared by all threads of a node.

use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use vocab::{Millis, Moment, NodeId};

/// How far the times of two entries that follow each other may be apart against the clock that stamps the second, in ms: two
/// nodes' clocks are within twice [`SKEW_MS_MAX`]. An entry that is further ahead is of a clock that was wrong, and is not
/// followed.
pub(crate) const AHEAD_MS_MAX: Millis = 2 * SKEW_MS_MAX.unsigned_abs();

/// How far a node's wall clock may be from that of most nodes, in ms: a node that is further away does not lead.
pub const SKEW_MS_MAX: i64 = 500;

/// The time of one node.
#[derive(Debug, Default)]
pub struct StoreClock {
    /// What the time is ahead of the steady clock, in ms.
    offset_ms: AtomicI64,
    /// What the node's wall clock is ahead of that of most nodes, in ms; 0 where that is not known.
    skew_ms: AtomicI64,
    is_off: AtomicBool,
    /// Other nodes whose wall clocks are off.
    off: RwLock<BTreeSet<NodeId>>,
}

impl StoreClock {
    /// One that shows what the wall clock shows, as long as nothing else is known.
    #[must_use]
    pub fn new(raw: Moment) -> Self {
        let clock = Self::default();
        clock.set_offset(base_of(raw));
        clock
    }

    /// The time, of what the machine's clocks show.
    #[must_use]
    pub fn read(&self, raw: Moment) -> Moment {
        let steady_ms = (raw.mono_us / 1000) as i64;
        let wall_ms = steady_ms.saturating_add(self.offset_ms.load(Ordering::Relaxed));
        Moment { wall_ms: wall_ms.max(0).unsigned_abs(), mono_us: raw.mono_us }
    }

    /// What this node's wall clock is ahead of that of most nodes, in ms; 0 where that is not known.
    #[must_use]
    pub fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Whether this node's clock is too far from that of most nodes for it to lead.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// Whether the clock of another node is, as far as is known.
    #[must_use]
    pub fn is_node_off(&self, node: NodeId) -> bool {
        self.off.read().contains(&node)
    }

    pub(crate) fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_offset(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    pub(crate) fn judge(&self, skew_ms: i64, is_off: bool, off: BTreeSet<NodeId>) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
        self.is_off.store(is_off, Ordering::Relaxed);
        let mut known = self.off.write();
        if *known != off {
            *known = off;
        }
    }
}

/// What a wall clock is ahead of the steady clock, in ms.
pub(crate) fn base_of(raw: Moment) -> i64 {
    i64::try_from(raw.wall_ms).unwrap_or(i64::MAX).saturating_sub((raw.mono_us / 1000) as i64)
}

/// The time from which a shard goes on: `seen` is the greatest that it knows of, `now` what the clock says. It does not go
/// back, unless what was seen is of a clock that was wrong.
pub(crate) fn entry_time(now: Millis, seen: Millis) -> Millis {
    if seen > now.saturating_add(AHEAD_MS_MAX) { now } else { now.max(seen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_jumps_is_not_followed() {
        let clock = StoreClock::new(Moment { wall_ms: 1_700_000_000_000, mono_us: 5_000_000 });
        for wall_ms in [0, 1_700_000_001_000, u64::MAX] {
            let read = clock.read(Moment { wall_ms, mono_us: 6_000_000 });
            assert_eq!(read, Moment { wall_ms: 1_700_000_001_000, mono_us: 6_000_000 });
        }
        assert_eq!(StoreClock::new(Moment { wall_ms: 0, mono_us: 9_000_000 }).read(Moment::default()).wall_ms, 0);
    }

    #[test]
    fn an_entry_goes_back_only_behind_a_clock_that_was_wrong() {
        let year = 365 * 24 * 3_600_000;
        for (now, seen, expected) in [
            (1_000_000, 999_000, 1_000_000),
            (1_000_000, 1_000_900, 1_000_900),
            (1_000_000, 1_000_000 + AHEAD_MS_MAX, 1_001_000),
            (1_000_000, 1_000_001 + AHEAD_MS_MAX, 1_000_000),
            (1_000_000, 1_000_000 + 10 * year, 1_000_000),
            (u64::MAX, 5, u64::MAX),
        ] {
            assert_eq!(entry_time(now, seen), expected, "{now} after {seen}");
        }
    }
}
