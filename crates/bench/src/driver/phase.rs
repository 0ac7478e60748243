//! One phase: threads, warm-up, measurement, and its figures.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use super::events::EventLog;
use super::pace::Pace;
use super::recorder::Recorder;
use super::timeline::{HistogramLog, Timeline};
use super::worker::{Shared, Stage, Worker};
use crate::model::{CpuTime, CpuUse, NodeUsage, Phase};
use crate::report::{rfc3339, unix_ms};
use crate::target::{Lanes, Target, TargetUsage};
use crate::usage::{ProcessUsage, cpu_between};
use crate::workload::{OpKind, Workload};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How often the target looks after its processes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where a stage of a phase ends: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// After so many operations.
    pub operations: Option<u64>,
    /// After so long.
    pub time: Option<Duration>,
}

/// What a phase is to do.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Its name in reports.
    pub name: String,
    /// What it does, in a few words.
    pub title: String,
    /// Clients of all threads together.
    pub clients: usize,
    /// Operations that each keeps in flight.
    pub depth: usize,
    /// Threads that drive them.
    pub threads: usize,
    /// How operations are paced.
    pub pace: Pace,
    /// What is done before anything counts; none = no warm-up.
    pub warm_up: Option<Limit>,
    /// What counts.
    pub measure: Limit,
    /// From which all random choices derive.
    pub seed: u64,
    /// Whether to keep each second's histograms.
    pub keeps_log: bool,
    /// What happens meanwhile.
    pub events: EventLog,
}

/// What is known while a phase runs.
pub struct Snapshot {
    /// Since the phase began.
    pub elapsed: Duration,
    /// The warm-up is not over.
    pub warming_up: bool,
    /// Operations that have ended in this stage.
    pub done: u64,
    /// What was recorded since the last snapshot, by kind.
    pub recent: Vec<(OpKind, Histogram<u64>)>,
}

/// A phase that could not go on.
#[derive(Debug)]
pub struct PhaseError {
    /// Why.
    pub error: io::Error,
    /// What was measured by then, if anything was.
    pub phase: Option<Box<Phase>>,
}

/// A phase's figures and each second's histograms.
pub type PhaseResult = Result<(Phase, HistogramLog), PhaseError>;

/// What is read before and after the measured part.
struct Reading {
    at: Instant,
    wall: SystemTime,
    own: Option<ProcessUsage>,
    /// CPU time of what does a part of the client's work beside this process.
    aside: Option<CpuTime>,
    target: TargetUsage,
}

impl Reading {
    fn take(target: &dyn Target) -> Self {
        Self {
            at: Instant::now(),
            wall: SystemTime::now(),
            own: ProcessUsage::own(),
            aside: target.client_cpu(),
            target: target.usage(),
        }
    }
}

/// Everything that the threads of one phase meet at.
struct Run<'a> {
    plan: &'a PhasePlan,
    target: &'a dyn Target,
    workload: &'a Arc<Workload>,
    shared: Shared<'a>,
    opened: Barrier,
    /// The stages, made by whichever thread comes first.
    stages: [OnceLock<Stage>; 2],
    warmed: Barrier,
    /// The measured part's beginning.
    before: OnceLock<Reading>,
    errors: Mutex<Vec<io::Error>>,
    running: AtomicU64,
    /// The thread that tells of the progress.
    watcher: std::thread::Thread,
}

/// Runs a phase and tells of its progress. `stop` ends it early.
///
/// # Errors
/// The target cannot be opened or is lost, or the workload cannot go on.
pub fn run_phase(
    plan: &PhasePlan,
    target: &dyn Target,
    workload: &Arc<Workload>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Snapshot),
) -> PhaseResult {
    let start = Instant::now();
    let run = Run {
        plan,
        target,
        workload,
        shared: Shared {
            workload,
            timeline: Mutex::new(Timeline::new(plan.keeps_log)),
            done: AtomicU64::new(0),
            stop,
            failed: AtomicBool::new(false),
            start,
        },
        opened: Barrier::new(plan.threads),
        stages: Default::default(),
        warmed: Barrier::new(plan.threads),
        before: OnceLock::new(),
        errors: Mutex::default(),
        running: AtomicU64::new(plan.threads as u64),
        watcher: std::thread::current(),
    };
    let mut sum = Recorder::default();
    let mut end = start;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|index| {
                let run = &run;
                std::thread::Builder::new()
                    .name(format!("bench-{index}"))
                    .spawn_scoped(scope, move || run.thread(index))
                    .expect("the system gives a thread")
            })
            .collect();
        run.watch(tell);
        for thread in threads {
            let (recorder, last) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.merge(recorder);
            end = end.max(last);
        }
    });
    run.conclude(sum, end)
}

