//! What the process says of itself: lines on standard error, with time and level.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::io::Write;

struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        // Libraries chat; only what they warn of is for operators, unless everything is asked for.
        let ours = ["basalt", "server", "node", "replica", "storage", "bench", "client"];
        let target = record.target().split("::").next().unwrap_or_default();
        let heard = ours.contains(&target) || record.level() <= Level::Warn || log::max_level() >= LevelFilter::Debug;
        if heard && self.enabled(record.metadata()) {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let of_day = now.as_secs() % 86400;
            let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
            let ms = now.subsec_millis();
            // There is no other place to report to if standard error is gone.
            let _ = writeln!(
                std::io::stderr().lock(),
                "{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z {:5} {}",
                record.level(),
                record.args()
            );
        }
    }

    fn flush(&self) {}
}

/// Starts logging: `verbose` 0 tells what an operator must know, 1 and 2 tell more.
pub fn start(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    // Fails only if it was started before.
    if log::set_boxed_logger(Box::new(Lines)).is_ok() {
        log::set_max_level(level);
    }
}
