//! How much processor time the machine has to spare: helper threads and busy-polling pay only where it has some.

use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two samples. The system counts in ticks of 10 ms.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// With so many idle processors there is time to spare.
const IDLE_ENOUGH: f64 = 0.5;
/// With fewer there is none any more. The gap to `IDLE_ENOUGH` is for what the helpers take themselves.
const IDLE_TOO_LITTLE: f64 = 0.1;

/// The idle time of all processors since the start of the machine, and when it was read.
#[derive(Clone, Copy)]
struct Sample {
    idle: Duration,
    at: Instant,
}

/// Whether the machine has processor time to spare, measured.
pub(crate) struct SpareProcessors {
    has_spare: AtomicBool,
    /// None where the system does not tell.
    last: Mutex<Option<Sample>>,
}

impl Default for SpareProcessors {
    fn default() -> Self {
        Self { has_spare: AtomicBool::new(false), last: Mutex::new(sample()) }
    }
}

impl SpareProcessors {
    /// Whether there is processor time to spare.
    pub(crate) fn has_spare(&self) -> bool {
        self.has_spare.load(Ordering::Relaxed)
    }

    /// Measures, if the last time is long enough ago.
    pub(crate) fn tick(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = *last else { return };
        if before.at.elapsed() < SAMPLE_EVERY {
            return;
        }
        let Some(now) = sample() else { return };
        *last = Some(now);
        let idle = idle_processors(before, now);
        self.has_spare.store(is_spare(self.has_spare(), idle), Ordering::Relaxed);
    }
}

/// How many processors were idle between two samples, on average.
fn idle_processors(before: Sample, now: Sample) -> f64 {
    let idle = now.idle.saturating_sub(before.idle);
    idle.as_secs_f64() / now.at.duration_since(before.at).as_secs_f64().max(f64::EPSILON)
}

fn is_spare(was: bool, idle: f64) -> bool {
    if was { idle >= IDLE_TOO_LITTLE } else { idle >= IDLE_ENOUGH }
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
    fn time_is_spare_until_the_helpers_have_used_it_up() {
        for (was, idle, expected) in [
            (false, 0.0, false),
            (false, 0.3, false),
            (false, 0.5, true),
            (true, 0.3, true),
            (true, 0.1, true),
            (true, 0.05, false),
            (true, 7.0, true),
        ] {
            assert_eq!(is_spare(was, idle), expected, "{was} {idle}");
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
        assert!(!spare.has_spare(), "nothing is measured yet");
        spare.tick();
        assert!(!spare.has_spare(), "it is too early");
    }
}
