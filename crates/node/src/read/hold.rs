//! How long a request may wait before it is refused.

use crate::guarantees::Consistency;
use vocab::limits::{FRESHNESS_WAIT_US_MAX, LEADER_WAIT_US_MAX, SLOT_MOVE_WAIT_US_MAX};

/// The end of a request's wait, in µs of the steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    until_us: u64,
}

impl Hold {
    /// A request that waits for its shard to have a confirmed leader.
    #[must_use]
    pub fn for_leader(since_us: u64) -> Self {
        Self { until_us: since_us + LEADER_WAIT_US_MAX }
    }

    /// A read that waits for a replica which may serve it. A `lag` read waits for one report of the leader only.
    #[must_use]
    pub fn for_read(consistency: Consistency, since_us: u64) -> Self {
        match consistency {
            Consistency::Lag { .. } => Self { until_us: since_us + FRESHNESS_WAIT_US_MAX },
            Consistency::Absolute | Consistency::Any | Consistency::Version { .. } => Self::for_leader(since_us),
        }
    }

    /// A write that is accepted and waits while its slot moves to another shard.
    #[must_use]
    pub fn for_slot_move(since_us: u64) -> Self {
        Self { until_us: since_us + SLOT_MOVE_WAIT_US_MAX }
    }

    /// When the wait ends.
    #[must_use]
    pub fn until_us(self) -> u64 {
        self.until_us
    }

    /// Whether the wait is over.
    #[must_use]
    pub fn is_over(self, now_us: u64) -> bool {
        now_us >= self.until_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_has_its_end() {
        let lag = Consistency::Lag { ms: 5 };
        let cases = [
            (Hold::for_leader(7), 7 + LEADER_WAIT_US_MAX),
            (Hold::for_read(Consistency::Absolute, 7), 7 + LEADER_WAIT_US_MAX),
            (Hold::for_read(Consistency::Any, 7), 7 + LEADER_WAIT_US_MAX),
            (Hold::for_read(Consistency::Version { token: 1 }, 7), 7 + LEADER_WAIT_US_MAX),
            (Hold::for_read(lag, 7), 7 + FRESHNESS_WAIT_US_MAX),
            (Hold::for_slot_move(7), 7 + SLOT_MOVE_WAIT_US_MAX),
        ];
        for (i, (hold, until_us)) in cases.into_iter().enumerate() {
            assert_eq!(hold.until_us(), until_us, "case {i}");
            assert!(!hold.is_over(until_us - 1) && hold.is_over(until_us), "case {i}");
        }
    }
}
