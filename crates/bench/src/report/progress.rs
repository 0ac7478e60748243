//! Live progress on standard error while a phase runs: a bar that is redrawn on a terminal, a line every few seconds
//! elsewhere. Both say the same: what is done of how much, the rate now, p99 now, and when it will end.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::figure;

/// How often a line is printed when standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How often the bar is redrawn at most, a second.
const REDRAWS_PER_S: u8 = 10;
/// Steps of the bar.
const BAR_STEPS: u64 = 1000;

/// Where progress goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Bar,
    Lines,
    Silent,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    manner: Manner,
}

/// What a phase must do before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressTotal {
    /// So many operations.
    Operations(u64),
    /// Run for so long.
    Time(Duration),
    /// So many operations, but no longer than that.
    Either(u64, Duration),
}

/// The progress of one phase. Dropping it removes the bar.
#[derive(Debug)]
pub struct PhaseProgress {
    name: String,
    total: ProgressTotal,
    started: Instant,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines { next: Duration },
    Nothing,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A bar if standard error is a terminal, else lines.
    #[must_use]
    pub fn new() -> Self {
        Self { manner: if std::io::stderr().is_terminal() { Manner::Bar } else { Manner::Lines } }
    }

    /// Nothing at all.
    #[must_use]
    pub const fn silent() -> Self {
        Self { manner: Manner::Silent }
    }

    /// Begins a phase, e.g. `load` or `A warm-up`.
    #[must_use]
    pub fn phase(&self, name: &str, total: ProgressTotal) -> PhaseProgress {
        let shown = match self.manner {
            Manner::Bar => Shown::Bar(bar(name)),
            Manner::Lines => Shown::Lines { next: LINE_EVERY },
            Manner::Silent => Shown::Nothing,
        };
        PhaseProgress { name: name.to_owned(), total, started: Instant::now(), shown }
    }
}

impl PhaseProgress {
    /// Tells how far it is; to be called a few times a second. `rate` is operations a second and `p99_us` the 99th
    /// percentile since the last call or so, 0 when nothing was recorded.
    pub fn update(&mut self, done: u64, rate: f64, p99_us: f64) {
        let elapsed = self.started.elapsed();
        let now = Now { done, rate_per_s: rate, p99_us, elapsed };
        match &mut self.shown {
            Shown::Bar(bar) => {
                // The message first: when redraws are limited, figures matter more than the bar.
                bar.set_message(describe(self.total, &now));
                bar.set_position((share(self.total, &now) * BAR_STEPS as f64) as u64);
            }
            Shown::Lines { next } if elapsed >= *next => {
                *next = next_line(*next, elapsed);
                crate::note!("{}: {}", self.name, describe(self.total, &now));
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    /// Ends the phase and leaves one line that says what was done: `rate` and `p99_us` are of the whole phase.
    pub fn finish(self, done: u64, rate: f64, p99_us: f64) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
        if !matches!(self.shown, Shown::Nothing) {
            let elapsed = figure::span(self.started.elapsed().as_secs_f64());
            let now = Now { done, rate_per_s: rate, p99_us, elapsed: Duration::ZERO };
            crate::note!("{}: {} operations in {elapsed}{}", self.name, figure::count(done), speed(&now));
        }
    }
}

impl Drop for PhaseProgress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar(name: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S));
    let style =
        ProgressStyle::with_template("{prefix:10} {wide_bar:.cyan/dim} {msg}").expect("the template is constant");
    bar.set_style(style.progress_chars("━╸─"));
    bar.set_prefix(name.to_owned());
    bar
}

/// What is known at one moment.
struct Now {
    done: u64,
    rate_per_s: f64,
    p99_us: f64,
    elapsed: Duration,
}

impl ProgressTotal {
    /// What will end the phase, as far as can be told now: of two bounds the one that is nearer.
    fn nearer(self, now: &Now) -> Self {
        let Self::Either(operations, time) = self else { return self };
        let (operations, time) = (Self::Operations(operations), Self::Time(time));
        if share(operations, now) >= share(time, now) { operations } else { time }
    }
}

