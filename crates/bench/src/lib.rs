//! The laboratory: workloads, drivers, targets, verification and reports.

mod access;
mod assemble;
pub mod cli;
pub mod driver;
mod environment;
pub mod model;
pub mod report;
mod run;
mod single;
mod store;
mod suite;
pub mod target;
mod tell;
mod usage;
pub mod workload;

pub use assemble::Drive;
pub use run::Run;
pub use single::title;
