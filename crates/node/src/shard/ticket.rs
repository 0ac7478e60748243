//! Writes on their way to a shard, and who waits for them.

use super::prepared_write::PreparedWrite;
use crate::command::{known_answer, rewrites};
use crate::entry_id::EntryId;
use crate::format::entry::{EncodedCommand, EntryBuilder};
use crate::guarantees::{Acks, Durability};
use crate::subscriber::Subscriber;
use crate::tracking::{Registers, Tracker};
use resp::table::behaviour;
use resp::{Proto, Reply};
use vocab::{Slot, SlotSpan};

/// Who waits for an answer, and what for: opaque to the shard, but for the last six.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The thread that the connection belongs to.
    pub worker: u32,
    /// The connection's place there.
    pub connection: u32,
    /// Tells the connection from those that had its place before.
    pub generation: u32,
    /// The request's number on its connection.
    pub sequence: u64,
    /// How to encode the answer.
    pub proto: Proto,
    /// The slot of its keys, or of the first of them, for telling the client who leads it.
    pub slot: Slot,
    /// Where its keys are, if they are of several slots.
    pub wider: Option<SlotSpan>,
    /// Whether a majority must have it on disk before the answer.
    pub sync: bool,
    /// Which replicas must have it before the answer.
    pub acks: Acks,
    /// About how many bytes of what the shard stores the answer holds, or the write stores anew: entries end before these are
    /// too many.
    pub reply_bytes: usize,
    /// The command blocks: its client waits if it finds nothing.
    pub may_wait: bool,
    /// Whether what its commands read is registered for the client.
    pub registers: Registers,
    /// Of an answer that goes out before its entry is committed: the entry.
    pub early: Option<EntryId>,
}

/// A client that waits for the answer of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// How to encode the answer.
    pub(crate) proto: Proto,
    /// What the item reads is registered for the client.
    pub(crate) registers: bool,
}

impl Ticket {
    /// No client waits, or it has been answered already.
    pub const NONE: Self = Self {
        worker: u32::MAX - 1,
        connection: 0,
        generation: 0,
        sequence: 0,
        proto: Proto::Resp2,
        slot: Slot(0),
        wider: None,
        sync: false,
        acks: Acks::Majority,
        reply_bytes: 0,
        may_wait: false,
        registers: Registers::Nothing,
        early: None,
    };

    /// Where its keys are.
    pub(crate) fn span(&self) -> SlotSpan {
        self.wider.unwrap_or(self.slot.into())
    }

    /// What its client is promised of the write.
    #[must_use]
    pub fn durability(&self) -> Durability {
        Durability { sync: self.sync, acks: self.acks }
    }

    /// The client that waits, if one does.
    #[must_use]
    pub fn client(&self) -> Option<Subscriber> {
        let Self { worker, connection, generation, .. } = *self;
        (*self != Self::NONE).then_some(Subscriber { worker, connection, generation })
    }

    /// Whether the client waits on after this answer: its command blocks, and has found nothing.
    #[must_use]
    pub fn waits_after(&self, reply: &[u8]) -> bool {
        self.may_wait && matches!(reply, b"*-1\r\n" | b"$-1\r\n" | b"_\r\n")
    }

    /// As whom the client is registered for what its commands read, if it is.
    #[must_use]
    pub fn tracker(&self) -> Option<Tracker> {
        self.client().and_then(|client| self.registers.tracker(client))
    }

    /// What is known of the client that waits for the answer, if one does.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let Self { proto, registers, .. } = *self;
        (*self != Self::NONE).then_some(Awaited { proto, registers: registers != Registers::Nothing })
    }
}

/// Takes the answers of writes.
pub trait Answers {
    /// The encoded answer to the request of `ticket`.
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]);

    /// The same for an answer that is long: it need not be copied.
    fn answer_long(&mut self, ticket: &Ticket, reply: Vec<u8>) {
        self.answer(ticket, &reply);
    }
}

/// Answers an error.
pub(crate) fn refuse(text: &str, ticket: &Ticket, answers: &mut dyn Answers) {
    let mut reply = Reply::new(ticket.proto);
    reply.error(text);
    answers.answer(ticket, &reply.buf);
}

/// A write, as the router hands it over.
#[derive(Debug)]
pub enum Write {
    /// One command.
    Command(EncodedCommand),
    /// MULTI … EXEC.
    Transaction {
        /// Watched keys and the versions they had.
        watches: Vec<(Vec<u8>, u64)>,
        /// In order.
        commands: Vec<EncodedCommand>,
    },
    /// One of these that is large, and encoded already.
    Prepared(Box<PreparedWrite>),
    /// FLUSHALL's part of this shard.
    Clear,
    /// A change of the map, encoded: for the metadata group only.
    Change(Vec<u8>),
    /// All replicas take a snapshot of the same moment, for the comparison of that number.
    Mark(u64),
}

