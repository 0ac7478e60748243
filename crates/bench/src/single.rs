//! `basalt bench load | run | delete`: one phase of one workload against any target.

use std::sync::Arc;
use std::time::Duration;

use client::{Address, StoreUrl};

use crate::access::access;
use crate::assemble::{Drive, begin, configuration, distribution, finish, notes};
use crate::cli::{Format, PhaseOptions, Program, RunOptions, Span, Tolerance, Trouble};
use crate::coordinate::{Crew, CrewOptions, with_crew};
use crate::driver::{EventLog, HistogramLog, Limit, OnlyErrors, Pace, PhasePlan};
use crate::loaded;
use crate::model::{Outcome, Phase, RunReport};
use crate::output::print;
use crate::peer;
use crate::report::{Claimed, Paint, Progress};
use crate::search::{page as search_page, searched};
use crate::store;
use crate::target::{AdapterTarget, AdapterUrl, NoopTarget, RedisTarget, Target};
use crate::tell::Teller;
use crate::workload::{Config, OpKind, Properties, Task, Workload};

/// What one phase came to, before it is shown.
pub(crate) struct Measured {
    /// The run with its phase; without one when nothing could be measured.
    pub(crate) report: RunReport,
    /// The phase's histograms, when they are kept.
    pub(crate) logs: Vec<(String, HistogramLog)>,
}

/// Runs it. True when all went well.
pub(crate) fn run(
    task: Task,
    options: &PhaseOptions,
    crew: &CrewOptions,
    program: &Program<'_>,
) -> Result<bool, Trouble> {
    let name = match task {
        Task::Load => "load",
        Task::Run => "run",
        Task::Delete => "delete",
    };
    let folder = options.output.out.as_deref().map(Claimed::make).transpose()?;
    let Measured { report, logs } = measured_by(name, task, options, crew, program)?;
    Ok(finish(&report, &logs, &options.output, folder.as_ref())?)
}

/// Looks for a rate, and shows what was found. True when there is an answer and nothing was wrong.
pub(crate) fn search(options: &RunOptions, program: &Program<'_>) -> Result<bool, Trouble> {
    let folder = options.phase.output.out.as_deref().map(Claimed::make).transpose()?;
    let Measured { report, logs } = searched("search", &options.phase, &options.search, &options.crew, program)?;
    finish(&report, &logs, &options.phase.output, folder.as_ref())?;
    let found = report.searches.iter().all(|search| search.best_per_s.is_some());
    if options.phase.output.format == Format::Table {
        let pages: String = report.searches.iter().map(|search| search_page(search, Paint::of_stdout())).collect();
        print(&pages)?;
    }
    Ok(found && report.is_clean())
}

/// Runs a phase of that name, here or with the processes that are asked for.
pub(crate) fn measured_by(
    name: &str,
    task: Task,
    options: &PhaseOptions,
    crew: &CrewOptions,
    program: &Program<'_>,
) -> Result<Measured, Trouble> {
    let (properties, workload, plan) = planned(name, task, options, program)?;
    remark(&properties);
    with_crew(options, crew, &properties, &workload.config, program, &mut |crew| {
        loaded::check(crew.target(), &workload, options, program.stop)?;
        measure(&plan, crew, &workload, &properties, options, program)
    })
}

/// What a phase of that name will do.
pub(crate) fn planned(
    name: &str,
    task: Task,
    options: &PhaseOptions,
    program: &Program<'_>,
) -> Result<(Properties, Arc<Workload>, PhasePlan), Trouble> {
    let properties = properties(options)?;
    let config = Config::read(&properties).map_err(|bad| Trouble::Usage(bad.to_string()))?;
    let workload = Workload::plan(config, task).map_err(|bad| Trouble::Usage(bad.to_string()))?;
    access(options, &properties)?;
    loaded::refuse_empty(options, &workload)?;
    let plan = plan(name, task, options, program, &properties, &workload)?;
    Ok((properties, Arc::new(workload), plan))
}

