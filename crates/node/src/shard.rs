//! One shard on its owning thread: commands in, entries proposed, committed entries applied, answers out.
//!
//! Pure: the caller writes the log, flushes the tree and passes the time in.

use crate::entry::{self, EncodedCommand, EntryBuilder, Item};
use crate::entry_space::EntrySpace;
use crate::exec::{Call, Error};
use crate::keys;
use crate::view::ShardView;
use crate::{Fault, Space};
use replica::{DiskHealth, DiskState, Entry, LogWrite, Replica};
use resp::{Proto, Reply};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use storage::{Slice, WriteBatch};
use vocab::limits;
use xxhash_rust::xxh3::xxh3_64;

/// A key's hash, for telling which writes may touch the same key. Two keys may share one; nothing breaks if they do.
pub type KeyHash = u64;

/// The hash of `key`.
#[must_use]
pub fn key_hash(key: &[u8]) -> KeyHash {
    xxh3_64(key)
}

/// Who waits for an answer: opaque to the shard.
#[derive(Clone, Copy, Debug)]
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
}

/// Takes the answers of writes.
pub trait Answers {
    /// The encoded answer to the request of `ticket`.
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]);
}

impl Write {
    /// About how many bytes it takes in an entry.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Command(command) => command.bytes(),
            Self::Transaction { watches, commands } => {
                watches.iter().map(|(key, _)| key.len() + 10).sum::<usize>()
                    + commands.iter().map(EncodedCommand::bytes).sum::<usize>()
            }
            Self::Clear => 1,
        }
    }
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
}

struct Pending {
    entry: EntryBuilder,
    tickets: Vec<Ticket>,
    /// Hashes of keys whose new version an item of this entry reports to its client: no later item of the entry may
    /// write them, or two values would bear that version.
    reported: HashSet<KeyHash>,
}

impl Pending {
    fn new() -> Self {
        Self { entry: EntryBuilder::new(), tickets: Vec::new(), reported: HashSet::default() }
    }
}

/// One shard on its owning thread.
pub struct Shard {
    view: Arc<ShardView>,
    replica: Replica,
    health: Arc<DiskHealth>,
    /// Entries that are being filled; the last one takes the next write.
    queue: VecDeque<Pending>,
    /// Proposed entries and who waits for them, by index.
    proposed: VecDeque<(u64, Vec<Ticket>)>,
    clock_ms: u64,
    scratch: Reply,
    /// Why the shard no longer applies, if it doesn't.
    broken: Option<String>,
}

impl Shard {
    /// A shard whose tree and log have been opened.
    #[must_use]
    pub fn new(view: Arc<ShardView>, replica: Replica, health: Arc<DiskHealth>) -> Self {
        Self {
            view,
            replica,
            health,
            queue: VecDeque::new(),
            proposed: VecDeque::new(),
            clock_ms: 0,
            scratch: Reply::default(),
            broken: None,
        }
    }

    /// What other threads see of it.
    #[must_use]
    pub fn view(&self) -> &Arc<ShardView> {
        &self.view
    }

    /// Its place in its group.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// For elections, ticks and messages.
    pub fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    /// Takes a write to `keys`. The answer comes through `Answers`: after commit and apply, or an error at once. False
    /// if it is refused.
    pub fn submit(&mut self, write: &Write, keys: &[KeyHash], ticket: Ticket, answers: &mut dyn Answers) -> bool {
        if let Some(refusal) = self.refusal() {
            refuse(&refusal, &ticket, answers);
            return false;
        }
        let reports = match write {
            Write::Command(command) => reports_version(command),
            Write::Transaction { commands, .. } => commands.iter().any(reports_version),
            Write::Clear => false,
        };
        let clear = matches!(write, Write::Clear);
        let begin = self.queue.back().is_none_or(|last| {
            last.entry.bytes() > limits::ENTRY_BYTES_SOFT
                || (clear && !last.entry.is_empty())
                || (!last.reported.is_empty() && keys.iter().any(|key| last.reported.contains(key)))
        });
        if begin {
            self.queue.push_back(Pending::new());
        }
        let last = self.queue.back_mut().expect("one was pushed if there was none");
        match write {
            Write::Command(command) => last.entry.encoded_command(command),
            Write::Transaction { watches, commands } => last.entry.transaction(watches, commands),
            Write::Clear => last.entry.clear(),
        }
        last.tickets.push(ticket);
        if reports {
            last.reported.extend(keys.iter().copied());
        }
        if clear {
            self.queue.push_back(Pending::new());
        }
        true
    }

