//! `basalt demo`: a store of several nodes on this machine, one of which dies and comes back under load.

mod audit;
mod options;
mod readers;
mod script;
mod stage;
mod verdict;

pub use options::DemoOptions;

use crate::cluster::Trouble;
use crate::stop_flag::stop_flag;
use audit::Audit;
use bench::driver::{EventLog, Limit, OnlyErrors, Pace, PhasePlan};
use bench::program::Program;
use bench::target::{RedisOptions, RedisTarget};
use bench::workload::{Config, Properties, Task, Workload};
use bench::{Drive, Run, title};
use client::ReadFrom;
use readers::Readers;
use script::Script;
use stage::Stage;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use verdict::Verdict;

/// A request without an answer for this long has failed.
const TIMEOUT: Duration = Duration::from_secs(5);
/// An operation that was refused, or that may be done twice, is attempted again for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it: 0 if nothing was lost and reads went on, 1 otherwise.
pub fn run(options: &DemoOptions) -> ExitCode {
    match demonstrate(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => trouble.tell("demo"),
    }
}

fn demonstrate(options: &DemoOptions) -> Result<bool, Trouble> {
    options.check()?;
    let stop = stop_flag().map_err(|e| Trouble::Failed(e.to_string()))?;
    options.say(&format!("starting {} nodes, {}, {} shards", options.nodes, options.durability, options.shards));
    let Some(mut stage) = Stage::set(options, &stop)? else { return Ok(false) };
    options.say(&format!("they serve redis://{}; data in {}", stage.store.url(), stage.store.dir().display()));
    let failed = |e: io::Error| Trouble::Failed(e.to_string());
    let access = RedisOptions {
        timeout: TIMEOUT,
        patience: PATIENCE,
        connections: 1,
        read_from: ReadFrom::Any,
        durability: Vec::new(),
    };
    let target = RedisTarget::connect(stage.store.url(), access).map_err(failed)?;
    let events = EventLog::default();
    let no_store = |_: &Path, _: &[(String, String)]| Err(io::Error::from(io::ErrorKind::Unsupported));
    let program = Program {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("BASALT_COMMIT"),
        open_store: &no_store,
        stores: &bench::suite_stores::NoStores,
        stop: &stop,
        events: events.clone(),
    };
    let act = Act::plan(options)?;
    let drive = act.drive();
    let shared = (&act.load.config, &act.properties);
    let mut run = Run::begin("demo", shared, &drive, &target, &options.output, &program).map_err(failed)?;
    run.phase(&act.phase("load", Task::Load, &events), &act.load, &mut |_| {});
    let mut verdict = Verdict::default();
    if run.goes_on() {
        verdict = lose_a_node(&mut run, &mut stage, &act, &target, &events);
    }
    if run.goes_on() {
        options.say("reading back what was acknowledged");
        verdict.verify(&stage.store, options.records);
    }
    // The report is about a store that is gone when it is read.
    drop(stage);
    let complete = run.goes_on();
    run.report_mut().notes.extend(verdict.notes());
    let clean = run.finish().map_err(failed)?;
    if complete {
        bench::output::print(&verdict.text())?;
    } else if stop.load(Ordering::Relaxed) {
        bench::note!("basalt demo: stopped; nothing of it runs any more, and its data is removed");
    }
    Ok(clean && complete && verdict.is_good())
}

/// The workload, with writers who remember and readers who only read beside it, while a node dies and comes back.
fn lose_a_node(run: &mut Run<'_>, stage: &mut Stage, act: &Act, target: &RedisTarget, events: &EventLog) -> Verdict {
    let mut verdict = Verdict::default();
    let audit = Audit::start(&stage.store.url());
    let mut script = Script::new(&mut stage.store, events, act.seconds);
    let plan = act.phase("B", Task::Run, events);
    std::thread::scope(|scope| {
        let readers = Readers::start(scope, target, &act.reads, act.seed);
        let phase = run.phase(&plan, &act.run, &mut |snapshot| script.play(snapshot.elapsed));
        verdict.write_gap_s = phase.and_then(|phase| phase.write_gap_s_max);
        verdict.heard(readers.finish());
    });
    verdict.script = script.end();
    verdict.audit = audit.finish();
    verdict
}

/// What is done to the store.
struct Act {
    properties: Properties,
    load: Arc<Workload>,
    run: Arc<Workload>,
    /// The same without writes.
    reads: Arc<Workload>,
    clients: usize,
    threads: usize,
    seconds: u64,
    seed: u64,
}

impl Act {
    fn plan(options: &DemoOptions) -> Result<Self, Trouble> {
        let usage = |e: String| Trouble::Usage(e);
        let mut properties = Properties::new();
        properties.add_file("workloadb").map_err(|e| usage(e.to_string()))?;
        properties.set("recordcount", &options.records.to_string());
        properties.set("operationcount", "0");
        let plan = |properties: &Properties, task| {
            let config = Config::read(properties).map_err(|e| usage(e.to_string()))?;
            Workload::plan(config, task).map(Arc::new).map_err(|e| usage(e.to_string()))
        };
        let (load, run) = (plan(&properties, Task::Load)?, plan(&properties, Task::Run)?);
        let mut only_reads = properties.clone();
        only_reads.set("readproportion", "1");
        only_reads.set("updateproportion", "0");
        let reads = plan(&only_reads, Task::Run)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // The nodes need their share of the machine.
        let threads = (cores / 2).clamp(1, options.clients);
        let (clients, seconds, seed) = (options.clients, options.seconds, options.output.seed);
        Ok(Self { properties, load, run, reads, clients, threads, seconds, seed })
    }

    fn drive(&self) -> Drive<'static> {
        Drive {
            clients: self.clients,
            depth: 1,
            threads: self.threads,
            pace: Pace::Closed,
            warm_up_rule: "no warm-up",
            tolerates: vec![bench::model::UNAVAILABLE.to_owned()],
        }
    }

    fn phase(&self, name: &str, task: Task, events: &EventLog) -> PhasePlan {
        let (workload, limit) = match task {
            Task::Load => (&self.load, Limit { operations: self.load.operations(), time: None }),
            _ => (&self.run, Limit { operations: None, time: Some(Duration::from_secs(self.seconds)) }),
        };
        PhasePlan {
            name: name.to_owned(),
            title: title(workload),
            clients: self.clients,
            depth: 1,
            threads: self.threads,
            pace: Pace::Closed,
            warm_up: None,
            measure: limit,
            seed: self.seed ^ u64::from(task == Task::Load) << 48,
            keeps_log: true,
            events: events.clone(),
            only_errors: OnlyErrors::EndUnlessUnavailable,
        }
    }
}
