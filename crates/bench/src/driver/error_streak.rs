//! Ends a phase to which nothing but one error comes back: what is wrong will not become right by waiting for hours.

use parking_lot::Mutex;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::is_unavailable;
use crate::target::StoreError;

/// A phase in which nothing has succeeded yet ends after so long.
const ENDS_AFTER: Duration = Duration::from_secs(5);
/// A phase in which something has succeeded before ends after so long: stores come back from a failure.
const ENDS_AFTER_SUCCESS: Duration = Duration::from_secs(30);
/// Fewer failures than lanes, or than this, end nothing.
const FAILURES_MIN: u64 = 16;

/// What a phase does when nothing but one error comes back.
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_succeeded: bool,
    streak: Option<Streak>,
}

/// Failures in a row, all of one kind or not.
struct Streak {
    first: StoreError,
    since: Duration,
    times: u64,
    is_mixed: bool,
}

impl ErrorStreak {
    /// For a phase with so many lanes.
    pub(super) fn new(rule: OnlyErrors, lanes: usize) -> Self {
        Self { rule, failures_min: FAILURES_MIN.min(lanes as u64).max(1), state: Mutex::default() }
    }

    /// The store has answered at least one operation.
    pub(super) fn succeeded(&self) {
        let mut state = self.state.lock();
        *state = State { has_succeeded: true, streak: None };
    }

    /// An operation has failed, so long after the phase began.
    pub(super) fn failed(&self, error: &StoreError, at: Duration) {
        let mut state = self.state.lock();
        let begin = || Streak { first: error.clone(), since: at, times: 0, is_mixed: false };
        let streak = state.streak.get_or_insert_with(begin);
        streak.times += 1;
        streak.is_mixed |= streak.first.kind != error.kind;
    }

    /// Why the phase should end now, if it should.
    pub(super) fn verdict(&self, now: Duration) -> Option<io::Error> {
        let state = self.state.lock();
        let streak = state.streak.as_ref().filter(|streak| !streak.is_mixed && streak.times >= self.failures_min)?;
        let kind = &streak.first.kind;
        let counts = self.rule == OnlyErrors::Count;
        if counts || self.rule == OnlyErrors::EndUnlessUnavailable && is_unavailable(kind) {
            return None;
        }
        let lasted = now.saturating_sub(streak.since);
        if lasted < if state.has_succeeded { ENDS_AFTER_SUCCESS } else { ENDS_AFTER } {
            return None;
        }
        let said = match &*streak.first.text {
            "" => String::new(),
            text => format!("; the first said: `{text}`"),
        };
        let (times, seconds) = (streak.times, lasted.as_secs());
        Some(io::Error::other(format!("nothing but one error has come back for {seconds} s: {times} × {kind}{said}")))
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
    fn a_phase_goes_on_with_other_errors_tolerated_ones_and_successes() {
        assert!(failing(OnlyErrors::End, &["ERR", "timeout"], 9).verdict(at(9)).is_none());
        assert!(failing(OnlyErrors::EndUnlessUnavailable, &["timeout"], 9).verdict(at(9)).is_none());
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
