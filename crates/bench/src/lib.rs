//! The laboratory: workloads, drivers, targets, verification and reports.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod access;
mod agent;
mod assemble;
mod canonical;
mod capacity;
pub mod cli;
mod compare;
mod coordinate;
pub mod driver;
mod environment;
mod loaded;
mod machine;
pub mod model;
pub mod output;
pub mod peer;
pub mod published;
mod redraw;
pub mod report;
mod run;
mod search;
mod single;
mod statistics;
mod store;
pub mod suite;
pub mod target;
mod tell;
mod usage;
pub mod workload;

pub use assemble::Drive;
pub use run::Run;
pub use single::title;
