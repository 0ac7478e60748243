//! One phase with several agents, from its planning to one set of figures.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::agent_link::Heard;
use super::agents::Agents;
use crate::agent::{Done, FromAgent, Job, ToAgent};
use crate::driver::{Gathered, Moments, PhaseError, PhasePlan, PhaseResult, Reading, Snapshot, SyncPoint, sampled};
use crate::model::{AgentUse, OpStats};
use crate::target::Target;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How often the agents are asked whether they are there.
const KNOCK_EVERY: Duration = Duration::from_secs(1);
/// An agent that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Getting ready may take so long.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// After something went wrong, what the others have by then is waited for this long.
const REST_WITHIN: Duration = Duration::from_secs(30);
/// The agents are told of the beginning so long before it, at least.
const LEAD_MIN: Duration = Duration::from_millis(50);

/// A phase under way.
struct PhaseRun<'a> {
    agents: &'a mut Agents,
    target: &'a dyn Target,
    gathered: Gathered,
    ready: Vec<bool>,
    place: Vec<Option<SyncPoint>>,
    /// Operations done, and the first second that is not told, of each.
    told: Vec<(u64, u64)>,
    done: Vec<Option<Done>>,
    before: Option<Reading>,
    /// What went wrong first.
    failure: Option<String>,
    /// The agents were told to end.
    ending: Option<Instant>,
    knocked: Instant,
}

/// Lets each agent do its job. `tell` hears of the progress of all; `percentiles` are those that are asked for.
pub(super) fn phase_run(
    agents: &mut Agents,
    target: &dyn Target,
    (plan, percentiles): (&PhasePlan, &[f64]),
    jobs: Vec<Job>,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Snapshot),
) -> PhaseResult {
    let count = agents.links.len();
    let mut phase_run = PhaseRun {
        agents,
        target,
        gathered: Gathered::default(),
        ready: vec![false; count],
        place: vec![None; count],
        told: vec![(0, 0); count],
        done: (0..count).map(|_| None).collect(),
        before: None,
        failure: None,
        ending: None,
        knocked: Instant::now(),
    };
    phase_run.prepare(jobs, stop);
    let start = Instant::now() + LEAD_MIN.max(phase_run.agents.round_trip() * 4);
    if phase_run.failure.is_none() {
        phase_run.begin(start);
    }
    let metrics = std::thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let sampler = scope.spawn(move || {
            std::thread::sleep(start.saturating_duration_since(Instant::now()));
            sampled(target, start, &ended)
        });
        phase_run.follow(start, stop, on_progress);
        drop(running);
        sampler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    phase_run.finish((plan, percentiles), start, metrics)
}

