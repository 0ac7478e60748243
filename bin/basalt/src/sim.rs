//! `basalt sim`: whole stores in virtual time, with faults, from seeds.

use crate::stop_flag::{ended_by, patient_signal};
use ::sim::{BUGS, Bug, Report, RunOptions};
use bench::output::{print, remark};
use clap::Args;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// How often progress is shown.
const PROGRESS: Duration = Duration::from_millis(500);
/// How often it is shown where standard error is no terminal.
const PROGRESS_IN_A_LOG: Duration = Duration::from_secs(30);
/// Lines of the trace that a failure is reported with.
const LAST_LINES: usize = 40;
/// Stack of a thread that runs seeds, in bytes.
const STACK_BYTES: usize = 16 << 20;

const AFTER: &str = "\
A run has N steps with faults; then all faults stop, and the store must heal. The same seed and number of steps give the same \
run, byte for byte. A failure prints its seed, the step, the fault and the last events.

Examples:
  basalt sim                                  one run of seed 1
  basalt sim --seed 7 --seeds 1000            seeds 7 to 1006
  basalt sim --seeds 20000 --jobs 2           many seeds on two processors, with a summary at the end
  basalt sim --forever                        hunt until something is found
  basalt sim --seed 7 --trace seven.txt       write down everything that happens
  basalt sim --seeds 200 --bug skip-fsync     show that the checkers find a bug
  basalt sim --nodes 100 --steps 2000         a hundred nodes that come, crash, die and go

Exit codes: 0 nothing was found (with --bug: it was found), 1 otherwise, 2 the command line is wrong; 130 and 143 \
it was told to stop (SIGINT, SIGTERM) and nothing had been found. It ends the seeds that run and prints the summary; a second \
signal ends it at once.";

/// Run whole stores in virtual time, with faults, and check what they do
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct SimOptions {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Events of a run before its faults stop
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1, conflicts_with = "forever", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Until something is found, or the program is stopped
    #[arg(long)]
    forever: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Write a line for every event to this file (of the last seed)
    #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
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
    /// How many seeds run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
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
    /// How many runs there are to be, if that is known.
    wanted: Option<u64>,
    runs: u64,
    failed: Vec<u64>,
    /// The sum of the hashes of all traces: two programs that do the same have the same.
    digest: u64,
    steps: u64,
    virtual_us: u64,
    requests: u64,
    crashes: u64,
    snapshots: u64,
    elections: u64,
    changes: u64,
    splits: u64,
    given_up: u64,
}

impl Tally {
    fn new(wanted: Option<u64>) -> Self {
        let now = Instant::now();
        let zero = 0;
        Self {
            begun: now,
            shown: now,
            wanted,
            runs: zero,
            failed: Vec::new(),
            digest: zero,
            steps: zero,
            virtual_us: zero,
            requests: zero,
            crashes: zero,
            snapshots: zero,
            elections: zero,
            changes: zero,
            splits: zero,
            given_up: zero,
        }
    }

    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.failed.extend(report.failure.is_some().then_some(report.seed));
        self.digest = self.digest.wrapping_add(report.hash);
        self.steps += report.steps;
        self.virtual_us += report.virtual_us;
        self.requests += report.counts.answered;
        self.crashes += report.counts.crashes;
        self.snapshots += report.counts.snapshots;
        self.elections += report.counts.elections;
        self.changes += report.counts.changes;
        self.splits += report.counts.splits;
        self.given_up += report.counts.given_up;
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64().max(1e-3)
    }

    fn rate(&self) -> f64 {
        self.runs as f64 / self.seconds()
    }

    fn progress(&self) -> String {
        let rate = self.rate();
        let failed = self.failed.len();
        match self.wanted {
            Some(wanted) if rate > 0.0 => {
                let left = wanted.saturating_sub(self.runs) as f64 / rate;
                let (minutes, seconds) = (left as u64 / 60, left as u64 % 60);
                format!(
                    "{} of {wanted} seeds, {failed} failed, {rate:.1} seeds/s, {minutes} min {seconds} s left",
                    self.runs
                )
            }
            _ => format!("{} seeds, {failed} failed, {rate:.1} seeds/s", self.runs),
        }
    }

    fn summary(&self) -> String {
        let wall = self.seconds();
        let hours = self.virtual_us as f64 / 3.6e9;
        format!(
            "{} seeds, {} failed, {:.2} h simulated in {wall:.0} s: {:.1} seeds/s, {:.0} h/h, {:.0} k events/s; {} requests, \
             {} elections, {} crashes, {} snapshots, {} changes of the map, {} splits, {} entries evaluated again; digest {:016x}",
            self.runs,
            self.failed.len(),
            hours,
            self.rate(),
            hours * 3600.0 / wall,
            self.steps as f64 / wall / 1000.0,
            self.requests,
            self.elections,
            self.crashes,
            self.snapshots,
            self.changes,
            self.splits,
            self.given_up,
            self.digest,
        )
    }

    /// Shows how far it is, now and then.
    fn show(&mut self, terminal: bool) {
        let interval = if terminal { PROGRESS } else { PROGRESS_IN_A_LOG };
        if self.shown.elapsed() >= interval {
            self.shown = Instant::now();
            if terminal {
                remark(format_args!("\r\x1b[K{}", self.progress()));
            } else {
                bench::note!("{}", self.progress());
            }
        }
    }
}

