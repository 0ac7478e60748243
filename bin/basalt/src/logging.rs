//! The log of the process: lines with time and level on standard error or in a file, as text or as JSON.

mod line;
mod repeats;

use line::Line;
use log::{Level, LevelFilter, Log, Metadata, Record};
use node::Config;
use parking_lot::Mutex;
use repeats::Repeats;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

static LOGGER: Logger =
    Logger { is_json: AtomicBool::new(false), file: Mutex::new(None), repeats: Mutex::new(Repeats::new()) };

struct Logger {
    is_json: AtomicBool,
    /// None: standard error.
    file: Mutex<Option<(PathBuf, File)>>,
    repeats: Mutex<Repeats>,
}

impl Logger {
    fn write(&self, line: &Line) {
        let line = if self.is_json.load(Ordering::Relaxed) { line.json() } else { line.text() };
        // There is no other place to report to if the log is gone.
        let _ = match &mut *self.file.lock() {
            Some((_, file)) => file.write_all(line.as_bytes()),
            None => io::stderr().lock().write_all(line.as_bytes()),
        };
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        // Libraries chat; only what they warn of is for operators, unless everything is asked for.
        let ours = ["basalt", "server", "node", "replica", "storage", "bench", "client"];
        let target = record.target().split("::").next().unwrap_or_default();
        let heard = ours.contains(&target) || record.level() <= Level::Warn || log::max_level() >= LevelFilter::Debug;
        if !heard || !self.enabled(record.metadata()) {
            return;
        }
        let place = (record.file_static().unwrap_or_default(), record.line().unwrap_or_default());
        // Who asks for everything gets it.
        let is_bounded = record.level() <= Level::Info;
        let line = Line {
            at_ms: bench::report::unix_ms(SystemTime::now()),
            level: record.level(),
            target: record.target().to_owned(),
            message: record.args().to_string(),
            left_out: 0,
        };
        let line = if is_bounded { self.repeats.lock().admit(place, line, Instant::now()) } else { Some(line) };
        if let Some(line) = line {
            self.write(&line);
        }
    }

    fn flush(&self) {}
}

/// Tells of each place whose lines were left out, and which has been silent since, how many these were. `is_end`: the program ends.
pub fn tell_left_out(is_end: bool) {
    let ended = LOGGER.repeats.lock().ended(Instant::now(), is_end);
    ended.iter().for_each(|line| LOGGER.write(line));
}

/// Starts logging to standard error: `verbose` 0 tells what an operator must know, 1 and 2 tell more.
pub fn start(verbose: u8) {
    // Fails only if it was started before.
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(of_command_line(verbose));
    }
}

/// Logs as the settings say: `logfile`, `log-format`, `loglevel`. The error says why the file cannot be written.
pub fn follow(config: &Config, verbose: u8) -> Result<(), String> {
    let path = config.text("logfile").unwrap_or_default();
    if !path.is_empty() {
        let path = PathBuf::from(path);
        let file = open(&path).map_err(|e| format!("logfile {}: {e}", path.display()))?;
        *LOGGER.file.lock() = Some((path, file));
    }
    set_level(config, verbose);
    Ok(())
}

/// Takes over `loglevel` and `log-format`, which may change while the node runs.
pub fn set_level(config: &Config, verbose: u8) {
    let of_settings = match config.text("loglevel").as_deref() {
        Some("debug") => LevelFilter::Trace,
        Some("verbose") => LevelFilter::Debug,
        Some("warning") => LevelFilter::Warn,
        _ => LevelFilter::Info,
    };
    let level = if verbose > 0 { of_settings.max(of_command_line(verbose)) } else { of_settings };
    if level != log::max_level() {
        log::set_max_level(level);
    }
    LOGGER.is_json.store(config.text("log-format").as_deref() == Some("json"), Ordering::Relaxed);
}

/// Opens the file of the log again, after another program has moved it away. If it cannot, the log goes on where it was.
pub fn reopen() {
    let mut file = LOGGER.file.lock();
    let Some((path, opened)) = &mut *file else { return };
    let failure = match open(path) {
        Ok(again) => {
            *opened = again;
            return;
        }
        Err(e) => format!("the log goes on in the file that was open: {}: {e}", path.display()),
    };
    drop(file);
    log::error!("{failure}");
}

fn open(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn of_command_line(verbose: u8) -> LevelFilter {
    match verbose {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}
