//! `basalt bench model`: what stores that were never measured would give, from runs that were.
//!
//! Two laws, each fitted by least squares: what one operation of each kind costs in CPU time (the *service demand* law),
//! and what is lost as more clients or nodes work at once (the *universal scalability law*: N. Gunther, Guerrilla
//! Capacity Planning, 2007).

mod demand;
mod memory;
mod options;
mod page;
mod point;
mod prediction;
mod scalability;
mod shape;

#[cfg(test)]
mod tests;

pub use options::ModelOptions;

use std::io;
use std::path::Path;

use crate::compare::RunFolder;
use crate::report::Paint;
use crate::trouble::Trouble;

/// Fits, predicts and prints.
pub(crate) fn run(options: &ModelOptions) -> Result<bool, Trouble> {
    let mut runs = Vec::new();
    for path in &options.runs {
        runs.extend(RunFolder::each_in(Path::new(path)).map_err(Trouble::Usage)?);
    }
    let model = prediction::Model::of(&runs, options).map_err(Trouble::Usage)?;
    let text = if options.json {
        serde_json::to_string_pretty(&model).map_err(io::Error::from)? + "\n"
    } else {
        page::render(&model, Paint::of_stdout())
    };
    crate::output::print(&text)?;
    Ok(true)
}
