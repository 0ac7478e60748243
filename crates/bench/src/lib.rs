//! See docs/ARCHITECTURE.md.

pub mod model;
pub mod workload;
pub mod report;
