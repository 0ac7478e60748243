//! One phase: threads, warm-up, measurement, and its figures.

use parking_lot::Mutex;
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::barrier::PhaseBarrier;
use super::error_streak::ErrorStreak;
use super::figures::{Measured, Reading, figures};
use super::part::{Meeting, PhaseShare, SyncPoint};
use super::plan::{Limit, PhasePlan};
use super::recorder::Recorder;
use super::sampler::Sampler;
use super::timeline::{HistogramLog, IntervalHistogram, Timeline};
use super::worker::{Shared, Stage, Worker};
use crate::model::Phase;
use crate::target::{Lanes, Target};
use crate::workload::{OpKind, Workload};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How often the target looks after its processes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    /// For a part of a phase: the seconds that were closed since the last snapshot.
    pub closed: Vec<IntervalHistogram>,
    /// The first second that is not closed.
    pub settled: u64,
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

/// Everything that the threads of one phase meet at.
struct PhaseThreads<'a> {
    plan: &'a PhasePlan,
    target: &'a dyn Target,
    workload: &'a Arc<Workload>,
    shared: Shared<'a>,
    /// Where they wait for each other.
    barrier: PhaseBarrier,
    /// The stages, made by whichever thread comes first.
    stages: [OnceLock<Stage>; 2],
    /// The measured part's beginning.
    before: OnceLock<Reading>,
    errors: Mutex<Vec<io::Error>>,
    /// Threads that are not through.
    running: AtomicU64,
    /// Where other processes are waited for.
    meeting: Option<&'a dyn Meeting>,
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
    on_progress: &mut dyn FnMut(Snapshot),
) -> PhaseResult {
    let measured = std::thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let start = Instant::now();
        let named = Builder::new().name("bench-sampler".to_owned());
        let sampler = named.spawn_scoped(scope, move || Sampler::new(start).watch(target, &ended))?;
        let part = run_part(plan, target, workload, stop, None, on_progress);
        drop(running);
        Ok::<_, io::Error>((part, sampler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    });
    let (part, metrics) = measured.map_err(|error| PhaseError { error: not_started(&error), phase: None })?;
    let PhaseShare { recorder, mut timeline, start, before, end, error } = part;
    let Some(before) = before else {
        return Err(PhaseError {
            error: error.unwrap_or_else(|| io::Error::other("the phase was stopped before it was measured")),
            phase: None,
        });
    };
    let after = Reading::closing(target);
    let client_cpu = after.own_since(&before);
    let in_process = target.in_process();
    let percentiles = workload.config.percentiles.clone();
    let measured = Measured { recorder, start, before, after, end, client_cpu, in_process, metrics, percentiles };
    let (phase, log) = figures(plan, measured, &mut timeline);
    match error {
        None => Ok((phase, log)),
        Some(error) => Err(PhaseError { error, phase: Some(Box::new(phase)) }),
    }
}

/// Runs this process's part of a phase; at a `meeting` it waits for the others.
pub fn run_part(
    plan: &PhasePlan,
    target: &dyn Target,
    workload: &Arc<Workload>,
    stop: &AtomicBool,
    meeting: Option<&dyn Meeting>,
    on_progress: &mut dyn FnMut(Snapshot),
) -> PhaseShare {
    let start = Instant::now();
    let run = PhaseThreads {
        plan,
        target,
        workload,
        shared: Shared {
            workload,
            timeline: Mutex::new(Timeline::new(plan.keeps_log)),
            done: AtomicU64::new(0),
            stop,
            failed: AtomicBool::new(false),
            errors: ErrorStreak::new(plan.only_errors, plan.clients * plan.depth),
            start,
        },
        barrier: PhaseBarrier::new(plan.threads),
        stages: Default::default(),
        before: OnceLock::new(),
        errors: Mutex::default(),
        running: AtomicU64::new(plan.threads as u64),
        meeting,
        watcher: std::thread::current(),
    };
    let mut recorder = Recorder::default();
    let mut end = start;
    std::thread::scope(|scope| {
        let threads = run.start(scope);
        run.watch(on_progress);
        for thread in threads {
            match thread.join() {
                Ok((theirs, last)) => {
                    recorder.merge(theirs);
                    end = end.max(last);
                }
                Err(panic) => run.fail(panicked(&*panic)),
            }
        }
    });
    let error = run.errors.into_inner().into_iter().next();
    let timeline = run.shared.timeline.into_inner();
    PhaseShare { recorder, timeline, start, before: run.before.into_inner(), end, error }
}

/// What a thread recorded, and when its last operation ended.
type ThreadShare = (Recorder, Instant);

