//! See docs/ARCHITECTURE.md.

pub mod model;
pub mod report;
