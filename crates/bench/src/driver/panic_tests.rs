//! A thread of a phase that panics: the others do not wait for it.
#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::*;
use crate::target::map_store::MapStore;
use crate::target::{Completion, EmbeddedTarget, Lanes, Session, Target, TargetFacts, TargetUsage};
use crate::workload::{Config, Operation, Properties, Task, Workload};

/// When the first thread panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Panics {
    WhenItOpens,
    WhenItWorks,
}

/// A store that one thread's session does not survive.
struct Fragile {
    store: EmbeddedTarget,
    opened: AtomicUsize,
    panics: Panics,
}

impl Target for Fragile {
    fn name(&self) -> String {
        "fragile".to_owned()
    }

    fn in_process(&self) -> bool {
        true
    }

    fn facts(&self) -> TargetFacts {
        self.store.facts()
    }

    fn usage(&self) -> TargetUsage {
        TargetUsage::default()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        match (self.opened.fetch_add(1, Ordering::Relaxed), self.panics) {
            (0, Panics::WhenItOpens) => panic!("no session"),
            (0, Panics::WhenItWorks) => Ok(Box::new(Doomed(vec![Operation::default(); lanes.count()]))),
            _ => self.store.open(workload, lanes),
        }
    }
}

/// A session that panics when it is waited for.
struct Doomed(Vec<Operation>);

impl Session for Doomed {
    fn operation(&mut self, lane: u32) -> &mut Operation {
        &mut self.0[lane as usize]
    }

    fn start(&mut self, _lane: u32) {}

    fn wait(&mut self, _until: Option<Instant>, _done: &mut Vec<Completion>) -> io::Result<()> {
        panic!("no answer")
    }

    fn hurry(&mut self) {}

    fn first_wrong(&mut self) -> Option<String> {
        None
    }
}

#[test]
fn a_panic_ends_a_phase_with_an_error() {
    let mut properties = Properties::new();
    properties.add_file("workloadc").unwrap();
    properties.set("recordcount", "10");
    let workload = Arc::new(Workload::plan(Config::read(&properties).unwrap(), Task::Run).unwrap());
    // Nothing else ends it.
    let endless = PhasePlan {
        name: "test".to_owned(),
        title: String::new(),
        clients: 6,
        depth: 1,
        threads: 3,
        pace: Pace::Closed,
        warm_up: None,
        measure: Limit::default(),
        seed: 7,
        keeps_log: false,
        events: EventLog::default(),
        only_errors: OnlyErrors::Count,
    };
    for (panics, warm_up, why, measured) in [
        (Panics::WhenItOpens, None, "no session", false),
        (Panics::WhenItWorks, None, "no answer", true),
        (Panics::WhenItWorks, Some(Limit::default()), "no answer", false),
    ] {
        let store = EmbeddedTarget::new(Arc::new(MapStore::default()));
        let target = Fragile { store, opened: AtomicUsize::new(0), panics };
        let plan = PhasePlan { warm_up, ..endless.clone() };
        let Err(failure) = run_phase(&plan, &target, &workload, &AtomicBool::new(false), &mut |_| {}) else {
            panic!("{panics:?}: the phase ended well")
        };
        assert_eq!(failure.error.to_string(), format!("a thread of the bench panicked: {why}"), "{panics:?}");
        assert_eq!(failure.phase.is_some(), measured, "{panics:?} {warm_up:?}");
    }
}
