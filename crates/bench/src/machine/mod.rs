//! The machine that a run is on: its cores, its environment, and what processes use of it.

pub(crate) mod cores;
pub(crate) mod environment;
pub(crate) mod usage;
