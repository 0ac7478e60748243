//! What happened during a phase, as the code that caused it notes: marks in the charts.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::Event;

/// More events than this are not kept: a chart could not show them.
const EVENTS_MAX: usize = 1000;

/// When something happened.
#[derive(Clone, Copy, Debug)]
enum When {
    /// At this moment.
    At(Instant),
    /// So long after the phase began.
    After(Duration),
}

/// Takes notes of what happens. Clones write to the same log, from any thread.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Arc<Mutex<Vec<(When, String)>>>);

impl EventLog {
    /// Something is happening now.
    pub fn note(&self, what: &str) {
        self.push(When::At(Instant::now()), what);
    }

    /// Something has happened that began then: what it did is seen from there on.
    pub fn note_from(&self, begun: Instant, what: &str) {
        self.push(When::At(begun), what);
    }

    /// Something will happen, so long after the phase begins, its warm-up included.
    pub fn plan(&self, after: Duration, what: &str) {
        self.push(When::After(after), what);
    }

    fn push(&self, when: When, what: &str) {
        let mut events = self.0.lock();
        if events.len() < EVENTS_MAX {
            events.push((when, what.to_owned()));
        }
    }

    /// What happened within a phase that began at `start` and took `length`, in order of time.
    pub(super) fn of_phase(&self, start: Instant, length: Duration) -> Vec<Event> {
        let events = self.0.lock();
        let mut found: Vec<Event> = events
            .iter()
            .filter_map(|(when, label)| {
                let after = match *when {
                    When::At(at) => at.checked_duration_since(start)?,
                    When::After(after) => after,
                };
                (after <= length).then(|| Event { t_s: after.as_secs_f64(), label: label.clone() })
            })
            .collect();
        found.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_the_events_of_its_time() {
        let log = EventLog::default();
        log.note("before");
        let start = Instant::now() + Duration::from_millis(1);
        log.plan(Duration::from_secs(2), "later");
        log.plan(Duration::from_secs(1), "first");
        log.plan(Duration::from_secs(9), "too late");
        let shown = log.of_phase(start, Duration::from_secs(5));
        let shown: Vec<_> = shown.iter().map(|event| (event.t_s, event.label.as_str())).collect();
        assert_eq!(shown, [(1.0, "first"), (2.0, "later")]);
    }
}
