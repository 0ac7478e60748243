//! What a committed entry does to the tree, and what it answers.

use super::apply_error::ApplyError;
use super::apply_task::AppliedAside;
use super::clear::apply_clear;
use super::collector::Collector;
use super::effects::Effects;
use super::evaluate::{self, Evaluated};
use super::group::tell_followers;
use super::meta::{ChangeItem, MetaState};
use super::proposals::{OwnEntry, Proposals};
use super::split::Splitting;
use super::ticket::Ticket;
use crate::format::entry::{self, Item};
use crate::shard_handle::ShardHandle;
use crate::space::apply::Place;
use replica::{Entry, EntryType, LogWrite, Replica};
use resp::{Proto, Reply};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use storage::WriteBatch;
use vocab::{ShardId, limits};

/// Applies the entries of one shard.
pub(super) struct Applier {
    /// Of the metadata group: the map.
    meta: Option<MetaState>,
    collector: Collector,
    /// The time of the last entry that was applied or proposed here, in ms since the epoch.
    clock_ms: u64,
    scratch: Reply,
    /// Bytes of the entries that were applied since the last seal.
    unsealed_bytes: Cell<u64>,
}

/// The parts of a shard that an entry changes, and what it asks of the world.
pub(super) struct Parts<'a> {
    pub(super) handle: &'a Arc<ShardHandle>,
    pub(super) replica: &'a mut Replica,
    pub(super) proposals: &'a mut Proposals,
    pub(super) splitting: &'a mut Splitting,
    /// What changes in the log.
    pub(super) later: &'a mut LogWrite,
    pub(super) effects: &'a mut dyn Effects,
}

impl Applier {
    /// One for the shard of `handle`, whose tree is open.
    pub(super) fn new(handle: &ShardHandle) -> Result<Self, String> {
        let mut applier = Self {
            meta: None,
            collector: Collector::default(),
            clock_ms: 0,
            scratch: Reply::default(),
            unsealed_bytes: Cell::new(0),
        };
        applier.reload(handle)?;
        Ok(applier)
    }

    /// The tree is another now: reads what is kept in memory of it.
    pub(super) fn reload(&mut self, handle: &ShardHandle) -> Result<(), String> {
        if handle.id() == ShardId::META {
            self.meta = Some(MetaState::load(handle)?);
        }
        Ok(())
    }

    /// Of the metadata group: the map as its entries have made it.
    pub(super) fn map(&self) -> Option<&Arc<cluster::Map>> {
        self.meta.as_ref()?.map()
    }

    /// When the leader proposes steps of collection.
    pub(super) fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    /// The time of the next entry, where the clock shows `wall_ms`.
    pub(super) fn next_entry_ms(&mut self, handle: &ShardHandle, wall_ms: u64) -> u64 {
        self.clock_ms = handle.clock().next_entry(wall_ms, self.clock_ms);
        self.clock_ms
    }

    /// Whether the log behind what the tree has in memory is long.
    pub(super) fn log_is_long(&self) -> bool {
        self.unsealed_bytes.get() >= limits::LOG_UNFLUSHED_BYTES_SOFT
    }

    /// Seals the tree's memory for a background flush, with the shard's own facts in it.
    pub(super) fn seal(&self, handle: &ShardHandle) {
        self.unsealed_bytes.set(0);
        handle.engine().seal(handle.facts());
    }

    /// Applies an entry; `own` is what is known of it if this replica has proposed it. `Fault::WouldBlock`: nothing is
    /// done, and another thread is to evaluate it.
    pub(super) fn apply(&mut self, committed: &Entry, own: &OwnEntry, parts: &mut Parts<'_>) -> Result<(), ApplyError> {
        // A panic would end the process, and every start after it at the same entry. This way the node's other shards
        // live, and the operator is told which entry it is.
        catch_unwind(AssertUnwindSafe(|| self.apply_entry(committed, own, parts))).unwrap_or(Err(ApplyError::Panicked))
    }

    fn apply_entry(&mut self, committed: &Entry, own: &OwnEntry, parts: &mut Parts<'_>) -> Result<(), ApplyError> {
        if committed.get_entry_type() != EntryType::EntryNormal {
            return apply_members(committed, parts);
        }
        if replica::has_commands(committed) {
            return self.apply_items(committed.index, &committed.data, own, parts);
        }
        apply_nothing(parts.handle, committed.index);
        Ok(())
    }

    fn apply_items(
        &mut self,
        index: u64,
        data: &[u8],
        own: &OwnEntry,
        parts: &mut Parts<'_>,
    ) -> Result<(), ApplyError> {
        let (now_ms, mut items) = entry::decode(data)?;
        if items.is_sole()
            && let Some(item) = items.next()
        {
            self.count_in(data, now_ms);
            return self.apply_alone(index, now_ms, &item?, &own.tickets, parts);
        }
        let awaited = own.tickets.iter().map(Ticket::awaited_proto);
        let (replies, place) = (&mut self.scratch, Place::EventLoop);
        let evaluated = evaluate::items(parts.handle, (index, now_ms), &items, (awaited, &own.rows), replies, place)?;
        self.count_in(data, now_ms);
        self.take_evaluated(index, evaluated, &own.tickets, parts);
        Ok(())
    }

