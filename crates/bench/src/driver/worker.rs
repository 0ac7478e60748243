//! One thread of a phase: its lanes, their pace, and what it records.

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::error_streak::ErrorStreak;
use super::pace::{Arrival, Pace, Schedule, Throttle, Timetable};
use super::recorder::{Recorder, Sample};
use super::timeline::Timeline;
use crate::target::{Completion, Fault, OpStage, Session};
use crate::workload::{OpKind, Operation, Source, Task, Workload};

/// Operations that a thread takes from the common budget at once.
const CLAIM: u64 = 16;
/// Operations after which a thread tells the others how many it has done.
const PUBLISH: u64 = 32;
/// A thread looks at the clock this often even when nothing happens.
const LOOK: Duration = Duration::from_millis(100);

/// How far a stage of a phase goes, shared by its threads.
pub(super) struct Stage {
    /// Whether its figures count.
    pub(super) measuring: bool,
    /// Operations that no thread has taken.
    pub(super) budget: AtomicU64,
    /// When no more are started. An open loop still starts those that were due before.
    pub(super) deadline: Option<Instant>,
}

/// What the threads of a phase share.
pub(super) struct Shared<'a> {
    pub(super) workload: &'a Workload,
    pub(super) timeline: Mutex<Timeline>,
    /// Operations that have ended, for progress.
    pub(super) done: AtomicU64,
    /// The user wants it to end, or a thread has failed.
    pub(super) stop: &'a AtomicBool,
    pub(super) failed: AtomicBool,
    /// The errors since the last success.
    pub(super) errors: ErrorStreak,
    /// When the phase began.
    pub(super) start: Instant,
}