    /// Asks for a step of background collection if one is due.
    pub fn housekeep(&mut self, now_ms: u64) {
        if self.refusal().is_none() && self.proposed.is_empty() && self.view.wants_housekeeping(now_ms) {
            if self.queue.is_empty() {
                self.queue.push_back(Pending::new());
            }
            if let Some(last) = self.queue.back_mut() {
                last.entry.housekeeping();
            }
        }
    }

    /// Proposes what has been submitted: usually one entry.
    pub fn propose(&mut self, now_ms: u64, answers: &mut dyn Answers) {
        // Expiry never goes back, whatever the wall clock does.
        self.clock_ms = self.clock_ms.max(now_ms).max(self.view.clock_ms());
        while let Some(pending) = self.queue.pop_front() {
            if pending.entry.is_empty() {
                continue;
            }
            match self.replica.propose(pending.entry.seal(self.clock_ms)) {
                Ok(index) => self.proposed.push_back((index, pending.tickets)),
                Err(replica::Error::Busy) => {
                    let text = "BUSY too many writes are under way in this shard, try again later";
                    pending.tickets.iter().for_each(|ticket| refuse(text, ticket, answers));
                }
                Err(_) => {
                    let text = "CLUSTERDOWN The cluster is down: this node does not lead the shard";
                    pending.tickets.iter().for_each(|ticket| refuse(text, ticket, answers));
                }
            }
        }
    }

    /// One turn of the group: what must be written is added to `write`, what is committed is applied. Answers the
    /// number to hand to `persisted` when the write is done (0 if nothing was added); `None` when there is nothing
    /// left to do.
    pub fn turn(&mut self, write: &mut LogWrite, answers: &mut dyn Answers) -> replica::Result<Option<u64>> {
        let Some(turn) = self.replica.turn(write)? else { return Ok(None) };
        for committed in &turn.committed {
            self.apply(committed, answers);
        }
        if let Some(last) = turn.committed.last()
            && self.broken.is_none()
        {
            self.replica.applied(last);
            self.view.set_serving(self.replica.serves());
            self.view.set_status(self.replica.status());
        }
        Ok(Some(turn.number))
    }

    /// The log holds everything of the turns up to `number`.
    pub fn persisted(&mut self, number: u64) {
        self.replica.persisted(number);
    }

    /// Nothing more can be written: whoever waits is told that the outcome is unknown.
    pub fn fail_pending(&mut self, reason: &str, answers: &mut dyn Answers) {
        for (_, tickets) in self.proposed.drain(..) {
            for ticket in tickets {
                refuse(&format!("ERR the outcome of this write is unknown: {reason}"), &ticket, answers);
            }
        }
        for pending in self.queue.drain(..) {
            pending.tickets.iter().for_each(|ticket| refuse(&format!("ERR not written: {reason}"), ticket, answers));
        }
    }

    /// Whether writes have been submitted that are not proposed yet.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Seals the tree's memory for a background flush, with the shard's own facts in it.
    /// Not once an entry could not be applied as a whole: what is in the files shall be what whole entries made.
    pub fn seal(&self) {
        if self.broken.is_some() {
            return;
        }
        let counters = Slice::from(self.view.counters().encode());
        let expiring = Slice::from(&self.view.expiring().to_le_bytes()[..]);
        let records = [(keys::META_COUNTERS, counters), (keys::META_EXPIRING, expiring)];
        self.view.engine().seal(records.map(|(name, value)| (Slice::from(name), value)).into());
    }

