//! `basalt sim`: whole stores in virtual time, with faults, from seeds.

use ::sim::{BUGS, Bug, Report, RunOptions};
use bench::output::{print, remark};
use clap::Args;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often progress is shown.
const PROGRESS: Duration = Duration::from_millis(500);
/// How often it is shown where standard error is no terminal.
const PROGRESS_IN_A_LOG: Duration = Duration::from_secs(30);
/// Lines of the trace that a failure is reported with.
const LAST_LINES: usize = 40;

const AFTER: &str = "\
A run has N steps with faults; then all faults stop, and everything must heal. The same seed with the same steps is the
same run, byte for byte. A failure prints its seed, the step, what was found and what happened last.

Examples:
  basalt sim                                  one run of seed 1
  basalt sim --seed 7 --seeds 1000            seeds 7 to 1006
  basalt sim --forever                        hunt until something is found
  basalt sim --seed 7 --trace seven.txt       write down everything that happens
  basalt sim --seeds 200 --bug skip-fsync     show that the checkers find a bug
  basalt sim --nodes 100 --steps 2000         a hundred nodes that come, crash, die and go

Exit codes: 0 nothing was found (with --bug: it was found), 1 otherwise, 2 the command line is wrong.";

/// Run whole stores in virtual time, with faults, and check what they do
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct SimOptions {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Events of a run before its faults stop
    #[arg(long, default_value_t = 20_000)]
    steps: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1, conflicts_with = "forever")]
    seeds: u64,
    /// Until something is found, or the program is stopped
    #[arg(long)]
    forever: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Write a line for every event to this file (of the last seed)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Put a bug in, and end when it is found
    #[arg(long, value_name = "NAME", value_parser = bug, long_help = bug_help())]
    bug: Option<Bug>,
    /// A large store of so many nodes, with churn; the steps grow with the square of the nodes, as messages do
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(5..=200))]
    nodes: Option<u16>,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
}

fn bug(text: &str) -> Result<Bug, String> {
    text.parse()
}

fn bug_help() -> String {
    let names: Vec<&str> = BUGS.iter().map(|(name, _)| *name).collect();
    format!("Put a bug in, and end when it is found: {}", names.join(", "))
}

/// What all runs so far came to.
struct Tally {
    begun: Instant,
    shown: Instant,
    runs: u64,
    failed: u64,
    steps: u64,
    virtual_us: u64,
    requests: u64,
    crashes: u64,
    snapshots: u64,
    elections: u64,
    changes: u64,
    splits: u64,
}

impl Tally {
    fn new() -> Self {
        let now = Instant::now();
        let zero = 0;
        Self {
            begun: now,
            shown: now,
            runs: zero,
            failed: zero,
            steps: zero,
            virtual_us: zero,
            requests: zero,
            crashes: zero,
            snapshots: zero,
            elections: zero,
            changes: zero,
            splits: zero,
        }
    }

    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.failed += u64::from(report.failure.is_some());
        self.steps += report.steps;
        self.virtual_us += report.virtual_us;
        self.requests += report.counts.answered;
        self.crashes += report.counts.crashes;
        self.snapshots += report.counts.snapshots;
        self.elections += report.counts.elections;
        self.changes += report.counts.changes;
        self.splits += report.counts.splits;
    }

    fn line(&self) -> String {
        let wall = self.begun.elapsed().as_secs_f64();
        let hours = self.virtual_us as f64 / 3.6e9;
        format!(
            "{} seeds, {} failed, {:.2} h simulated in {wall:.0} s: {:.0} h/h, {:.0} k events/s; {} requests, {} elections, \
             {} crashes, {} snapshots, {} changes of the map, {} splits",
            self.runs,
            self.failed,
            hours,
            hours * 3600.0 / wall,
            self.steps as f64 / wall / 1000.0,
            self.requests,
            self.elections,
            self.crashes,
            self.snapshots,
            self.changes,
            self.splits,
        )
    }

    /// Shows how far it is, now and then.
    fn show(&mut self, terminal: bool) {
        let interval = if terminal { PROGRESS } else { PROGRESS_IN_A_LOG };
        if self.shown.elapsed() >= interval {
            self.shown = Instant::now();
            if terminal {
                remark(format_args!("\r\x1b[K{}", self.line()));
            } else {
                bench::note!("{}", self.line());
            }
        }
    }
}

/// Runs seeds until there is a reason to stop.
pub fn run(options: &SimOptions) -> ExitCode {
    let terminal = std::io::stderr().is_terminal();
    let mut tally = Tally::new();
    let mut seed = options.seed;
    let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let printed = loop {
        let trace = match open_trace(options) {
            Ok(trace) => trace,
            Err(e) => {
                bench::note!("basalt sim: {e}");
                return ExitCode::FAILURE;
            }
        };
        let report = ::sim::run(RunOptions {
            seed,
            steps: options.steps,
            bug: options.bug,
            nodes: options.nodes.map(usize::from),
            trace,
        });
        tally.add(&report);
        tally.show(terminal);
        if terminal && (report.failure.is_some() || options.seeds == 1) {
            remark(format_args!("\r\x1b[K"));
        }
        let printed = print(&outcome(&report, options));
        let found = report.failure.is_some() && !options.keep_going;
        seed += 1;
        let all = !options.forever && tally.runs >= options.seeds;
        if printed.is_err() || found || all || until.is_some_and(|until| Instant::now() >= until) {
            break printed;
        }
    };
    if terminal {
        remark(format_args!("\r\x1b[K"));
    }
    let printed = printed.and_then(|_| print(&format!("{}\n", tally.line())));
    if let Err(e) = printed {
        bench::note!("basalt sim: {e}");
        return ExitCode::FAILURE;
    }
    if (tally.failed > 0) == options.bug.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn open_trace(options: &SimOptions) -> std::io::Result<Option<Box<dyn Write>>> {
    let Some(path) = &options.trace else { return Ok(None) };
    let file = File::create(path).map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    Ok(Some(Box::new(BufWriter::new(file))))
}

/// One run: its hash if it is the only one, and everything about a failure.
fn outcome(report: &Report, options: &SimOptions) -> String {
    let mut text = String::new();
    if let Some(failure) = &report.failure {
        text += &format!("seed {} FAILED at step {}\n", report.seed, failure.step);
        let last = failure.last.len().saturating_sub(LAST_LINES);
        for line in &failure.last[last..] {
            text += &format!("  {line}\n");
        }
        text += &format!("{}\n", failure.what);
        let nodes = options.nodes.map_or(String::new(), |nodes| format!(" --nodes {nodes}"));
        text +=
            &format!("again: basalt sim --seed {} --steps {}{nodes} --trace trace.txt\n", report.seed, options.steps);
    }
    if options.seeds == 1 && !options.forever {
        text += &format!("seed {}: {} steps, trace {:016x}\n", report.seed, report.steps, report.hash);
    }
    text
}
