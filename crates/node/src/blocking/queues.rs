//! Who waits for each key, in the order of their places.
//!
//! A client that waits for very many keys stands in as many queues. When it leaves, it is taken out of them some at a time, since all
//! at once would keep the event loop for long. Until then a queue names clients that do not wait any longer: its reader compares places.
//!
//! Invariants:
//! - No two clients have the same place, and a client that waits anew has another one.
//! - `awaited_keys` counts a key of a client exactly while the client stands in that key's queue.

use super::command::BlockingCommand;
use crate::awaited_keys::AwaitedKeys;
use crate::{KeyHash, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Tells the client that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaiterId {
    pub(super) worker: u32,
    pub(super) connection: u32,
    pub(super) generation: u32,
}

impl WaiterId {
    pub(super) fn of(ticket: &Ticket) -> Self {
        Self { worker: ticket.worker, connection: ticket.connection, generation: ticket.generation }
    }
}

/// A waiter's place: the lower one came first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePlace(pub(super) u64);

/// A client that waits no longer, and what is left of it.
pub(super) struct Leaving {
    /// Where it stands; `None`: in no queue.
    pub(super) place: Option<QueuePlace>,
    /// What it waited for.
    pub(super) command: BlockingCommand,
    pub(super) awaited_keys: Arc<AwaitedKeys>,
    /// What it takes of memory until it has left all queues, about.
    pub(super) held_bytes: usize,
}

/// The queues of all keys.
#[derive(Default)]
pub(super) struct Queues {
    clients: BTreeMap<(KeyHash, QueuePlace), WaiterId>,
    /// Those that leave.
    leaving: VecDeque<Leaving>,
    /// How many keys' queues the first of them has left.
    left_keys: usize,
}

impl Queues {
    /// A client stands at the end of the queues of its keys.
    pub(super) fn join(
        &mut self,
        place: QueuePlace,
        id: WaiterId,
        keys: &[(KeyHash, Box<[u8]>)],
        awaited: &AwaitedKeys,
    ) {
        for (key, _) in keys {
            if self.clients.insert((*key, place), id).is_none() {
                awaited.begin(*key);
            }
        }
    }

    /// A client waits no longer: it leaves its queues by and by. Answers how many bytes of memory that has given back so far.
    pub(super) fn leave(&mut self, leaving: Leaving) -> usize {
        // One key is not worth another turn of the loop.
        let is_alone = self.leaving.is_empty() && leaving.command.keys().len() <= 1;
        self.leaving.push_back(leaving);
        if is_alone { self.step(1) } else { 0 }
    }

    /// Whether clients have queues to leave.
    pub(super) fn are_left(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Has clients leave the queues of up to `max` keys. Answers how many bytes of memory that has given back.
    pub(super) fn step(&mut self, max: usize) -> usize {
        /// What a client without a queue counts for: its keys are freed.
        const FREED_KEYS_OF_ONE: usize = 4;
        let (mut left, mut freed_bytes) = (max, 0);
        while left > 0
            && let Some(leaving) = self.leaving.front()
        {
            let keys = &leaving.command.keys()[self.left_keys..];
            let Some(place) = leaving.place else {
                left = left.saturating_sub(1 + keys.len() / FREED_KEYS_OF_ONE);
                freed_bytes += self.end_first();
                continue;
            };
            let now = keys.len().min(left);
            for (key, _) in &keys[..now] {
                if self.clients.remove(&(*key, place)).is_some() {
                    leaving.awaited_keys.end(*key);
                }
            }
            left -= now.max(1);
            if now == keys.len() {
                freed_bytes += self.end_first();
            } else {
                self.left_keys += now;
            }
        }
        freed_bytes
    }

    fn end_first(&mut self) -> usize {
        self.left_keys = 0;
        self.leaving.pop_front().map_or(0, |leaving| leaving.held_bytes)
    }

    /// Those that stand in a key's queue behind a place, and those that leave it.
    pub(super) fn behind(&self, key: KeyHash, after: QueuePlace) -> impl Iterator<Item = (QueuePlace, WaiterId)> + '_ {
        let range = (Bound::Excluded((key, after)), Bound::Included((key, QueuePlace(u64::MAX))));
        self.clients.range(range).map(|((_, place), id)| (*place, *id))
    }

    /// Whether no client stands in any queue.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}
