//! `basalt bench`: its options, and what it calls.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::agent::{self, AgentOptions};
use crate::capacity::{self, ModelOptions};
use crate::compare::{self, CompareOptions};
use crate::coordinator::LoaderOptions;
use crate::options::{CanonicalOptions, PhaseOptions};
use crate::output::print;
use crate::peer::{self, PeerCommand};
use crate::program::Program;
use crate::search::SearchOptions;
use crate::suite::SuiteOptions;
use crate::target::{NoopServer, NoopShape};
use crate::trouble::Trouble;
use crate::workload::{KNOWN, Known, Task};
use crate::{canonical, redraw, single, suite};

/// How often a server that waits for its end looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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

/// A load, or a delete.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// The phase.
    #[command(flatten)]
    pub phase: PhaseOptions,
    /// Who makes it.
    #[command(flatten)]
    pub loader: LoaderOptions,
}

/// A run.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// The phase.
    #[command(flatten)]
    pub phase: PhaseOptions,
    /// Who makes it.
    #[command(flatten)]
    pub loader: LoaderOptions,
    /// What is looked for.
    #[command(flatten)]
    pub search: SearchOptions,
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

/// Does what the options say. The exit code is 0 when all went well, 1 when something failed or was found wrong, and 2
/// when the options cannot be.
#[must_use]
pub fn run(options: &BenchOptions, program: &Program<'_>) -> ExitCode {
    let done = match &options.command {
        None => canonical::run(&options.canonical, program),
        Some(BenchCommand::Load(options)) => single::run(Task::Load, &options.phase, &options.loader, program),
        Some(BenchCommand::Run(options)) if options.search.is_asked() => {
            single::search(&options.phase, &options.search, &options.loader, program)
        }
        Some(BenchCommand::Run(options)) => single::run(Task::Run, &options.phase, &options.loader, program),
        Some(BenchCommand::Delete(options)) => single::run(Task::Delete, &options.phase, &options.loader, program),
        Some(BenchCommand::Suite(options)) => suite::run(options, program),
        Some(BenchCommand::Report(options)) => redraw::run(&options.runs),
        Some(BenchCommand::NoopServer(options)) => noop_server(options, program.stop),
        Some(BenchCommand::Peer(command)) => peer::run(command, program.stop).map_err(Trouble::Failed),
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

/// Serves until `stop` is set, or a server fails.
fn noop_server(options: &NoopOptions, stop: &AtomicBool) -> Result<bool, Trouble> {
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
    while !stop.load(Ordering::Relaxed) && !servers.iter().any(NoopServer::has_ended) {
        std::thread::sleep(LOOK_EVERY);
    }
    servers.into_iter().try_for_each(NoopServer::stop)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_options::Given;

    use clap::{CommandFactory, Parser};

    type Whole = Given<BenchOptions>;

    #[test]
    fn options_are_consistent_and_understood() {
        Whole::command().debug_assert();
        let whole = Whole::try_parse_from(["bench"]).unwrap();
        assert!(whole.options.command.is_none() && whole.options.canonical.records == 1_000_000);
        let line =
            "bench run --target redis://h:1 -P workloada -p recordcount=5 -p a=b --rate 100 --warm-up 10s --depth 4";
        let whole = Whole::try_parse_from(line.split(' ')).unwrap();
        let Some(BenchCommand::Run(run)) = whole.options.command else { panic!("not run") };
        assert_eq!((run.phase.files.len(), run.phase.properties.len(), run.phase.depth), (1, 2, 4));
        assert_eq!(run.phase.warm_up, Some(crate::options::Span::Time(Duration::from_secs(10))));
        assert!(Whole::try_parse_from(["bench", "run", "--warm-up", "10x"]).is_err());
    }

    #[test]
    fn the_no_op_server_serves_until_it_is_told_to_stop() {
        let whole = Whole::try_parse_from(["bench", "noop-server", "--port", "0", "--nodes", "2"]).unwrap();
        let Some(BenchCommand::NoopServer(options)) = whole.options.command else { panic!("not noop-server") };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| noop_server(&options, &stop).is_ok_and(|well| well));
            assert!(!serving.is_finished() && !stop.load(Ordering::Relaxed));
            stop.store(true, Ordering::Relaxed);
            assert!(serving.join().unwrap());
        });
    }
}
