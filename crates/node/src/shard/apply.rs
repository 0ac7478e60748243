//! What a committed entry does to the tree, and what it answers.

use super::collector::Collector;
use super::effects::Effects;
use super::evaluate::{self, ReplyBounds};
use super::group::tell_followers;
use super::meta::{ChangeItem, MetaState};
use super::proposals::{OwnEntry, Proposals};
use super::split::Splitting;
use super::ticket::Ticket;
use crate::Fault;
use crate::format::entry::{self, Item};
use crate::format::{Fact, keys};
use crate::shard_handle::ShardHandle;
use crate::space::apply::EntrySpace;
use replica::{Entry, EntryType, LogWrite, Replica};
use resp::table::CommandId;
use resp::{Proto, Reply};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use storage::{Span, WriteBatch};
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

    /// Applies an entry; `own` is what is known of it if this replica has proposed it.
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
        let (now_ms, items) = entry::decode(data)?;
        self.unsealed_bytes.update(|bytes| bytes + data.len() as u64);
        self.clock_ms = self.clock_ms.max(now_ms);
        let handle = parts.handle;
        let evaluation = items.evaluation();
        let mut space = EntrySpace::new(handle, index, now_ms, evaluation);
        let tickets = &own.tickets[..];
        let mut replies: Vec<usize> = Vec::with_capacity(tickets.len());
        let (mut waiting, mut rows) = (tickets.iter(), &own.rows[..]);
        self.scratch.buf.clear();
        // What the items may still answer, in bytes: the same on every replica, whether or not clients wait there.
        let mut bounds = ReplyBounds::of_entry(evaluation);
        for item in items {
            let item = item?;
            if self.apply_collection(&mut space, &item)? {
                continue;
            }
            let ticket = waiting.next().filter(|ticket| **ticket != Ticket::NONE);
            self.scratch.proto = ticket.map_or(Proto::Resp2, |ticket| ticket.proto);
            self.scratch.discard(ticket.is_none());
            self.scratch.limit(bounds.of_item());
            match &item {
                Item::Command(args) => {
                    let row = take_rows(&mut rows, 1).first().copied().flatten();
                    evaluate::command(&mut space, args, row, &mut self.scratch)?;
                }
                Item::Transaction { watches, commands } => {
                    let rows = take_rows(&mut rows, commands.len());
                    evaluate::transaction(&mut space, watches, commands, rows, &mut self.scratch)?;
                }
                Item::Clear => {
                    parts.replica.sync_log()?;
                    clear(handle, index)?;
                    self.scratch.ok();
                }
                alone => return self.apply_alone(index, now_ms, alone, tickets, parts),
            }
            bounds.spend(self.scratch.spent());
            if ticket.is_none() {
                self.scratch.buf.truncate(replies.last().copied().unwrap_or_default());
            }
            replies.push(self.scratch.buf.len());
        }
        space.commit();
        // Only now is the entry visible: an answer before that could be contradicted by a read.
        self.answer_all(index, tickets, &replies, parts);
        Ok(())
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
        match item {
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
            Item::Command(_) | Item::Transaction { .. } | Item::Clear | Item::Housekeeping | Item::Collect(_) => {}
        }
        Ok(())
    }

    /// Applies an item that no client waits for; false if it is another.
    fn apply_collection(&mut self, space: &mut EntrySpace<'_>, item: &Item<'_>) -> Result<bool, ApplyError> {
        match item {
            Item::Housekeeping => space.housekeep()?,
            Item::Collect(from) => self.collector.applied(space.collect(from)?),
            _ => return Ok(false),
        }
        Ok(true)
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

/// The first `count` rows, which are taken off; none if there are not so many.
fn take_rows<'a>(rows: &mut &'a [Option<CommandId>], count: usize) -> &'a [Option<CommandId>] {
    rows.split_off(..count).unwrap_or_default()
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

/// Removes every key of a shard: what entry `index` begins with. What is remembered of numbered requests stays: one that
/// was applied before is not applied again after.
pub(crate) fn clear(handle: &ShardHandle, index: u64) -> storage::Result<()> {
    let requests = requests_kept(handle)?;
    let next_expiry_ms = requests.iter().find_map(|(key, _)| keys::parse_forgetting(key).map(|(at_ms, _)| at_ms));
    handle.begin_write(index);
    // The cache goes first, so that no one sees a row of it beside the empty tree.
    handle.cache().clear_shard(handle.id().0);
    // As of the entry before: this one is applied, without writes, when it is committed.
    handle.engine().clear(index - 1, handle.facts_when_cleared(), requests)?;
    handle.counters().clear();
    handle.garbage(false);
    handle.next_expiry(next_expiry_ms.unwrap_or(u64::MAX));
    Ok(())
}

/// All rows about numbered requests, in the order of their keys.
fn requests_kept(handle: &ShardHandle) -> storage::Result<Vec<Fact>> {
    let snapshot = handle.engine().snapshot();
    let of = |(start, end): (Vec<u8>, Vec<u8>)| snapshot.iter(Span { start, end }, false);
    of(keys::all_requests()).chain(of(keys::forgettings())).collect()
}

#[derive(Debug)]
pub(super) enum ApplyError {
    Malformed(&'static str),
    Fault(Fault),
    Storage(storage::Error),
    Log(replica::Error),
    Panicked,
}

impl ApplyError {
    /// Whether it comes of the entry, so that every replica meets it, rather than of this replica's disk.
    pub(super) fn is_of_entry(&self) -> bool {
        match self {
            Self::Malformed(_) | Self::Panicked | Self::Fault(Fault::WouldBlock | Fault::Remote(_)) => true,
            Self::Fault(Fault::Storage(_)) | Self::Storage(_) | Self::Log(_) => false,
        }
    }
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panicked => f.write_str("its evaluation panicked, see the lines before"),
            Self::Malformed(detail) => f.write_str(detail),
            Self::Log(e) => write!(f, "{e}"),
            Self::Fault(Fault::Storage(e)) | Self::Storage(e) => write!(f, "{e}"),
            Self::Fault(Fault::Remote(text)) => f.write_str(text),
            Self::Fault(Fault::WouldBlock) => f.write_str("a read at apply would not wait for the disk"),
        }
    }
}

impl From<&'static str> for ApplyError {
    fn from(detail: &'static str) -> Self {
        Self::Malformed(detail)
    }
}

impl From<Fault> for ApplyError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<replica::Error> for ApplyError {
    fn from(error: replica::Error) -> Self {
        Self::Log(error)
    }
}

impl From<storage::Error> for ApplyError {
    fn from(error: storage::Error) -> Self {
        Self::Storage(error)
    }
}