impl Write {
    /// The same, encoded as its entry will have it: for threads that may take their time. It has an entry to itself.
    #[must_use]
    pub fn prepared(self) -> Self {
        let mut entry = EntryBuilder::with_room(self.bytes());
        let commands = match &self {
            Self::Command(command) => {
                entry.encoded_command(command);
                std::slice::from_ref(command)
            }
            Self::Transaction { watches, commands } => {
                entry.transaction(watches, commands);
                commands
            }
            Self::Prepared(_) | Self::Clear | Self::Change(_) | Self::Mark(_) => return self,
        };
        Self::Prepared(Box::new(PreparedWrite {
            entry: entry.prepare(),
            rows: commands.iter().map(|command| command.spec().map(|spec| spec.id)).collect(),
            packs: commands.iter().any(|command| command.does(behaviour::PACKS)),
            is_ruled: commands.iter().any(|command| command.does(behaviour::IS_RULED)),
            operations: self.operations(),
            bytes: self.bytes(),
            arguments: self.arguments(),
            is_of_slot: self.is_of_slot(),
            rewrites: self.rewrites(),
            reports_version: self.reports_version(),
            scripts: self.scripts(),
            known_answer: self.answer_known_beforehand(),
        }))
    }

    /// How many operations on keys it is.
    #[must_use]
    pub fn operations(&self) -> u64 {
        match self {
            Self::Command(_) => 1,
            Self::Transaction { commands, .. } => commands.len() as u64,
            Self::Prepared(prepared) => prepared.operations,
            Self::Clear | Self::Change(_) | Self::Mark(_) => 0,
        }
    }

