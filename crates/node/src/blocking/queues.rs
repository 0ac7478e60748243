//! Who waits for each key, in the order of their places.
//!
//! A client that waits for very many keys stands in as many queues. It joins and leaves them some at a time, since all at once would
//! keep the event loop for long. One that joins has not been tried yet: it is tried when it stands in all of them. A queue may name
//! clients that do not wait any longer: its reader compares places.
//!
//! Invariants:
//! - No two clients have the same place, and a client that waits anew has another one.
//! - `awaited_keys` counts a key of a client exactly while the client stands in that key's queue.
//! - Who leaves joins no further queue.

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

/// A client that is about to wait for very many keys.
pub(super) struct Joining {
    pub(super) place: QueuePlace,
    pub(super) id: WaiterId,
    pub(super) command: BlockingCommand,
    pub(super) awaited_keys: Arc<AwaitedKeys>,
}

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
    /// Those that join.
    joining: VecDeque<Joining>,
    /// How many keys' queues the first of them has joined.
    joined_keys: usize,
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
        join(&mut self.clients, (place, id), keys, awaited);
    }

    /// A client is about to wait: it joins the queues of its keys by and by.
    pub(super) fn join_slowly(&mut self, joining: Joining) {
        self.joining.push_back(joining);
    }

    /// Has clients join the queues of up to `max` keys. `is_there` says whether one has not left meanwhile. Answers which stand in all
    /// their queues now.
    pub(super) fn join_some(&mut self, max: usize, is_there: impl Fn(QueuePlace, WaiterId) -> bool) -> Vec<WaiterId> {
        let (mut left, mut joined) = (max, Vec::new());
        while left > 0
            && let Some(joining) = self.joining.front()
        {
            let Joining { place, id, command, awaited_keys } = joining;
            let keys = &command.keys()[self.joined_keys..];
            let now = keys.len().min(left);
            let is_there = is_there(*place, *id);
            if is_there {
                join(&mut self.clients, (*place, *id), &keys[..now], awaited_keys);
                if now < keys.len() {
                    self.joined_keys += now;
                    break;
                }
                joined.push(*id);
            }
            left -= now;
            self.joined_keys = 0;
            self.joining.pop_front();
        }
        joined
    }

    /// A client waits no longer: it leaves its queues by and by. Answers how many bytes of memory that has given back so far.
    pub(super) fn leave(&mut self, leaving: Leaving) -> usize {
        // One key is not worth another turn of the loop.
        let is_alone = self.leaving.is_empty() && leaving.command.keys().len() <= 1;
        self.leaving.push_back(leaving);
        if is_alone { self.leave_some(1) } else { 0 }
    }

    /// Whether clients have queues to join or to leave.
    pub(super) fn are_changing(&self) -> bool {
        !self.leaving.is_empty() || !self.joining.is_empty()
    }

    /// Whether clients have queues to join, and clients have queues to leave.
    pub(super) fn are_joined_and_left(&self) -> bool {
        !self.leaving.is_empty() && !self.joining.is_empty()
    }

    /// Has clients leave the queues of up to `max` keys. Answers how many bytes of memory that has given back.
    pub(super) fn leave_some(&mut self, max: usize) -> usize {
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
            let clients = &mut self.clients;
            let stood = keys[..now].iter().filter(|(key, _)| clients.remove(&(*key, place)).is_some());
            leaving.awaited_keys.end(stood.map(|(key, _)| *key));
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

/// A client stands at its place in the queues of these keys.
fn join(
    clients: &mut BTreeMap<(KeyHash, QueuePlace), WaiterId>,
    (place, id): (QueuePlace, WaiterId),
    keys: &[(KeyHash, Box<[u8]>)],
    awaited: &AwaitedKeys,
) {
    let new = keys.iter().filter(|(key, _)| clients.insert((*key, place), id).is_none());
    awaited.begin(new.map(|(key, _)| *key));
}