/// Opens the target that the options name, for as long as `then` takes.
pub(crate) fn with_target<T>(
    options: &PhaseOptions,
    properties: &Properties,
    config: &Config,
    program: &Program<'_>,
    then: &mut dyn FnMut(&dyn Target) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let access = access(options, properties)?;
    match options.target.as_str() {
        "embedded" => then(&store::open(&options.store, program)?.target),
        "noop://" => {
            let bytes = config.record_bytes() / u64::from(config.field_count);
            then(&NoopTarget::start(config.field_count, bytes as usize, access.timeout, access.connections)?)
        }
        url => {
            // The text may hold a password, so it is not shown.
            let bad = |bad: client::BadAddress| Trouble::Usage(format!("--target: {bad}"));
            if let Some(place) = url.strip_prefix("noop://") {
                let place: Address = place.parse().map_err(bad)?;
                return then(&NoopTarget::at(place, access.timeout, access.connections));
            }
            if let Ok(url) = url.parse::<AdapterUrl>() {
                let command = peer::adapter(&url)?;
                return then(&AdapterTarget::start(url, command, access)?);
            }
            let url = url.strip_prefix("valkey://").unwrap_or(url);
            if url.contains("://") && !url.starts_with("redis://") {
                let schemes = AdapterUrl::SCHEMES.join("://, ");
                let text = format!("--target: expected embedded, redis://, valkey://, noop://, {schemes}://");
                return Err(Trouble::Usage(text));
            }
            let store: StoreUrl = url.parse().map_err(bad)?;
            then(&RedisTarget::connect(store, access)?)
        }
    }
}

/// The workload's properties: files first, then what was given one by one.
pub(crate) fn properties(options: &PhaseOptions) -> Result<Properties, Trouble> {
    let mut properties = Properties::new();
    for file in &options.files {
        properties.add_file(file).map_err(|problem| Trouble::Usage(format!("-P {problem}")))?;
    }
    if options.duration.is_some() && !options.files.is_empty() {
        // The files of YCSB end after a thousand operations: whoever says how long means that.
        properties.set("operationcount", "0");
    }
    for assignment in &options.properties {
        properties.add_assignment(assignment).map_err(Trouble::Usage)?;
    }
    properties.check().map_err(|bad| Trouble::Usage(bad.to_string()))?;
    Ok(properties)
}

/// Says what of the properties has no effect here.
pub(crate) fn remark(properties: &Properties) {
    for name in properties.unknown() {
        crate::note!("basalt bench: the property {name} means nothing here; it is kept in the report");
    }
    for (name, only) in [("measurementtype", "hdrhistogram"), ("timeseries.granularity", "1000")] {
        let given = properties.get(name);
        if given != only {
            crate::note!("basalt bench: {name} is always {only} here, not {given}");
        }
    }
}

/// A number among the driver's own properties.
fn number(properties: &Properties, name: &str) -> Result<f64, Trouble> {
    let text = properties.get(name);
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| Trouble::Usage(format!("property {name}: `{text}` is not a number that it can be")))
}

