//! Ends a phase in which every operation fails with one error: waiting for hours would not help.

use parking_lot::Mutex;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::is_unavailable;
use crate::target::StoreError;

/// A phase in which nothing has succeeded yet ends after this time.
const ENDS_AFTER: Duration = Duration::from_secs(5);
/// A phase in which something has succeeded ends after this time: stores come back from a failure.
const ENDS_AFTER_SUCCESS: Duration = Duration::from_secs(30);
/// A phase ends after this time without a success, whatever the errors are.
const ENDS_WITHOUT_SUCCESS: Duration = Duration::from_secs(60);
/// A phase does not end before as many failures as lanes, and at least this number.
const FAILURES_MIN: u64 = 16;

/// What a phase does when every operation fails with one error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnlyErrors {
    /// It ends early, with the reason.
    #[default]
    End,
    /// It ends early, unless the error says that the store is unavailable.
    EndUnlessUnavailable,
    /// It goes on and counts.
    Count,
}

/// The errors since the last success, of all threads of a phase.
pub(super) struct ErrorStreak {
    rule: OnlyErrors,
    failures_min: u64,
    state: Mutex<StreakState>,
}

#[derive(Default)]
struct StreakState {
    has_succeeded: bool,
    /// The failures since the last success.
    all: Option<Streak>,
    /// The newest failures that are of one kind.
    one_kind: Option<Streak>,
}

/// Failures in a row.
struct Streak {
    first: StoreError,
    since: Duration,
    times: u64,
}

impl Streak {
    fn begin(first: &StoreError, since: Duration) -> Self {
        Self { first: first.clone(), since, times: 0 }
    }

    fn told(&self, (what, of): (&str, &str), lasted: Duration) -> io::Error {
        let (times, seconds, kind) = (self.times, lasted.as_secs(), &self.first.kind);
        let said = match &*self.first.text {
            "" => String::new(),
            text => format!("; the first said: `{text}`"),
        };
        io::Error::other(format!("{what} come back for {seconds} s: {times}{of}{kind}{said}"))
    }
}

impl ErrorStreak {
    /// For a phase with so many lanes.
    pub(super) fn new(rule: OnlyErrors, lanes: usize) -> Self {
        Self { rule, failures_min: FAILURES_MIN.min(lanes as u64).max(1), state: Mutex::default() }
    }

    /// The store has answered at least one operation.
    pub(super) fn succeeded(&self) {
        let mut state = self.state.lock();
        *state = StreakState { has_succeeded: true, all: None, one_kind: None };
    }

    /// An operation has failed, so long after the phase began.
    pub(super) fn failed(&self, error: &StoreError, at: Duration) {
        let mut state = self.state.lock();
        if self.is_tolerated(&error.kind) {
            // The store is unavailable and may come back: earlier failures say nothing about that.
            (state.all, state.one_kind) = (None, None);
            return;
        }
        if state.one_kind.as_ref().is_some_and(|streak| streak.first.kind != error.kind) {
            state.one_kind = None;
        }
        state.all.get_or_insert_with(|| Streak::begin(error, at)).times += 1;
        state.one_kind.get_or_insert_with(|| Streak::begin(error, at)).times += 1;
    }

    fn is_tolerated(&self, kind: &str) -> bool {
        match self.rule {
            OnlyErrors::End => false,
            OnlyErrors::EndUnlessUnavailable => is_unavailable(kind),
            OnlyErrors::Count => true,
        }
    }

    /// Why the phase should end now, if it should.
    pub(super) fn verdict(&self, now: Duration) -> Option<io::Error> {
        let state = self.state.lock();
        let patience = if state.has_succeeded { ENDS_AFTER_SUCCESS } else { ENDS_AFTER };
        let ends = |streak: &Option<Streak>, patience: Duration, words: (&str, &str)| {
            let streak = streak.as_ref().filter(|streak| streak.times >= self.failures_min)?;
            let lasted = now.saturating_sub(streak.since);
            (lasted >= patience).then(|| streak.told(words, lasted))
        };
        let one_kind = ends(&state.one_kind, patience, ("nothing but one error has", " × "));
        one_kind.or_else(|| ends(&state.all, ENDS_WITHOUT_SUCCESS, ("nothing but errors have", ", at first ")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn error(kind: &str) -> StoreError {
        StoreError { kind: kind.into(), text: "said".into() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// One failure a second for so long.
    fn failing(rule: OnlyErrors, kinds: &[&str], seconds: u64) -> ErrorStreak {
        let streak = ErrorStreak::new(rule, 2);
        (0..seconds).for_each(|second| streak.failed(&error(kinds[second as usize % kinds.len()]), at(second)));
        streak
    }

    #[test]
    fn one_error_and_nothing_else_ends_a_phase() {
        let streak = failing(OnlyErrors::End, &["ERR"], 6);
        assert!(streak.verdict(at(4)).is_none());
        let text = streak.verdict(at(6)).unwrap().to_string();
        assert_eq!(text, "nothing but one error has come back for 6 s: 6 × ERR; the first said: `said`");
        assert!(failing(OnlyErrors::End, &["timeout"], 6).verdict(at(6)).is_some());
        assert!(failing(OnlyErrors::End, &["ERR"], 1).verdict(at(9)).is_none(), "one failure of two lanes");
    }

    #[test]
    fn another_error_among_them_saves_no_phase() {
        let streak = failing(OnlyErrors::End, &["timeout"], 2);
        (2..8).for_each(|second| streak.failed(&error("ERR"), at(second)));
        assert!(streak.verdict(at(6)).is_none(), "of one kind for 4 s");
        assert!(streak.verdict(at(7)).unwrap().to_string().contains("one error has come back for 5 s: 6 × ERR"));
        let streak = failing(OnlyErrors::End, &["ERR", "timeout"], 60);
        assert!(streak.verdict(at(59)).is_none());
        let text = streak.verdict(at(60)).unwrap().to_string();
        assert_eq!(text, "nothing but errors have come back for 60 s: 60, at first ERR; the first said: `said`");
    }

    #[test]
    fn a_phase_goes_on_with_other_errors_tolerated_ones_and_successes() {
        assert!(failing(OnlyErrors::End, &["ERR", "timeout"], 9).verdict(at(9)).is_none());
        for kinds in [&["timeout"][..], &["timeout", "ERR"]] {
            assert!(failing(OnlyErrors::EndUnlessUnavailable, kinds, 99).verdict(at(99)).is_none(), "{kinds:?}");
        }
        assert!(failing(OnlyErrors::EndUnlessUnavailable, &["ERR"], 9).verdict(at(9)).is_some());
        assert!(failing(OnlyErrors::Count, &["ERR"], 9).verdict(at(9)).is_none());
        let streak = failing(OnlyErrors::End, &["ERR"], 9);
        streak.succeeded();
        assert!(streak.verdict(at(9)).is_none());
        (9..50).for_each(|second| streak.failed(&error("READONLY"), at(second)));
        assert!(streak.verdict(at(38)).is_none());
        assert!(streak.verdict(at(40)).unwrap().to_string().contains("READONLY"));
    }
}
