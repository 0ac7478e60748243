//! The laboratory: workloads, drivers, targets, verification and reports.

mod access;
mod assemble;
pub mod cli;
pub mod driver;
mod environment;
pub mod model;
pub mod report;
mod single;
mod store;
mod suite;
pub mod target;
mod tell;
mod usage;
pub mod workload;
