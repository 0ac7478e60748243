//! How fast an import goes, and what it shows of that.

use super::outcome::Outcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use vocab::TokenBucket;

/// The least time between two looks at the bar.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// What may be written at once after a rest, as a time at the full rate.
const BURST: Duration = Duration::from_millis(50);

/// The rate of an import, and its bar.
pub(super) struct Pace {
    bar: ProgressBar,
    shown: Instant,
    /// Keys a second; 0: no limit.
    rate: u64,
    bucket: TokenBucket,
}

impl Pace {
    /// A bar over so many bytes, if that is known.
    pub(super) fn new(bytes: Option<u64>, rate: Option<u64>, quiet: bool) -> Self {
        let bar = bytes.map_or_else(ProgressBar::no_length, ProgressBar::new);
        if quiet || !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = if bytes.is_some() {
            "{bar:30} {percent:>3}% {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left; {msg}"
        } else {
            "{spinner} {bytes}, {bytes_per_sec}, {elapsed}; {msg}"
        };
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self { bar, shown: now, rate: rate.map_or(0, |rate| rate.max(1)), bucket: TokenBucket::new(BURST, now) }
    }

    /// Waits until one more key may be written.
    pub(super) fn wait(&mut self) {
        // The clock is not asked where nothing is limited.
        if self.rate > 0 {
            std::thread::sleep(self.bucket.take(1, self.rate, Duration::MAX, Instant::now()));
        }
    }

    /// Shows how far it is.
    pub(super) fn show(&mut self, bytes: u64, outcome: &Outcome) {
        // The clock is not asked for every key.
        if outcome.keys.is_multiple_of(64) && self.shown.elapsed() >= SHOW_EVERY {
            self.shown = Instant::now();
            self.bar.set_position(bytes);
            self.bar.set_message(format!("{} keys, {} problems", outcome.keys, outcome.problems));
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
