//! See docs/ARCHITECTURE.md.

pub mod model;
