//! What a committed entry does to the tree, and what it answers.

use super::{Effects, Fact, Shard, Ticket, refuse};
use crate::command::{Call, Error};
use crate::format::entry::{self, Item};
use crate::space::apply::EntrySpace;
use crate::view::ShardView;
use crate::{Fault, Space, keys};
use replica::{Entry, EntryType, LogWrite};
use resp::{Proto, Reply};
use storage::{Span, WriteBatch};
use vocab::limits;

impl Shard {
    pub(super) fn apply(&mut self, committed: &Entry, write: &mut LogWrite, effects: &mut dyn Effects) {
        let (index, term) = (committed.index, committed.term);
        let tickets = self.proposals.take(index, term, self.view.id(), effects);
        if let Some(detail) = &self.broken {
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, effects));
            return;
        }
        let applied = if committed.get_entry_type() != EntryType::EntryNormal {
            self.apply_members(committed, write, effects)
        } else if replica::has_commands(committed) {
            self.apply_items(index, &committed.data, &tickets, effects)
        } else {
            self.apply_nothing(index);
            Ok(())
        };
        if let Err(error) = applied {
            // The replica must not go on past an entry that it could not apply, nor answer from what it has.
            let detail = format!("entry {index} of shard {} cannot be applied: {error}", self.view.id());
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, effects));
            self.breaks(detail);
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
        tickets: &[Ticket],
        effects: &mut dyn Effects,
    ) -> Result<(), ApplyError> {
        let (now_ms, items) = entry::decode(data)?;
        self.unsealed_bytes.update(|bytes| bytes + data.len() as u64);
        self.clock_ms = self.clock_ms.max(now_ms);
        let view = self.view.clone();
        let mut space = EntrySpace::new(&view, index, now_ms);
        let mut replies: Vec<usize> = Vec::with_capacity(tickets.len());
        let mut waiting = tickets.iter();
        self.scratch.buf.clear();
        for item in items {
            let item = item?;
            if item == Item::Housekeeping {
                space.housekeep()?;
                continue;
            }
            self.scratch.proto = waiting.next().map_or(Proto::Resp2, |ticket| ticket.proto);
            match &item {
                Item::Command(args) => run(&mut space, args, &mut self.scratch)?,
                Item::Transaction { watches, commands } => {
                    transaction(&mut space, watches, commands, &mut self.scratch)?;
                }
                Item::Clear => {
                    self.replica.sync_log()?;
                    clear(&self.view, index)?;
                    self.scratch.ok();
                }
                Item::Change(change) => {
                    // Alone in its entry, and not a command over data: it writes the tree itself.
                    let meta = self.meta.as_mut().ok_or("a change of the map outside the metadata group")?;
                    if meta.apply(&view, index, change, now_ms, &mut self.scratch)
                        && let Some(map) = meta.map()
                    {
                        effects.map(map.clone());
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
                Item::Housekeeping => {}
            }
            replies.push(self.scratch.buf.len());
        }
        space.commit();
        // Only now is the entry visible: an answer before that could be contradicted by a read.
        self.answer_all(index, tickets, &replies, effects);
        Ok(())
    }

    fn answer_all(&mut self, index: u64, tickets: &[Ticket], replies: &[usize], effects: &mut dyn Effects) {
        let mut from = 0;
        for (ticket, &to) in tickets.iter().zip(replies) {
            if *ticket != Ticket::NOBODY {
                self.proposals.answer(index, ticket, &self.scratch.buf[from..to], effects);
            }
            from = to;
        }
        if self.scratch.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            self.scratch.buf = Vec::new();
        }
    }
}

/// Removes every key of a shard: what entry `index` begins with. What is remembered of numbered requests stays: one that
/// was applied before is not applied again after.
pub(crate) fn clear(view: &ShardView, index: u64) -> storage::Result<()> {
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
fn requests_kept(view: &ShardView) -> storage::Result<Vec<Fact>> {
    let snapshot = view.engine().snapshot();
    let of = |(start, end): (Vec<u8>, Vec<u8>)| snapshot.iter(Span { start, end }, false);
    of(keys::all_requests()).chain(of(keys::forgettings())).collect()
}

/// Runs one command of an entry; its errors are its reply.
pub(crate) fn run(space: &mut dyn Space, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mark = reply.buf.len();
    let outcome = match crate::command::registry::data_handler(args) {
        Some(handler) => handler(&mut Call { args, space, reply }),
        None => Err(Error::from("ERR this command cannot be part of an entry")),
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(Error::Reply(text)) => {
            reply.buf.truncate(mark);
            reply.error(&text);
            Ok(())
        }
        Err(Error::Fault(fault)) => Err(fault),
    }
}

/// Runs a transaction if no watched key was written since: a null array otherwise.
pub(crate) fn transaction(
    space: &mut dyn Space,
    watches: &[(&[u8], u64)],
    commands: &[entry::Args<'_>],
    reply: &mut Reply,
) -> Result<(), Fault> {
    for (key, version) in watches {
        let now = space.get(key)?.map_or(0, |record| record.view().version);
        if now != *version {
            reply.null_array();
            return Ok(());
        }
    }
    reply.array(commands.len());
    commands.iter().try_for_each(|args| run(space, args, reply))
}

#[derive(Debug)]
pub(super) enum ApplyError {
    Malformed(&'static str),
    Fault(Fault),
    Storage(storage::Error),
    Log(replica::Error),
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
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
