//! Runs the trials of a search and keeps all of them in the report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::curve;
use super::hunt::{Ended, Hunt, hunt};
use super::options::{OfferedRate, SearchOptions};
use crate::coordinator::{Loader, LoaderOptions, with_loader};
use crate::driver::{HistogramLog, OnlyErrors, Pace, PhasePlan, Snapshot};
use crate::figure;
use crate::model::{CpuUse, Pacing, Phase, RunOutcome, RunReport, Search, Trial};
use crate::options::{Format, PhaseOptions, Span};
use crate::phase::assemble::{Drive, begin, configuration, notes};
use crate::phase::loaded;
use crate::phase::setup::{Measured, plan, properties, remark, threads_of_agents, warm_up_rule};
use crate::phase::status::StatusReporter;
use crate::program::Program;
use crate::report::Progress;
use crate::slo::{Judged, Slo, fell_behind};
use crate::trouble::Trouble;
use crate::workload::{Config, OpKind, Properties, Task, Workload};

/// How long a trial lasts by default.
const DURATION: Span = Span::Time(Duration::from_secs(10));
/// So does its warm-up.
const WARM_UP: Span = Span::Time(Duration::from_secs(3));
/// The number of trials that a search may set aside because other machines took the processors; after that it takes what there is.
const SET_ASIDE_MAX: usize = 20;
/// Where a search begins, as a share of what a closed loop gets.
const BEGIN_SHARE: f64 = 0.5;

struct Trials<'a> {
    options: &'a PhaseOptions,
    program: &'a Program<'a>,
    loader: &'a Loader<'a>,
    base: PhasePlan,
    properties: Properties,
    /// Those that the properties and the goal ask for.
    percentiles: Vec<f64>,
    inserts: bool,
    report: RunReport,
    logs: Vec<(String, HistogramLog)>,
    search: Search,
}

/// Searches, on what the options name. What was measured, with the search in its report.
pub(crate) fn searched(
    name: &str,
    options: &PhaseOptions,
    search: &SearchOptions,
    loader: &LoaderOptions,
    program: &Program<'_>,
) -> Result<Measured, Trouble> {
    let mut options = options.clone();
    options.duration.get_or_insert(DURATION);
    options.warm_up.get_or_insert(WARM_UP);
    let mut properties = properties(&options)?;
    properties.set("operationcount", "0");
    let mut config = Config::read(&properties).map_err(|bad| Trouble::Usage(bad.to_string()))?;
    config.percentiles.extend(search.find_max_rate.iter().flat_map(Slo::percentiles));
    let workload = Workload::plan(config, Task::Run).map_err(|bad| Trouble::Usage(bad.to_string()))?;
    let workload = Arc::new(workload);
    search.check(&options, &workload, loader).map_err(Trouble::Usage)?;
    loaded::refuse_empty(&options, &workload)?;
    let base = plan(name, Task::Run, &options, program, &properties, &workload)?;
    remark(&properties);
    with_loader(&options, loader, &properties, &workload.config, program, &mut |loader| {
        loaded::check(loader.target(), &workload, &options, program.stop)?;
        let rule = warm_up_rule(&base);
        let tolerates = options.tolerate.iter().map(|tolerance| tolerance.word().to_owned()).collect();
        let (clients, depth, threads) = (base.clients, base.depth, base.threads);
        let drive = Drive { clients, depth, threads, pace: base.pace, warm_up_rule: &rule, tolerates };
        let asked = configuration(&workload.config, &properties, loader.target(), &drive);
        let mut report = begin(name, base.seed, program, loader.target(), asked);
        report.notes = notes(&workload.config);
        let trials = Trials {
            options: &options,
            program,
            loader,
            base: base.clone(),
            properties: properties.clone(),
            percentiles: workload.config.percentiles.clone(),
            inserts: workload.mix().share(OpKind::Insert) > 0.0,
            report,
            logs: Vec::new(),
            search: Search { tolerance: search.tolerance / 100.0, ..Search::default() },
        };
        trials.all(search)
    })
}

/// A reason not to believe the answer: operations were delayed by something else than load.
fn doubt(trials: &[Trial]) -> Option<&'static str> {
    /// So much slower a rate should be felt.
    const APART: f64 = 4.0;
    let failed = || {
        trials
            .iter()
            .filter(|one| !one.holds && !one.set_aside && one.why.contains(" of ") && !one.why.contains("behind"))
    };
    let contradicts = failed()
        .any(|slow| failed().any(|fast| fast.offered_per_s > slow.offered_per_s * APART && fast.p99_us <= slow.p99_us));
    contradicts.then_some(
        " But latency did not fall with the rate: something else than this load delays operations, such as another \
         process on the machine. Do not believe the answer before that is gone.",
    )
}

/// Whether a trial decides nothing: it did not hold, and its machine was not its own. One that holds all the same does.
fn is_set_aside(judged: &Judged, stolen_share: f64, set_aside: usize) -> bool {
    !judged.holds && stolen_share > CpuUse::STOLEN_SHARE_MAX && set_aside < SET_ASIDE_MAX
}

