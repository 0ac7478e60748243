//! Writes on their way to a shard, and who waits for them.

use crate::command::{known_answer, rewrites};
use crate::format::entry::EncodedCommand;
use crate::guarantees::Acks;
use crate::subscriber::Subscriber;
use resp::table::{CommandId, behaviour};
use resp::{Proto, Reply};
use smallvec::SmallVec;
use vocab::{Slot, SlotSpan};

/// The rows of commands in the command table: of an entry's, in their order; `None` for one that no client can send.
pub(crate) type CommandRows = SmallVec<[Option<CommandId>; 16]>;

/// Who waits for an answer, and what for: opaque to the shard, but for the last four.
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
    };

    /// Where its keys are.
    pub(crate) fn span(&self) -> SlotSpan {
        self.wider.unwrap_or(self.slot.into())
    }

    /// The client that waits, if one does.
    pub(crate) fn client(&self) -> Option<Subscriber> {
        let Self { worker, connection, generation, .. } = *self;
        (*self != Self::NONE).then_some(Subscriber { worker, connection, generation })
    }

    /// Whether the client waits on after this answer: its command blocks, and has found nothing.
    #[must_use]
    pub fn waits_after(&self, reply: &[u8]) -> bool {
        self.may_wait && matches!(reply, b"*-1\r\n" | b"$-1\r\n" | b"_\r\n")
    }

    /// How to encode the answer, if a client waits for it.
    pub(crate) fn awaited_proto(&self) -> Option<Proto> {
        (*self != Self::NONE).then_some(self.proto)
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
    /// FLUSHALL's part of this shard.
    Clear,
    /// A change of the map, encoded: for the metadata group only.
    Change(Vec<u8>),
    /// All replicas take a snapshot of the same moment, for the comparison of that number.
    Mark(u64),
}

impl Write {
    /// How many operations on keys it is.
    #[must_use]
    pub fn operations(&self) -> u64 {
        match self {
            Self::Command(_) => 1,
            Self::Transaction { commands, .. } => commands.len() as u64,
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
            Self::Clear | Self::Change(_) | Self::Mark(_) => 0,
        }
    }

    /// Whether it is about keys of one slot, which must be the shard's.
    #[must_use]
    pub fn is_of_slot(&self) -> bool {
        match self {
            Self::Command(_) => true,
            Self::Transaction { watches, commands } => !watches.is_empty() || !commands.is_empty(),
            Self::Clear | Self::Change(_) | Self::Mark(_) => false,
        }
    }

    /// Whether it has an entry to itself.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Clear | Self::Change(_) | Self::Mark(_))
    }

    /// Whether it stores the values of its keys anew, however long they are.
    pub(crate) fn rewrites(&self) -> bool {
        matches!(self, Self::Command(command) if command.spec().is_some_and(rewrites))
    }

    /// Whether it tells its client the version that it writes.
    pub(crate) fn reports_version(&self) -> bool {
        match self {
            Self::Command(command) => reports_version(command),
            Self::Transaction { commands, .. } => commands.iter().any(reports_version),
            Self::Clear | Self::Change(_) | Self::Mark(_) => false,
        }
    }

    /// The answer, where it does not depend on what the shard holds.
    pub(crate) fn answer_known_beforehand(&self) -> Option<&'static [u8]> {
        let Self::Command(command) = self else { return None };
        known_answer(command.spec()?, &command.args())
    }
}

fn reports_version(command: &EncodedCommand) -> bool {
    command.spec().is_some_and(|spec| spec.does(behaviour::REPORTS_VERSION))
}