    /// How many bytes it takes in an entry, but for a few.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Command(command) => command.bytes(),
            Self::Transaction { watches, commands } => {
                watches.iter().map(|(key, _)| key.len() + 16).sum::<usize>()
                    + commands.iter().map(EncodedCommand::bytes).sum::<usize>()
            }
            Self::Prepared(prepared) => prepared.bytes,
            Self::Clear | Self::Mark(_) => 1,
            Self::Change(bytes) => bytes.len(),
        }
    }

    /// How many arguments its commands have, and how many keys are watched for it.
    #[must_use]
    pub fn arguments(&self) -> usize {
        match self {
            Self::Command(command) => command.arguments(),
            Self::Transaction { watches, commands } => {
                watches.len() + commands.iter().map(EncodedCommand::arguments).sum::<usize>()
            }
            Self::Prepared(prepared) => prepared.arguments,
            Self::Clear | Self::Change(_) | Self::Mark(_) => 0,
        }
    }

    /// Whether it is about keys of one slot, which must be the shard's.
    #[must_use]
    pub fn is_of_slot(&self) -> bool {
        match self {
            Self::Command(_) => true,
            Self::Transaction { watches, commands } => !watches.is_empty() || !commands.is_empty(),
            Self::Prepared(prepared) => prepared.is_of_slot,
            Self::Clear | Self::Change(_) | Self::Mark(_) => false,
        }
    }

    /// Whether it has an entry to itself.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Prepared(_) | Self::Clear | Self::Change(_) | Self::Mark(_))
    }

    /// Whether it stores the values of its keys anew, however long they are.
    pub(crate) fn rewrites(&self) -> bool {
        match self {
            Self::Command(command) => command.spec().is_some_and(rewrites),
            Self::Prepared(prepared) => prepared.rewrites,
            Self::Transaction { .. } | Self::Clear | Self::Change(_) | Self::Mark(_) => false,
        }
    }

    /// How many scripts it runs.
    pub(crate) fn scripts(&self) -> usize {
        match self {
            Self::Command(command) => usize::from(command.does(behaviour::RUNS_SCRIPT)),
            Self::Transaction { commands, .. } => {
                commands.iter().filter(|command| command.does(behaviour::RUNS_SCRIPT)).count()
            }
            Self::Prepared(prepared) => prepared.scripts,
            Self::Clear | Self::Change(_) | Self::Mark(_) => 0,
        }
    }

    /// Whether it tells its client the version that it writes.
    pub(crate) fn reports_version(&self) -> bool {
        match self {
            Self::Command(command) => command.does(behaviour::REPORTS_VERSION),
            Self::Transaction { commands, .. } => {
                commands.iter().any(|command| command.does(behaviour::REPORTS_VERSION))
            }
            Self::Prepared(prepared) => prepared.reports_version,
            Self::Clear | Self::Change(_) | Self::Mark(_) => false,
        }
    }

    /// The answer, where it does not depend on what the shard holds.
    pub(crate) fn answer_known_beforehand(&self) -> Option<&'static [u8]> {
        match self {
            Self::Command(command) => known_answer(command.spec()?, &command.args()),
            Self::Prepared(prepared) => prepared.known_answer,
            Self::Transaction { .. } | Self::Clear | Self::Change(_) | Self::Mark(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::entry::{Bounding, EntryTerms, Evaluation, Pops, Rules};
    use crate::format::key_bound::KeyBound;
    use crate::format::packing::Packing;

    fn commands(lines: &[&str]) -> Vec<EncodedCommand> {
        let encode = |line: &&str| EncodedCommand::new(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        lines.iter().map(encode).collect()
    }

    #[test]
    fn a_prepared_write_makes_the_same_entry_and_answers_the_same_questions() {
        let transaction = |watches: &[(Vec<u8>, u64)], lines: &[&str]| Write::Transaction {
            watches: watches.to_vec(),
            commands: commands(lines),
        };
        let one = |line: &str| Write::Command(commands(&[line]).remove(0));
        let watched = [(b"w".to_vec(), 9), (Vec::new(), u64::MAX)];
        type Make<'a> = Box<dyn Fn() -> Write + 'a>;
        let cases: Vec<Make<'_>> = vec![
            Box::new(|| one("SET a 1")),
            Box::new(|| one("APPEND a 1")),
            Box::new(|| one("KV.PUT a 1")),
            Box::new(|| one("SPOP s 3")),
            Box::new(|| one("NOSUCH a")),
            Box::new(|| transaction(&[], &["EVAL return 0", "INCR n", "EVAL return 0"])),
            Box::new(|| transaction(&watched, &["INCR n", "KV.PUT a 1"])),
            Box::new(|| transaction(&[], &["PFADD p a", "NOSUCH"])),
            Box::new(|| transaction(&[], &[])),
        ];
        for make in &cases {
            let (plain, prepared) = (make(), make().prepared());
            assert!(prepared.is_alone() && !plain.is_alone(), "{plain:?}");
            assert_eq!(
                (plain.operations(), plain.bytes(), plain.arguments(), plain.is_of_slot()),
                (prepared.operations(), prepared.bytes(), prepared.arguments(), prepared.is_of_slot()),
                "{plain:?}"
            );
            assert_eq!(
                (plain.rewrites(), plain.reports_version(), plain.answer_known_beforehand(), plain.scripts()),
                (
                    prepared.rewrites(),
                    prepared.reports_version(),
                    prepared.answer_known_beforehand(),
                    prepared.scripts()
                ),
                "{plain:?}"
            );
            for (evaluation, is_packed) in
                [(Evaluation::First, false), (Evaluation::Second, false), (Evaluation::Second, true)]
            {
                let terms = EntryTerms {
                    now_ms: 1234,
                    evaluation,
                    keeps_changes: true,
                    pops: Pops::Alone,
                    bounding: Bounding::None,
                    rules: Rules::First,
                };
                let sealed = |write: &Write| {
                    let mut entry = match write {
                        Write::Prepared(prepared) => EntryBuilder::of_prepared(prepared.entry.clone()),
                        _ => EntryBuilder::new(),
                    };
                    match write {
                        Write::Command(command) => entry.encoded_command(command),
                        Write::Transaction { watches, commands } => entry.transaction(watches, commands),
                        _ => {}
                    }
                    assert!(!entry.is_empty() && entry.fill(1));
                    if is_packed {
                        entry.packing(Packing { sketch_bytes: 7, ..Packing::default() });
                        entry.pop(Pops::GoingOn);
                        entry.go_by(Rules::Pieces);
                        entry.bound_keys(&[KeyBound { slot: Slot(9), keys_max: 300 }], Bounding::OfAll);
                    }
                    (entry.bytes(), entry.seal_for(terms))
                };
                assert_eq!(sealed(&plain), sealed(&prepared), "{plain:?}");
            }
        }
        assert!(matches!(Write::Mark(7).prepared(), Write::Mark(7)), "there is nothing to be prepared");
    }

    #[test]
    fn what_is_held_once_is_not_copied() {
        let Write::Prepared(prepared) = Write::Command(commands(&["SET a 1"]).remove(0)).prepared() else { panic!() };
        let place = prepared.entry.item().as_ptr();
        let mut builder = EntryBuilder::of_prepared(prepared.entry.clone());
        drop(prepared);
        builder.go_by(Rules::Fourth);
        builder.bound_keys(&[KeyBound { slot: Slot(9), keys_max: u64::MAX }], Bounding::OfAll);
        let sealed = builder.seal_for(EntryTerms {
            now_ms: 1,
            evaluation: Evaluation::Second,
            keeps_changes: true,
            pops: Pops::Alone,
            bounding: Bounding::OfAll,
            rules: Rules::Fourth,
        });
        let item = commands(&["SET a 1"]).remove(0).bytes() + 1;
        assert_eq!(sealed[sealed.len() - item..].as_ptr(), place);
    }
}