struct LaneClock {
    started: Instant,
    /// When it should have started, where that was fixed.
    intended: Option<Instant>,
    /// When the first part of a read-modify-write ended.
    midway: Instant,
    attempts: u32,
    /// Operations done, for YCSB's throttle.
    done: u64,
    /// Where its timetable begins.
    origin: Instant,
    /// What it waits for while it is parked.
    parked_for: ParkedFor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParkedFor {
    /// Its next operation.
    Next,
    /// Another attempt at the same.
    Retry,
}

/// One thread.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    session: Box<dyn Session>,
    source: Source,
    pace: Pace,
    throttle: Option<Throttle>,
    /// This thread's index and how many there are.
    place: (usize, usize),
    clocks: Vec<LaneClock>,
    parked: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Lanes that an open loop may use.
    idle: Vec<u32>,
    done: Vec<Completion>,
    in_flight: usize,
    claimed: u64,
    /// Operations that ended and are not in the common count.
    unpublished: u64,
    /// Whether one of them was answered.
    has_succeeded: bool,
    /// Whether the last one was not.
    is_failing: bool,
    /// Nothing more is to be started in this stage.
    ended: bool,
    pub(super) recorder: Recorder,
    /// When the last operation of the stage ended.
    pub(super) last: Instant,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        session: Box<dyn Session>,
        source: Source,
        pace: Pace,
        lanes: usize,
        place: (usize, usize),
    ) -> Self {
        let now = Instant::now();
        let clock = |_| LaneClock {
            started: now,
            intended: None,
            midway: now,
            attempts: 0,
            done: 0,
            origin: now,
            parked_for: ParkedFor::Next,
        };
        let throttle = match pace {
            Pace::Throttled { target_per_s } => Some(Throttle::new(target_per_s, lanes * place.1)),
            _ => None,
        };
        Self {
            shared,
            session,
            source,
            pace,
            throttle,
            place,
            clocks: (0..lanes).map(clock).collect(),
            parked: BinaryHeap::new(),
            idle: Vec::new(),
            done: Vec::new(),
            in_flight: 0,
            claimed: 0,
            unpublished: 0,
            has_succeeded: false,
            is_failing: false,
            ended: false,
            recorder: Recorder::default(),
            last: now,
        }
    }

    /// Works until the stage is over and everything that was started has ended.
    pub(super) fn run(&mut self, stage: &Stage) -> io::Result<()> {
        self.run_from(stage, Instant::now())
    }

    /// The same for a stage that has `begun` at that time.
    fn run_from(&mut self, stage: &Stage, begun: Instant) -> io::Result<()> {
        (self.ended, self.claimed, self.last) = (self.is_over(stage, begun), 0, begun);
        let mut timetable = None;
        if let Pace::Open { rate_per_s, arrivals } = self.pace {
            let schedule = Schedule::new(rate_per_s, arrivals, self.place.0, self.place.1);
            timetable = Some(Timetable::new(schedule, begun, stage.deadline));
            self.idle = (0..self.clocks.len() as u32).collect();
        } else {
            self.begin_lanes(stage, begun);
        }
        loop {
            let now = Instant::now();
            self.ended |= self.is_over(stage, now);
            if self.ended {
                self.drop_parked();
            }
            if self.is_stopped() {
                self.session.hurry();
            }
            self.release(stage, now);
            let arrival = timetable.as_mut().and_then(|timetable| self.arrivals(stage, timetable, now));
            if self.ended && self.in_flight == 0 {
                break;
            }
            let due = self.parked.peek().map(|Reverse((due, _))| *due);
            let look = now + LOOK;
            let deadline = stage.deadline.filter(|deadline| *deadline > now);
            let until = [due, arrival, deadline].into_iter().flatten().fold(look, Instant::min);
            let mut done = std::mem::take(&mut self.done);
            self.session.wait(Some(until), &mut done)?;
            for completion in done.drain(..) {
                self.complete(stage, completion)?;
            }
            self.done = done;
            if self.recorder.second_is_over(self.shared.start, now) {
                self.flush(now);
            }
        }
        self.flush(Instant::now());
        Ok(())
    }

    /// Whether nothing more may be started, whatever is left to do. Of an open loop the timetable says when it is over.
    fn is_over(&self, stage: &Stage, now: Instant) -> bool {
        let is_open = matches!(self.pace, Pace::Open { .. });
        (!is_open && stage.deadline.is_some_and(|deadline| now >= deadline)) || self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed) || self.shared.failed.load(Ordering::Relaxed)
    }

    fn publish(&mut self) {
        self.shared.done.fetch_add(std::mem::take(&mut self.unpublished), Ordering::Relaxed);
        if std::mem::take(&mut self.has_succeeded) {
            self.shared.errors.succeeded();
        }
    }

    fn flush(&mut self, now: Instant) {
        self.publish();
        let mut timeline = self.shared.timeline.lock();
        self.recorder.turn_second(self.shared.start, now, &mut timeline);
    }

    /// Starts every lane of a closed loop, or parks it until its first tick.
    fn begin_lanes(&mut self, stage: &Stage, begun: Instant) {
        for lane in 0..self.clocks.len() as u32 {
            let mut origin = begun;
            if let Some(throttle) = self.throttle.filter(|throttle| throttle.staggered) {
                origin += Duration::from_nanos(self.source.prng().below(throttle.tick.as_nanos() as u64 + 1));
            }
            let clock = &mut self.clocks[lane as usize];
            (clock.origin, clock.done) = (origin, 0);
            if origin > begun {
                self.park(lane, origin, ParkedFor::Next);
            } else {
                self.start(stage, lane, self.throttle.map(|_| origin));
            }
        }
    }

    fn park(&mut self, lane: u32, until: Instant, parked_for: ParkedFor) {
        self.clocks[lane as usize].parked_for = parked_for;
        self.parked.push(Reverse((until, lane)));
    }

    /// The stage is over: what waits for its next operation will not have it; a retry is still made.
    fn drop_parked(&mut self) {
        let clocks = &self.clocks;
        self.parked.retain(|Reverse((_, lane))| clocks[*lane as usize].parked_for == ParkedFor::Retry);
    }

    /// Starts the parked lanes whose time has come.
    fn release(&mut self, stage: &Stage, now: Instant) {
        while let Some(&Reverse((due, lane))) = self.parked.peek()
            && due <= now
        {
            self.parked.pop();
            match self.clocks[lane as usize].parked_for {
                ParkedFor::Next => self.start(stage, lane, Some(due)),
                ParkedFor::Retry => self.session.start(lane),
            }
        }
    }

    /// Starts the arrivals whose time has come, as far as lanes are free, and answers when to look again.
    fn arrivals(&mut self, stage: &Stage, timetable: &mut Timetable, now: Instant) -> Option<Instant> {
        while !self.ended {
            match timetable.next(now) {
                Arrival::Due(due) => {
                    let lane = self.idle.pop()?;
                    self.start(stage, lane, Some(due));
                    timetable.advance(self.source.prng());
                }
                Arrival::Later(at) => return Some(at),
                Arrival::Over => {
                    self.ended = true;
                    self.give_up(stage, timetable.owed());
                }
            }
        }
        None
    }

    /// Counts what was due and will not be started: the store has not caught up in time. No more than there were to be; all at
    /// once, because at a high rate there may be billions.
    fn give_up(&mut self, stage: &Stage, owed: u64) {
        let held = owed.min(self.claimed);
        self.claimed -= held;
        let take = |left: u64| Some(left - left.min(owed - held));
        let (Ok(left) | Err(left)) = stage.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if stage.measuring {
            self.recorder.not_started(held + left.min(owed - held));
        }
    }

    /// Starts the lane's next operation, if there is one.
    fn start(&mut self, stage: &Stage, lane: u32, intended: Option<Instant>) {
        if self.ended || !self.claim(stage) || !self.source.next(self.session.operation(lane)) {
            self.ended = true;
            return;
        }
        self.in_flight += 1;
        let clock = &mut self.clocks[lane as usize];
        clock.attempts = 0;
        clock.intended = intended;
        clock.started = Instant::now();
        self.session.start(lane);
    }

    fn claim(&mut self, stage: &Stage) -> bool {
        if self.claimed == 0 {
            let take = |left: u64| (left > 0).then(|| left - left.min(CLAIM));
            let Ok(left) = stage.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else { return false };
            self.claimed = left.min(CLAIM);
        }
        self.claimed -= 1;
        true
    }

    fn complete(&mut self, stage: &Stage, completion: Completion) -> io::Result<()> {
        let Completion { lane, at, part, outcome } = completion;
        let clock = &mut self.clocks[lane as usize];
        let from = |start: Instant| at.saturating_duration_since(start);
        let since = from(self.shared.start);
        let intended = clock.intended.map(from);
        let has_parts = match part {
            OpStage::Read => {
                clock.midway = at;
                let sample = Sample { measured: from(clock.started), intended };
                self.recorder.part(OpKind::Read, sample, &outcome, since, stage.measuring);
                return Ok(());
            }
            OpStage::Write => {
                let measured = from(clock.midway);
                // The write's intended start is the read's end: nothing held it back.
                let sample = Sample { measured, intended: intended.map(|_| measured) };
                self.recorder.part(OpKind::Update, sample, &outcome, since, stage.measuring);
                return Ok(());
            }
            OpStage::Whole { has_parts } => has_parts,
        };
        let sample = Sample { measured: from(clock.started), intended };
        let operation = self.session.operation(lane);
        if matches!(outcome.result, Err(Fault::Error(_))) && may_retry(self.shared.workload, operation, clock.attempts)
        {
            clock.attempts += 1;
            self.recorder.retried(operation.kind);
            let wait = retry_wait(self.shared.workload, &mut self.source);
            self.park(lane, at + wait, ParkedFor::Retry);
            return Ok(());
        }
        let succeeded = outcome.result.is_ok();
        match &outcome.result {
            Err(Fault::Error(error)) => {
                self.is_failing = true;
                self.shared.errors.failed(error, since);
            }
            // A wrong answer is one all the same.
            _ => {
                self.has_succeeded = true;
                if std::mem::take(&mut self.is_failing) {
                    self.shared.errors.succeeded();
                }
            }
        }
        self.recorder.whole(operation.kind, sample, (&outcome, has_parts), since, stage.measuring);
        self.shared.workload.finished(operation, succeeded).map_err(|_| {
            io::Error::other("an insert is still unanswered a million inserts later: the readable range cannot grow")
        })?;
        self.in_flight -= 1;
        self.last = self.last.max(at);
        self.unpublished += 1;
        if self.unpublished >= PUBLISH {
            self.publish();
        }
        self.next(stage, lane);
        Ok(())
    }

    /// What a lane does when its operation has ended.
    fn next(&mut self, stage: &Stage, lane: u32) {
        let clock = &mut self.clocks[lane as usize];
        clock.done += 1;
        match (self.pace, self.throttle) {
            (Pace::Open { .. }, _) => self.idle.push(lane),
            (_, Some(throttle)) => {
                let due = clock.origin + Duration::from_nanos(throttle.tick.as_nanos() as u64 * clock.done);
                self.park(lane, due, ParkedFor::Next);
            }
            (_, None) => self.start(stage, lane, None),
        }
    }

    /// Closes the session and notes how long that took.
    pub(super) fn finish(self) -> Recorder {
        let Self { mut session, mut recorder, .. } = self;
        if let Some(text) = session.first_wrong() {
            recorder.first_wrong(text);
        }
        let begun = Instant::now();
        drop(session);
        recorder.cleaned_up(begun.elapsed());
        recorder
    }
}

/// YCSB retries the inserts of a load, and nothing else.
fn may_retry(workload: &Workload, operation: &Operation, attempts: u32) -> bool {
    workload.task() == Task::Load && operation.kind == OpKind::Insert && attempts < workload.config.insert_retries
}

/// The interval, give or take a fifth.
fn retry_wait(workload: &Workload, source: &mut Source) -> Duration {
    let factor = 0.8 + 0.4 * source.prng().next_f64();
    Duration::from_secs_f64(workload.config.insert_retry_interval_s * factor)
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
