//! `basalt bench` without arguments: the canonical run on an embedded store.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::{Limit, OnlyErrors, Pace, PhasePlan};
use crate::options::CanonicalOptions;
use crate::phase::assemble::Drive;
use crate::phase::setup::title;
use crate::phase::store;
use crate::program::Program;
use crate::run::Run;
use crate::trouble::Trouble;
use crate::workload::{Config, OpKind, Properties, Task, Workload};

/// One run of the canonical.
struct Canonical<'a> {
    options: &'a CanonicalOptions,
    program: &'a Program<'a>,
    threads: usize,
    /// Records that are there; a workload that inserts leaves more than it found.
    records: u64,
    run: Run<'a>,
}

/// Runs it. True when all went well.
pub(crate) fn run(options: &CanonicalOptions, program: &Program<'_>) -> Result<bool, Trouble> {
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
    let shared = common(options.records);
    let mut run = Run::begin("default", (&config, &shared), &drive, &store.target, &options.output, program)?;
    run.report_mut().configuration.distribution = "zipfian; latest in D".to_owned();
    let mut canonical = Canonical { options, program, threads, records: options.records, run };
    canonical.phase("load", 'A', Task::Load)?;
    for letter in letters {
        if canonical.run.goes_on() {
            canonical.phase(&letter.to_string(), letter, Task::Run)?;
        }
    }
    Ok(canonical.run.finish()?)
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

impl Canonical<'_> {
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
            only_errors: OnlyErrors::End,
        };
        self.run.phase(&plan, &workload, &mut |_| {});
        if task == Task::Run && workload.mix().share(OpKind::Insert) > 0.0 {
            self.records = workload.readable_end();
        }
        Ok(())
    }
}