/// A thread that is on its way through a phase. If it panics, the others go on without it, and end.
struct UnderWay<'a>(&'a PhaseThreads<'a>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let run = self.0;
        if std::thread::panicking() {
            run.shared.failed.store(true, Ordering::Relaxed);
            run.barrier.leave(1);
        }
        run.through(1);
    }
}

fn not_started(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the system starts no further thread: {error}"))
}

/// The panic of a thread as an error.
fn panicked(panic: &(dyn Any + Send)) -> io::Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    io::Error::other(format!("a thread of the bench panicked: {}", text.unwrap_or("it did not say why")))
}

impl PhaseThreads<'_> {
    /// Starts the threads. Those that the system refuses are not waited for, and the others end.
    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Vec<ScopedJoinHandle<'scope, ThreadShare>> {
        let mut threads = Vec::new();
        for index in 0..self.plan.threads {
            let named = Builder::new().name(format!("bench-{index}"));
            match named.spawn_scoped(scope, move || self.thread(index)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.fail(not_started(&error));
                    self.barrier.leave(self.plan.threads - index);
                    self.through(self.plan.threads - index);
                    break;
                }
            }
        }
        threads
    }

    /// So many threads have nothing more to do.
    fn through(&self, count: usize) {
        self.running.fetch_sub(count as u64, Ordering::Release);
        self.watcher.unpark();
    }

    /// One thread from its opening to its end.
    fn thread(&self, index: usize) -> ThreadShare {
        let under_way = UnderWay(self);
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
        if self.barrier.wait() {
            self.meet(SyncPoint::Opened);
        }
        self.barrier.wait();
        if let Some(limit) = self.plan.warm_up {
            self.stage(0, limit, worker.as_mut());
            self.barrier.wait();
        }
        if self.barrier.wait() {
            self.meet(SyncPoint::Warmed);
            self.shared.done.store(0, Ordering::Relaxed);
            if !self.shared.failed.load(Ordering::Relaxed) {
                // Of several processes only the coordinator looks at the store: they begin together, however long it takes.
                let read = if self.meeting.is_some() { Reading::of_client } else { Reading::opening };
                self.before.get_or_init(|| read(self.target));
            }
        }
        self.barrier.wait();
        self.stage(1, self.plan.measure, worker.as_mut());
        drop(under_way);
        worker.map_or_else(
            || (Recorder::default(), self.shared.start),
            |worker| {
                let last = worker.last;
                (worker.finish(), last)
            },
        )
    }

    /// Waits for the other processes, if there are any.
    fn meet(&self, place: SyncPoint) {
        if let Some(meeting) = self.meeting.filter(|_| !self.shared.failed.load(Ordering::Relaxed))
            && let Err(error) = meeting.meet(place)
        {
            self.fail(error);
        }
    }

    fn stage(&self, index: usize, limit: Limit, worker: Option<&mut Worker<'_>>) {
        let stage = self.stages[index].get_or_init(|| Stage {
            measuring: index == 1,
            budget: AtomicU64::new(limit.operations.unwrap_or(u64::MAX)),
            // What ends later than the clock goes has no end.
            deadline: limit.time.and_then(|time| Instant::now().checked_add(time)),
        });
        if let Some(worker) = worker
            && let Err(error) = worker.run(stage)
        {
            self.fail(error);
        }
    }

    fn fail(&self, error: io::Error) {
        self.shared.failed.store(true, Ordering::Relaxed);
        self.errors.lock().push(error);
    }

    /// Tells of the progress until all threads are through.
    fn watch(&self, on_progress: &mut dyn FnMut(Snapshot)) {
        let mut look_at = LOOK_EVERY;
        while self.running.load(Ordering::Acquire) > 0 {
            std::thread::park_timeout(TELL_EVERY);
            let elapsed = self.shared.start.elapsed();
            if elapsed >= look_at {
                look_at = elapsed + LOOK_EVERY;
                self.target.look();
            }
            if !self.shared.failed.load(Ordering::Relaxed)
                && let Some(error) = self.shared.errors.verdict(elapsed)
            {
                self.fail(error);
            }
            let mut timeline = self.shared.timeline.lock();
            timeline.settle(elapsed.as_secs());
            let recent = timeline.take_recent();
            // Only another process takes them: what stays here is written with the report.
            let (closed, settled) = if self.meeting.is_some() { timeline.take_closed() } else { Default::default() };
            drop(timeline);
            let warming_up = self.before.get().is_none();
            let done = self.shared.done.load(Ordering::Relaxed);
            on_progress(Snapshot { elapsed, warming_up, done, recent, closed, settled });
        }
    }
}
