//! How much a store takes: the highest rate that keeps a promise, and latency against the load that is offered.

mod curve;
mod goal;
mod hunt;
mod options;
mod page;
mod tries;

pub use options::SearchOptions;

pub(crate) use goal::{Goal, LatencyPromise};
pub(crate) use page::render as page;
pub(crate) use tries::searched;
