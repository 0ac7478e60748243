//! What a node counts: calls and latencies of commands, connections, bytes, slow commands, latency events.
//!
//! Each worker thread counts for itself; the sums are made on request.

mod events;
mod histogram;
mod rates;
mod slowlog;
mod totals;
mod worker;

pub use events::{Event, LatencyEvents, Sample};
pub use histogram::Histogram;
pub use rates::{Rates, Totals};
pub use slowlog::{SlowCommand, Slowlog};
pub use totals::Stats;
pub use worker::{CommandTotals, Lookups, Outcome, WorkerStats, error_code};
