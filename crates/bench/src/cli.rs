//! `basalt bench`: its options, and what it calls.

mod span;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::agent::{self, AgentOptions};
use crate::capacity::{self, ModelOptions};
use crate::compare::{self, CompareOptions};
use crate::coordinate::CrewOptions;
use crate::driver::{Arrivals, EventLog};
use crate::output::print;
use crate::peer::{self, PeerCommand};
use crate::search::SearchOptions;
use crate::suite::{Stores, SuiteOptions};
use crate::target::{EmbeddedStore, NoopServer, NoopShape};
use crate::workload::{KNOWN, Known, Task};
use crate::{canonical, redraw, single, suite};

pub use span::{PlannedEvent, Span};

/// Measure an embedded store, Basalt or another server
///
/// Without a sub-command: opens an embedded store in a temporary directory, loads records, runs YCSB's workloads A, B,
/// C, D, F and E, each with its own warm-up, verifies what it reads, and writes a report.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// What to do instead
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// The canonical run's options
    #[command(flatten)]
    pub canonical: CanonicalOptions,
}

/// What `bench` does.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Insert a workload's records
    Load(Box<LoadOptions>),
    /// Run a workload's operations on records that are there
    Run(Box<RunOptions>),
    /// Remove a workload's records
    Delete(Box<LoadOptions>),
    /// Run a whole experiment from a readable file, unattended, and write one report of it
    Suite(Box<SuiteOptions>),
    /// Draw the reports of runs again, from their raw data
    Report(ReportOptions),
    /// Serve canned answers without a store, to show a client's own ceiling
    NoopServer(NoopOptions),
    /// Start and stop other systems' servers on this machine
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Make a part of the load, as a coordinator says
    Agent(AgentOptions),
    /// Say what differs between runs, and whether it is more than noise
    ///
    /// Give two sides or more; each is set against the first. A side is a run's folder, a folder of such folders, or
    /// several joined by commas: they are pooled. The exit code is 0 when no side is worse than the first, 1 when one is
    /// worse by more than noise, and 2 when they cannot be compared.
    ///
    /// How it decides: throughput is the mean of the measured seconds, with an error that allows for their likeness
    /// (blocking after Flyvbjerg and Petersen, and a cosine estimate; the larger holds). A latency's bounds are where
    /// the distribution has the bounds of the share of operations above it, with the same kind of error (Woodruff). Runs
    /// of one side that differ from each other more than that widen the bounds. All questions together say "worse" or
    /// "better" wrongly at most as often as one in twenty (Holm).
    Compare(CompareOptions),
    /// Say what stores that were never measured would give, from runs that were
    ///
    /// Fits what an operation of each kind costs the store in CPU time, and how throughput grows with clients and with
    /// nodes (the universal scalability law), by least squares and with 95 % confidence. Predicts throughput, disk and
    /// time, and prints published results beside its predictions. What the runs do not tell is refused or said.
    ///
    /// It needs runs with --out against a store on this machine (their CPU time must be known) of two different mixes at
    /// least, such as a load and workloadb; and of four different numbers of clients, or of nodes, for the law.
    Model(ModelOptions),
    /// List the workload properties that mean something here
    Properties,
}

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

// Not a doc comment: brackets are links there.
const TARGET_HELP: &str = "The system under test: embedded, redis://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…], noop:// \
                           (started here), noop://HOST:PORT, or another system by the same pattern: etcd, cassandra, \
                           scylla, ycql, oracle-nosql, voltdb, voldemort, valkey (docs/PEERS.md)";

/// A load, or a delete.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// The phase.
    #[command(flatten)]
    pub phase: PhaseOptions,
    /// Who makes it.
    #[command(flatten)]
    pub crew: CrewOptions,
}

/// A run.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// The phase.
    #[command(flatten)]
    pub phase: PhaseOptions,
    /// Who makes it.
    #[command(flatten)]
    pub crew: CrewOptions,
    /// What is looked for.
    #[command(flatten)]
    pub search: SearchOptions,
}

/// One phase of one workload.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct PhaseOptions {
    /// The system under test.
    #[arg(long, default_value = "embedded", value_name = "URL", help = TARGET_HELP)]
    pub target: String,
    /// How a store over the network is spoken to
    #[command(flatten)]
    pub store_access: AccessOptions,
    /// A YCSB property file, or workloada to workloadf; may be repeated, the later wins
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

/// Connections of each thread to each node, when nobody says.
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
    /// The store could not be reached, did not answer in time, or had nobody to answer
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

/// What is drawn again.
#[derive(Clone, Debug, Args)]
pub struct ReportOptions {
    /// Run folders: of suites, or of single runs
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
}