/// What the options ask of a phase of that name.
pub(crate) fn plan(
    name: &str,
    task: Task,
    options: &PhaseOptions,
    program: &Program<'_>,
    properties: &Properties,
    workload: &Workload,
) -> Result<PhasePlan, Trouble> {
    let clients = match options.clients {
        Some(clients) => clients,
        None => number(properties, "threadcount")? as usize,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(cores).min(clients);
    if clients == 0 || threads == 0 || options.depth == 0 {
        return Err(Trouble::Usage("there must be at least one client, one thread and a depth of one".to_owned()));
    }
    let time = match options.duration {
        Some(span) => Some(span.time("--duration").map_err(Trouble::Usage)?),
        None => Some(Duration::from_secs_f64(number(properties, "maxexecutiontime")?)).filter(|time| !time.is_zero()),
    };
    let measure = Limit { operations: workload.operations(), time };
    if measure == Limit::default() {
        let text = "nothing ends the run: set operationcount, maxexecutiontime or --duration";
        return Err(Trouble::Usage(text.to_owned()));
    }
    Ok(PhasePlan {
        name: name.to_owned(),
        title: title(workload),
        clients,
        depth: options.depth,
        threads,
        pace: pace(options, properties)?,
        warm_up: options.warm_up.filter(|_| task == Task::Run).map(Span::limit),
        measure,
        seed: options.output.seed,
        keeps_log: options.output.out.is_some(),
        events: events(options, program),
        only_errors: only_errors(options),
    })
}

/// What a phase of these options does when nothing but one error comes back.
pub(crate) fn only_errors(options: &PhaseOptions) -> OnlyErrors {
    let tolerates = options.tolerate.contains(&Tolerance::Unavailable);
    if tolerates { OnlyErrors::EndUnlessUnavailable } else { OnlyErrors::End }
}

/// What the command line plans, among what the program notes.
fn events(options: &PhaseOptions, program: &Program<'_>) -> EventLog {
    let events = program.events.clone();
    options.events.iter().for_each(|event| events.plan(event.at, &event.text));
    events
}

fn pace(options: &PhaseOptions, properties: &Properties) -> Result<Pace, Trouble> {
    let target_per_s = number(properties, "target")?;
    match options.rate {
        Some(rate_per_s) if rate_per_s.is_finite() && rate_per_s > 0.0 => {
            Ok(Pace::Open { rate_per_s, arrivals: options.arrivals.into() })
        }
        Some(rate) => Err(Trouble::Usage(format!("--rate {rate}: expected a number above 0"))),
        None if target_per_s > 0.0 => Ok(Pace::Throttled { target_per_s }),
        None => Ok(Pace::Closed),
    }
}

/// What a phase of `workload` does, in a few words.
#[must_use]
pub fn title(workload: &Workload) -> String {
    let shares = OpKind::ALL.iter().filter_map(|&kind| {
        let share = workload.mix().share(kind);
        (share > 0.0).then(|| format!("{}% {}", (share * 1000.0).round() / 10.0, kind.name().to_lowercase()))
    });
    let mut words: Vec<String> = shares.collect();
    if workload.task() == Task::Run {
        words.push(distribution(workload.config.distribution).to_owned());
    }
    words.join(", ")
}

fn measure(
    plan: &PhasePlan,
    crew: &Crew<'_>,
    workload: &Arc<Workload>,
    properties: &Properties,
    options: &PhaseOptions,
    program: &Program<'_>,
) -> Result<Measured, Trouble> {
    let rule = warm_up_rule(plan);
    let tolerates: Vec<String> = options.tolerate.iter().map(|tolerance| tolerance.word().to_owned()).collect();
    let (clients, depth, threads) = (plan.clients, plan.depth, plan.threads);
    let drive = Drive { clients, depth, threads, pace: plan.pace, warm_up_rule: &rule, tolerates };
    let asked = configuration(&workload.config, properties, crew.target(), &drive);
    let mut report = begin(&plan.name, plan.seed, program, crew.target(), asked);
    report.notes = notes(&workload.config);
    let every_s = number(properties, "status.interval")? as u64;
    let mut teller = match options.output.format {
        Format::Ycsb if !options.output.quiet => Teller::ycsb(every_s, plan.measure.operations),
        _ if options.output.quiet => Teller::progress(Progress::silent(), plan),
        _ => Teller::progress(Progress::new(), plan),
    };
    let interval = properties.get("measurement.interval");
    let mut logs = Vec::new();
    let mut tell = |snapshot| teller.tell(snapshot);
    match crew.run_phase(plan, properties, workload, program.stop, &mut tell) {
        Ok((phase, log)) => {
            teller.finish(&phase);
            logs.push((plan.name.clone(), log));
            report.phases.push(latencies_as_asked(phase, plan.pace, interval));
        }
        Err(failure) => {
            drop(teller);
            crate::note!("basalt bench: {}", failure.error);
            report.outcome = Outcome::Failed;
            report.notes.push(format!("The phase could not go on: {}.", failure.error));
            let phase = failure.phase.ok_or(Trouble::Failed(failure.error))?;
            report.phases.push(*phase);
        }
    }
    threads_of_agents(&mut report);
    if program.stop.load(std::sync::atomic::Ordering::Relaxed) {
        report.outcome = Outcome::Interrupted;
    }
    Ok(Measured { report, logs })
}

/// Where other processes made the load, their threads did.
pub(crate) fn threads_of_agents(report: &mut RunReport) {
    let threads = report.phases.iter().map(|phase| phase.agents.iter().map(|agent| agent.threads).sum::<u32>()).max();
    if let Some(threads) = threads.filter(|threads| *threads > 0) {
        report.configuration.threads = threads;
    }
}

pub(crate) fn warm_up_rule(plan: &PhasePlan) -> String {
    match plan.warm_up {
        None => "no warm-up".to_owned(),
        Some(Limit { operations: Some(operations), .. }) => {
            format!("the first {operations} operations of the phase do not count")
        }
        Some(Limit { time, .. }) => {
            format!("the first {} s of the phase do not count", time.unwrap_or_default().as_secs_f64())
        }
    }
}

/// YCSB's `measurement.interval` decides which latency its throttle reports. An open loop always reports both.
fn latencies_as_asked(mut phase: Phase, pace: Pace, interval: &str) -> Phase {
    if matches!(pace, Pace::Throttled { .. }) {
        for op in &mut phase.ops {
            match interval {
                "both" => {}
                "intended" => op.latency.measured = op.latency.intended.take().unwrap_or_default(),
                _ => op.latency.intended = None,
            }
        }
    }
    phase
}
