//! The options of the phases of a run, as the command line and suites give them.

mod span;
mod tls;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::driver::Arrivals;
use crate::target::target_help;

pub use span::{PlannedEvent, Span};
pub use tls::TlsOptions;

/// The canonical run.
#[derive(Clone, Debug, Args)]
pub struct CanonicalOptions {
    /// Records of 10 fields of 100 bytes
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// Seconds of each workload that count
    #[arg(long, default_value_t = 16)]
    pub seconds: u64,
    /// Seconds of each workload's warm-up
    #[arg(long, default_value_t = 3)]
    pub warm_up_seconds: u64,
    /// Workloads, in this order
    #[arg(long, default_value = "ABCDFE")]
    pub workloads: String,
    /// Threads that drive the store; as many as cores if not given
    #[arg(long)]
    pub threads: Option<usize>,
    /// Operations in flight, of all threads together
    #[arg(long, default_value_t = 64)]
    pub clients: usize,
    /// The embedded store's options
    #[command(flatten)]
    pub store: StoreOptions,
    /// What is written, and where
    #[command(flatten)]
    pub output: OutputOptions,
}

/// An embedded store.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
pub struct StoreOptions {
    /// Keep the embedded store's data here; otherwise in a temporary directory that is removed
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A setting of the embedded store, such as durability=nosync or memory=4gb; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
}

/// What is written, and where.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct OutputOptions {
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write report.html, report.md, report.json and a histogram log of each phase into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// All random choices derive from it
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

/// What standard output shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Format {
    /// A table
    Table,
    /// The whole data
    Json,
    /// YCSB's own text, with its status lines on standard error
    Ycsb,
}

/// One phase of one workload.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct PhaseOptions {
    /// The system under test.
    #[arg(long, default_value = "embedded", value_name = "URL", help = target_help())]
    pub target: String,
    /// How a store over the network is spoken to
    #[command(flatten)]
    pub store_access: AccessOptions,
    /// How it is reached with TLS
    #[command(flatten)]
    #[serde(default)]
    pub tls: TlsOptions,
    /// A YCSB property file, or a built-in workload (docs/BENCH.md); may be repeated, the later wins
    #[arg(short = 'P', long = "properties", value_name = "FILE")]
    pub files: Vec<String>,
    /// A property, which wins over the files; may be repeated
    #[arg(short = 'p', long = "property", value_name = "NAME=VALUE")]
    pub properties: Vec<String>,
    /// Clients (connections); the property threadcount if not given
    #[arg(long)]
    pub clients: Option<usize>,
    /// Operations that each client keeps in flight
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// Threads that drive the clients; up to the number of cores if not given
    #[arg(long)]
    pub threads: Option<usize>,
    /// Open loop: start so many operations a second, whatever the answers do
    #[arg(long, value_name = "OPS_PER_S")]
    pub rate: Option<f64>,
    /// How the arrivals of an open loop are spread
    #[arg(long, value_enum, default_value_t = ArrivalsOption::Even)]
    pub arrivals: ArrivalsOption,
    /// What does not count: a time such as 10s, or a number of operations
    #[arg(long, value_name = "TIME|OPS")]
    pub warm_up: Option<Span>,
    /// End after this time, such as 60s, whatever operationcount a file has; the property maxexecutiontime if not given
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// A request without an answer for this long fails
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub timeout: Span,
    /// Attempt an operation again for so long when it was refused or may be done twice; --timeout if not given
    #[arg(long, value_name = "TIME")]
    pub retry_for: Option<Span>,
    /// Errors that do not fail the run; may be repeated
    #[arg(long, value_enum)]
    pub tolerate: Vec<Tolerance>,
    /// Something that happens at a time of the phase, warm-up included, to be drawn in the charts; may be repeated
    #[arg(long = "event", value_name = "TIME:TEXT")]
    pub events: Vec<PlannedEvent>,
    /// The embedded store's options
    #[command(flatten)]
    pub store: StoreOptions,
    /// What is written, and where
    #[command(flatten)]
    pub output: OutputOptions,
}

/// How a store over the network is spoken to.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
pub struct AccessOptions {
    /// Connections of each thread to each node, which its clients share; 0 = one for each client
    #[arg(long, default_value_t = CONNECTIONS)]
    pub connections: usize,
    /// Where reads go: to leaders, or to any replica; the property basalt.readfrom if not given
    #[arg(long, value_enum)]
    pub read_from: Option<ReadFromOption>,
    /// Ask for this durability on every connection; the property basalt.durability if not given
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityOption>,
    /// Ask for these acknowledgements on every connection; the property basalt.acks if not given
    #[arg(long, value_enum)]
    pub acks: Option<AcksOption>,
}

/// Connections of each thread to each node, by default.
const CONNECTIONS: usize = 1;

/// Where reads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum ReadFromOption {
    /// To the leader of the key's shard
    Leader,
    /// To the nearest replica, which may be behind
    Any,
}

/// When a write is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum DurabilityOption {
    /// Before it is acknowledged
    Sync,
    /// Soon after
    Nosync,
}

/// Which replicas hold a write before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum AcksOption {
    /// A majority
    Majority,
    /// All of them
    All,
    /// None but the leader
    None,
}

/// Errors that do not fail a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Tolerance {
    /// The store could not be reached, did not answer in time, or had no leader to answer
    Unavailable,
}

impl Tolerance {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unavailable => crate::model::UNAVAILABLE,
        }
    }
}

/// How the arrivals of an open loop are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum ArrivalsOption {
    /// At even distances
    Even,
    /// At random, independent of each other
    Poisson,
}

impl From<ArrivalsOption> for Arrivals {
    fn from(option: ArrivalsOption) -> Self {
        match option {
            ArrivalsOption::Even => Self::Even,
            ArrivalsOption::Poisson => Self::Poisson,
        }
    }
}
