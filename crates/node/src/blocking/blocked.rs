//! The clients that wait for keys of a worker's shards, and what is to be done for them: its shell does it.

use super::waiters::{Answered, Attempt, Begin, End, Ended, Waiters, Withdrawn};
use crate::awaited_keys::ReadyKey;
use crate::outcome::NO_LEADER;
use crate::shard::Ticket;
use crate::{EncodedCommand, ShardHandle, SnapshotSpace};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use vocab::limits::{BLOCKED_CLIENTS_STEP_MAX, BLOCKED_KEYS_AT_ONCE, BLOCKED_KEYS_STEP_MAX};
use vocab::{Moment, ShardId};

/// The clients that wait for keys of a worker's shards.
pub struct Blocked {
    waiters: Waiters,
    /// Answers of waits that have ended.
    ended: Vec<Ended>,
    /// Commands of clients whose shard is another one now, or led elsewhere.
    lost: Vec<Attempt>,
    /// Shards that have given slots away, for whose keys more clients wait than were withdrawn at once.
    moved: VecDeque<Weak<ShardHandle>>,
}

impl Default for Blocked {
    fn default() -> Self {
        Self::new(BLOCKED_KEYS_AT_ONCE)
    }
}

impl Blocked {
    /// No client waits. One of more keys than that joins their queues by and by.
    #[must_use]
    pub fn new(keys_at_once: usize) -> Self {
        Self { waiters: Waiters::new(keys_at_once), ended: Vec::new(), lost: Vec::new(), moved: VecDeque::new() }
    }

