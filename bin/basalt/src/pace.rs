//! How fast keys come in or go out, and what is shown of that.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use vocab::TokenBucket;

/// The least time between two looks at the bar.
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// The least time between two lines where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Calls between two looks at the clock.
const LOOK_EVERY: u32 = 64;

/// What may go at once after a rest, as a time at the full rate.
const BURST: Duration = Duration::from_millis(50);

/// What a bar counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Keys,
}

/// The rate of an import or an export, and its bar.
pub(crate) struct Pace {
    bar: ProgressBar,
    /// Whether lines take the place of the bar.
    tells: bool,
    shown: Instant,
    calls: u32,
    /// Keys or bytes a second; 0: no limit.
    rate: u64,
    bucket: TokenBucket,
}

impl Pace {
    /// A bar over so many of the unit, if that is known.
    pub(crate) fn new(unit: Unit, total: Option<u64>, rate: Option<u64>, quiet: bool) -> Self {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let is_terminal = std::io::stderr().is_terminal();
        if quiet || !is_terminal {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = match (unit, total.is_some()) {
            (Unit::Bytes, true) => {
                "{bar:30} {percent:>3}% {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left; {msg}"
            }
            (Unit::Bytes, false) => "{spinner} {bytes}, {bytes_per_sec}, {elapsed}; {msg}",
            (Unit::Keys, true) => {
                "{bar:30} {percent:>3}% {human_pos} of {human_len} keys, {per_sec}, {eta} left; {msg}"
            }
            (Unit::Keys, false) => "{spinner} {human_pos} keys, {per_sec}, {elapsed}; {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        let rate = rate.map_or(0, |rate| rate.max(1));
        Self { bar, tells: !quiet && !is_terminal, shown: now, calls: 0, rate, bucket: TokenBucket::new(BURST, now) }
    }

    /// Waits until so many more may go.
    pub(crate) fn wait(&mut self, count: u64) {
        // The clock is not asked where nothing is limited.
        if self.rate > 0 {
            std::thread::sleep(self.bucket.take(count, self.rate, Duration::MAX, Instant::now()));
        }
    }

    /// Shows how far it is.
    pub(crate) fn show(&mut self, position: u64, message: impl FnOnce() -> String) {
        self.calls = self.calls.wrapping_add(1);
        let every = if self.tells { TELL_EVERY } else { SHOW_EVERY };
        // The clock is not asked for every key.
        if !self.calls.is_multiple_of(LOOK_EVERY) || self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        self.bar.set_position(position);
        if self.tells {
            self.tell(position, &message());
        } else {
            self.bar.set_message(message());
        }
    }

    /// Says in a line what the bar would show.
    fn tell(&self, position: u64, message: &str) {
        let left = match self.bar.length().filter(|length| *length > 0) {
            Some(length) => {
                let eta = indicatif::HumanDuration(self.bar.eta());
                format!("{}% done, {eta} left", position.min(length) * 100 / length)
            }
            None => format!("{} so far", indicatif::HumanDuration(self.bar.elapsed())),
        };
        bench::note!("{left}; {message}");
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
