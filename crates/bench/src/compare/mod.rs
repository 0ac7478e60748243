//! `basalt bench compare`: what differs between runs, and whether it is more than noise.

mod figures;
mod options;
mod page;
mod run_folder;
mod side;
#[cfg(test)]
mod tests;
mod verdict;

pub use options::CompareOptions;

pub(crate) use run_folder::RunFolder;

use std::io;

use crate::report::Paint;
use crate::trouble::Trouble;
use side::Side;
use verdict::compare;

/// Compares and prints. True when no side is worse than the first.
pub(crate) fn run(options: &CompareOptions) -> Result<bool, Trouble> {
    options.check().map_err(Trouble::Usage)?;
    let sides: Vec<Side> = options
        .sides
        .iter()
        .enumerate()
        .map(|(index, given)| Side::read(index, given).map_err(Trouble::Usage))
        .collect::<Result<_, _>>()?;
    let comparison = compare(&sides, options).map_err(Trouble::Usage)?;
    let text = if options.json {
        serde_json::to_string_pretty(&comparison).map_err(io::Error::from)? + "\n"
    } else {
        page::render(&comparison, Paint::of_stdout())
    };
    crate::output::print(&text)?;
    if let Some(side) = comparison.sides.iter().find(|side| side.is_undecided) {
        let text = format!("{} and A cannot be compared: their noise is not known. Measure for longer", side.side);
        return Err(Trouble::Usage(text));
    }
    Ok(!comparison.is_worse)
}