    /// Whether there is nothing to do for any client.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiters.is_empty() && !self.has_work()
    }

    /// Whether something is to be done at once.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.waiters.has_ready()
            || self.waiters.has_losers()
            || self.waiters.is_changing()
            || !self.ended.is_empty()
            || !self.lost.is_empty()
            || !self.moved.is_empty()
    }

    /// When the next wait ends, in µs of the steady clock.
    #[must_use]
    pub fn deadline_us(&self) -> Option<u64> {
        self.waiters.deadline_us()
    }

    /// A blocking command has come to its shard: whether it is proposed now.
    pub fn begin(&mut self, shard: &ShardHandle, ticket: Ticket, command: &EncodedCommand, now_us: u64) -> Begin {
        self.waiters.begin((shard.id(), shard.awaited()), ticket, command, now_us)
    }

    /// An attempt has been answered. `handle` gives the shards that the node has.
    pub fn answered<'a>(
        &mut self,
        ticket: &Ticket,
        reply: &[u8],
        now: Moment,
        handle: impl FnOnce(ShardId) -> Option<&'a ShardHandle>,
    ) -> Answered {
        let answered = self.waiters.answered(ticket, reply, now.mono_us);
        if answered == Answered::Waits(true)
            && let Some((shard, command)) = self.waiters.floating(ticket)
            && let Some(handle) = handle(shard)
        {
            // Its attempt has read the streams' records: they are in memory.
            match command.fixed(&mut SnapshotSpace::new(handle, now.wall_ms, 0)) {
                Ok(fixed) => self.waiters.fix(ticket, fixed),
                Err(fault) => {
                    log::error!("shard {shard}: the last id of a stream cannot be read: {fault:?}");
                    self.end(ticket, End::Unread);
                }
            }
        }
        answered
    }

    /// Entries have written keys.
    pub fn keys_ready(&mut self, keys: Vec<ReadyKey>) {
        for key in keys {
            self.ended.extend(self.waiters.ready(key));
        }
    }

    /// A shard has no keys any more.
    pub fn cleared(&mut self, shard: ShardId) {
        self.ended.extend(self.waiters.cleared(shard));
    }

    /// The attempts to propose now.
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.waiters.take_attempts(BLOCKED_CLIENTS_STEP_MAX)
    }

    /// A client's wait is to end.
    pub fn end(&mut self, ticket: &Ticket, end: End) {
        self.ended.extend(self.waiters.end(ticket, end));
    }

    /// Ends the waits whose time is over, or whose stream is gone, and notes at the keys who waits and who does not any longer, each up
    /// to a bound.
    pub fn expire(&mut self, now_us: u64) {
        self.waiters.go_on(BLOCKED_KEYS_STEP_MAX);
        self.ended.extend(self.waiters.end_losers(BLOCKED_CLIENTS_STEP_MAX));
        self.ended.extend(self.waiters.expire(now_us, BLOCKED_CLIENTS_STEP_MAX));
    }

    /// A client's attempt was not proposed: it is routed anew. False if it is not known.
    pub fn withdraw(&mut self, ticket: &Ticket, now_us: u64) -> bool {
        let withdrawn = self.waiters.withdraw(ticket, now_us);
        let is_known = withdrawn.is_some();
        withdrawn.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
        is_known
    }

    /// Clients that wait for keys of a shard that this node does not lead, or that has given their slots away, are routed anew, up to a
    /// bound.
    pub fn withdraw_lost(&mut self, now_us: u64, leads: impl Fn(ShardId) -> bool) {
        if let Some(shard) = self.moved.pop_front().and_then(|shard| shard.upgrade()) {
            self.withdraw_moved(&shard, now_us);
        }
        if self.waiters.shards().all(&leads) {
            return;
        }
        let mut looks = BLOCKED_CLIENTS_STEP_MAX;
        let lost = self.waiters.withdraw_all(now_us, &mut looks, |shard, _| !leads(shard));
        lost.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
    }

    /// A shard has given slots away: clients that wait for their keys are routed anew, some of very many at once.
    pub fn withdraw_moved(&mut self, shard: &Arc<ShardHandle>, now_us: u64) {
        let is_moved = |of: ShardId, ticket: &Ticket| of == shard.id() && !shard.owns_all(ticket.span());
        let mut looks = BLOCKED_CLIENTS_STEP_MAX;
        let moved = self.waiters.withdraw_all(now_us, &mut looks, is_moved);
        if looks == 0 {
            self.moved.push_back(Arc::downgrade(shard));
        }
        moved.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
    }

    fn take_out(&mut self, withdrawn: Withdrawn) {
        match withdrawn {
            Withdrawn::Again(attempt) => self.lost.push(attempt),
            Withdrawn::Ended(ended) => self.ended.push(ended),
        }
    }

    /// The commands that are to be routed anew.
    pub fn take_lost(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.lost)
    }

    /// The answers of waits that have ended.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// What a client is told that cannot wait here any longer, in place of `text`.
    #[must_use]
    pub fn refusal<'a>(ticket: &Ticket, text: &'a str) -> &'a str {
        if ticket.may_wait && text.starts_with("CLUSTERDOWN") { NO_LEADER } else { text }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_shard::empty_shard;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};

    #[test]
    fn very_many_clients_of_slots_that_moved_are_routed_anew_some_at_a_time() {
        let (before, _folder) = empty_shard(ShardId(3));
        let folder = tempfile::tempdir().unwrap();
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
        let after = ShardHandle::open(ShardId(3), (1, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap();
        let mut blocked = Blocked::default();
        let command = EncodedCommand::new(&[b"BLPOP", b"k", b"0"]);
        for connection in 0..BLOCKED_CLIENTS_STEP_MAX as u32 + 10 {
            let ticket = Ticket { connection, may_wait: true, ..Ticket::NONE };
            assert!(!after.owns_all(ticket.span()) && before.owns_all(ticket.span()));
            if blocked.begin(&before, ticket, &command, 0) == Begin::Propose {
                blocked.answered(&ticket, b"*-1\r\n", Moment::default(), |_| None);
            }
        }
        blocked.withdraw_moved(&before, 0);
        assert!(blocked.take_lost().is_empty() && !blocked.has_work());
        blocked.withdraw_moved(&after, 0);
        assert_eq!((blocked.take_lost().len(), blocked.has_work()), (BLOCKED_CLIENTS_STEP_MAX, true));
        blocked.withdraw_lost(0, |_| true);
        assert_eq!((blocked.take_lost().len(), blocked.is_idle()), (10, true));
    }
}
