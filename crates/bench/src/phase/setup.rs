//! What a phase will do, from its options: properties, workload and plan; and the notes that its report begins with.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::{EventLog, HistogramLog, Limit, OnlyErrors, Pace, PhasePlan};
use crate::model::RunReport;
use crate::options::{PhaseOptions, PlannedEvent, Span, Tolerance};
use crate::phase::access::access;
use crate::phase::loaded;
use crate::program::Program;
use crate::trouble::Trouble;
use crate::workload::{Config, OpKind, Properties, Task, Workload};

/// What one phase came to, before it is shown.
pub(crate) struct Measured {
    /// The run with its phase; without one when nothing could be measured.
    pub(crate) report: RunReport,
    /// The phase's histograms, when they are kept.
    pub(crate) logs: Vec<(String, HistogramLog)>,
}

/// The longest run: no sum of times overflows.
const TIME_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// Most clients of one process: each is a connection.
const CLIENTS_MAX: usize = 65_536;
/// Most requests of all clients that are under way at a time.
const UNDER_WAY_MAX: usize = 16 * 1024 * 1024;

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

/// The workload's properties: files first, then what was given one by one.
pub(crate) fn properties(options: &PhaseOptions) -> Result<Properties, Trouble> {
    let mut properties = Properties::new();
    for file in &options.files {
        properties.add_file(file).map_err(|problem| Trouble::Usage(format!("-P {problem}")))?;
    }
    if options.duration.is_some() && !options.files.is_empty() {
        // The files of YCSB end after a thousand operations: a duration on the command line wins.
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
pub(crate) fn number(properties: &Properties, name: &str) -> Result<f64, Trouble> {
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
    if clients > CLIENTS_MAX || clients.saturating_mul(options.depth) > UNDER_WAY_MAX {
        return Err(Trouble::Usage(format!(
            "there may be {CLIENTS_MAX} clients, with {UNDER_WAY_MAX} requests under way together"
        )));
    }
    let time = match options.duration {
        Some(span) => Some(span.time("--duration").map_err(Trouble::Usage)?),
        // More seconds than there are is no limit.
        None => {
            Duration::try_from_secs_f64(number(properties, "maxexecutiontime")?).ok().filter(|time| !time.is_zero())
        }
    };
    let time = time.map(|time| time.min(TIME_MAX));
    let measure = Limit { operations: workload.operations(), time };
    if measure == Limit::default() {
        let text = "nothing ends the run: set operationcount, maxexecutiontime or --duration";
        return Err(Trouble::Usage(text.to_owned()));
    }
    let warm_up = options.warm_up.filter(|_| task == Task::Run).map(Span::limit);
    let warm_up = warm_up.map(|limit| Limit { time: limit.time.map(|time| time.min(TIME_MAX)), ..limit });
    within(&options.events, warm_up, time)?;
    Ok(PhasePlan {
        name: name.to_owned(),
        title: title(workload),
        clients,
        depth: options.depth,
        threads,
        pace: pace(options, properties)?,
        warm_up,
        measure,
        seed: options.output.seed,
        keeps_log: options.output.out.is_some(),
        events: events(options, program),
        only_errors: only_errors(options),
    })
}

/// Refuses an event that the phase cannot reach; where operations end the warm-up or the phase, that is not known before.
fn within(events: &[PlannedEvent], warm_up: Option<Limit>, time: Option<Duration>) -> Result<(), Trouble> {
    let warm_up = warm_up.map_or(Some(Duration::ZERO), |limit| limit.time);
    let Some(end) = warm_up.zip(time).map(|(warm_up, time)| warm_up.saturating_add(time)) else { return Ok(()) };
    let Some(late) = events.iter().find(|event| event.at > end) else { return Ok(()) };
    Err(Trouble::Usage(format!(
        "--event {}s:{}: the phase ends after {} s, its warm-up included",
        late.at.as_secs_f64(),
        late.text,
        end.as_secs_f64()
    )))
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
        Some(rate_per_s) if rate_per_s > 0.0 && rate_per_s <= Pace::RATE_MAX_PER_S => {
            Ok(Pace::Open { rate_per_s, arrivals: options.arrivals.into() })
        }
        Some(rate) => {
            let most = Pace::RATE_MAX_PER_S;
            Err(Trouble::Usage(format!("--rate {rate}: expected a number above 0, and {most} at most")))
        }
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
        words.push(workload.config.distribution.name().to_owned());
    }
    words.join(", ")
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::suite_stores::NoStores;
    use crate::test_options::Given;

    /// What a run with these options will do.
    fn planned_run(line: &str) -> Result<PhasePlan, String> {
        let given = ["run", "--target", "redis://h:1", "-p", "recordcount=10", "--duration", "1s"];
        let options: PhaseOptions = Given::by(given.into_iter().chain(line.split_whitespace()));
        let program = Program {
            version: "1",
            commit: None,
            open_store: &|_, _| Err(std::io::ErrorKind::Unsupported.into()),
            stores: &NoStores,
            stop: &AtomicBool::new(false),
            events: EventLog::default(),
        };
        match planned("run", Task::Run, &options, &program) {
            Ok((_, _, plan)) => Ok(plan),
            Err(Trouble::Usage(text)) => Err(text),
            Err(Trouble::Failed(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn no_stage_lasts_longer_than_any_run() {
        let time = |plan: PhasePlan| plan.warm_up.unwrap().time;
        assert_eq!(time(planned_run("--warm-up 10s").unwrap()), Some(Duration::from_secs(10)));
        assert_eq!(time(planned_run("--warm-up 18446744073709551615s").unwrap()), Some(TIME_MAX));
        assert_eq!(planned_run("--warm-up 500").unwrap().warm_up, Some(Limit { operations: Some(500), time: None }));
    }

    #[test]
    fn rates_have_bounds() {
        assert_eq!(planned_run("--rate 1e9").unwrap().pace.offered_per_s(), Some(1e9));
        for rate in ["0", "1.1e9", "inf", "NaN"] {
            let refused = planned_run(&format!("--rate {rate}")).unwrap_err();
            assert!(refused.contains("above 0, and 1000000000 at most"), "{refused}");
        }
    }
}