impl Run<'_> {
    /// One thread from its opening to its end; what it recorded, and when its last operation ended.
    fn thread(&self, index: usize) -> (Recorder, Instant) {
        let share = |all: usize| all / self.plan.threads + usize::from(index < all % self.plan.threads);
        let lanes = Lanes { clients: share(self.plan.clients), depth: self.plan.depth };
        let opened = self.target.open(self.workload, lanes);
        let mut worker = match opened {
            Ok(session) => {
                let source =
                    self.workload.source(self.plan.seed ^ (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let place = (index, self.plan.threads);
                Some(Worker::new(&self.shared, session, source, self.plan.pace, lanes.count(), place))
            }
            Err(error) => {
                self.fail(error);
                None
            }
        };
        self.opened.wait();
        if let Some(limit) = self.plan.warm_up {
            self.stage(0, limit, worker.as_mut());
            self.warmed.wait();
        }
        if self.warmed.wait().is_leader() {
            self.shared.done.store(0, Ordering::Relaxed);
            if !self.shared.failed.load(Ordering::Relaxed) {
                self.before.get_or_init(|| Reading::take(self.target));
            }
        }
        self.warmed.wait();
        self.stage(1, self.plan.measure, worker.as_mut());
        self.running.fetch_sub(1, Ordering::Release);
        self.watcher.unpark();
        worker.map_or_else(
            || (Recorder::default(), self.shared.start),
            |worker| {
                let last = worker.last;
                (worker.finish(), last)
            },
        )
    }

    fn stage(&self, index: usize, limit: Limit, worker: Option<&mut Worker<'_>>) {
        let stage = self.stages[index].get_or_init(|| Stage {
            measuring: index == 1,
            budget: AtomicU64::new(limit.operations.unwrap_or(u64::MAX)),
            deadline: limit.time.map(|time| Instant::now() + time),
        });
        if let Some(worker) = worker
            && let Err(error) = worker.run(stage)
        {
            self.fail(error);
        }
    }

    fn fail(&self, error: io::Error) {
        self.shared.failed.store(true, Ordering::Relaxed);
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    /// Tells of the progress until all threads are through.
    fn watch(&self, tell: &mut dyn FnMut(Snapshot)) {
        let mut look_at = LOOK_EVERY;
        while self.running.load(Ordering::Acquire) > 0 {
            std::thread::park_timeout(TELL_EVERY);
            let elapsed = self.shared.start.elapsed();
            if elapsed >= look_at {
                look_at = elapsed + LOOK_EVERY;
                self.target.look();
            }
            let recent = {
                let mut timeline = self.shared.timeline.lock().unwrap_or_else(PoisonError::into_inner);
                timeline.settle(elapsed.as_secs());
                timeline.take_recent()
            };
            let warming_up = self.before.get().is_none();
            tell(Snapshot { elapsed, warming_up, done: self.shared.done.load(Ordering::Relaxed), recent });
        }
    }

    /// The phase's figures.
    fn conclude(self, sum: Recorder, end: Instant) -> PhaseResult {
        let error = self.errors.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().next();
        let Some(before) = self.before.into_inner() else {
            return Err(PhaseError {
                error: error.unwrap_or_else(|| io::Error::other("the phase was stopped before it was measured")),
                phase: None,
            });
        };
        let after = Reading::take(self.target);
        let duration = end.saturating_duration_since(before.at);
        let phase_length = end.saturating_duration_since(self.shared.start);
        let warm_up = before.at.saturating_duration_since(self.shared.start);
        let gaps = sum.longest_gaps(warm_up, phase_length);
        let ops = sum.stats();
        let operations = ops.iter().filter(|op| op.op != "CLEANUP").map(|op| op.count() - op.parts).sum::<u64>();
        let seconds = duration.as_secs_f64();
        let mut timeline = self.shared.timeline.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (series, log) = timeline.finish(phase_length);
        let phase = Phase {
            name: self.plan.name.clone(),
            title: self.plan.title.clone(),
            started_at: rfc3339(unix_ms(before.wall)),
            ended_at: rfc3339(unix_ms(before.wall + duration)),
            warm_up_s: if self.plan.warm_up.is_some() { warm_up.as_secs_f64() } else { 0.0 },
            duration_s: seconds,
            operations,
            throughput_per_s: if seconds > 0.0 { operations as f64 / seconds } else { 0.0 },
            offered_per_s: self.plan.pace.offered_per_s(),
            ops,
            cpu: cpu_use(self.target, &before, &after),
            disk_bytes: after.target.disk_bytes,
            peak_rss_bytes: if self.target.in_process() {
                after.own.and_then(|own| own.peak_rss_bytes)
            } else {
                after.target.peak_rss_bytes
            },
            nodes: nodes(&before, &after),
            read_gap_s_max: gaps.0.map(|gap| gap.as_secs_f64()),
            write_gap_s_max: gaps.1.map(|gap| gap.as_secs_f64()),
            series,
            events: self.plan.events.of_phase(self.shared.start, phase_length),
            ..Phase::default()
        };
        match error {
            None => Ok((phase, HistogramLog { started: before.wall - warm_up, seconds: log })),
            Some(error) => Err(PhaseError { error, phase: Some(Box::new(phase)) }),
        }
    }
}

/// What each node used between two readings. One that came later has used all it has.
fn nodes(before: &Reading, after: &Reading) -> Vec<NodeUsage> {
    let nodes = after.target.nodes.iter().map(|node| {
        let known = before.target.nodes.iter().find(|other| other.name == node.name).and_then(|other| other.cpu);
        NodeUsage {
            name: node.name.clone(),
            cpu: node.cpu.map(|cpu| cpu_between(known.unwrap_or_default(), cpu)),
            peak_rss_bytes: node.peak_rss_bytes,
            disk_bytes: node.disk_bytes,
        }
    });
    nodes.collect()
}

fn cpu_use(target: &dyn Target, before: &Reading, after: &Reading) -> CpuUse {
    let between = |before: Option<_>, after: Option<_>| Some(cpu_between(before?, after?));
    let own = between(before.own.map(|own| own.cpu), after.own.map(|own| own.cpu));
    if target.in_process() {
        return CpuUse { process: own, ..CpuUse::default() };
    }
    let aside = between(before.aside, after.aside).unwrap_or_default();
    let client = own.map(|own| CpuTime { user_s: own.user_s + aside.user_s, system_s: own.system_s + aside.system_s });
    CpuUse { client, server: between(before.target.server_cpu, after.target.server_cpu), process: None }
}
