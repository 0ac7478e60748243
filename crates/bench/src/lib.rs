//! See docs/ARCHITECTURE.md.

pub mod driver;
pub mod model;
pub mod report;
pub mod target;
mod usage;
pub mod workload;
