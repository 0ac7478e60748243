//! How much processor time the machine has to spare: helper threads pay only where it has some.

use parking_lot::Mutex;
use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two samples. The system counts in ticks of 10 ms.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// From which and down to which number of idle processors something is on.
struct Threshold {
    on: f64,
    off: f64,
}

/// The gap is for what the helper threads take themselves.
const FOR_HELPERS: Threshold = Threshold { on: 0.5, off: 0.1 };

impl Threshold {
    fn is_spare(&self, was: bool, idle: f64) -> bool {
        idle >= if was { self.off } else { self.on }
    }
}

/// The idle time of all processors since the start of the machine, and when it was read.
#[derive(Clone, Copy)]
struct Sample {
    idle: Duration,
    at: Instant,
}

/// Whether the machine has processor time to spare, measured.
pub(crate) struct SpareProcessors {
    for_helpers: AtomicBool,
    /// None where the system does not tell.
    last: Mutex<Option<Sample>>,
}

impl Default for SpareProcessors {
    fn default() -> Self {
        Self { for_helpers: AtomicBool::new(false), last: Mutex::new(sample()) }
    }
}

impl SpareProcessors {
    /// Whether there is processor time to spare for helper threads.
    pub(crate) fn for_helpers(&self) -> bool {
        self.for_helpers.load(Ordering::Relaxed)
    }

    /// Measures, if the last time is long enough ago. `may_help`: there may be helper threads at all.
    pub(crate) fn tick(&self, may_help: bool) {
        let mut last = self.last.lock();
        let Some(before) = *last else { return };
        if before.at.elapsed() < SAMPLE_EVERY {
            return;
        }
        let Some(now) = sample() else { return };
        *last = Some(now);
        self.note_idle(idle_processors(before, now), may_help);
    }

    /// So many processors were idle.
    fn note_idle(&self, idle: f64, may_help: bool) {
        self.for_helpers.store(may_help && FOR_HELPERS.is_spare(self.for_helpers(), idle), Ordering::Relaxed);
    }
}

/// How many processors were idle between two samples, on average.
fn idle_processors(before: Sample, now: Sample) -> f64 {
    let idle = now.idle.saturating_sub(before.idle);
    idle.as_secs_f64() / now.at.duration_since(before.at).as_secs_f64().max(f64::EPSILON)
}

/// From /proc/stat, so nothing where there is none. A process that may use one processor only has none to spare.
fn sample() -> Option<Sample> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let idle_ticks = idle_ticks(&read_to_string("/proc/stat").ok()?)?;
    let tick = Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(Sample { idle: tick * u32::try_from(idle_ticks % u64::from(u32::MAX)).ok()?, at: Instant::now() })
}

/// Idle time and time that waits for disks: fields 4 and 5 of proc(5)'s first line of stat, in ticks.
fn idle_ticks(stat: &str) -> Option<u64> {
    let mut numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().skip(3).map(str::parse::<u64>);
    Some(numbers.next()?.ok()? + numbers.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn time_is_spare_until_it_is_used_up() {
        let spare = SpareProcessors::default();
        for (idle, helpers) in
            [(0.0, false), (0.3, false), (0.5, true), (0.1, true), (0.08, false), (0.3, false), (7.0, true)]
        {
            spare.note_idle(idle, true);
            assert_eq!(spare.for_helpers(), helpers, "{idle}");
        }
        // The setting keeps the helpers off, whatever is idle, and lets them come again.
        for (may_help, helpers) in [(true, true), (false, false), (true, true)] {
            spare.note_idle(1.0, may_help);
            assert_eq!(spare.for_helpers(), helpers);
        }
        let at = Instant::now();
        let before = Sample { idle: Duration::from_secs(1000), at };
        let now = Sample { idle: Duration::from_millis(1_000_375), at: at + Duration::from_millis(250) };
        assert!((idle_processors(before, now) - 1.5).abs() < 1e-6);
    }

    #[test]
    fn the_system_s_text_is_read() {
        assert_eq!(idle_ticks("cpu  10 20 30 400 5 0 0 0 0 0\ncpu0 1 2 3 4 5\n"), Some(405));
        for text in ["", "cpu", "cpu  1 2 3 4\n", "cpu  1 2 3 x 5\n", "intr 1 2 3 4 5 6\n"] {
            assert_eq!(idle_ticks(text), None, "{text}");
        }
        let spare = SpareProcessors::default();
        assert!(!spare.for_helpers(), "nothing is measured yet");
        spare.tick(true);
        assert!(!spare.for_helpers(), "it is too early");
    }
}
