//! Writes of threads of this process to shards that this node leads: handed to the shard's worker, answered in a box.

use crate::mailbox::{EMBEDDED, Submission, WorkerMessage};
use crate::shared::{AnswerBox, Answers, NodeShared};
use node::session::{Acks, Durability};
use node::tracking::Registers;
use node::{EncodedCommand, KeyHashes, Ticket, Write};
use resp::Proto;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits::LARGE_REQUEST_BYTES;
use vocab::{ShardId, Slot, SlotSpan};

/// How long a write may take until its answer is there.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What the writes of the metadata group and of backups are promised.
const DURABLE: Durability = Durability { sync: true, acks: Acks::Majority };

/// One write and where it goes.
pub(super) struct ShardWrite {
    pub(super) shard: ShardId,
    pub(super) slot: Slot,
    /// Where its keys are, if they are of several slots.
    pub(super) wider: Option<SlotSpan>,
    pub(super) write: Write,
    pub(super) keys: KeyHashes,
}

impl ShardWrite {
    /// A write that is no key's.
    pub(super) fn of_shard(shard: ShardId, write: Write) -> Self {
        Self { shard, slot: Slot(0), wider: None, write, keys: KeyHashes::new() }
    }

    /// A command about keys of that slot.
    pub(super) fn command(shard: ShardId, slot: Slot, command: EncodedCommand) -> Self {
        Self { shard, slot, wider: None, write: Write::Command(command), keys: KeyHashes::new() }
    }

    /// The same about keys of that slot.
    pub(super) fn at(self, slot: Slot) -> Self {
        Self { slot, ..self }
    }

    /// The same about keys that are there, if they are of several slots.
    pub(super) fn over(self, wider: Option<SlotSpan>) -> Self {
        Self { wider, ..self }
    }
}

/// Submits writes and takes their answers, for one thread at a time.
pub(crate) struct ShardWriter {
    store: Arc<NodeShared>,
    id: usize,
    answers: Arc<AnswerBox>,
    taken: Answers,
}

impl ShardWriter {
    pub(crate) fn new(store: Arc<NodeShared>) -> Self {
        let (id, answers) = store.embedded.enter();
        Self { store, id, answers, taken: Answers::default() }
    }

    pub(super) fn store(&self) -> &Arc<NodeShared> {
        &self.store
    }

    /// Hands a write to its shard's worker; its answer comes through `wait` and bears `token`. The error is the text of
    /// a reply.
    pub(super) fn submit(
        &mut self,
        token: u32,
        write: ShardWrite,
        Durability { sync, acks }: Durability,
        proto: Proto,
    ) -> Result<(), &'static str> {
        let ShardWrite { shard, slot, wider, write, keys } = write;
        let ticket = Ticket {
            worker: EMBEDDED,
            connection: self.id as u32,
            generation: self.answers.generation(),
            sequence: u64::from(token),
            proto,
            slot,
            wider,
            sync,
            acks,
            reply_bytes: 0,
            may_wait: false,
            registers: Registers::Nothing,
            early: None,
        };
        let mailbox = self
            .store
            .mailboxes
            .of_worker(self.store.mailboxes.owner_of(shard))
            .ok_or("ERR the store is not running")?;
        // This thread has the time to copy what is long into an entry; its event loop would do so in many turns.
        let write = if write.bytes() > LARGE_REQUEST_BYTES { write.prepared() } else { write };
        self.store.write_queued(write.bytes());
        mailbox.send(WorkerMessage::Write(Submission { shard, write, keys, ticket, waits_in: None }));
        Ok(())
    }

    /// Waits until an answer is there or `until` is reached, and hands over every answer that is, in any order.
    pub(super) fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) {
        if !self.answers.take(until, &mut self.taken) {
            return;
        }
        self.taken.drain(each);
    }

    /// Brings everything that was written to a shard to the disks of a majority; answers the index up to which, or none
    /// if that did not come about.
    pub(crate) fn sync_shard(&mut self, shard: ShardId) -> Option<u64> {
        let handle = self.store.known().handle(shard).filter(|handle| handle.leading()).cloned()?;
        let nothing = Write::Transaction { watches: Vec::new(), commands: Vec::new() };
        self.submit(0, ShardWrite::of_shard(shard, nothing), DURABLE, Proto::Resp2).ok()?;
        let mut done = false;
        self.wait(Some(Instant::now() + ANSWER_WITHIN), &mut |_, answer| done = answer.starts_with(b"*"));
        done.then(|| handle.engine().applied_index())
    }

    /// Makes a change of the map and waits until the metadata group, which this node leads, has applied it. The error is
    /// the text of its reply, its code first.
    pub(super) fn change(&mut self, change: &cluster::Change) -> Result<(), String> {
        self.confirm(ShardId::META, Write::Change(change.encode()))
    }

    /// Has all replicas of a shard, which this node leads, take a snapshot of one moment.
    pub(super) fn mark(&mut self, shard: ShardId, comparison: u64) -> Result<(), String> {
        self.confirm(shard, Write::Mark(comparison))
    }

    fn confirm(&mut self, shard: ShardId, write: Write) -> Result<(), String> {
        self.submit(0, ShardWrite::of_shard(shard, write), DURABLE, Proto::Resp2)?;
        let mut reply = Vec::new();
        self.wait(Some(Instant::now() + ANSWER_WITHIN), &mut |_, answer| reply.extend_from_slice(answer));
        let text = String::from_utf8_lossy(&reply);
        match text.trim_end().strip_prefix('-') {
            Some(error) => Err(error.to_owned()),
            None if text.is_empty() => Err(node::UNCONFIRMED.to_owned()),
            None => Ok(()),
        }
    }

    /// Has a shard, which this node leads, carry out a command.
    pub(super) fn confirm_command(&mut self, shard: ShardId, command: EncodedCommand) -> Result<(), String> {
        self.confirm(shard, Write::Command(command))
    }

    /// Submits a write; its answer is one of `await_answers`.
    pub(super) fn submit_write(&mut self, write: ShardWrite, durability: Durability) -> Result<(), String> {
        self.submit(0, write, durability, Proto::Resp2).map_err(ToOwned::to_owned)
    }

    /// Waits for answers to what was submitted: those that are there, at least one; none if it takes too long.
    pub(super) fn await_answers(&mut self) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        self.wait(Some(Instant::now() + ANSWER_WITHIN), &mut |_, answer| answers.push(answer.to_vec()));
        answers
    }

    /// Waits for the answer to the only write that was submitted: longer than its shard needs to tell that some replicas do not
    /// have it in time. None if it takes too long.
    pub(super) fn await_answer(&mut self) -> Option<Vec<u8>> {
        // As long as another node may take.
        (0..4).find_map(|_| self.await_answers().pop())
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        self.store.embedded.leave(self.id);
    }
}
