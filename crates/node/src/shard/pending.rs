//! An entry that is being filled with the writes of clients.

use super::{CommandRows, KeyHash, Ticket, Write};
use crate::format::entry::EntryBuilder;
use crate::guarantees::Acks;
use crate::request::ITEM_BYTES_MAX;
use resp::table::behaviour;
use std::collections::HashSet;
use vocab::limits;

/// See the module's documentation.
pub(super) struct Pending {
    /// When it was begun.
    pub(super) since_us: u64,
    pub(super) entry: EntryBuilder,
    pub(super) tickets: Vec<Ticket>,
    pub(super) rows: CommandRows,
    /// About how many bytes of stored values its answers hold and its writes store anew.
    reply_bytes: usize,
    /// How many arguments its commands have.
    arguments: usize,
    /// Hashes of keys whose values it stores anew: once, however many of its commands do.
    rewritten: HashSet<KeyHash>,
    /// Hashes of keys whose version an item of this entry reports to its client, as of within the entry: no later item of the entry
    /// may write them, or two values would bear that version.
    reported: HashSet<KeyHash>,
    /// Answers that go out as soon as the entry is proposed: place among the tickets, and the answer.
    pub(super) early: Vec<(usize, &'static [u8])>,
    /// It takes no more writes.
    pub(super) closed: bool,
    /// It splits the shard, or has all trees flushed before a split.
    pub(super) splits: bool,
    /// It brings the first map.
    pub(super) begins: bool,
    pub(super) sync: bool,
    /// What its commands write depends on what the entry says before them.
    pub(super) packs: bool,
    /// Its commands may change parts of strings.
    pub(super) is_ruled: bool,
    /// How many scripts it runs.
    pub(super) scripts: usize,
}

impl Pending {
    pub(super) fn new(since_us: u64) -> Self {
        Self {
            since_us,
            entry: EntryBuilder::new(),
            tickets: Vec::new(),
            rows: CommandRows::new(),
            reply_bytes: 0,
            arguments: 0,
            rewritten: HashSet::default(),
            reported: HashSet::default(),
            early: Vec::new(),
            closed: false,
            splits: false,
            begins: false,
            sync: false,
            packs: false,
            is_ruled: false,
            scripts: 0,
        }
    }

    /// The same, begun only now.
    pub(super) fn since(self, since_us: u64) -> Self {
        Self { since_us, ..self }
    }

    /// About how many bytes of stored values it holds in memory for one more write.
    fn bytes_of(&self, write: &Write, keys: &[KeyHash], ticket: &Ticket) -> usize {
        let is_counted = || write.rewrites() && keys.iter().all(|key| self.rewritten.contains(key));
        if ticket.reply_bytes > 0 && is_counted() { 0 } else { ticket.reply_bytes }
    }

    /// Whether answers of `more` bytes in addition would take too much memory together.
    fn answers_too_much(&self, more: usize) -> bool {
        more > 0 && self.reply_bytes > 0 && self.reply_bytes + more > limits::ENTRY_REPLIES_BYTES_SOFT
    }

    /// Whether one more write may go into it.
    pub(super) fn takes(&self, write: &Write, keys: &[KeyHash], ticket: &Ticket) -> bool {
        !(self.closed
            || self.entry.bytes() > limits::ENTRY_BYTES_SOFT
            || self.arguments > limits::ENTRY_ARGUMENTS_SOFT
            || self.entry.bytes() + write.bytes() > ITEM_BYTES_MAX
            || self.answers_too_much(self.bytes_of(write, keys, ticket))
            || (write.is_alone() && !self.entry.is_empty())
            || (!self.reported.is_empty() && keys.iter().any(|key| self.reported.contains(key))))
    }

    /// Adds a write that it takes.
    pub(super) fn add(&mut self, write: &Write, keys: &[KeyHash], ticket: Ticket) {
        let is_large = write.bytes() > limits::ENTRY_BYTES_SOFT;
        match write {
            Write::Command(command) => {
                if is_large {
                    self.entry.large_command(command);
                } else {
                    self.entry.encoded_command(command);
                }
                self.packs |= command.does(behaviour::PACKS);
                self.is_ruled |= command.does(behaviour::IS_RULED);
                self.rows.push(command.spec().map(|spec| spec.id));
            }
            Write::Transaction { watches, commands } => {
                if is_large {
                    self.entry.large_transaction(watches, commands);
                } else {
                    self.entry.transaction(watches, commands);
                }
                self.packs |= commands.iter().any(|command| command.does(behaviour::PACKS));
                self.is_ruled |= commands.iter().any(|command| command.does(behaviour::IS_RULED));
                self.rows.extend(commands.iter().map(|command| command.spec().map(|spec| spec.id)));
            }
            Write::Prepared(prepared) => {
                self.entry = EntryBuilder::of_prepared(prepared.entry.clone());
                self.packs |= prepared.packs;
                self.is_ruled |= prepared.is_ruled;
                self.rows.extend_from_slice(&prepared.rows);
            }
            Write::Clear => self.entry.clear(),
            Write::Change(change) => self.entry.change(change),
            Write::Mark(comparison) => self.entry.mark(*comparison),
        }
        if ticket.acks == Acks::None
            && let Some(reply) = write.answer_known_beforehand()
        {
            self.early.push((self.tickets.len(), reply));
        }
        self.reply_bytes += self.bytes_of(write, keys, &ticket);
        if ticket.reply_bytes > 0 && write.rewrites() {
            self.rewritten.extend(keys.iter().copied());
        }
        self.arguments += write.arguments();
        self.scripts += write.scripts();
        self.tickets.push(ticket);
        // Changes of the map are always synced, though no session asks for that.
        self.sync |= ticket.sync || matches!(write, Write::Change(_));
        self.closed |= write.is_alone() || is_large;
        if write.reports_version() {
            self.reported.extend(keys.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::entry::EncodedCommand;
    use crate::key_hash;

    #[test]
    fn no_key_is_written_again_within_the_entry_that_reports_its_version() {
        let of_k = [key_hash(b"k")];
        let command = |line: &str| EncodedCommand::new(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let transaction =
            |lines: [&str; 2]| Write::Transaction { watches: Vec::new(), commands: lines.map(command).into() };
        let one = |line: &str| Write::Command(command(line));
        for (first, takes) in [
            (one("SET k 1"), true),
            (one("KV.PUT k 1"), false),
            (one("KV.DEL k IFVERSION 7"), false),
            (transaction(["SET k 1", "GET k"]), true),
            (transaction(["SET k 1", "KV.VERSION k"]), false),
            (transaction(["SET k 1", "KV.GET k"]), false),
        ] {
            let mut pending = Pending::new(0);
            pending.add(&first, &of_k, Ticket::NONE);
            assert_eq!(pending.takes(&one("SET k 2"), &of_k, &Ticket::NONE), takes, "{first:?}");
            let of_other = [key_hash(b"other")];
            assert!(pending.takes(&one("SET other 2"), &of_other, &Ticket::NONE), "{first:?}");
        }
    }
}
