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

/// Where a run goes when nobody says: `basalt-runs/<date>-<name>`.
#[must_use]
pub fn default_dir(identity: &Identity) -> PathBuf {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = format!("{}-{}", identity.date, identity.name).chars().map(safe).collect();
    Path::new(RUNS).join(name)
}

/// Makes a folder for a run: `dir`, or `dir-2`, `dir-3`, … when a file is in the way or the folder holds something.
///
/// # Errors
/// When no folder can be made.
pub fn claim(dir: &Path) -> io::Result<PathBuf> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    for attempt in 1..=ATTEMPTS {
        let candidate = numbered(dir, attempt);
        match fs::create_dir(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if candidate.is_dir() && fs::read_dir(&candidate)?.next().is_none() {
                    return Ok(candidate);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} and {ATTEMPTS} more exist", dir.display())))
}

fn numbered(dir: &Path, attempt: u32) -> PathBuf {
    if attempt == 1 {
        return dir.to_owned();
    }
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{attempt}"));
    dir.with_file_name(name)
}

/// Writes `report.html`, `report.md` and `report.json` into `dir` (see [`claim`] and [`default_dir`]), which is made if
/// need be. If `dir` already holds a report, a folder beside it is claimed instead: [`Written::dir`] tells.
///
/// # Errors
/// When the report is inconsistent, or a file cannot be written.
pub fn write_run(dir: &Path, report: &RunReport) -> io::Result<Written> {
    report.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let data = json::render(report).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    fs::create_dir_all(dir)?;
    let (dir, json) = match write_new(&dir.join("report.json"), &data) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let beside = claim(dir)?;
            let path = write_new(&beside.join("report.json"), &data)?;
            (beside, path)
        }
        written => (dir.to_owned(), written?),
    };
    let md = write_new(&dir.join("report.md"), &markdown::render(report))?;
    let html = write_new(&dir.join("report.html"), &html::render(report))?;
    Ok(Written { dir, html, md, json })
}

fn write_new(path: &Path, text: &str) -> io::Result<PathBuf> {
    let name_it = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(name_it)?;
    file.write_all(text.as_bytes()).map_err(name_it)?;
    Ok(path.to_owned())
}
