//! What a thread does about operations that were due when its stage ended.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::super::error_streak::OnlyErrors;
use super::super::pace::Arrivals;
use super::*;
use crate::target::OpOutcome;
use crate::workload::{Config, Properties};

/// A store that answers at once.
struct Prompt {
    operations: Vec<Operation>,
    started: Vec<u32>,
}

impl Session for Prompt {
    fn operation(&mut self, lane: u32) -> &mut Operation {
        &mut self.operations[lane as usize]
    }

    fn start(&mut self, lane: u32) {
        self.started.push(lane);
    }

    fn wait(&mut self, _until: Option<Instant>, done: &mut Vec<Completion>) -> io::Result<()> {
        let (at, part) = (Instant::now(), OpStage::Whole { has_parts: false });
        done.extend(self.started.drain(..).map(|lane| {
            let outcome =
                OpOutcome { result: Ok(()), verified: false, stale: false, retries: 0, conflicts: 0, unknown: false };
            Completion { lane, at, part, outcome }
        }));
        Ok(())
    }

    fn hurry(&mut self) {}

    fn first_wrong(&mut self) -> Option<String> {
        None
    }
}

/// A stage of 50 ms with an operation due in each, which its thread comes to so long after its beginning.
struct Case {
    late: Duration,
    pace: Pace,
    measuring: bool,
    operations: u64,
    stopped: bool,
}

/// What became of its operations.
#[derive(Debug, PartialEq, Eq)]
struct Became {
    done: u64,
    recorded: u64,
    not_started: u64,
}

const OPEN: Pace = Pace::Open { rate_per_s: 1000.0, arrivals: Arrivals::Even };
const LENGTH: Duration = Duration::from_millis(50);

impl Default for Case {
    fn default() -> Self {
        let late = Duration::from_secs(2);
        Self { late, pace: OPEN, measuring: true, operations: u64::MAX, stopped: false }
    }
}

impl Case {
    fn run(&self) -> Became {
        let mut properties = Properties::new();
        properties.add_file("workloadc").unwrap();
        properties.set("recordcount", "10");
        let workload = Arc::new(Workload::plan(Config::read(&properties).unwrap(), Task::Run).unwrap());
        let begun = Instant::now().checked_sub(self.late).unwrap();
        let stop = AtomicBool::new(self.stopped);
        let shared = Shared {
            workload: &workload,
            timeline: Mutex::new(Timeline::new(false)),
            done: AtomicU64::new(0),
            stop: &stop,
            failed: AtomicBool::new(false),
            errors: ErrorStreak::new(OnlyErrors::End, 2),
            start: begun,
        };
        let stage = Stage {
            measuring: self.measuring,
            budget: AtomicU64::new(self.operations),
            deadline: Some(begun + LENGTH),
        };
        let session = Prompt { operations: vec![Operation::default(); 2], started: Vec::new() };
        let mut worker = Worker::new(&shared, Box::new(session), workload.source(1), self.pace, 2, (0, 1));
        worker.run_from(&stage, begun).unwrap();
        let not_started = worker.recorder.not_started_count();
        let stats = worker.recorder.stats(&[]);
        for op in &stats {
            // Nothing was sent before the thread came to its stage, and each operation was due before the deadline.
            let least_us = (self.late - LENGTH).as_secs_f64() * 1e6;
            assert!(op.latency.intended.as_ref().is_none_or(|due| due.min_us > least_us * 0.99), "{op:?}");
            assert_eq!(op.latency.intended.is_some(), self.pace != Pace::Closed, "{op:?}");
        }
        let recorded = stats.iter().map(|op| op.count()).sum();
        Became { done: shared.done.load(Ordering::Relaxed), recorded, not_started }
    }
}

#[test]
fn what_was_due_is_done_after_the_deadline_and_its_latency_counts() {
    let became = Case::default().run();
    assert_eq!(became, Became { done: 50, recorded: 50, not_started: 0 }, "two lanes do them one after the other");
    let became = Case { operations: 20, ..Case::default() }.run();
    assert_eq!(became, Became { done: 20, recorded: 20, not_started: 0 }, "no more than there are to be");
}

#[test]
fn what_was_due_in_a_warm_up_is_done_and_does_not_count() {
    let became = Case { measuring: false, ..Case::default() }.run();
    assert_eq!(became, Became { done: 50, recorded: 0, not_started: 0 });
    let late = Duration::from_secs(60);
    let became = Case { late, measuring: false, ..Case::default() }.run();
    assert_eq!(became, Became { done: 0, recorded: 0, not_started: 0 });
}

#[test]
fn what_is_not_started_in_time_is_counted() {
    let late = Duration::from_secs(60);
    assert_eq!(Case { late, ..Case::default() }.run(), Became { done: 0, recorded: 0, not_started: 50 });
    let became = Case { late, operations: 20, ..Case::default() }.run();
    assert_eq!(became, Became { done: 0, recorded: 0, not_started: 20 }, "no more than there were to be");
    let pace = Pace::Open { rate_per_s: Pace::RATE_MAX_PER_S, arrivals: Arrivals::Even };
    let became = Case { late, pace, ..Case::default() }.run();
    assert_eq!(became, Became { done: 0, recorded: 0, not_started: 50_000_000 });
}

#[test]
fn a_closed_loop_owes_nothing_and_neither_does_a_phase_that_was_stopped() {
    let became = Case { pace: Pace::Closed, ..Case::default() }.run();
    assert_eq!(became, Became { done: 2, recorded: 2, not_started: 0 }, "each lane ends what it has begun with");
    let became = Case { stopped: true, ..Case::default() }.run();
    assert_eq!(became, Became { done: 0, recorded: 0, not_started: 0 });
}