impl Trials<'_> {
    fn all(mut self, asked: &SearchOptions) -> Result<Measured, Trouble> {
        let done = match &asked.find_max_rate {
            Some(goal) => self.highest(goal, asked),
            None => self.curve(&asked.rates),
        };
        if done.is_err() {
            let what = if self.report.outcome == RunOutcome::Failed { "could not go on" } else { "was stopped" };
            self.search.answer = format!("The search {what} after {} trials.", self.search.trials.len());
        }
        self.report.notes.push(format!("Search ({}): {}", self.search.goal, self.search.answer));
        if let Some(offered_per_s) = self.search.best_per_s {
            self.report.configuration.pacing = Pacing::Open { offered_per_s };
        }
        threads_of_agents(&mut self.report);
        self.report.searches.push(self.search);
        Ok(Measured { report: self.report, logs: self.logs })
    }

    fn highest(&mut self, goal: &Slo, asked: &SearchOptions) -> Result<(), Ended> {
        self.search.goal = goal.to_string();
        let start_per_s = match self.options.rate {
            Some(rate) => rate,
            None => self.closed()?.throughput_per_s * BEGIN_SHARE,
        };
        let lasts_s = self.base.measure.time.map_or(1.0, |time| time.as_secs_f64().max(0.1));
        let rate_min = (goal.operations_min() / lasts_s).max(1.0);
        let how = Hunt { start_per_s, tolerance: asked.tolerance / 100.0, repeats: asked.repeats, rate_min };
        let mut number = 0;
        let found = hunt(how, &mut |rate| {
            loop {
                number += 1;
                let judged = self.one(&format!("trial-{number}"), rate, &|phase| goal.judge(phase))?;
                if !self.search.trials.last().is_some_and(|one| one.set_aside) {
                    return Ok(judged);
                }
            }
        })?;
        (self.search.best_per_s, self.search.failed_per_s) = (found.best_per_s, found.failed_per_s);
        let rate = |rate: f64| format!("{}/s", figure::rate(rate));
        self.search.answer = match (found.best_per_s, found.failed_per_s) {
            (Some(best), Some(failed)) => {
                let wide = figure::percent(failed / best - 1.0);
                format!("{goal} holds up to {}, and not at {} ({wide} above it).", rate(best), rate(failed))
            }
            (Some(best), None) => {
                format!("{goal} holds at {}, and no rate was found at which it does not.", rate(best))
            }
            (None, _) if found.ended => format!("{goal}: no rate was found that keeps holding."),
            (None, Some(lowest)) => format!("{goal} holds at no rate that was tried, down to {}.", rate(lowest)),
            (None, None) => format!("{goal} holds at no rate that was tried."),
        };
        if found.ended && found.failed_per_s.is_some() {
            self.search.answer.push_str(
                " The search was ended after so many trials, before a rate had held as often as it should: measure longer, or on \
                 a machine that is quiet.",
            );
        }
        let set_aside = self.search.set_aside();
        if set_aside > 0 {
            self.search.answer.push_str(&format!(
                " {} did not hold while this machine's host gave its cores to other machines (steal time), and decided nothing.",
                figure::plural(set_aside as u64, "trial")
            ));
        }
        if let Some(doubt) = doubt(&self.search.trials) {
            self.search.answer.push_str(doubt);
        }
        Ok(())
    }

    fn curve(&mut self, asked: &[OfferedRate]) -> Result<(), Ended> {
        Search::CURVE.clone_into(&mut self.search.goal);
        let shares = asked.iter().any(|rate| matches!(rate, OfferedRate::Share(_)));
        let closed = if shares { Some(self.closed()?.throughput_per_s) } else { None };
        for (index, rate) in curve::rates(asked, closed).into_iter().enumerate() {
            let keeps_up = |phase: &Phase| match fell_behind(phase) {
                Some(why) => Judged { holds: false, ratio: f64::INFINITY, why },
                None => Judged { holds: true, ratio: 0.0, why: "keeps up".to_owned() },
            };
            if !self.one(&format!("rate-{}", index + 1), rate, &keeps_up)?.holds {
                break;
            }
        }
        (self.search.best_per_s, self.search.failed_per_s, self.search.answer) = curve::knee(&self.search.trials);
        Ok(())
    }

    /// What a closed loop gets.
    fn closed(&mut self) -> Result<Phase, Ended> {
        self.phase("closed", Pace::Closed)
    }

    fn one(&mut self, name: &str, rate_per_s: f64, judge: &dyn Fn(&Phase) -> Judged) -> Result<Judged, Ended> {
        let arrivals = self.options.arrivals.into();
        let phase = self.phase(name, Pace::Open { rate_per_s, arrivals })?;
        let mut judged = judge(&phase);
        let trouble = self.trouble(&phase);
        let stolen = phase.cpu.stolen_share(phase.duration_s, self.report.environment.cores);
        // A curve repeats no trial.
        let may_wait = trouble.is_none() && !self.search.is_curve();
        if let Some(trouble) = trouble {
            judged = Judged { holds: false, ratio: f64::INFINITY, why: trouble };
        }
        let set_aside = may_wait && is_set_aside(&judged, stolen, self.search.set_aside());
        if set_aside {
            judged
                .why
                .push_str(&format!("; the host took {} of the machine: to be tried again", figure::percent(stolen)));
        }
        let slowest = |at: f64| {
            let ops = phase.ops.iter().filter(|op| op.op != "CLEANUP");
            ops.map(|op| op.latency.headline().value_at(at)).fold(0.0, f64::max)
        };
        let tried = Trial {
            phase: name.to_owned(),
            offered_per_s: rate_per_s,
            achieved_per_s: phase.throughput_per_s,
            p50_us: slowest(50.0),
            p99_us: slowest(99.0),
            holds: judged.holds,
            why: judged.why.clone(),
            set_aside,
        };
        if !self.options.output.quiet {
            crate::note!(
                "{name}: {}/s offered, {}/s achieved, p99 {}: {}, {}",
                figure::rate(tried.offered_per_s),
                figure::rate(tried.achieved_per_s),
                figure::latency(tried.p99_us),
                tried.why,
                if tried.holds { "holds" } else { "does not hold" }
            );
        }
        self.search.trials.push(tried);
        Ok(judged)
    }

    /// Wrong answers and missing records are worse than any latency; errors count unless the objective speaks of them.
    fn trouble(&self, phase: &Phase) -> Option<String> {
        let wrong = phase.verification_failures() + phase.not_found();
        if wrong > 0 {
            return Some(figure::plural(wrong, "wrong or missing answer"));
        }
        let kinds = phase.ops.iter().flat_map(|op| &op.errors);
        let errors: u64 = kinds.filter(|(kind, _)| !self.report.tolerates(kind)).map(|(_, times)| times).sum();
        (errors > 0 && !self.search.goal.contains("failed")).then(|| figure::plural(errors, "failed operation"))
    }

    fn phase(&mut self, name: &str, pace: Pace) -> Result<Phase, Ended> {
        let number = self.report.phases.len() as u64;
        let plan = PhasePlan {
            name: name.to_owned(),
            pace,
            // A trial at more than the store takes may fail as a whole.
            only_errors: OnlyErrors::Count,
            seed: self.base.seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F),
            ..self.base.clone()
        };
        let mut config =
            Config::read(&self.properties).expect("only the number of records has changed since it was read");
        config.percentiles.clone_from(&self.percentiles);
        let workload = Workload::plan(config, Task::Run).expect("it was planned before, with fewer records");
        let workload = Arc::new(workload);
        let silent = self.options.output.quiet || self.options.output.format == Format::Ycsb;
        let progress = if silent { Progress::silent() } else { Progress::new() };
        let mut status = StatusReporter::progress(progress, &plan);
        let mut on_progress = |snapshot: Snapshot| status.show(snapshot);
        let measured = self.loader.run_phase(&plan, &self.properties, &workload, self.program.stop, &mut on_progress);
        let result = match measured {
            Ok((phase, log)) => {
                status.finish(&phase);
                self.logs.push((plan.name, log));
                self.report.phases.push(phase.clone());
                Ok(phase)
            }
            Err(failure) => {
                drop(status);
                crate::note!("basalt bench: {}", failure.error);
                self.report.outcome = RunOutcome::Failed;
                self.report.notes.push(format!("Phase {name} could not go on: {}.", failure.error));
                self.report.phases.extend(failure.phase.map(|phase| *phase));
                Err(Ended)
            }
        };
        if self.inserts {
            self.properties.set("recordcount", &workload.readable_end().to_string());
        }
        if self.program.stop.load(Ordering::Relaxed) {
            self.report.outcome = RunOutcome::Interrupted;
            return Err(Ended);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_on_a_machine_that_is_not_its_own_decides_only_if_it_holds() {
        let judged = |holds| Judged { holds, ratio: 2.0, why: String::new() };
        assert!(is_set_aside(&judged(false), 0.1, 0));
        assert!(!is_set_aside(&judged(true), 0.1, 0));
        assert!(!is_set_aside(&judged(false), 0.01, 0));
        assert!(!is_set_aside(&judged(false), 0.1, SET_ASIDE_MAX));
    }

    #[test]
    fn latency_that_does_not_fall_with_the_rate_is_doubted() {
        let tried = |offered_per_s, p99_us, holds| Trial {
            offered_per_s,
            p99_us,
            holds,
            why: format!("READ p99 {p99_us} of 5.00 ms"),
            ..Trial::default()
        };
        let quiet = [tried(40e3, 60e3, false), tried(25e3, 20e3, false), tried(9e3, 7e3, false), tried(5e3, 3e3, true)];
        assert_eq!(doubt(&quiet), None);
        let noisy = [tried(25e3, 58e3, false), tried(900.0, 474e3, false), tried(200.0, 3e3, true)];
        assert!(doubt(&noisy).is_some());
    }
}
