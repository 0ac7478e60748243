//! How much processor time the machine has to spare: helper threads and busy-polling pay only where it has some.

use parking_lot::Mutex;
use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
/// Busy-polling yields to every other thread, and what it takes counts as idle: it may have the last bit.
const FOR_POLLING: Threshold = Threshold { on: 0.1, off: 0.05 };

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
    for_polling: AtomicBool,
    /// Nanoseconds of busy-polling since the last sample.
    polled: AtomicU64,
    /// None where the system does not tell.
    last: Mutex<Option<Sample>>,
}

impl Default for SpareProcessors {
    fn default() -> Self {
        Self {
            for_helpers: AtomicBool::new(false),
            for_polling: AtomicBool::new(false),
            polled: AtomicU64::new(0),
            last: Mutex::new(sample()),
        }
    }
}

impl SpareProcessors {
    /// Whether there is processor time to spare for helper threads.
    pub(crate) fn for_helpers(&self) -> bool {
        self.for_helpers.load(Ordering::Relaxed)
    }

    /// Whether there is processor time to spare for busy-polling.
    pub(crate) fn for_polling(&self) -> bool {
        self.for_polling.load(Ordering::Relaxed)
    }

    /// An event loop has busy-polled for so long rather than sleep.
    pub(crate) fn note_polled(&self, polled: Duration) {
        self.polled.fetch_add(u64::try_from(polled.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
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
        self.note_idle(idle_processors(before, now), now.at.duration_since(before.at), may_help);
    }

    /// So many processors were idle for that long.
    fn note_idle(&self, idle: f64, over: Duration, may_help: bool) {
        let polled = Duration::from_nanos(self.polled.swap(0, Ordering::Relaxed));
        let unused = idle + polled.as_secs_f64() / over.as_secs_f64().max(f64::EPSILON);
        self.for_helpers.store(may_help && FOR_HELPERS.is_spare(self.for_helpers(), idle), Ordering::Relaxed);
        self.for_polling.store(FOR_POLLING.is_spare(self.for_polling(), unused), Ordering::Relaxed);
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
        // Idle processors and polling milliseconds of a second; what is on after it.
        let spare = SpareProcessors::default();
        for (idle, polled, helpers, polling) in [
            (0.0, 0, false, false),
            (0.08, 0, false, false),
            (0.3, 0, false, true),
            (0.0, 60, false, true),
            (0.0, 40, false, false),
            (0.06, 60, false, true),
            (0.5, 0, true, true),
            (0.1, 0, true, true),
            (0.0, 900, false, true),
            (7.0, 0, true, true),
            (0.0, 0, false, false),
        ] {
            spare.note_polled(Duration::from_millis(polled));
            spare.note_idle(idle, Duration::from_secs(1), true);
            assert_eq!((spare.for_helpers(), spare.for_polling()), (helpers, polling), "{idle} {polled}");
        }
        // The setting keeps the helpers off, whatever is idle, and lets them come again.
        for (may_help, helpers) in [(true, true), (false, false), (true, true)] {
            spare.note_idle(1.0, Duration::from_secs(1), may_help);
            assert_eq!((spare.for_helpers(), spare.for_polling()), (helpers, true));
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
        assert!(!spare.for_polling(), "nothing is measured yet");
        spare.tick(true);
        assert!(!spare.for_polling(), "it is too early");
    }
}
