//! When operations start.

use std::time::{Duration, Instant};

use vocab::Prng;

/// How the arrivals of an open loop are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Arrivals {
    /// At even distances.
    #[default]
    Even,
    /// At random, independent of each other, as those of many users are.
    Poisson,
}

/// How operations are paced.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Pace {
    /// A lane's next operation starts when its last has ended.
    Closed,
    /// The same, but no sooner than YCSB's `target` allows.
    Throttled {
        /// Operations a second of all lanes together.
        target_per_s: f64,
    },
    /// Operations start at their time whatever the others do. Those that find no free lane wait, also beyond the end of the
    /// stage; their latency counts.
    Open {
        /// Operations a second of all lanes together.
        rate_per_s: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
}

impl Pace {
    /// The highest rate of an open loop, in operations a second: its timetable is in nanoseconds.
    pub const RATE_MAX_PER_S: f64 = 1e9;

    /// Operations a second that are offered; none in a closed loop.
    #[must_use]
    pub fn offered_per_s(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Throttled { target_per_s } => Some(target_per_s),
            Self::Open { rate_per_s, .. } => Some(rate_per_s),
        }
    }
}

/// A lane's timetable under YCSB's throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    /// From one operation of a lane to the next.
    pub tick: Duration,
    /// Whether lanes begin at random within the first tick, so that slow ones do not march in step.
    pub staggered: bool,
}

impl Throttle {
    /// As YCSB computes it for each of its threads, which are lanes here.
    pub(super) fn new(target_per_s: f64, lanes: usize) -> Self {
        let per_lane_and_ms = target_per_s / lanes as f64 / 1000.0;
        Self { tick: Duration::from_nanos((1e6 / per_lane_and_ms) as u64), staggered: per_lane_and_ms <= 1.0 }
    }
}

/// One thread's share of an open loop's arrivals.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    interval_ns: f64,
    arrivals: Arrivals,
    /// The next arrival, from the beginning.
    next_ns: f64,
}

impl Schedule {
    /// For thread `index` of `threads`. Evenly spread arrivals of all threads interleave.
    pub(super) fn new(rate_per_s: f64, arrivals: Arrivals, index: usize, threads: usize) -> Self {
        let interval_ns = 1e9 * threads as f64 / rate_per_s;
        Self { interval_ns, arrivals, next_ns: interval_ns * index as f64 / threads as f64 }
    }

    /// The next arrival, from the beginning.
    pub(super) fn next(&self) -> Duration {
        Duration::from_nanos(self.next_ns as u64)
    }

    /// How many arrivals there are before `end`, from the beginning, the next one among them; at random, so many on average.
    fn count_before(&self, end: Duration) -> u64 {
        let left_ns = end.as_nanos() as f64 - self.next_ns;
        if left_ns <= 0.0 {
            return 0;
        }
        let further = left_ns / self.interval_ns;
        match self.arrivals {
            Arrivals::Even => further.ceil() as u64,
            Arrivals::Poisson => (further as u64).saturating_add(1),
        }
    }

    /// Goes on to the one after it.
    pub(super) fn advance(&mut self, prng: &mut Prng) {
        self.next_ns += match self.arrivals {
            Arrivals::Even => self.interval_ns,
            Arrivals::Poisson => -(1.0 - prng.next_f64()).ln() * self.interval_ns,
        };
    }
}

/// So long after a stage's deadline an open loop still starts what was due before it.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// When the operations of one thread in one stage of an open loop are due.
///
/// What is due before the deadline is started however late it is: without it, the latencies of those that the store has kept
/// waiting at the end would be missing.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    schedule: Schedule,
    begun: Instant,
    deadline: Option<Instant>,
}

/// What a timetable says of its next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It was due at this time, and is to be started.
    Due(Instant),
    /// There is nothing to start before this time.
    Later(Instant),
    /// Nothing more is to be started.
    Over,
}

impl Timetable {
    /// The timetable of a stage that has `begun`; without a deadline it has no end.
    pub(super) fn new(schedule: Schedule, begun: Instant, deadline: Option<Instant>) -> Self {
        Self { schedule, begun, deadline }
    }

    /// What is to be done at `now`.
    pub(super) fn next(&self, now: Instant) -> Arrival {
        let due = self.due();
        match self.deadline {
            Some(deadline) if now >= deadline + CATCH_UP_MAX => Arrival::Over,
            Some(deadline) if due >= deadline && now >= deadline => Arrival::Over,
            Some(deadline) if due >= deadline => Arrival::Later(deadline),
            _ if due > now => Arrival::Later(due),
            _ => Arrival::Due(due),
        }
    }

