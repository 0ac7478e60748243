//! What a node counts: calls and latencies of commands, connections, bytes, slow commands, latency events.
//!
//! Each worker thread counts for itself; the sums are made on request.

mod events;
mod histogram;
mod info;
mod memory;
mod rates;
mod slowlog;
mod totals;
mod worker;

pub use events::{Event, LatencyEvents, Sample};
pub use histogram::Histogram;
pub use info::{REDIS_VERSION, info};
pub use memory::MemoryFigures;
pub use rates::{Rates, Totals};
pub use slowlog::{SlowCommand, Slowlog};
pub use totals::Stats;
pub use worker::{CommandTotals, Lookups, Outcome, WorkerStats, error_code};
