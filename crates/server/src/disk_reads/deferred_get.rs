//! Reads of one shard that may wait for the disk.

use super::long_reply::next_part;
use super::outcome::Outcome;
use crate::mailbox::WorkerMessage;
use crate::os::steady_us;
use crate::shared::{Job, NodeShared, tell_misses};
use node::command::{Error, ReadHandler, StepHandler};
use node::read::{Attempt, Finish, ReadRequest, ReplyStream, ScriptReads};
use node::{EncodedCommand, Fault, Held, SnapshotSpace, Ticket, likely_bytes};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use std::time::Instant;
use storage::HeldBlock;
use vocab::limits::ITEM_REPLY_BYTES_MAX;

const REPLY_TOO_LONG: &str = "ERR the answer would take more bytes than one request may answer";

/// A read of one shard that may wait for the disk.
pub(crate) struct DeferredGet {
    pub(crate) store: Arc<NodeShared>,
    pub(crate) ticket: Ticket,
    pub(crate) spec: &'static CommandSpec,
    pub(crate) command: EncodedCommand,
    pub(crate) handler: ReadHandler,
    pub(crate) attempt: Attempt,
    pub(crate) seed: u64,
    /// What was read from disk for it.
    pub(crate) held: Vec<HeldBlock>,
}

/// Makes a read that cannot begin yet, on a thread that waits until it can.
pub(crate) fn begin_patiently(
    store: &Arc<NodeShared>,
    request: ReadRequest,
    ticket: Ticket,
    read: impl FnOnce(Attempt) -> DeferredGet + Send + 'static,
) {
    let patient = store.clone();
    store.pool.run_patient(Box::new(move || match patient.access().begin_read(request) {
        Ok(attempt) => read(attempt).make_patiently(),
        Err(text) => {
            let mut reply = Reply::new(ticket.proto);
            reply.error(&text);
            patient.mailboxes.answer(ticket, reply.buf);
        }
    }));
}

/// Whether an answer may be given.
enum Made {
    Counts,
    /// It needs more than is in memory.
    WouldWait,
    /// It is dropped.
    Again,
}

impl DeferredGet {
    /// How long the answer will be at least, in bytes, as far as is known.
    pub(crate) fn likely_bytes(&self) -> usize {
        match self.handler {
            // It is made part by part.
            ReadHandler::Steps(_) => 0,
            _ if !self.spec.answers_values(&self.command.args()) => 0,
            _ => likely_bytes(self.attempt.handle(), self.spec, &self.command.args()),
        }
    }

    /// Makes the read, if what it needs is in memory or held.
    pub(crate) fn make_now(mut self) -> Outcome<Self> {
        let mut reply = Reply::new(self.ticket.proto);
        let mut held = Held { blocks: std::mem::take(&mut self.held), lacking: None };
        let made = self.make_with(&self.attempt, Some(&mut held), &mut reply);
        match (made, held.lacking) {
            (Made::Counts, _) => Outcome::Over(Some(WorkerMessage::Answer { ticket: self.ticket, reply: reply.buf })),
            (Made::WouldWait, Some(block)) => {
                self.held = held.blocks;
                Outcome::Lacks(self, block)
            }
            (Made::WouldWait, None) => Outcome::WouldWait(self),
            (Made::Again, _) => Outcome::Patient(Box::new(move || self.make_patiently())),
        }
    }

    /// Runs the handler, and asks whether the answer counts.
    fn make_with(&self, attempt: &Attempt, held: Option<&mut Held>, reply: &mut Reply) -> Made {
        if !self.run(attempt, held, reply) {
            return Made::WouldWait;
        }
        match attempt.finish(steady_us) {
            Finish::Answer => Made::Counts,
            Finish::Again(_) => Made::Again,
        }
    }

