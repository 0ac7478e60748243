//! All that a suite's run found, and the files that tell of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::{StepRecord, SuiteRecord};
use crate::model::{Outcome, RunReport};
use crate::report::{self, Paint, Severity, Warning};

/// A suite's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// The run as a whole.
    pub about: SuiteRecord,
    /// Its steps, in the order of parts and steps.
    pub steps: Vec<StepRecord>,
}

impl SuiteReport {
    /// What to know first.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut list = Vec::new();
        let mut add = |severity: Severity, text: String| {
            if list.iter().all(|known: &Warning| known.text != text) {
                list.push(Warning { severity, text });
            }
        };
        match self.about.outcome {
            Outcome::Completed => {}
            Outcome::Interrupted => add(
                Severity::Failure,
                "The run was interrupted: steps are missing. `--resume` goes on with it.".to_owned(),
            ),
            Outcome::Failed => add(Severity::Failure, "Not all steps could be taken.".to_owned()),
        }
        self.about.notes.iter().for_each(|note| add(Severity::Failure, note.clone()));
        for step in &self.steps {
            let Some(report) = &step.report else { continue };
            let place = format!("{}, {}: ", step.part.1, step.step.1);
            for warning in report::warnings(report) {
                match warning.severity {
                    Severity::Failure => add(Severity::Failure, place.clone() + &warning.text),
                    Severity::Caution if !warning.text.contains("debug build") => {
                        add(Severity::Caution, place.clone() + &warning.text);
                    }
                    Severity::Caution => add(Severity::Caution, warning.text),
                    Severity::Note => {}
                }
            }
            step.notes.iter().for_each(|note| add(Severity::Note, note.clone()));
        }
        list.sort_by_key(|warning| warning.severity);
        list
    }

    /// Where and with what it ran.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let run = RunReport {
            identity: self.about.identity.clone(),
            environment: self.about.environment.clone(),
            ..RunReport::default()
        };
        report::environment(&run)
    }
}

/// Writes `report.html`, `report.md`, `report.json` and the charts into a run folder, in the place of those that were there: they
/// come from the raw data, which stay. Where the page is.
pub(crate) fn write(dir: &Path, report: &SuiteReport) -> io::Result<PathBuf> {
    let named = |path: &Path, e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let json = serde_json::to_string_pretty(report).map_err(io::Error::other)?;
    let html = dir.join("report.html");
    for (path, text) in [
        (dir.join("report.json"), json + "\n"),
        (dir.join("report.md"), report::suite_document(report)),
        (html.clone(), report::suite_page(report)),
    ] {
        fs::write(&path, text).map_err(|e| named(&path, e))?;
    }
    if let Some(lack) = report::write_pictures(dir, &report::suite_images(report))? {
        eprintln!("{lack}");
    }
    Ok(html)
}

/// The tables for a terminal, with what must be known above them.
pub(crate) fn tables_text(report: &SuiteReport) -> String {
    let paint = Paint::of_stdout();
    let mut out = format!("\n{}: {}\n", report.about.name, report.about.title);
    for warning in report.warnings().iter().filter(|warning| warning.severity != Severity::Note) {
        out.push_str(&format!("{}  {}\n", paint.severity(warning.severity), warning.text));
    }
    for grid in report::grids(report) {
        out.push_str(&grid.text());
    }
    out
}
