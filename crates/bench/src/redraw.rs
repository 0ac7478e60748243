//! `basalt bench report`: draws reports again, from the raw data that runs have left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::report::{html, images, markdown, parse_json, write_pictures};
use crate::suite::{self, Folder};
use crate::trouble::Trouble;

/// Draws the reports of all `runs`. True when all went well.
pub(crate) fn run(runs: &[PathBuf]) -> Result<bool, Trouble> {
    for dir in runs {
        if Folder::is_at(dir) {
            suite::redraw(dir)?;
        } else {
            single(dir)?;
        }
    }
    Ok(true)
}

/// A run of one store: its `report.json` is its raw data.
fn single(dir: &Path) -> Result<(), Trouble> {
    let named = |path: &Path, e: &dyn std::fmt::Display| io::Error::other(format!("{}: {e}", path.display()));
    let path = dir.join("report.json");
    let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Trouble::Usage(format!("{}: there is no run here", dir.display())),
        _ => Trouble::Failed(named(&path, &e)),
    })?;
    let report = parse_json(&text).map_err(|e| named(&path, &e))?;
    crate::model::validate(&report).map_err(|e| named(&path, &e))?;
    for (name, text) in [("report.md", markdown(&report)), ("report.html", html(&report))] {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|e| named(&path, &e))?;
    }
    if let Some(lack) = write_pictures(dir, &images(&report)).map_err(Trouble::Failed)? {
        crate::note!("{lack}");
    }
    crate::note!("the report is in {}", dir.join("report.html").display());
    Ok(())
}