    /// How many operations are due before the deadline, the next one among them; of arrivals at random about how many.
    pub(super) fn owed(&self) -> u64 {
        self.deadline.map_or(0, |deadline| self.schedule.count_before(deadline.saturating_duration_since(self.begun)))
    }

    /// Goes on to the operation after it.
    pub(super) fn advance(&mut self, prng: &mut Prng) {
        self.schedule.advance(prng);
    }

    fn due(&self) -> Instant {
        self.begun + self.schedule.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_truncated_as_ycsb_does() {
        for (target, lanes, tick_ns, staggered) in [
            (1000.0, 1, 1_000_000, true),
            (1000.0, 3, 3_000_000, true),
            (3000.0, 1, 333_333, false),
            (7.0, 2, 285_714_285, true),
        ] {
            let throttle = Throttle { tick: Duration::from_nanos(tick_ns), staggered };
            assert_eq!(Throttle::new(target, lanes), throttle, "{target} over {lanes}");
        }
    }

    #[test]
    fn a_schedule_keeps_its_rate() {
        let mut prng = Prng::new(1);
        for (arrivals, tolerance_s) in [(Arrivals::Even, 1e-6), (Arrivals::Poisson, 0.2)] {
            let mut schedule = Schedule::new(2000.0, arrivals, 1, 2);
            for _ in 0..10_000 {
                schedule.advance(&mut prng);
            }
            let expected_s = 10.0 + 0.0005;
            assert!((schedule.next().as_secs_f64() - expected_s).abs() < tolerance_s, "{arrivals:?} {schedule:?}");
        }
    }

    #[test]
    fn what_was_due_before_the_deadline_is_owed_after_it() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut prng = Prng::new(1);
        let mut timetable = Timetable::new(Schedule::new(100.0, Arrivals::Even, 0, 1), begun, Some(at(25)));
        // Due at 0, 10 and 20 ms; the next would be at 30.
        assert_eq!(timetable.next(at(0)), Arrival::Due(at(0)));
        timetable.advance(&mut prng);
        assert_eq!(timetable.next(at(9)), Arrival::Later(at(10)));
        assert_eq!(timetable.next(at(1000)), Arrival::Due(at(10)), "late, and started all the same");
        timetable.advance(&mut prng);
        assert_eq!(timetable.next(at(5_024)), Arrival::Due(at(20)));
        assert_eq!(timetable.owed(), 1);
        assert_eq!(timetable.next(at(5_025)), Arrival::Over, "a store that is dead keeps nothing waiting");
        timetable.advance(&mut prng);
        assert_eq!(timetable.next(at(20)), Arrival::Later(at(25)), "the stage lasts as long as it is to");
        assert_eq!(timetable.next(at(25)), Arrival::Over);
        assert_eq!(timetable.owed(), 0);
    }

    #[test]
    fn what_is_owed_is_what_steps_to_the_deadline_count() {
        let begun = Instant::now();
        for (rate_per_s, index, length) in [(1000.0, 0, 50), (1000.0, 1, 50), (333.3, 1, 50), (1e6, 0, 7), (1.0, 1, 50)]
        {
            let deadline = begun + Duration::from_millis(length);
            let schedule = Schedule::new(rate_per_s, Arrivals::Even, index, 2);
            let mut timetable = Timetable::new(schedule, begun, Some(deadline));
            let owed = timetable.owed();
            let mut counted = 0;
            while timetable.due() < deadline {
                timetable.advance(&mut Prng::new(1));
                counted += 1;
            }
            assert_eq!((owed, timetable.owed()), (counted, 0), "{rate_per_s} {index}");
        }
        // As many as no loop counts.
        let hour = Some(begun + Duration::from_secs(3600));
        let owed = |arrivals| Timetable::new(Schedule::new(1e9, arrivals, 0, 1), begun, hour).owed();
        assert_eq!((owed(Arrivals::Even), owed(Arrivals::Poisson)), (3_600_000_000_000, 3_600_000_000_001));
    }

    #[test]
    fn a_timetable_without_a_deadline_owes_nothing() {
        let begun = Instant::now();
        let timetable = Timetable::new(Schedule::new(100.0, Arrivals::Even, 0, 1), begun, None);
        assert_eq!(timetable.next(begun + Duration::from_secs(3600)), Arrival::Due(begun));
        assert_eq!(timetable.owed(), 0);
    }
}
