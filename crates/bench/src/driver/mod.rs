//! Drives a workload against a target: closed or open loop, measured and recorded.

mod events;
mod gaps;
mod pace;
mod phase;
mod recorder;
mod sampler;
mod timeline;
mod worker;

pub use events::EventLog;
pub use pace::{Arrivals, Pace};
pub use phase::{Limit, PhaseError, PhasePlan, PhaseResult, Snapshot, run_phase};
pub use timeline::{HistogramLog, IntervalHistogram};

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod tests;