    /// What another thread has evaluated takes effect here.
    pub(super) fn take_over(
        &mut self,
        committed: &Entry,
        aside: AppliedAside,
        tickets: &[Ticket],
        parts: &mut Parts<'_>,
    ) -> Result<(), ApplyError> {
        let AppliedAside { reply, outcome, .. } = aside;
        let evaluated = outcome?;
        self.count_in(&committed.data, evaluated.now_ms);
        self.scratch = reply;
        self.take_evaluated(committed.index, evaluated, tickets, parts);
        Ok(())
    }

    /// An entry of that clock is applied.
    fn count_in(&mut self, data: &[u8], now_ms: u64) {
        self.unsealed_bytes.update(|bytes| bytes + data.len() as u64);
        self.clock_ms = self.clock_ms.max(now_ms);
    }

    /// Only now is the entry visible: an answer before that could be contradicted by a read.
    fn take_evaluated(&mut self, index: u64, evaluated: Evaluated, tickets: &[Ticket], parts: &mut Parts<'_>) {
        evaluated.collected.into_iter().for_each(|step| self.collector.applied(step));
        self.answer_all(index, tickets, &evaluated.ends, parts);
    }

    /// Applies an item that has an entry to itself and is no command over data: it writes the tree by itself, or nothing.
    fn apply_alone(
        &mut self,
        index: u64,
        now_ms: u64,
        item: &Item<'_>,
        tickets: &[Ticket],
        parts: &mut Parts<'_>,
    ) -> Result<(), ApplyError> {
        let handle = parts.handle;
        let proto = tickets.first().and_then(Ticket::awaited_proto);
        self.scratch.buf.clear();
        self.scratch.proto = proto.unwrap_or(Proto::Resp2);
        self.scratch.discard(proto.is_none());
        self.scratch.limit(usize::MAX);
        match item {
            Item::Clear => {
                parts.replica.sync_log()?;
                apply_clear(handle, index, now_ms)?;
                self.scratch.ok();
                self.answer_all(index, tickets, &[self.scratch.buf.len()], parts);
            }
            Item::Change(bytes) | Item::KeptChange(bytes) => {
                let meta = self.meta.as_mut().ok_or("a change of the map outside the metadata group")?;
                let change = ChangeItem { bytes, is_kept: matches!(item, Item::KeptChange(_)), now_ms };
                if let Some(update) = meta.apply(handle, index, change, &mut self.scratch) {
                    parts.effects.map(update);
                }
                self.answer_all(index, tickets, &[self.scratch.buf.len()], parts);
            }
            Item::Split(split) => {
                if parts.splitting.apply(index, split, handle, parts.proposals, parts.effects) {
                    // Writes that were held back counted on other slots.
                    parts.proposals.end_barrier();
                }
                apply_nothing(handle, index);
            }
            Item::Seal => {
                // Every replica flushes at this entry.
                apply_nothing(handle, index);
                handle.engine().expect_fork();
                self.seal(handle);
                parts.splitting.sealed();
                parts.effects.sealed(handle.id());
            }
            Item::Mark(comparison) => {
                apply_nothing(handle, index);
                parts.effects.marked(handle.id(), *comparison, now_ms, handle.snapshot());
                self.scratch.ok();
                self.answer_all(index, tickets, &[self.scratch.buf.len()], parts);
            }
            Item::Command(_) | Item::Transaction { .. } | Item::Housekeeping | Item::Collect(_) => {
                return Err("a command is not alone in its entry".into());
            }
        }
        Ok(())
    }

    fn answer_all(&mut self, index: u64, tickets: &[Ticket], replies: &[usize], parts: &mut Parts<'_>) {
        let mut from = 0;
        for (ticket, &to) in tickets.iter().zip(replies) {
            if *ticket != Ticket::NONE {
                parts.proposals.answer(index, ticket, &self.scratch.buf[from..to], parts.effects);
            }
            from = to;
        }
        if self.scratch.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            self.scratch.buf = Vec::new();
        }
    }
}

/// The entry writes nothing.
pub(super) fn apply_nothing(handle: &ShardHandle, index: u64) {
    handle.begin_write(index);
    handle.engine().apply(index, WriteBatch::default());
}

fn apply_members(committed: &Entry, parts: &mut Parts<'_>) -> Result<(), ApplyError> {
    if let Some(members) = parts.replica.members_changed(committed, parts.later)? {
        // Of one that is removed, those that stay tell: until they know, they may need its vote, and its node is told by
        // the map that it can forget it.
        if members.contains(parts.replica.me()) {
            parts.effects.members(parts.handle.id(), committed.index, members);
        }
        tell_followers(parts.replica, parts.handle);
    }
    apply_nothing(parts.handle, committed.index);
    Ok(())
}
