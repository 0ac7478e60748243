//! What a run leaves behind: a table on the terminal, a folder with the report as HTML, Markdown and JSON, YCSB's text
//! form, and the progress that is shown while it runs. Every figure comes from [`crate::model`].

mod facts;
mod folder;
mod headline;
mod html;
mod json;
mod markdown;
mod pictures;
mod progress;
mod resources;
mod searched;
mod suite;
mod suite_files;
mod table;
mod warnings;
pub mod ycsb;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

pub(crate) use crate::figure::{count, rate, span};
pub(crate) use facts::environment;
pub use suite::SuiteReport;
pub(crate) use suite::{STOPPED, is_figure};
pub(crate) use suite_files::{tables_text as suite_tables_text, write as write_suite};

pub use crate::date::{rfc3339, unix_ms};
pub use folder::{Claimed, RUNS, Written, default_dir, write_run};
pub(crate) use html::images;
pub use html::render as html;
pub use json::{parse as parse_json, render as json};
pub use markdown::render as markdown;
pub(crate) use pictures::write as write_pictures;
pub use progress::{PhaseProgress, Progress, ProgressTotal};
pub use table::{Paint, render as table};
pub use warnings::{Severity, Warning, warnings};