/// The no-op server.
#[derive(Clone, Debug, Args)]
pub struct NoopOptions {
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, default_value_t = 7999)]
    pub port: u16,
    /// Fields of a record
    #[arg(long, default_value_t = 10)]
    pub fields: u32,
    /// Bytes of a field
    #[arg(long, default_value_t = 100)]
    pub field_bytes: usize,
    /// Bytes of a string
    #[arg(long, default_value_t = 1000)]
    pub value_bytes: usize,
    /// Listen on so many ports, as the nodes of one store
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: u16,
    /// Answer GET and HGETALL with records that a client's verification accepts
    #[arg(long)]
    pub verifiable: bool,
}

/// Opens an embedded store in a directory, with settings as name and value.
pub type OpenStore = dyn Fn(&std::path::Path, &[(String, String)]) -> io::Result<Arc<dyn EmbeddedStore>>;

/// What the laboratory needs from the program that it is part of.
pub struct Program<'a> {
    /// Its version.
    pub version: &'a str,
    /// The commit that it was built from, when known.
    pub commit: Option<&'a str>,
    /// Opens an embedded store in a directory, with settings as `name=value`.
    pub open_store: &'a OpenStore,
    /// Starts stores of several nodes, for suites.
    pub stores: &'a dyn Stores,
    /// Set when somebody wants the run to end.
    pub stop: &'a AtomicBool,
    /// What the program does to the store meanwhile: marks in the charts of the phase that it falls into.
    pub events: EventLog,
}

/// Does what the options say. The exit code is 0 when all went well, 1 when something failed or was found wrong, and 2
/// when the options cannot be.
#[must_use]
pub fn run(options: &BenchOptions, program: &Program<'_>) -> ExitCode {
    let done = match &options.command {
        None => canonical::run(&options.canonical, program),
        Some(BenchCommand::Load(options)) => single::run(Task::Load, &options.phase, &options.crew, program),
        Some(BenchCommand::Run(options)) if options.search.is_asked() => single::search(options, program),
        Some(BenchCommand::Run(options)) => single::run(Task::Run, &options.phase, &options.crew, program),
        Some(BenchCommand::Delete(options)) => single::run(Task::Delete, &options.phase, &options.crew, program),
        Some(BenchCommand::Suite(options)) => suite::run(options, program),
        Some(BenchCommand::Report(options)) => redraw::run(&options.runs),
        Some(BenchCommand::NoopServer(options)) => noop_server(options),
        Some(BenchCommand::Peer(command)) => peer::run(command).map_err(Trouble::Failed),
        Some(BenchCommand::Agent(options)) => agent::serve(options, program),
        Some(BenchCommand::Model(options)) => capacity::run(options),
        Some(BenchCommand::Compare(options)) => compare::run(options),
        Some(BenchCommand::Properties) => {
            let line = |known: &Known| format!("{:<40} {:<14} {}\n", known.name, known.default, known.meaning);
            print(&KNOWN.iter().map(line).collect::<String>()).map(|_| true).map_err(Trouble::Failed)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Trouble::Usage(text)) => {
            crate::note!("basalt bench: {text}");
            ExitCode::from(2)
        }
        Err(Trouble::Failed(error)) => {
            crate::note!("basalt bench: {error}");
            ExitCode::from(1)
        }
    }
}

/// Why a command could not be done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The options cannot be.
    Usage(String),
    /// Something failed.
    Failed(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

fn noop_server(options: &NoopOptions) -> Result<bool, Trouble> {
    let shape = NoopShape {
        fields: options.fields,
        field_bytes: options.field_bytes,
        value_bytes: options.value_bytes,
        verifiable: options.verifiable,
    };
    if options.port > 0 && options.port.checked_add(options.nodes).is_none() {
        return Err(Trouble::Usage(format!("--port {}: no room for {} ports", options.port, options.nodes)));
    }
    let servers = NoopServer::start_nodes(options.port, options.nodes, shape)?;
    let places: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    crate::note!("the no-op server listens on {}; it stores nothing", places.join(", "));
    servers.into_iter().try_for_each(NoopServer::join)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        bench: BenchOptions,
    }

    #[test]
    fn options_are_consistent_and_understood() {
        Whole::command().debug_assert();
        let whole = Whole::try_parse_from(["bench"]).unwrap();
        assert!(whole.bench.command.is_none() && whole.bench.canonical.records == 1_000_000);
        let line =
            "bench run --target redis://h:1 -P workloada -p recordcount=5 -p a=b --rate 100 --warm-up 10s --depth 4";
        let whole = Whole::try_parse_from(line.split(' ')).unwrap();
        let Some(BenchCommand::Run(run)) = whole.bench.command else { panic!("not run") };
        assert_eq!((run.phase.files.len(), run.phase.properties.len(), run.phase.depth), (1, 2, 4));
        assert_eq!(run.phase.warm_up, Some(Span::Time(Duration::from_secs(10))));
        assert!(Whole::try_parse_from(["bench", "run", "--warm-up", "10x"]).is_err());
    }
}
