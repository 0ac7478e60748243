//! What a suite leaves in its run folder while it runs, so that it can go on after an interruption and be drawn again:
//! `suite.json`, the suite's file, and in `steps` one file a step with its raw data.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::driver::HistogramLog;
use crate::model::{StepRecord, SuiteRecord};

/// The layout's number: a folder with another is refused.
const SCHEMA: u32 = 1;
const ABOUT: &str = "suite.json";
const STEPS: &str = "steps";

/// A run folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// A folder for a new run, which is empty.
    pub(crate) fn create(dir: &Path, record: &mut SuiteRecord, text: &str) -> io::Result<Self> {
        record.schema = SCHEMA;
        fs::create_dir_all(dir.join(STEPS))?;
        fs::write(dir.join("suite.toml"), text)?;
        let folder = Self { dir: dir.to_owned() };
        folder.write_about(record)?;
        Ok(folder)
    }

    /// The folder of a run that is there.
    pub(crate) fn open(dir: &Path) -> io::Result<(Self, SuiteRecord)> {
        let record: SuiteRecord = read(&dir.join(ABOUT))?;
        if record.schema != SCHEMA {
            let text = format!("{}: layout {}; this version reads {SCHEMA}", dir.display(), record.schema);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok((Self { dir: dir.to_owned() }, record))
    }

    /// Whether a suite's run is in `dir`.
    pub(crate) fn is_at(dir: &Path) -> bool {
        dir.join(ABOUT).is_file()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the data of a part's store lies.
    pub(crate) fn store_dir(&self, part: usize) -> PathBuf {
        self.dir.join("stores").join(part.to_string())
    }

    pub(crate) fn write_about(&self, record: &SuiteRecord) -> io::Result<()> {
        write(&self.dir.join(ABOUT), record)
    }

    /// The suite's text as it was run.
    pub(crate) fn text(&self) -> io::Result<String> {
        fs::read_to_string(self.dir.join("suite.toml"))
    }

    pub(crate) fn step_path(&self, record: &StepRecord) -> PathBuf {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '-' };
        let words: String = format!("{}-{}", record.part.1, record.step.1).chars().map(safe).take(80).collect();
        self.dir.join(STEPS).join(format!("{:03}-{:03}-{words}.json", record.part.0, record.step.0))
    }

    /// Keeps a step, with its histograms beside it.
    pub(crate) fn keep(&self, record: &StepRecord, logs: &[(String, HistogramLog)]) -> io::Result<()> {
        let path = self.step_path(record);
        for (phase, log) in logs {
            // A search has a log for each of its trials.
            let name = if logs.len() > 1 { format!("{phase}.hlog") } else { "hlog".to_owned() };
            let mut out = BufWriter::new(File::create(path.with_extension(name))?);
            log.write(&mut out, phase)?;
            out.flush()?;
        }
        write(&path, record)
    }

    /// All steps that were kept, in the order of parts and steps.
    pub(crate) fn steps(&self) -> io::Result<Vec<StepRecord>> {
        let mut found: Vec<StepRecord> = Vec::new();
        for entry in fs::read_dir(self.dir.join(STEPS))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                found.push(read(&path)?);
            }
        }
        found.sort_by_key(|step| (step.part.0, step.step.0));
        Ok(found)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let named =
        |e: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display()));
    let text = fs::read_to_string(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    serde_json::from_str(&text).map_err(|e| named(&e))
}

/// The file that was there, or all of the new one.
fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let new = path.with_extension("new");
    let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    text.push('\n');
    fs::write(&new, text).map_err(named)?;
    fs::rename(&new, path).map_err(named)
}
