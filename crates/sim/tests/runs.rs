//! Whole runs: nothing is found in a few, the same seed makes the same run, and bugs that are put in are found.

#![allow(clippy::unwrap_used)]

use sim::{BUGS, Bug, Report, RunOptions, run};
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Mutex;

/// Seeds within which every bug is found; most are in the first few.
const SEEDS: u64 = 400;
const STEPS: u64 = 8_000;

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn traced(seed: u64) -> (Report, Vec<u8>) {
    let trace = Shared::default();
    let report = run(RunOptions { seed, steps: STEPS, bug: None, nodes: None, trace: Some(Box::new(trace.clone())) });
    let bytes = trace.0.borrow().clone();
    (report, bytes)
}

#[test]
fn the_same_seed_is_the_same_run_byte_for_byte() {
    let ((one, first), (other, second)) = (traced(5), traced(5));
    assert!(first.len() > 100_000, "a trace of {} bytes", first.len());
    assert!(first == second, "two traces of one seed differ");
    assert_eq!((one.hash, one.steps, one.virtual_us), (other.hash, other.steps, other.virtual_us));
    assert_ne!(traced(6).0.hash, one.hash);
}

/// BASALT_SIM_SEEDS says in how many, BASALT_SIM_SEED which is the first.
#[test]
fn nothing_is_found_in_a_few_seeds() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("BASALT_SIM_SEED").unwrap_or(1), number("BASALT_SIM_SEEDS").unwrap_or(12));
    let mut given_up = 0;
    for seed in first..first + count {
        let report = run(RunOptions { seed, steps: STEPS, ..RunOptions::default() });
        let found = report.failure.map(|failure| failure.what);
        assert_eq!(found, None, "basalt sim --seed {seed} --steps {STEPS}");
        assert!(report.counts.answered > 0 && report.virtual_us > 0);
        given_up += report.counts.given_up;
    }
    assert!(given_up > 0 || count < 12, "no event loop has given up an entry");
}

#[test]
fn a_large_store_under_churn_comes_to_rest() {
    let report = run(RunOptions { seed: 3, steps: 2_000, nodes: Some(24), ..RunOptions::default() });
    assert_eq!(report.failure.map(|failure| failure.what), None, "basalt sim --seed 3 --steps 2000 --nodes 24");
}

/// What is said of a bug that was put in.
fn found(bug: Bug) -> Option<String> {
    let reports =
        (1..=SEEDS).map(|seed| run(RunOptions { seed, steps: STEPS, bug: Some(bug), ..RunOptions::default() }));
    reports.filter_map(|report| report.failure).map(|failure| failure.what).next()
}

/// BASALT_SIM_BUG names one alone. Each run is one thread's: two at a time.
#[test]
fn every_bug_that_is_put_in_is_found() {
    let only = std::env::var("BASALT_SIM_BUG").ok();
    let bugs = BUGS.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let left = Mutex::new(bugs);
    let next = || left.lock().unwrap().next();
    std::thread::scope(|scope| {
        let finders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while let Some((name, bug)) = next() {
                        check_found(name, *bug);
                    }
                })
            })
            .collect();
        finders.into_iter().for_each(|finder| finder.join().unwrap());
    });
}

fn check_found(name: &str, bug: Bug) {
    let what = found(bug);
    assert!(what.is_some(), "{name} is not found within {SEEDS} seeds");
    let what = what.unwrap();
    let expected: &[&str] = match bug {
        Bug::NoLease | Bug::LeaseOnce | Bug::ReadAnywhere => &["was known before", "the keys are"],
        // Rows of a slot that was given away go, some before others.
        Bug::OwnerOnce => &["was known before", "the keys are", "a read fails"],
        Bug::BeforeReplay => &["at least was to be seen", "was to be seen, and nothing was"],
        Bug::LostRows => &["not healed"],
        Bug::ForgetVote => &["votes for"],
        Bug::EarlyAck => &["in no committed entry", "is in entry", "is committed as of"],
        Bug::Twice => &[
            "in no committed entry",
            "is in entry",
            "is committed as of",
            "the keys are",
            "was seen with two versions",
        ],
        Bug::TwistEntry => &["has another entry"],
        Bug::RefuseLate => &["is in entry", "it was refused, and entry", "it was not done, as was answered"],
        Bug::BlindReplica => &["at least was to be seen", "was to be seen, and nothing was"],
        Bug::OldClock => &["the keys are"],
        Bug::FollowWall => &["the time of node"],
        Bug::KeepFiles => &["and holds its files", "the log holds replica"],
        Bug::DropOrders => &["a plan has not ended"],
        Bug::BulkFirst | Bug::MuteLog => &["has an election, and nothing but bulk", "was not answered"],
        Bug::NoAdmission => &["longer than a key may be", "is beyond a limit"],
        Bug::PoisonOnLack => &["is poisoned, and no fsync"],
        Bug::LocalExpiry => &["the keys are"],
        Bug::ForgetInterest | Bug::EarlyConfirm => &["which was to get it"],
        Bug::SwapMessages => &["comes after message", "which was to get it"],
        Bug::DoubleMessage => &["comes after message"],
        Bug::KeepSubscribers => &["leads its slot"],
        // It is done twice, and the second time is answered.
        Bug::KeepGivenUp => {
            &["it was not done, as was answered", "the keys are", "is in entry", "was seen with two versions"]
        }
        // What is lost shows in many ways.
        Bug::SkipFsync | Bug::LoseWrite | Bug::ForgetLast => &[""],
    };
    assert!(expected.iter().any(|text| what.contains(text)), "{name}: {what}");
}
