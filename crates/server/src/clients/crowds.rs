//! What goes to very many clients of a worker: some of them have it in each turn, in the order in which it came.
//!
//! Invariant: while something waits here, what comes for others waits behind it, so that each client has all in order.

use node::pubsub::{Delivery, Subscriber};
use node::tracking::Invalidation;
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::limits::{CLIENTS_TOLD_STEP_MAX, PUSH_BACKLOG_BYTES_MAX};

/// While so much waits, entries tell nothing more.
const CROWDED: usize = 16;

/// What goes to many.
pub(super) enum ForMany {
    /// A message, to those who have subscribed.
    Message(Delivery),
    /// Keys that they are to forget.
    Forgotten(Arc<Invalidation>),
    /// A command, to those who watch.
    Shown(Arc<[u8]>, Vec<Subscriber>),
}

/// Those who have it or are to have it.
pub(super) struct Crowd {
    pub(super) what: ForMany,
    /// Who of its clients is next.
    pub(super) next: usize,
    /// What it counts among that for which publishers wait.
    pub(super) bytes: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Crowds {
    /// The oldest first.
    under_way: VecDeque<Crowd>,
    bytes: u64,
}

impl Crowds {
    /// Whether what is for so many clients is to wait here.
    pub(super) fn takes(&self, clients: usize) -> bool {
        clients > CLIENTS_TOLD_STEP_MAX || !self.under_way.is_empty()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether so much waits that no more should come where that can wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.under_way.len() >= CROWDED
    }

    /// Takes what is for many, of so many bytes with all copies; false if it is lost, since too much waits.
    pub(super) fn add(&mut self, what: ForMany, bytes: u64) -> bool {
        let is_lost = bytes > 0 && self.bytes > 4 * PUSH_BACKLOG_BYTES_MAX;
        if !is_lost {
            self.bytes += bytes;
            self.under_way.push_back(Crowd { what, next: 0, bytes });
        }
        !is_lost
    }

    /// The oldest of what waits, to be brought to some.
    pub(super) fn take_next(&mut self) -> Option<Crowd> {
        self.under_way.pop_front()
    }

    /// It goes on with the next turn.
    pub(super) fn put_back(&mut self, crowd: Crowd) {
        self.under_way.push_front(crowd);
    }

    /// All have it.
    pub(super) fn end(&mut self, crowd: &Crowd) {
        self.bytes -= crowd.bytes;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shown(clients: usize) -> ForMany {
        let client = |connection| Subscriber { worker: 0, connection, generation: 1 };
        ForMany::Shown(b"x"[..].into(), (0..clients as u32).map(client).collect())
    }

    #[test]
    fn what_is_for_many_waits_and_all_else_behind_it() {
        let mut crowds = Crowds::default();
        assert!(!crowds.takes(CLIENTS_TOLD_STEP_MAX) && crowds.takes(CLIENTS_TOLD_STEP_MAX + 1));
        assert!(crowds.add(shown(1), 1));
        assert!(crowds.takes(1) && !crowds.is_crowded());
        (0..CROWDED).for_each(|_| _ = crowds.add(shown(1), 1));
        assert!(crowds.is_crowded());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut crowds = Crowds::default();
        assert!(crowds.add(shown(1), 4 * PUSH_BACKLOG_BYTES_MAX));
        assert!(crowds.add(shown(1), 1));
        assert!(!crowds.add(shown(1), 1), "it is lost");
        assert!(crowds.add(shown(1), 0), "keys that are to be forgotten never are");
    }
}
