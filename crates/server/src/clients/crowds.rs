//! What goes to very many clients of a worker, or is long for many: some of them have it in each turn, in the order in which it came.
//!
//! Invariants: while something waits here, what comes for others waits behind it, so that each client has all in order. What waits is bounded:
//! messages beyond the bound are lost, and in place of keys beyond it their clients are told to forget all, which is never wrong.

use super::output::PIECE_BYTES_MIN;
use node::pubsub::{Delivery, Push, Subscriber};
use node::tracking::Invalidation;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use vocab::limits::{CLIENTS_TOLD_STEP_MAX, FORGOTTEN_BACKLOG_BYTES_MAX, PUSH_BACKLOG_BYTES_MAX};

/// Bytes that a turn copies for clients before it leaves the others for the next one.
pub(super) const COPIED_STEP_BYTES_SOFT: usize = 1024 * 1024;
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

impl ForMany {
    /// The bytes that are copied for each client.
    pub(super) fn copied_bytes(&self) -> usize {
        match self {
            Self::Message(delivery) => copied_bytes(&delivery.push),
            Self::Forgotten(told) => told.bytes(),
            Self::Shown(line, _) => line.len(),
        }
    }
}

/// The bytes of a message that are copied for each client. They share those of a long one.
pub(super) fn copied_bytes(push: &Push) -> usize {
    Some(push.bytes()).filter(|bytes| *bytes < PIECE_BYTES_MIN).unwrap_or(0)
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
    /// What the keys that are to be forgotten take, with the list of those who are told, in bytes.
    forgotten_bytes: usize,
    /// Those who are to forget all: each is told once, however many changes that stands for.
    forgetful: BTreeSet<Subscriber>,
    /// The last of them that was told: the next ones come after it: a client that comes again and again does not hold up the others.
    last_told: Subscriber,
}

/// What keys that are to be forgotten take, with the list of those who are told, about, in bytes.
fn forgotten_bytes(told: &Invalidation) -> usize {
    let keys = told.keys.iter().flatten().map(|key| size_of::<Vec<u8>>() + key.len()).sum::<usize>();
    size_of::<Invalidation>() + keys + told.clients.len() * size_of::<Subscriber>()
}

impl Crowds {
    /// Whether what is for so many clients is to wait here, where so many bytes are copied for each of them.
    pub(super) fn takes(&self, clients: usize, copied_bytes: usize) -> bool {
        self.takes_all(clients, clients.saturating_mul(copied_bytes))
    }

    /// The same, where so many bytes are copied for all of them together.
    pub(super) fn takes_all(&self, clients: usize, copied_bytes: usize) -> bool {
        copied_bytes > COPIED_STEP_BYTES_SOFT || clients > CLIENTS_TOLD_STEP_MAX || !self.under_way.is_empty()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.forgetful.is_empty()
    }

    /// Whether so much waits that no more should come where that can wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.under_way.len() >= CROWDED || !self.forgetful.is_empty()
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

    /// Takes keys that are to be forgotten. If too many wait, the clients of this worker are to forget all.
    pub(super) fn add_forgotten(&mut self, told: &Arc<Invalidation>, worker: u32) {
        let bytes = forgotten_bytes(told);
        if self.forgotten_bytes > 0 && self.forgotten_bytes + bytes > FORGOTTEN_BACKLOG_BYTES_MAX {
            return self.forgetful.extend(told.clients.iter().filter(|client| client.worker == worker));
        }
        self.forgotten_bytes += bytes;
        self.under_way.push_back(Crowd { what: ForMany::Forgotten(told.clone()), next: 0, bytes: 0 });
    }

    /// Takes out some of those who are to forget all.
    pub(super) fn take_forgetful(&mut self, most: usize) -> Option<Invalidation> {
        if self.forgetful.is_empty() {
            return None;
        }
        let behind = self.forgetful.range((Excluded(self.last_told), Unbounded));
        let clients: Vec<Subscriber> =
            behind.chain(self.forgetful.range(..=self.last_told)).take(most).copied().collect();
        clients.iter().for_each(|client| _ = self.forgetful.remove(client));
        self.last_told = clients.last().copied().unwrap_or(self.last_told);
        Some(Invalidation::forget_all(clients))
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
        if let ForMany::Forgotten(told) = &crowd.what {
            self.forgotten_bytes -= forgotten_bytes(told);
        }
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
        assert!(!crowds.takes(CLIENTS_TOLD_STEP_MAX, 1) && crowds.takes(CLIENTS_TOLD_STEP_MAX + 1, 1));
        assert!(!crowds.takes(2, COPIED_STEP_BYTES_SOFT / 2) && crowds.takes(2, COPIED_STEP_BYTES_SOFT / 2 + 1));
        assert!(!crowds.takes_all(2, COPIED_STEP_BYTES_SOFT) && crowds.takes_all(2, COPIED_STEP_BYTES_SOFT + 1));
        assert!(crowds.add(shown(1), 1));
        assert!(crowds.takes(1, 0) && !crowds.is_crowded());
        (0..CROWDED).for_each(|_| _ = crowds.add(shown(1), 1));
        assert!(crowds.is_crowded());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut crowds = Crowds::default();
        assert!(crowds.add(shown(1), 4 * PUSH_BACKLOG_BYTES_MAX));
        assert!(crowds.add(shown(1), 1));
        assert!(!crowds.add(shown(1), 1), "it is lost");
    }

    fn told(key_bytes: usize, clients: std::ops::Range<u32>) -> Arc<Invalidation> {
        let client = |connection| Subscriber { worker: connection % 2, connection, generation: 1 };
        Arc::new(Invalidation {
            keys: Some(vec![vec![b'k'; key_bytes]]),
            is_broadcast: false,
            clients: clients.map(client).collect(),
        })
    }

    fn forgetful(crowds: &mut Crowds, most: usize) -> Vec<u32> {
        let clients = crowds.take_forgetful(most).filter(|told| told.keys.is_none()).map(|told| told.clients);
        clients.unwrap_or_default().iter().map(|client| client.connection).collect()
    }

    #[test]
    fn keys_that_wait_are_bounded_and_beyond_all_is_to_be_forgotten() {
        let mut crowds = Crowds::default();
        let long = told(FORGOTTEN_BACKLOG_BYTES_MAX, 0..8);
        crowds.add_forgotten(&long, 0);
        assert!(forgetful(&mut crowds, 9).is_empty() && !crowds.is_crowded(), "what is alone is told as it is");
        (0..1000).for_each(|_| crowds.add_forgotten(&told(9, 0..8), 0));
        assert_eq!(crowds.under_way.len(), 1, "no more of them wait");
        assert!(crowds.is_crowded());
        assert_eq!(forgetful(&mut crowds, 3), [0, 2, 4], "those of this worker");
        crowds.add_forgotten(&told(9, 0..8), 0);
        assert_eq!(forgetful(&mut crowds, 2), [6, 0], "who comes again is behind the others");
        assert_eq!(forgetful(&mut crowds, 9), [2, 4]);
        // Once those that waited are told, keys are told again.
        let crowd = crowds.take_next().unwrap();
        crowds.end(&crowd);
        assert!(crowds.is_empty() && crowds.forgotten_bytes == 0);
        crowds.add_forgotten(&told(9, 0..8), 0);
        assert!(crowds.take_forgetful(9).is_none() && crowds.under_way.len() == 1);
    }
}
