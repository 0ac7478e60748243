//! How much a store takes: the highest rate that keeps an SLO, and latency against the load that is offered.

mod curve;
mod hunt;
mod options;
mod page;
mod trials;

pub use options::SearchOptions;

pub(crate) use page::render as page;
pub(crate) use trials::searched;
