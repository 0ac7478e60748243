//! Drives a workload against a target: closed or open loop, measured and recorded.

mod barrier;
mod error_streak;
mod events;
mod figures;
mod gaps;
mod op_parts;
mod pace;
mod part;
mod phase;
mod plan;
mod recorder;
mod sampler;
mod timeline;
mod worker;

pub use error_streak::OnlyErrors;
pub use events::EventLog;
pub use figures::Reading;
pub use op_parts::OpParts;
pub use pace::{Arrivals, Pace};
pub use part::{Gathered, Meeting, Moments, PhaseShare, Sent, ShareFigures, SyncPoint, sampled};
pub use phase::{PhaseError, PhaseResult, Snapshot, run_part, run_phase};
pub use plan::{Limit, PhasePlan};
pub use timeline::{HistogramLog, IntervalHistogram};

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod panic_tests;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod tests;
