//! Actions on a store while a phase runs on it, each at its time.

use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use client::StoreUrl;

use super::settle::{PlanSight, plans};
use crate::driver::EventLog;
use crate::model::ActionFile;
use crate::suite_stores::{SuiteStore, words};

/// How often the store is asked for its plans.
const PLANS_EVERY: Duration = Duration::from_secs(1);

/// Something that is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Due {
    /// After the beginning of the phase.
    pub(crate) at: Duration,
    /// What.
    pub(crate) action: ActionFile,
}

/// Does what is due until all is done and the phase has ended, which `ended` tells by being closed. What could not be
/// done, in sentences.
pub(crate) fn play(
    mut due: Vec<Due>,
    store: &Mutex<Box<dyn SuiteStore>>,
    events: &EventLog,
    ended: &Receiver<()>,
) -> Vec<String> {
    let begun = Instant::now();
    let mut problems = Vec::new();
    let mut watch = PlanWatch::new(store);
    due.sort_by_key(|due| due.at);
    let mut due = due.into_iter().peekable();
    loop {
        let next = due.peek().map_or(PLANS_EVERY, |due| due.at.saturating_sub(begun.elapsed()).min(PLANS_EVERY));
        match ended.recv_timeout(next) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => break,
        }
        while let Some(due) = due.next_if(|due| due.at <= begun.elapsed()) {
            let began = Instant::now();
            let done = store.lock().act(&due.action);
            match done {
                Ok(what) => events.note_from(began, &what),
                Err(e) => problems.push(format!("`{}` could not be done: {e}.", words(&due.action).join(" "))),
            }
        }
        watch.look(events);
    }
    for left in due {
        let at = left.at.as_secs_f64();
        problems.push(format!("`{}` was due at {at} s, after the phase had ended.", words(&left.action).join(" ")));
    }
    problems
}

/// Notes when a plan of the store begins and when it ends.
struct PlanWatch {
    store: Option<StoreUrl>,
    known: Vec<PlanSight>,
    looked: Instant,
}

impl PlanWatch {
    fn new(store: &Mutex<Box<dyn SuiteStore>>) -> Self {
        let url = store.lock().url();
        let store: Option<StoreUrl> = url.parse().ok();
        let known = store.as_ref().map(plans).unwrap_or_default();
        Self { store, known, looked: Instant::now() }
    }

    fn look(&mut self, events: &EventLog) {
        let Some(store) = self.store.as_ref().filter(|_| self.looked.elapsed() >= PLANS_EVERY) else { return };
        self.looked = Instant::now();
        let now = plans(store);
        if now.is_empty() {
            // A store in an election does not tell: what is known stays known.
            return;
        }
        for plan in &now {
            if !self.known.contains(plan) {
                events.note(&format!("plan {} ({}): {}", plan.id, plan.kind, plan.state));
            }
        }
        self.known = now;
    }
}
