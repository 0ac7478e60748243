//! What a node counts: calls and latencies of commands, connections, bytes, logs of commands, latency events.
//!
//! Each worker thread counts for itself; the sums are made on request.

mod command_log;
mod events;
mod rates;
mod totals;
mod worker;

pub(crate) use command_log::without_secret;
pub use command_log::{CommandLog, LoggedCommand, ShortArgs};
pub use events::{Event, LatencyEvents, Sample};
pub use rates::{Rates, Totals};
pub use totals::Stats;
pub use worker::{CommandTotals, EndedCall, Histogram, Lookups, Outcome, WorkerStats, error_code};