/// The seeds that are still to be run, shared by the threads that run them.
struct Seeds {
    next: AtomicU64,
    end: u64,
    stopped: AtomicBool,
    /// The signal that said to stop; 0 if there was none.
    signal: Arc<AtomicUsize>,
}

impl Seeds {
    fn of(options: &SimOptions, signal: Arc<AtomicUsize>) -> Self {
        let end = if options.forever { u64::MAX } else { options.seed.saturating_add(options.seeds) };
        Self { next: AtomicU64::new(options.seed), end, stopped: AtomicBool::new(false), signal }
    }

    fn take(&self) -> Option<u64> {
        if self.stopped.load(Ordering::Relaxed) || self.signalled().is_some() {
            return None;
        }
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < self.end)
    }

    fn signalled(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed) as i32).filter(|signal| *signal != 0)
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Runs seeds until there is a reason to stop.
pub fn run(options: &SimOptions) -> ExitCode {
    // What nodes log is of virtual time, and of many of them at once: the trace has it.
    log::set_max_level(log::LevelFilter::Off);
    let signal = match patient_signal() {
        Ok(signal) => signal,
        Err(e) => {
            bench::note!("basalt sim: {e}");
            return ExitCode::FAILURE;
        }
    };
    let seeds = Seeds::of(options, signal);
    let mut tally = Tally::new((!options.forever).then_some(options.seeds));
    let outcome = std::thread::scope(|scope| {
        let (sender, reports) = channel();
        let begun = (0..options.jobs).try_for_each(|_| spawn(scope, options, &seeds, sender.clone()));
        drop(sender);
        let outcome = begun.and_then(|()| follow(options, &reports, &mut tally));
        seeds.stop();
        outcome
    });
    let printed = outcome.and_then(|()| print(&last_words(&tally, options)).map(drop));
    if let Err(e) = printed {
        bench::note!("basalt sim: {e}");
        return ExitCode::FAILURE;
    }
    if let Some(signal) = seeds.signalled().filter(|_| tally.failed.is_empty()) {
        return ExitCode::from(ended_by(signal) as u8);
    }
    if tally.failed.is_empty() == options.bug.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Outcome = std::io::Result<Report>;

/// Starts a thread that runs seeds.
fn spawn<'a>(
    scope: &'a Scope<'a, '_>,
    options: &'a SimOptions,
    seeds: &'a Seeds,
    sender: Sender<Outcome>,
) -> std::io::Result<()> {
    let run = move || {
        while let Some(seed) = seeds.take() {
            let outcome = open_trace(options).map(|trace| {
                let nodes = options.nodes.map(usize::from);
                ::sim::run(RunOptions { seed, steps: options.steps, bug: options.bug, nodes, trace })
            });
            if sender.send(outcome).is_err() {
                return;
            }
        }
    };
    Builder::new().name("sim".to_owned()).stack_size(STACK_BYTES).spawn_scoped(scope, run).map(drop)
}

/// Prints what runs come to, until all have ended or one has found something.
fn follow(options: &SimOptions, reports: &Receiver<Outcome>, tally: &mut Tally) -> std::io::Result<()> {
    let terminal = std::io::stderr().is_terminal();
    let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    loop {
        let report = match reports.recv_timeout(PROGRESS) {
            Ok(report) => report?,
            Err(RecvTimeoutError::Timeout) => {
                tally.show(terminal);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        tally.add(&report);
        tally.show(terminal);
        if terminal && (report.failure.is_some() || options.seeds == 1) {
            remark(format_args!("\r\x1b[K"));
        }
        print(&outcome(&report, options))?;
        let found = report.failure.is_some() && !options.keep_going;
        if found || until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    if terminal {
        remark(format_args!("\r\x1b[K"));
    }
    Ok(())
}

/// The sum of all runs, and how to see the first failure again.
fn last_words(tally: &Tally, options: &SimOptions) -> String {
    let mut text = format!("{}\n", tally.summary());
    if tally.runs > 1
        && let Some(first) = tally.failed.iter().min()
    {
        let seeds: Vec<String> = tally.failed.iter().map(u64::to_string).collect();
        text += &format!("failed: {}\nagain: {}\n", seeds.join(" "), again(*first, options));
    }
    text
}

/// The command that runs a seed again.
fn again(seed: u64, options: &SimOptions) -> String {
    let nodes = options.nodes.map_or(String::new(), |nodes| format!(" --nodes {nodes}"));
    let bug = options.bug.and_then(|bug| BUGS.iter().find(|(_, known)| *known == bug));
    let bug = bug.map_or(String::new(), |(name, _)| format!(" --bug {name}"));
    format!("basalt sim --seed {seed} --steps {}{nodes}{bug} --trace trace.txt", options.steps)
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
        text += &format!("again: {}\n", again(report.seed, options));
    }
    if options.seeds == 1 && !options.forever {
        text += &format!("seed {}: {} steps, trace {:016x}\n", report.seed, report.steps, report.hash);
    }
    text
}
