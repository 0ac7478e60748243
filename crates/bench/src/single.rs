//! `basalt bench load | run | delete`: one phase of one workload against any target.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::coordinator::{Loader, LoaderOptions, with_loader};
use crate::driver::{Pace, PhasePlan};
use crate::model::{Phase, RunOutcome};
use crate::options::{Format, PhaseOptions};
use crate::output::print;
use crate::phase::assemble::{Drive, begin, configuration, finish, notes};
use crate::phase::loaded;
use crate::phase::setup::{Measured, number, planned, remark, threads_of_agents, warm_up_rule};
use crate::phase::status::StatusReporter;
use crate::program::Program;
use crate::report::{Claimed, Paint, Progress};
use crate::search::{SearchOptions, page as search_page, searched};
use crate::trouble::Trouble;
use crate::workload::{Properties, Task, Workload};

/// Runs it. True when all went well.
pub(crate) fn run(
    task: Task,
    options: &PhaseOptions,
    loader: &LoaderOptions,
    program: &Program<'_>,
) -> Result<bool, Trouble> {
    let name = match task {
        Task::Load => "load",
        Task::Run => "run",
        Task::Delete => "delete",
    };
    let folder = options.output.out.as_deref().map(Claimed::make).transpose()?;
    let Measured { report, logs } = measured_by(name, task, options, loader, program)?;
    Ok(finish(&report, &logs, &options.output, folder.as_ref())?)
}

/// Looks for a rate, and shows what was found. True when there is an answer and nothing was wrong.
pub(crate) fn search(
    options: &PhaseOptions,
    search: &SearchOptions,
    loader: &LoaderOptions,
    program: &Program<'_>,
) -> Result<bool, Trouble> {
    let folder = options.output.out.as_deref().map(Claimed::make).transpose()?;
    let Measured { report, logs } = searched("search", options, search, loader, program)?;
    finish(&report, &logs, &options.output, folder.as_ref())?;
    let found = report.searches.iter().all(|search| search.best_per_s.is_some());
    if options.output.format == Format::Table {
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
    loader: &LoaderOptions,
    program: &Program<'_>,
) -> Result<Measured, Trouble> {
    let (properties, workload, plan) = planned(name, task, options, program)?;
    remark(&properties);
    with_loader(options, loader, &properties, &workload.config, program, &mut |loader| {
        loaded::check(loader.target(), &workload, options, program.stop)?;
        measure(&plan, loader, &workload, &properties, options, program)
    })
}

fn measure(
    plan: &PhasePlan,
    loader: &Loader<'_>,
    workload: &Arc<Workload>,
    properties: &Properties,
    options: &PhaseOptions,
    program: &Program<'_>,
) -> Result<Measured, Trouble> {
    let rule = warm_up_rule(plan);
    let tolerates: Vec<String> = options.tolerate.iter().map(|tolerance| tolerance.word().to_owned()).collect();
    let (clients, depth, threads) = (plan.clients, plan.depth, plan.threads);
    let drive = Drive { clients, depth, threads, pace: plan.pace, warm_up_rule: &rule, tolerates };
    let asked = configuration(&workload.config, properties, loader.target(), &drive);
    let mut report = begin(&plan.name, plan.seed, program, loader.target(), asked);
    report.notes = notes(&workload.config);
    let every_s = number(properties, "status.interval")? as u64;
    let mut status = match options.output.format {
        Format::Ycsb if !options.output.quiet => StatusReporter::ycsb(every_s, plan.measure.operations),
        _ if options.output.quiet => StatusReporter::progress(Progress::silent(), plan),
        _ => StatusReporter::progress(Progress::new(), plan),
    };
    let interval = properties.get("measurement.interval");
    let mut logs = Vec::new();
    let mut on_progress = |snapshot| status.show(snapshot);
    match loader.run_phase(plan, properties, workload, program.stop, &mut on_progress) {
        Ok((phase, log)) => {
            status.finish(&phase);
            logs.push((plan.name.clone(), log));
            report.phases.push(latencies_as_asked(phase, plan.pace, interval));
        }
        Err(failure) => {
            drop(status);
            crate::note!("basalt bench: {}", failure.error);
            report.outcome = RunOutcome::Failed;
            report.notes.push(format!("The phase could not go on: {}.", failure.error));
            let phase = failure.phase.ok_or(Trouble::Failed(failure.error))?;
            report.phases.push(*phase);
        }
    }
    threads_of_agents(&mut report);
    if program.stop.load(Ordering::Relaxed) {
        report.outcome = RunOutcome::Interrupted;
    }
    Ok(Measured { report, logs })
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
