//! `basalt bench` without arguments: the canonical run on an embedded store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::assemble::{Drive, begin, configuration, finish, notes};
use crate::cli::{Format, Program, SuiteOptions, Trouble};
use crate::driver::{HistogramLog, Limit, Pace, PhasePlan, run_phase};
use crate::model::{Outcome, RunReport};
use crate::report::Progress;
use crate::single::title;
use crate::store;
use crate::target::{EmbeddedTarget, Target};
use crate::tell::Teller;
use crate::workload::{Config, OpKind, Properties, Task, Workload};

/// One run of the suite.
struct Suite<'a> {
    options: &'a SuiteOptions,
    program: &'a Program<'a>,
    target: EmbeddedTarget,
    threads: usize,
    /// Records that are there; a workload that inserts leaves more than it found.
    records: u64,
    report: RunReport,
    logs: Vec<(String, HistogramLog)>,
}

/// Runs it. True when all went well.
pub(crate) fn run(options: &SuiteOptions, program: &Program<'_>) -> Result<bool, Trouble> {
    let letters: Vec<char> = options.workloads.chars().map(|letter| letter.to_ascii_uppercase()).collect();
    if letters.is_empty() || letters.iter().any(|letter| !('A'..='F').contains(letter)) {
        return Err(Trouble::Usage(format!("--workloads {}: expected letters from A to F", options.workloads)));
    }
    let repeated = letters.iter().enumerate().any(|(index, letter)| letters[..index].contains(letter));
    if repeated || options.records < 2 || options.seconds == 0 || options.clients == 0 {
        let text = "each workload at most once, two records, one second and one client at least";
        return Err(Trouble::Usage(text.to_owned()));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(cores).clamp(1, options.clients);
    let store = store::open(&options.store, program)?;
    let config = config(&properties('A', options.records))?;
    let rule =
        format!("the first {} s of each workload do not count; the load has no warm-up", options.warm_up_seconds);
    let drive = Drive {
        clients: options.clients,
        depth: 1,
        threads,
        pace: Pace::Closed,
        warm_up_rule: &rule,
        tolerates: Vec::new(),
    };
    let mut asked = configuration(&config, &common(options.records), &store.target, &drive);
    asked.distribution = "zipfian; latest in D".to_owned();
    let mut report = begin("default", options.output.seed, program, &store.target, asked);
    report.notes = notes(&config);
    let mut suite =
        Suite { options, program, target: store.target, threads, records: options.records, report, logs: Vec::new() };
    suite.phase("load", 'A', Task::Load)?;
    for letter in letters {
        if suite.report.outcome == Outcome::Completed {
            suite.phase(&letter.to_string(), letter, Task::Run)?;
        }
    }
    let Suite { report, logs, .. } = suite;
    Ok(finish(&report, &logs, &options.output, true)?)
}

/// What all workloads share.
fn common(records: u64) -> Properties {
    let mut properties = Properties::new();
    properties.set("recordcount", &records.to_string());
    properties
}

/// The properties of one workload. Time ends it, not a number of operations.
fn properties(letter: char, records: u64) -> Properties {
    let mut properties = Properties::new();
    let name = format!("workload{}", letter.to_ascii_lowercase());
    properties.add_file(&name).expect("the six workloads are built in");
    properties.set("recordcount", &records.to_string());
    properties.set("operationcount", "0");
    properties
}

fn config(properties: &Properties) -> Result<Config, Trouble> {
    Config::read(properties).map_err(|bad| Trouble::Usage(bad.to_string()))
}

impl Suite<'_> {
    fn phase(&mut self, name: &str, letter: char, task: Task) -> Result<(), Trouble> {
        let config = config(&properties(letter, self.records))?;
        let workload = Workload::plan(config, task).map_err(|bad| Trouble::Usage(bad.to_string()))?;
        let workload = Arc::new(workload);
        let seconds = |count: u64| Limit { time: Some(Duration::from_secs(count)), operations: None };
        let loads = task == Task::Load;
        let plan = PhasePlan {
            name: name.to_owned(),
            title: title(&workload),
            clients: self.options.clients,
            depth: 1,
            threads: self.threads,
            pace: Pace::Closed,
            warm_up: (!loads && self.options.warm_up_seconds > 0).then(|| seconds(self.options.warm_up_seconds)),
            measure: if loads {
                Limit { operations: workload.operations(), time: None }
            } else {
                seconds(self.options.seconds)
            },
            seed: self.options.output.seed ^ u64::from(letter) << 32 ^ u64::from(loads) << 48,
            keeps_log: true,
            events: self.program.events.clone(),
        };
        let silent = self.options.output.quiet || self.options.output.format == Format::Ycsb;
        let progress = if silent { Progress::silent() } else { Progress::new() };
        let mut teller = Teller::progress(progress, &plan);
        let target: &dyn Target = &self.target;
        match run_phase(&plan, target, &workload, self.program.stop, &mut |snapshot| teller.tell(snapshot)) {
            Ok((phase, log)) => {
                teller.finish(&phase);
                self.logs.push((name.to_owned(), log));
                self.report.phases.push(phase);
            }
            Err(failure) => {
                drop(teller);
                eprintln!("basalt bench: {}", failure.error);
                self.report.outcome = Outcome::Failed;
                self.report.notes.push(format!("Phase {name} could not go on: {}.", failure.error));
                self.report.phases.extend(failure.phase.map(|phase| *phase));
            }
        }
        if self.program.stop.load(Ordering::Relaxed) {
            self.report.outcome = Outcome::Interrupted;
        }
        if task == Task::Run && workload.mix().share(OpKind::Insert) > 0.0 {
            self.records = workload.readable_end();
        }
        Ok(())
    }
}