impl PhaseRun<'_> {
    fn prepare(&mut self, jobs: Vec<Job>, stop: &AtomicBool) {
        for (agent_link, job) in self.agents.links.iter_mut().zip(jobs) {
            agent_link.heard_at = Instant::now();
            agent_link.say(&ToAgent::Prepare(Box::new(job)));
        }
        let deadline = Instant::now() + READY_WITHIN;
        while self.failure.is_none() && self.ready.contains(&false) {
            self.turn();
            if stop.load(Ordering::Relaxed) {
                self.fail("the phase was stopped before it was measured".to_owned());
            } else if Instant::now() >= deadline {
                let late = self.ready.iter().position(|ready| !ready).unwrap_or(0);
                self.fail(format!("agent {} is not ready after {} s", self.name(late), READY_WITHIN.as_secs()));
            }
        }
    }

    fn begin(&mut self, start: Instant) {
        for agent_link in &mut self.agents.links {
            if let Some(clock) = agent_link.clock {
                agent_link.say(&ToAgent::Begin { at_ns: clock.theirs(start) });
            }
        }
    }

    /// Until all have told what they have, or are gone.
    fn follow(&mut self, start: Instant, stop: &AtomicBool, on_progress: &mut dyn FnMut(Snapshot)) {
        let mut told_at = Instant::now();
        while self.waits() {
            self.turn();
            if self.ending.is_none() && (stop.load(Ordering::Relaxed) || self.failure.is_some()) {
                self.ending = Some(Instant::now());
                self.agents.say(&ToAgent::Stop);
            }
            self.gather_at(SyncPoint::Opened);
            self.gather_at(SyncPoint::Warmed);
            let settled = self.told.iter().map(|(_, settled)| *settled).min().unwrap_or(0);
            self.gathered.settle(settled);
            if told_at.elapsed() >= TELL_EVERY {
                told_at = Instant::now();
                on_progress(Snapshot {
                    elapsed: start.elapsed(),
                    warming_up: self.before.is_none(),
                    done: self.told.iter().map(|(done, _)| done).sum(),
                    recent: self.gathered.take_recent(),
                    closed: Vec::new(),
                    settled,
                });
            }
        }
    }

    /// Whether an agent is connected that has not sent its figures.
    fn waits(&self) -> bool {
        let open =
            self.agents.links.iter().zip(&self.done).any(|(agent_link, done)| agent_link.is_here() && done.is_none());
        open && self.ending.is_none_or(|since| since.elapsed() < REST_WITHIN)
    }

    /// Lets all go on that have come to `place`, when all have.
    fn gather_at(&mut self, place: SyncPoint) {
        let here = |at: &Option<SyncPoint>| *at == Some(place);
        if self.failure.is_some() || !self.place.iter().all(here) {
            return;
        }
        if place == SyncPoint::Warmed {
            self.before = Some(Reading::opening(self.target));
            self.told.iter_mut().for_each(|(done, _)| *done = 0);
        }
        self.place.iter_mut().for_each(|at| *at = None);
        self.agents.say(&ToAgent::Go(place));
    }

    /// Hears what there is to hear, for a moment.
    fn turn(&mut self) {
        if self.knocked.elapsed() >= KNOCK_EVERY {
            self.knocked = Instant::now();
            self.agents.knock();
        }
        if let Some(heard) = self.agents.listen(TELL_EVERY / 2) {
            self.take(heard);
        }
        for index in 0..self.agents.links.len() {
            let agent_link = &mut self.agents.links[index];
            if agent_link.is_here() && agent_link.heard_at.elapsed() > SILENCE_MAX {
                agent_link.gone = Some(format!("it has said nothing for {} s", SILENCE_MAX.as_secs()));
            }
            if let Some(why) = agent_link.gone.clone()
                && self.done[index].is_none()
            {
                let text = format!("agent {} ({} of {}) is gone: {why}", self.name(index), index + 1, self.done.len());
                self.fail(text);
            }
        }
    }

    fn take(&mut self, heard: Heard) {
        let from = heard.from;
        let message = match heard.what {
            Ok(message) => message,
            Err(why) => {
                self.agents.links[from].gone.get_or_insert(why);
                return;
            }
        };
        match message {
            FromAgent::Ready { threads, cores } => {
                self.ready[from] = true;
                (self.agents.links[from].threads, self.agents.links[from].cores) = (threads, cores);
            }
            FromAgent::At(place) => self.place[from] = Some(place),
            FromAgent::Told { done, settled } => self.told[from] = (done, settled),
            FromAgent::Second { second, op, failures, histogram: [bytes] } => {
                if let Err(error) = self.gathered.second(second, &op, failures, &bytes) {
                    self.agents.links[from].gone = Some(error.to_string());
                }
            }
            FromAgent::Done(done) => {
                if let Some(error) = &done.figures.error {
                    self.fail(format!("agent {}: {error}", self.name(from)));
                }
                match self.gathered.add(&done.figures) {
                    Ok(()) => {
                        self.told[from].1 = u64::MAX;
                        self.done[from] = Some(*done);
                    }
                    Err(error) => self.agents.links[from].gone = Some(error.to_string()),
                }
            }
            FromAgent::Refused(why) => {
                self.fail(format!("agent {}: {why}", self.name(from)));
                // It has nothing to tell; it may have something to do later.
                self.done[from] = Some(Done::default());
            }
            FromAgent::Pong { .. } | FromAgent::Hello(_) | FromAgent::Welcome(_) => {}
        }
    }

    fn name(&self, index: usize) -> String {
        self.agents.links[index].name.clone()
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    /// One phase of all parts.
    fn finish(
        self,
        (plan, percentiles): (&PhasePlan, &[f64]),
        start: Instant,
        metrics: Vec<crate::model::MetricSeries>,
    ) -> PhaseResult {
        let after = Reading::closing(self.target);
        let mut failure = self.failure;
        let mut agents = Vec::new();
        let (mut first, mut last): (Option<Instant>, Option<Instant>) = (None, None);
        for index in 0..self.done.len() {
            let later = self.agents.links[index].is_here().then(|| self.agents.compare_clock(index)).flatten();
            let agent_link = &self.agents.links[index];
            let Some(clock) = agent_link.clock else { continue };
            let mut of = AgentUse {
                name: agent_link.name.clone(),
                version: agent_link.version.clone(),
                threads: agent_link.threads,
                cores: agent_link.cores,
                clock_offset_us: clock.day_offset_us,
                round_trip_us: clock.round_trip.as_secs_f64() * 1e6,
                clock_drift_us: later.map(|later| clock.drift_us(&later)),
                lost: agent_link.gone.clone(),
                ..AgentUse::default()
            };
            if let Some(done) = &self.done[index]
                && let Some(measured_ns) = done.measured_ns
            {
                let (from, to) = (clock.ours(measured_ns), clock.ours(done.end_ns));
                first = Some(first.map_or(from, |first| first.min(from)));
                last = Some(last.map_or(to, |last| last.max(to)));
                summarize(&mut of, done, to.saturating_duration_since(from));
            } else if of.lost.is_none() && self.done[index].is_none() {
                of.lost = Some("it did not tell what it had done".to_owned());
                failure.get_or_insert_with(|| format!("agent {} did not tell what it had done", of.name));
                // What it tells later is of this phase, and would count in the next one.
                self.agents.links[index].gone.clone_from(&of.lost);
            }
            agents.push(of);
        }
        let (Some(before), Some(first), Some(end)) = (self.before, first, last) else {
            let why = failure.unwrap_or_else(|| "the phase was stopped before it was measured".to_owned());
            return Err(PhaseError { error: io::Error::other(why), phase: None });
        };
        let moments = Moments { start, before: before.moved_to(first), after, end };
        let (mut phase, log) = self.gathered.finish(plan, moments, metrics, percentiles);
        phase.agents = agents;
        match failure {
            None => Ok((phase, log)),
            Some(why) => Err(PhaseError { error: io::Error::other(why), phase: Some(Box::new(phase)) }),
        }
    }
}

/// What one agent did, in its own figures.
fn summarize(of: &mut AgentUse, done: &Done, took: Duration) {
    let seconds = took.as_secs_f64().max(1e-9);
    let ops = done.figures.stats();
    let work = || ops.iter().filter(|op| op.op != "CLEANUP");
    of.operations = work().map(|op| op.count().saturating_sub(op.parts)).sum();
    let failed: u64 = work().map(OpStats::failed_wholes).sum();
    of.throughput_per_s = of.operations.saturating_sub(failed) as f64 / seconds;
    of.p99_us = work().map(|op| op.latency.headline().p99_us).fold(0.0, f64::max);
    of.cpu = done.figures.cpu;
    of.busy_share = done.figures.cpu.map(|cpu| cpu.total_s() / (seconds * f64::from(of.threads.min(of.cores).max(1))));
    of.machine_busy_share = done.machine_busy;
}
