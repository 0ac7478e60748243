//! The laboratory: workloads, drivers, targets, verification and reports.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod as_base64;
mod canonical;
mod capacity;
pub mod cli;
mod command_line;
mod compare;
mod coordinator;
mod date;
pub mod driver;
mod figure;
mod machine;
pub mod model;
pub mod options;
pub mod output;
pub mod peer;
mod phase;
pub mod program;
pub mod published;
mod redraw;
pub mod report;
mod run;
mod search;
mod single;
mod slo;
mod statistics;
pub mod suite;
pub mod suite_stores;
pub mod target;
#[cfg(test)]
mod test_options;
mod trouble;
pub mod workload;

pub use phase::assemble::Drive;
pub use phase::setup::title;
pub use run::Run;
