//! A suite's report as files, and its tables as text for a terminal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::html::{suite_images, suite_page};
use super::pictures;
use super::suite::{self, SuiteReport};
use super::table::Paint;
use super::warnings::Severity;

/// Writes `report.html`, `report.md`, `report.json` and the charts into a run's folder, over those of an earlier report: they
/// are made from the raw data, which stays. Returns where the page is.
pub(crate) fn write(dir: &Path, report: &SuiteReport) -> io::Result<PathBuf> {
    let named = |path: &Path, e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let json = serde_json::to_string_pretty(report).map_err(io::Error::other)?;
    let html = dir.join("report.html");
    for (path, text) in [
        (dir.join("report.json"), json + "\n"),
        (dir.join("report.md"), suite::document(report)),
        (html.clone(), suite_page(report)),
    ] {
        fs::write(&path, text).map_err(|e| named(&path, e))?;
    }
    if let Some(lack) = pictures::write(dir, &suite_images(report))? {
        crate::note!("{lack}");
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
    for grid in suite::grids(report) {
        out.push_str(&grid.text());
    }
    out
}