    /// Drops log that the tree's files made unnecessary; true if something was added to `write`.
    pub fn truncate(&mut self, write: &mut LogWrite) -> replica::Result<bool> {
        self.replica.truncate(self.view.engine().flushed_index(), write)
    }

    /// Why the shard has stopped applying entries, if it has.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Why writes are refused now, if they are.
    fn refusal(&self) -> Option<String> {
        if let Some(detail) = &self.broken {
            return Some(format!("ERR this shard takes no commands: {detail}"));
        }
        match self.health.state() {
            DiskState::Healthy => None,
            DiskState::Full => Some(format!(
                "ERR disk full: writes are refused until there is room, reads go on ({})",
                self.health.reason()
            )),
            DiskState::Poisoned => {
                Some(format!("ERR writes are refused until this node is restarted: {}", self.health.reason()))
            }
        }
    }

    fn apply(&mut self, committed: &Entry, answers: &mut dyn Answers) {
        let tickets = match self.proposed.front() {
            Some((index, _)) if *index == committed.index => self.proposed.pop_front().map(|(_, tickets)| tickets),
            _ => None,
        }
        .unwrap_or_default();
        if let Some(detail) = &self.broken {
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, answers));
            return;
        }
        let index = committed.index;
        if !replica::has_commands(committed) {
            self.view.engine().apply(index, WriteBatch::default());
            return;
        }
        if let Err(error) = self.apply_items(index, &committed.data, &tickets, answers) {
            // The replica must not go on past an entry that it could not apply, nor answer from what it has.
            let detail = format!("entry {index} of shard {} cannot be applied: {error}", self.view.id());
            log::error!("{detail}");
            self.view.set_serving(false);
            tickets.iter().for_each(|ticket| refuse(&format!("ERR {detail}"), ticket, answers));
            self.broken = Some(detail);
        }
    }

    fn apply_items(
        &mut self,
        index: u64,
        data: &[u8],
        tickets: &[Ticket],
        answers: &mut dyn Answers,
    ) -> Result<(), ApplyError> {
        let (now_ms, items) = entry::decode(data)?;
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
                Item::Housekeeping => {}
            }
            replies.push(self.scratch.buf.len());
        }
        space.commit();
        // Only now is the entry visible: an answer before that could be contradicted by a read.
        let mut from = 0;
        for (ticket, &to) in tickets.iter().zip(&replies) {
            answers.answer(ticket, &self.scratch.buf[from..to]);
            from = to;
        }
        if self.scratch.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            self.scratch.buf = Vec::new();
        }
        Ok(())
    }
}

/// Removes every key of a shard: what entry `index` begins with.
pub(crate) fn clear(view: &ShardView, index: u64) -> storage::Result<()> {
    view.begin_write(index);
    // The cache goes first, so that no one sees a row of it beside the empty tree.
    view.cache().clear_shard(view.id().0);
    // As of the entry before: this one is applied, without writes, when it is committed.
    view.engine().clear(index - 1)?;
    view.counters().clear();
    view.garbage(false);
    view.next_expiry(u64::MAX);
    Ok(())
}

/// Runs one command of an entry; its errors are its reply.
pub(crate) fn run(space: &mut dyn Space, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mark = reply.buf.len();
    let outcome = match crate::commands::data_handler(args) {
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

/// Whether the command tells its client the version that it writes.
fn reports_version(command: &EncodedCommand) -> bool {
    let name = command.name();
    name.len() > 3 && name[..3].eq_ignore_ascii_case(b"KV.")
}

fn refuse(text: &str, ticket: &Ticket, answers: &mut dyn Answers) {
    let mut reply = Reply::new(ticket.proto);
    reply.error(text);
    answers.answer(ticket, &reply.buf);
}

#[derive(Debug)]
enum ApplyError {
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
