//! The connections that a turn looks at, in their order.
//!
//! Invariant: a connection that has had its turn and has more is among those that go on once.

use std::vec::IntoIter;

/// Connections that are to be looked at: those that have had their turn, and have more, come behind the others.
pub(crate) struct Ready {
    ready: IntoIter<usize>,
    going_on: IntoIter<usize>,
}

/// A connection whose turn it is.
pub(super) struct Next {
    pub(super) id: usize,
    /// It has had a turn, and has more.
    pub(super) goes_on: bool,
}

impl Ready {
    /// All that are to be looked at.
    pub(super) fn take(ready: &mut Vec<usize>, going_on: &mut Vec<usize>) -> Self {
        Self { ready: std::mem::take(ready).into_iter(), going_on: std::mem::take(going_on).into_iter() }
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Option<Next> {
        let first = self.ready.next().map(|id| Next { id, goes_on: false });
        first.or_else(|| self.going_on.next().map(|id| Next { id, goes_on: true }))
    }

    /// The others are looked at in the next turn, before those that have come since.
    pub(super) fn put_off(self, ready: &mut Vec<usize>, going_on: &mut Vec<usize>) {
        if self.ready.len() + self.going_on.len() > 0 {
            let since = Self::take(ready, going_on);
            *ready = self.ready.chain(since.ready).collect();
            *going_on = self.going_on.chain(since.going_on).collect();
        }
    }
}
