//! What one run of the laboratory found: the data that every report is made of and that `report.json` holds.
//!
//! Units come last in a name: `_us` microseconds, `_s` seconds, `_bytes` bytes, `_per_s` per second. Latencies are
//! fractional microseconds, since an embedded read may take less than one. Times on a phase's axis (`t_s`) are seconds
//! since the phase began, its warm-up included; everything else in a phase excludes the warm-up.
//!
//! Invariants: see [`validate`](fn@validate), which every writer calls before it writes.

mod agent;
mod cpu;
mod latency;
mod run;
mod search;
mod suite;
mod validate;

pub use agent::AgentUse;
pub use cpu::{CpuTime, CpuUse};
pub use latency::{Latency, LatencySummary, SpectrumPoint};
pub use run::{
    BuildProfile, Configuration, Environment, Event, Identity, Link, MetricPoint, MetricSeries, NodeUsage, OpSeries,
    OpStats, Pacing, Phase, RunOutcome, RunReport, SCHEMA, SeriesPoint, UNAVAILABLE, is_unavailable,
};
pub use search::{Search, Trial};
pub use suite::{ActionFile, DiskFile, StepRecord, StoreFile, SuiteRecord, TableFile, TableKind, plain};
pub use validate::{Invalid, validate};