    /// Runs the handler; false if it needs more than is in memory or held. Without `held` it waits for the disk.
    fn run(&self, attempt: &Attempt, mut held: Option<&mut Held>, reply: &mut Reply) -> bool {
        let handle = attempt.handle();
        let (begun, now_ms) = (held.is_none().then(Instant::now), self.store.now_ms());
        // Of a transaction whose scripts are to tell what they read.
        let mut reads = ScriptReads::of(self.ticket.tracker(), handle);
        let (done, lookups) = loop {
            reply.buf.clear();
            reply.limit(ITEM_REPLY_BYTES_MAX);
            let mut space = reads.noted_by(match held.as_deref_mut() {
                Some(held) => {
                    SnapshotSpace::without_waiting(handle, now_ms, self.seed, held).of_few_rows(Some(steady_us))
                }
                None => SnapshotSpace::new(handle, now_ms, self.seed),
            });
            let done = self.handler.run(&self.command.args(), &mut space, reply);
            if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
                return false;
            }
            if done.is_err() || reads.count(handle, &mut space, None) {
                break (done, space.lookups());
            }
        };
        // The client is told behind the answer, which it awaits.
        reads.end(handle);
        self.store.stats.looked_up(lookups);
        tell_misses(&self.store, handle, (self.spec, &self.command.args()), lookups);
        let done = if reply.exceeded() { Err(REPLY_TOO_LONG.into()) } else { done };
        attempt.conclude(done, reply, 0);
        // What does not wait tells nothing of the disk.
        if let Some(begun) = begun {
            self.store.note_read(begun.elapsed(), || now_ms);
        }
        true
    }

    /// Makes the read; the job is what is left if it must wait for anything but the disk.
    pub(crate) fn make(self) -> Result<Option<WorkerMessage>, Job> {
        let mut reply = Reply::new(self.ticket.proto);
        if let ReadHandler::Steps(steps) = self.handler {
            let begun = self.begin(&self.attempt, steps, &mut reply);
            return match self.attempt.finish(steady_us) {
                Finish::Answer => Ok(Some(next_part(&self.store, self.ticket, begun, reply))),
                Finish::Again(_) => Err(Box::new(move || self.make_patiently())),
            };
        }
        match self.make_with(&self.attempt, None, &mut reply) {
            Made::Counts => Ok(Some(WorkerMessage::Answer { ticket: self.ticket, reply: reply.buf })),
            Made::WouldWait | Made::Again => Err(Box::new(move || self.make_patiently())),
        }
    }

    /// Begins a reply that may be long, from a snapshot as of now.
    fn begin(&self, attempt: &Attempt, steps: StepHandler, reply: &mut Reply) -> ReplyStream {
        let (begun, now_ms) = (Instant::now(), self.store.now_ms());
        reply.buf.clear();
        let moment = (now_ms, self.seed);
        let stream = match ReplyStream::begin(attempt.handle(), steps, &self.command.args(), moment, reply) {
            Ok(stream) => stream,
            Err(error) => {
                attempt.conclude(Err(error), reply, 0);
                ReplyStream::default()
            }
        };
        self.store.note_read(begun.elapsed(), || now_ms);
        stream
    }

    /// Makes the read again, wherever its slot is by now, and waits until its answer counts.
    fn make_patiently(self) {
        let (mut reply, mut stream) = (Reply::new(self.ticket.proto), ReplyStream::default());
        let done = self.store.access().run_read(self.attempt.clone(), |attempt| match self.handler {
            ReadHandler::Steps(steps) => stream = self.begin(attempt, steps, &mut reply),
            ReadHandler::Keys(_) | ReadHandler::Shard(_) => {
                let made = self.run(attempt, None, &mut reply);
                assert!(made, "a read that waits for the disk lacks a block");
            }
        });
        if let Err(text) = done {
            stream = ReplyStream::default();
            reply.buf.clear();
            reply.error(&text);
        }
        let message = next_part(&self.store, self.ticket, stream, reply);
        self.store.mailboxes.tell(self.ticket.worker as usize, message);
    }
}
