//! The report of a suite: tables beside published ones, what differs, and all that was measured.

mod differences;
mod figures;
mod grid;
mod markdown;
mod median;
mod report;
mod timeline;

pub(crate) use differences::differences;
pub(crate) use figures::{per_busy_core_s, per_core_s};
pub(crate) use grid::{Grid, MedianRow, beside, grids, median_bars};
pub(crate) use markdown::render as document;
pub(crate) use report::STOPPED;
pub use report::SuiteReport;
/// Whether a table's column is a figure that every step has.
pub(crate) fn is_figure(column: &str) -> bool {
    figures::Figure::named(column).is_some()
}

pub(crate) use timeline::{Curve, CurveLine, curves, timelines};
