//! Where a run's files go. Nothing that exists is ever overwritten.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::model::{Identity, RunReport};

use super::{html, json, markdown};

/// The folder of folders, below the current directory.
pub const RUNS: &str = "basalt-runs";
/// How many runs of one name may begin in the same second before we suspect a loop.
const ATTEMPTS: u32 = 1000;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The folder that holds them.
    pub dir: PathBuf,
    /// The report to look at.
    pub html: PathBuf,
    /// The report to paste.
    pub md: PathBuf,
    /// The data.
    pub json: PathBuf,
}

/// Where a run goes by default: `basalt-runs/<date>-<name>`.
#[must_use]
pub fn default_dir(identity: &Identity) -> PathBuf {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = format!("{}-{}", identity.date, identity.name).chars().map(safe).collect();
    Path::new(RUNS).join(name)
}

/// A run's folder, claimed and known to be writable before the run begins. If nothing was written into it by the time it
/// is dropped, and the claim had made it, it is removed.
#[derive(Debug)]
pub struct Claimed {
    dir: PathBuf,
    is_new: bool,
}

impl Claimed {
    /// Makes a folder for a run: `dir`, or `dir-2`, `dir-3`, … when a file is in the way or the folder holds something.
    ///
    /// # Errors
    /// When no folder can be made, or no file in it. The error names the path.
    pub fn make(dir: &Path) -> io::Result<Self> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).map_err(|error| named(parent, &error))?;
        }
        for attempt in 1..=ATTEMPTS {
            let candidate = numbered(dir, attempt);
            let is_new = match fs::create_dir(&candidate) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let is_empty = || fs::read_dir(&candidate).map(|mut entries| entries.next().is_none());
                    if !(candidate.is_dir() && is_empty().map_err(|error| named(&candidate, &error))?) {
                        continue;
                    }
                    false
                }
                Err(error) => return Err(named(&candidate, &error)),
            };
            let claimed = Self { dir: candidate, is_new };
            tempfile::tempfile_in(&claimed.dir).map_err(|error| named(&claimed.dir, &error))?;
            return Ok(claimed);
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} and {ATTEMPTS} more exist", dir.display())))
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.is_new {
            // It fails if the folder holds something, which is as it should be.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn numbered(dir: &Path, attempt: u32) -> PathBuf {
    if attempt == 1 {
        return dir.to_owned();
    }
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{attempt}"));
    dir.with_file_name(name)
}

/// Writes `report.html`, `report.md` and `report.json` into `dir` (see [`Claimed`] and [`default_dir`]), which is made if
/// need be. If `dir` already holds a report, a folder beside it is claimed instead: [`Written::dir`] tells.
///
/// # Errors
/// When the report is inconsistent, or a file cannot be written.
pub fn write_run(dir: &Path, report: &RunReport) -> io::Result<Written> {
    crate::model::validate(report).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let data = json::render(report).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    fs::create_dir_all(dir).map_err(|error| named(dir, &error))?;
    let (dir, json) = match write_new(&dir.join("report.json"), &data) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let beside = Claimed::make(dir)?;
            let path = write_new(&beside.dir.join("report.json"), &data)?;
            (beside.dir.clone(), path)
        }
        written => (dir.to_owned(), written?),
    };
    let md = write_new(&dir.join("report.md"), &markdown::render(report))?;
    let html = write_new(&dir.join("report.html"), &html::render(report))?;
    Ok(Written { dir, html, md, json })
}

fn write_new(path: &Path, text: &str) -> io::Result<PathBuf> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| named(path, &error))?;
    file.write_all(text.as_bytes()).map_err(|error| named(path, &error))?;
    Ok(path.to_owned())
}
