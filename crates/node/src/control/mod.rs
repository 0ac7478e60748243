//! The control of the store: a node's membership, the replicas that it is to hold, and the director.

pub mod director;
mod membership;
pub mod reconcile;
#[cfg(test)]
mod tests;

pub use membership::{Action, Control, Shape, report_members};
