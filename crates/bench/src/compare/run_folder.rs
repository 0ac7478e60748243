//! A run as its folder holds it: the report, and each second's latencies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::model::StepRecord;
use crate::model::{Phase, RunOutcome, RunReport, SCHEMA};
use crate::report::parse_json;
use crate::suite::Folder;

/// One run.
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    pub(crate) report: RunReport,
    /// Where the histogram logs of its phases are, if not below `path` by their names.
    pub(crate) logs: BTreeMap<String, PathBuf>,
}

/// The latencies of one second: values and how often they came, ascending.
pub(crate) type Seen = Vec<(u64, u64)>;

/// Each operation's seconds.
pub(crate) type SecondsByOp = BTreeMap<String, BTreeMap<u64, Seen>>;

impl RunFolder {
    /// The runs that `path` holds: itself, or its folders in order of their names. A suite's run is one, whose phases are
    /// its steps.
    pub(crate) fn all_in(path: &Path) -> Result<Vec<Self>, String> {
        // A suite's report.json is another than a run's.
        if !Folder::is_at(path) && path.join("report.json").is_file() {
            return Ok(vec![Self::read(path)?]);
        }
        if Folder::is_at(path) {
            let mut steps = Self::steps_in(path)?.into_iter();
            let mut whole = steps.next().ok_or_else(|| format!("{}: no step has measured", path.display()))?;
            for step in steps {
                whole.report.phases.extend(step.report.phases);
                whole.report.outcome = if whole.report.outcome == RunOutcome::Completed {
                    step.report.outcome
                } else {
                    whole.report.outcome
                };
                whole.logs.extend(step.logs);
            }
            return Ok(vec![whole]);
        }
        let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.retain(|folder| folder.join("report.json").is_file() || Folder::is_at(folder));
        folders.sort();
        if folders.is_empty() {
            return Err(format!(
                "{}: there is no report.json here, nor in a folder in it: give what --out of a run was",
                path.display()
            ));
        }
        let runs: Result<Vec<Vec<Self>>, String> = folders.iter().map(|folder| Self::all_in(folder)).collect();
        Ok(runs?.into_iter().flatten().collect())
    }

    /// The same, but each step of a suite's run is one: they were set up differently.
    pub(crate) fn each_in(path: &Path) -> Result<Vec<Self>, String> {
        if Folder::is_at(path) { Self::steps_in(path) } else { Self::all_in(path) }
    }

    /// The steps of a suite's run that measured, their phases called by part and step.
    fn steps_in(path: &Path) -> Result<Vec<Self>, String> {
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let (folder, _) = Folder::open(path).map_err(named)?;
        let records = folder.steps().map_err(named)?;
        let step = |record: StepRecord| {
            let log = folder.step_path(&record).with_extension("hlog");
            let mut report = record.report?;
            let mut logs = BTreeMap::new();
            for phase in &mut report.phases {
                phase.name = format!("{} / {}", record.part.1, record.step.1);
                logs.insert(phase.name.clone(), log.clone());
            }
            // The trials of a search would all be called the same.
            (report.phases.len() == 1).then(|| Self { path: path.to_owned(), report, logs })
        };
        Ok(records.into_iter().filter_map(step).collect())
    }

    fn read(path: &Path) -> Result<Self, String> {
        let file = path.join("report.json");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let report = parse_json(&text).map_err(|error| format!("{}: not a run's report: {error}", file.display()))?;
        if report.schema != SCHEMA {
            let written = report.schema;
            return Err(format!("{}: written by another version (schema {written}, not {SCHEMA})", file.display()));
        }
        Ok(Self { path: path.to_owned(), report, logs: BTreeMap::new() })
    }

    pub(crate) fn phase(&self, name: &str) -> Option<&Phase> {
        self.report.phases.iter().find(|phase| phase.name == name)
    }

    /// Each second's latencies of a phase; none when the folder has no log of it.
    pub(crate) fn seconds(&self, phase: &str) -> Result<Option<SecondsByOp>, String> {
        let file = self.logs.get(phase).cloned().unwrap_or_else(|| self.path.join(format!("{phase}.hlog")));
        let Ok(text) = fs::read(&file) else { return Ok(None) };
        read_log(&text).map(Some).map_err(|problem| format!("{}: {problem}", file.display()))
    }
}

/// The whole seconds of the measured part: first, and one past the last.
pub(crate) fn measured_seconds(phase: &Phase) -> (u64, u64) {
    const SLACK_S: f64 = 0.01;
    let first = (phase.warm_up_s - SLACK_S).ceil().max(0.0) as u64;
    let end = (phase.warm_up_s + phase.duration_s + SLACK_S).floor() as u64;
    (first, end.max(first))
}

fn read_log(text: &[u8]) -> Result<SecondsByOp, String> {
    let mut ops = SecondsByOp::new();
    let mut deserializer = Deserializer::new();
    for entry in IntervalLogIterator::new(text) {
        let entry = entry.map_err(|error| format!("not a histogram log: {error:?}"))?;
        let LogEntry::Interval(line) = entry else { continue };
        let bytes = STANDARD.decode(line.encoded_histogram()).map_err(|error| error.to_string())?;
        let histogram: Histogram<u64> =
            deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| format!("a damaged line: {error}"))?;
        let op = line.tag().map_or_else(String::new, |tag| tag.as_str().to_owned());
        ops.entry(op).or_default().insert(line.start_timestamp().as_secs(), seen(&histogram));
    }
    Ok(ops)
}

pub(crate) fn seen(histogram: &Histogram<u64>) -> Seen {
    histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}