/// How much of the whole is done, 0 to 1.
fn share(total: ProgressTotal, now: &Now) -> f64 {
    let share = match total {
        ProgressTotal::Either(..) => share(total.nearer(now), now),
        ProgressTotal::Operations(0) => 1.0,
        ProgressTotal::Operations(all) => now.done as f64 / all as f64,
        ProgressTotal::Time(all) if all.is_zero() => 1.0,
        ProgressTotal::Time(all) => now.elapsed.as_secs_f64() / all.as_secs_f64(),
    };
    share.clamp(0.0, 1.0)
}

/// Seconds until the end, when that can be told.
fn remaining_s(total: ProgressTotal, now: &Now) -> Option<f64> {
    match total.nearer(now) {
        ProgressTotal::Operations(all) => {
            (now.rate_per_s > 0.0).then(|| all.saturating_sub(now.done) as f64 / now.rate_per_s)
        }
        ProgressTotal::Time(all) | ProgressTotal::Either(_, all) => Some(all.saturating_sub(now.elapsed).as_secs_f64()),
    }
}

/// The first multiple of the interval after `elapsed`, however late the call came.
fn next_line(next: Duration, elapsed: Duration) -> Duration {
    let missed = elapsed.saturating_sub(next).as_secs() / LINE_EVERY.as_secs();
    next + LINE_EVERY * u32::try_from(missed + 1).unwrap_or(u32::MAX)
}

fn speed(now: &Now) -> String {
    let p99 = if now.p99_us > 0.0 { format!(", p99 {}", figure::latency(now.p99_us)) } else { String::new() };
    format!(", {}/s{p99}", figure::rate(now.rate_per_s))
}

fn describe(total: ProgressTotal, now: &Now) -> String {
    let done = match total.nearer(now) {
        ProgressTotal::Operations(all) => format!("{} of {}", figure::count(now.done), figure::count(all)),
        ProgressTotal::Time(all) | ProgressTotal::Either(_, all) => {
            format!("{} of {} s, {}", now.elapsed.as_secs(), all.as_secs(), figure::count(now.done))
        }
    };
    let eta = remaining_s(total, now).map_or_else(String::new, |seconds| match seconds.ceil() as u64 {
        short @ 0..100 => format!(", ETA {short} s"),
        _ => format!(", ETA {}", figure::span(seconds)),
    });
    format!("{:>3.0} %, {done}{}{eta}", share(total, now) * 100.0, speed(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let at =
            |done, rate_per_s, p99_us, seconds| Now { done, rate_per_s, p99_us, elapsed: Duration::from_secs(seconds) };
        let million = ProgressTotal::Operations(1_000_000);
        let minute = ProgressTotal::Time(Duration::from_secs(60));
        let table = [
            (million, at(0, 0.0, 0.0, 0), "  0 %, 0 of 1,000,000, 0.00/s"),
            (million, at(420_000, 68_012.3, 45.7, 6), " 42 %, 420,000 of 1,000,000, 68,012/s, p99 45.7 µs, ETA 9 s"),
            (million, at(1000, 1000.0, 9.0, 1), "  0 %, 1,000 of 1,000,000, 1,000/s, p99 9.00 µs, ETA 16 min 39 s"),
            (
                minute,
                at(5_000_000, 98_000.0, 1200.0, 45),
                " 75 %, 45 of 60 s, 5,000,000, 98,000/s, p99 1.20 ms, ETA 15 s",
            ),
            (minute, at(7, 1.0, 0.0, 61), "100 %, 61 of 60 s, 7, 1.00/s, ETA 0 s"),
            (
                ProgressTotal::Either(1000, Duration::from_secs(7200)),
                at(500, 50.0, 0.0, 10),
                " 50 %, 500 of 1,000, 50.0/s, ETA 10 s",
            ),
            (ProgressTotal::Operations(0), at(0, 0.0, 0.0, 0), "100 %, 0 of 0, 0.00/s"),
        ];
        for (total, now, want) in table {
            assert_eq!(describe(total, &now), want);
        }
    }

    #[test]
    fn lines_keep_to_their_interval_when_calls_come_late() {
        let seconds = Duration::from_secs;
        assert_eq!(next_line(seconds(10), seconds(10)), seconds(20));
        assert_eq!(next_line(seconds(10), seconds(19)), seconds(20));
        assert_eq!(next_line(seconds(10), seconds(47)), seconds(50));
    }
}
