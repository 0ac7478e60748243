//! How an agent's clock stands to ours: the ping that came back fastest says best.

use std::time::{Duration, Instant};

/// What a ping told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// When it was sent, and when the answer came.
    pub(super) sent: Instant,
    pub(super) back: Instant,
    /// The agent's clock when it answered.
    pub(super) agent_ns: u64,
    /// The agent's time of day less ours.
    pub(super) day_offset_us: f64,
}

/// An agent's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock {
    /// Our moment at which its clock showed `agent_ns`, give or take half the round trip.
    at: Instant,
    agent_ns: u64,
    pub(super) round_trip: Duration,
    /// Its time of day less ours.
    pub(super) day_offset_us: f64,
}

impl Clock {
    /// From several pings.
    pub(super) fn of(readings: &[Reading]) -> Option<Self> {
        let best = readings.iter().min_by_key(|reading| reading.back - reading.sent)?;
        let round_trip = best.back - best.sent;
        Some(Self {
            at: best.sent + round_trip / 2,
            agent_ns: best.agent_ns,
            round_trip,
            day_offset_us: best.day_offset_us,
        })
    }

    /// Our moment for one of the agent's.
    pub(super) fn ours(&self, agent_ns: u64) -> Instant {
        if agent_ns >= self.agent_ns {
            self.at + Duration::from_nanos(agent_ns - self.agent_ns)
        } else {
            let back = Duration::from_nanos(self.agent_ns - agent_ns);
            self.at.checked_sub(back).unwrap_or(self.at)
        }
    }

    /// The agent's moment for one of ours.
    pub(super) fn theirs(&self, at: Instant) -> u64 {
        match at.checked_duration_since(self.at) {
            Some(after) => self.agent_ns.saturating_add(after.as_nanos() as u64),
            None => self.agent_ns.saturating_sub((self.at - at).as_nanos() as u64),
        }
    }

    /// By how many microseconds it went faster than ours until `later` was taken.
    pub(super) fn drift_us(&self, later: &Self) -> f64 {
        let expected = self.theirs(later.at);
        (later.agent_ns as f64 - expected as f64) / 1e3
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_fastest_ping_is_believed() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        // The agent's clock is 5 s ahead of ours; answers take their time on the way back.
        let ping = |sent: u64, there: u64, back: u64| Reading {
            sent: start + ms(sent),
            back: start + ms(sent + there + back),
            agent_ns: (5_000 + sent + there) * 1_000_000,
            day_offset_us: 0.0,
        };
        let clock = Clock::of(&[ping(0, 1, 90), ping(100, 1, 1), ping(200, 20, 1)]).unwrap();
        assert_eq!((clock.round_trip, clock.ours(6_000_000_000)), (ms(2), start + ms(1000)));
        assert_eq!((clock.theirs(start + ms(50)), clock.theirs(start + ms(3000))), (5_050_000_000, 8_000_000_000));
        let later = Clock::of(&[Reading { agent_ns: 7_000_030_000, ..ping(1998, 2, 2) }]).unwrap();
        assert_eq!(clock.drift_us(&later), 30.0);
        assert_eq!(Clock::of(&[]), None);
    }
}
