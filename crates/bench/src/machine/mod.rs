//! The machine that a run is on: its cores, its environment, what processes use of it, and who listens at its addresses.

pub(crate) mod cores;
pub(crate) mod environment;
pub(crate) mod listeners;
pub(crate) mod usage;
