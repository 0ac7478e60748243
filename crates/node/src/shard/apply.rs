//! What a committed entry does to the tree, and what it answers.

use super::evaluate::ReplyBounds;
use super::meta::ChangeItem;
use super::proposals::OwnEntry;
use super::{Effects, Fact, Shard, Ticket, evaluate, refuse};
use crate::Fault;
use crate::format::entry::{self, Item};
use crate::format::keys;
use crate::shard_handle::ShardHandle;
use crate::space::apply::EntrySpace;
use replica::{Entry, EntryType, LogWrite};
use resp::Proto;
use resp::table::CommandId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use storage::{Span, WriteBatch};
use vocab::limits;

impl Shard {
    pub(super) fn apply(&mut self, committed: &Entry, write: &mut LogWrite, effects: &mut dyn Effects) {
        let (index, term, shard) = (committed.index, committed.term, self.view.id());
        let own = self.proposals.take(index, term, shard, effects);
        let tickets = &own.tickets;
        if let Some(detail) = &self.broken {
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, effects));
            return;
        }
        if self.view.skips(index) {
            let detail =
                format!("entry {index} of shard {shard} is skipped, as --skip-entry says: nothing of it is written");
            log::error!("{detail}");
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, effects));
            self.apply_nothing(index);
            return;
        }
        // A panic would end the process, and every start after it at the same entry. This way the node's other shards
        // live, and the operator is told which entry it is.
        let evaluate = AssertUnwindSafe(|| self.apply_entry(committed, &own, write, effects));
        let applied = catch_unwind(evaluate).unwrap_or(Err(ApplyError::Panicked));
        if let Err(error) = applied {
            // The replica must not go on past an entry that it could not apply, nor answer from what it has.
            let advice = if error.is_of_entry() {
                format!("; --skip-entry {shard}:{index} on each node that has a replica goes on without it")
            } else {
                String::new()
            };
            let detail = format!("entry {index} of shard {shard} cannot be applied: {error}{advice}");
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, effects));
            self.breaks(detail);
        }
    }

    fn apply_entry(
        &mut self,
        committed: &Entry,
        own: &OwnEntry,
        write: &mut LogWrite,
        effects: &mut dyn Effects,
    ) -> Result<(), ApplyError> {
        if committed.get_entry_type() != EntryType::EntryNormal {
            self.apply_members(committed, write, effects)
        } else if replica::has_commands(committed) {
            self.apply_items(committed.index, &committed.data, own, effects)
        } else {
            self.apply_nothing(committed.index);
            Ok(())
        }
    }

    pub(super) fn apply_nothing(&self, index: u64) {
        self.view.begin_write(index);
        self.view.engine().apply(index, WriteBatch::default());
    }

    fn apply_members(
        &mut self,
        committed: &Entry,
        write: &mut LogWrite,
        effects: &mut dyn Effects,
    ) -> Result<(), ApplyError> {
        if let Some(members) = self.replica.members_changed(committed, write)? {
            // Of one that is removed, those that stay tell: until they know, they may need its vote, and its node is told by
            // the map that it can forget it.
            if members.contains(self.replica.me()) {
                effects.members(self.view.id(), committed.index, members);
            }
            self.tell_followers();
        }
        self.apply_nothing(committed.index);
        Ok(())
    }

    fn apply_items(
        &mut self,
        index: u64,
        data: &[u8],
        own: &OwnEntry,
        effects: &mut dyn Effects,
    ) -> Result<(), ApplyError> {
        let (now_ms, items) = entry::decode(data)?;
        self.unsealed_bytes.update(|bytes| bytes + data.len() as u64);
        self.clock_ms = self.clock_ms.max(now_ms);
        let view = self.view.clone();
        let evaluation = items.evaluation();
        let mut space = EntrySpace::new(&view, index, now_ms, evaluation);
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
                    self.replica.sync_log()?;
                    clear(&self.view, index)?;
                    self.scratch.ok();
                }
                Item::Change(bytes) | Item::KeptChange(bytes) => {
                    // Alone in its entry, and not a command over data: it writes the tree itself.
                    let meta = self.meta.as_mut().ok_or("a change of the map outside the metadata group")?;
                    let change = ChangeItem { bytes, is_kept: matches!(item, Item::KeptChange(_)), now_ms };
                    if let Some(update) = meta.apply(&view, index, change, &mut self.scratch) {
                        effects.map(update);
                    }
                    self.answer_all(index, tickets, &[self.scratch.buf.len()], effects);
                    return Ok(());
                }
                Item::Split(split) => {
                    self.apply_split(index, split, effects);
                    return Ok(());
                }
                Item::Seal => {
                    self.apply_seal(index, effects);
                    return Ok(());
                }
                Item::Mark(comparison) => {
                    self.apply_nothing(index);
                    effects.marked(view.id(), *comparison, now_ms, view.snapshot());
                    self.scratch.ok();
                    self.answer_all(index, tickets, &[self.scratch.buf.len()], effects);
                    return Ok(());
                }
                Item::Housekeeping | Item::Collect(_) => {}
            }
            bounds.spend(self.scratch.spent());
            if ticket.is_none() {
                self.scratch.buf.truncate(replies.last().copied().unwrap_or_default());
            }
            replies.push(self.scratch.buf.len());
        }
        space.commit();
        // Only now is the entry visible: an answer before that could be contradicted by a read.
        self.answer_all(index, tickets, &replies, effects);
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

    fn answer_all(&mut self, index: u64, tickets: &[Ticket], replies: &[usize], effects: &mut dyn Effects) {
        let mut from = 0;
        for (ticket, &to) in tickets.iter().zip(replies) {
            if *ticket != Ticket::NONE {
                self.proposals.answer(index, ticket, &self.scratch.buf[from..to], effects);
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

/// Removes every key of a shard: what entry `index` begins with. What is remembered of numbered requests stays: one that
/// was applied before is not applied again after.
pub(crate) fn clear(view: &ShardHandle, index: u64) -> storage::Result<()> {
    let requests = requests_kept(view)?;
    let next_expiry_ms = requests.iter().find_map(|(key, _)| keys::parse_forgetting(key).map(|(at_ms, _)| at_ms));
    view.begin_write(index);
    // The cache goes first, so that no one sees a row of it beside the empty tree.
    view.cache().clear_shard(view.id().0);
    // As of the entry before: this one is applied, without writes, when it is committed.
    view.engine().clear(index - 1, view.facts_when_cleared(), requests)?;
    view.counters().clear();
    view.garbage(false);
    view.next_expiry(next_expiry_ms.unwrap_or(u64::MAX));
    Ok(())
}

/// All rows about numbered requests, in the order of their keys.
fn requests_kept(view: &ShardHandle) -> storage::Result<Vec<Fact>> {
    let snapshot = view.engine().snapshot();
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
    fn is_of_entry(&self) -> bool {
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
