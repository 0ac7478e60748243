//! The audit log: lines of JSON in a file that is set aside when it has grown, or to syslog.
//!
//! A thread writes. What comes while it is `QUEUED_MAX` lines behind is lost and counted; the log says how many, as soon as it can.

use node::Config;
use node::acl::AuditEvent;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Lines that wait to be written, at most.
const QUEUED_MAX: usize = 10_000;
/// `audit-log` for the system's own log.
const SYSLOG: &str = "syslog";
const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility 13 (log audit), severity 6 (informational).
const SYSLOG_PRIORITY: u32 = 13 * 8 + 6;

/// Where lines of the audit log go.
pub(crate) struct AuditLog {
    lines: SyncSender<String>,
    config: Arc<Config>,
    /// Lines that were ever lost.
    lost: Arc<AtomicU64>,
    /// How often it was asked to open its file again.
    reopened: Arc<AtomicU64>,
}

impl AuditLog {
    /// Opens the log, if there is one, and starts the thread that writes.
    pub(crate) fn start(config: Arc<Config>) -> io::Result<Self> {
        let (lines, queued) = sync_channel(QUEUED_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let reopened = Arc::new(AtomicU64::new(0));
        let asked = reopened.clone();
        let writer = Writer { config: config.clone(), lost: lost.clone(), told: 0, asked, seen: 0, open: None };
        let builder = std::thread::Builder::new().name("audit".to_owned());
        builder.spawn(move || writer.run(&queued))?;
        let log = Self { lines, config, lost, reopened };
        // It may come to be writable, and clients are served meanwhile; what is lost is counted.
        if let Err(why) = log.check() {
            log::error!("{why}: lines of it are lost");
        }
        Ok(log)
    }

    /// Whether what `audit-log` names can be written; if not, why.
    pub(crate) fn check(&self) -> Result<(), String> {
        let target = self.config.text("audit-log").unwrap_or_default();
        Sink::open(&target).map(drop).map_err(|e| format!("the audit log {target} cannot be written: {e}"))
    }

    /// Notes something, if there is a log.
    pub(crate) fn note(&self, event: &AuditEvent<'_>, at_ms: u64) {
        if self.config.number("audit-log").is_none_or(|length| length == 0) {
            return;
        }
        if self.lines.try_send(event.line(at_ms)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next line goes to a file that is opened anew: the old one may have another name by now.
    pub(crate) fn reopen(&self) {
        self.reopened.fetch_add(1, Ordering::Relaxed);
    }

    /// How many lines were ever lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// What is written to.
enum Sink {
    Syslog(UnixDatagram),
    File(AuditFile),
}

impl Sink {
    /// What a value of `audit-log` names; none if it is empty.
    fn open(target: &str) -> io::Result<Option<Self>> {
        Ok(match target {
            "" => None,
            SYSLOG => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(SYSLOG_SOCKET)?;
                Some(Self::Syslog(socket))
            }
            path => Some(Self::File(AuditFile::open(Path::new(path))?)),
        })
    }
}

/// The thread that writes.
struct Writer {
    config: Arc<Config>,
    lost: Arc<AtomicU64>,
    /// How many lost lines the log has told of.
    told: u64,
    /// `AuditLog::reopened`.
    asked: Arc<AtomicU64>,
    /// What it was when the file was opened.
    seen: u64,
    /// The value of `audit-log`, and what it names.
    open: Option<(String, Sink)>,
}

impl Writer {
    fn run(mut self, queued: &Receiver<String>) {
        let mut is_told = false;
        while let Ok(line) = queued.recv() {
            let lost = self.lost.load(Ordering::Relaxed);
            let untold = lost - self.told;
            let loss = (untold > 0).then(|| format!("{{\"kind\":\"lost\",\"lines\":{untold}}}"));
            let written = loss.iter().chain([&line]).try_for_each(|line| self.write(line));
            match written {
                Ok(()) => {
                    self.told = lost;
                    is_told = false;
                }
                Err(e) => {
                    self.open = None;
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    if !std::mem::replace(&mut is_told, true) {
                        log::error!("the audit log cannot be written, and lines of it are lost: {e}");
                    }
                }
            }
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let target = self.config.text("audit-log").unwrap_or_default();
        let asked = self.asked.load(Ordering::Relaxed);
        if self.open.as_ref().is_none_or(|(open, _)| *open != target) || self.seen != asked {
            (self.open, self.seen) = (None, asked);
            let Some(sink) = Sink::open(&target)? else { return Ok(()) };
            self.open = Some((target, sink));
        }
        let number = |name: &str| self.config.number(name).unwrap_or_default().unsigned_abs();
        let (bytes_max, files) = (number("audit-log-max-bytes"), number("audit-log-files"));
        match &mut self.open {
            Some((_, Sink::Syslog(socket))) => {
                socket.send(format!("<{SYSLOG_PRIORITY}>basalt: {line}").as_bytes()).map(drop)
            }
            Some((_, Sink::File(file))) => file.write(line, bytes_max, files),
            None => Ok(()),
        }
    }
}

/// The file that is written, and those before it: `path.1` is the newest of them.
struct AuditFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl AuditFile {
    fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    fn write(&mut self, line: &str, bytes_max: u64, files: u64) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 >= bytes_max {
            self.set_aside(files)?;
        }
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.bytes += line.len() as u64 + 1;
        Ok(())
    }

    /// Begins a new file; of the old ones `files - 1` are kept.
    fn set_aside(&mut self, files: u64) -> io::Result<()> {
        let numbered = |number: u64| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (1..files.saturating_sub(1)).rev() {
            if numbered(number).exists() {
                std::fs::rename(numbered(number), numbered(number + 1))?;
            }
        }
        match files {
            0 | 1 => std::fs::remove_file(&self.path)?,
            _ => std::fs::rename(&self.path, numbered(1))?,
        }
        *self = Self::open(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_set_aside_when_it_has_grown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut file = AuditFile::open(&path).unwrap();
        for line in ["a".repeat(40), "b".repeat(40), "c".repeat(40), "d".repeat(40), "e".repeat(40)] {
            file.write(&line, 90, 3).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let first = |name: &str| read(name).chars().next();
        assert_eq!([first("audit.log.2"), first("audit.log.1"), first("audit.log")], [Some('a'), Some('c'), Some('e')]);
        assert_eq!(read("audit.log.3"), "");
        assert_eq!(AuditFile::open(&path).unwrap().bytes, 41, "it goes on where it was");
    }
}
