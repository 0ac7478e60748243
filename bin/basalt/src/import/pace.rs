//! How fast an import goes, and what it shows of that.

use super::outcome::Outcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The least time between two looks at the bar.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// The rate of an import, and its bar.
pub(super) struct Pace {
    bar: ProgressBar,
    shown: Instant,
    /// Keys a second.
    rate: Option<u64>,
    began: Instant,
    keys: u64,
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
        Self { bar, shown: now, rate, began: now, keys: 0 }
    }

    /// Waits until one more key may be written.
    pub(super) fn wait(&mut self) {
        self.keys += 1;
        let Some(rate) = self.rate else { return };
        let due = Duration::from_secs_f64(self.keys as f64 / rate.max(1) as f64);
        let ahead = due.saturating_sub(self.began.elapsed());
        if ahead > Duration::from_millis(1) {
            std::thread::sleep(ahead);
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
