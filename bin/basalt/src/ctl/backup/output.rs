//! What the backup commands show: text on standard output, and a bar while they work.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Prints to standard output, which may have been closed.
pub(super) fn print(text: &str) -> Result<(), String> {
    bench::output::print(text).map(drop).map_err(|e| e.to_string())
}

/// A bar that counts rows, on standard error if that is a terminal.
pub(super) fn progress(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3}% {human_pos} rows, {per_sec}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Bytes, as people read them.
pub(super) fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
