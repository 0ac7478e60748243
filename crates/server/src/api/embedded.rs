//! Callers in this process: the same shards, threads and log as behind the sockets, without sockets.

use super::route::{KeyTarget, Routed, conclude_on, route};
use super::scatter_gather::{Asked, DIVIDED, SLOTS, ranges_text, run_on_store};
use crate::access::refusal_text;
use crate::mailbox::{EMBEDDED, Submission, WorkerMessage};
use crate::os::steady_us;
use crate::shared::{AnswerBox, Answers, NodeShared};
use node::command::{Error, ReadHandler};
use node::read::{Begin, Finish, ReadRequest, Refusal};
use node::session::{Acks, Consistency, Durability};
use node::{CachedSpace, EncodedCommand, Fault, KeyHashes, ShardView, SnapshotSpace, Ticket, Write};
use resp::table::{self, behaviour};
use resp::{Proto, Reply};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{ShardId, Slot};

/// How long a write for another node may take.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// One caller: for one thread at a time.
pub struct Caller {
    store: Arc<NodeShared>,
    id: usize,
    answers: Arc<AnswerBox>,
    taken: Answers,
    seed: u64,
}

impl Caller {
    pub(crate) fn new(store: Arc<NodeShared>) -> Self {
        let (id, answers) = store.embedded.enter();
        Self { store, id, answers, taken: Answers::default(), seed: id as u64 }
    }

    /// Takes a command. True when its answer, one RESP2 frame, has been appended to `reply`: reads run at once on this
    /// thread, and wait for the disk where they must. Otherwise the answer comes through `wait` and bears `token`.
    pub fn submit(&mut self, token: u32, args: &[&[u8]], reply: &mut Vec<u8>) -> bool {
        let mut own = Reply::with_buffer(std::mem::take(reply), Proto::Resp2);
        let later = self.start(token, args, &mut own);
        *reply = own.buf;
        !later
    }

    /// Waits until an answer is there or `until` is reached, and hands over every answer that is, in any order.
    pub fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) {
        if !self.answers.take(until, &mut self.taken) {
            return;
        }
        self.taken.drain(each);
    }

    /// Runs one command and answers its reply, one RESP2 frame. Not to be mixed with answers that are still to come.
    pub fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut reply = Vec::new();
        if !self.submit(0, args, &mut reply) {
            self.wait(None, &mut |_, answer| reply.extend_from_slice(answer));
        }
        reply
    }

    /// Starts a command: true if its answer will come later.
    fn start(&mut self, token: u32, args: &[&[u8]], reply: &mut Reply) -> bool {
        let spec = match table::resolve(args) {
            Ok(spec) => spec,
            Err(text) => {
                reply.error(&text);
                return false;
            }
        };
        let arrived_us = steady_us();
        match route(&self.store, spec, args) {
            Ok(Routed::Write(KeyTarget { shard, slot, keys })) => {
                let Some(shard) = shard else {
                    reply.error(&Refusal::NoStore.to_string());
                    return false;
                };
                let write = Write::Command(EncodedCommand::of(spec, args));
                self.submit_write(token, shard, slot, write, keys, reply)
            }
            Ok(Routed::Read(KeyTarget { shard, slot, .. }, handler)) => {
                self.read(shard, slot, handler, args, arrived_us, reply);
                false
            }
            Ok(Routed::Store { handler }) => {
                self.seed = self.seed.wrapping_add(0x9E37_79B9);
                let asked = Asked { args, seed: self.seed, arrived_us, consistency: Consistency::Absolute };
                run_on_store(&self.store, handler, &asked, reply);
                false
            }
            Ok(Routed::Pool { handler }) => {
                handler(&self.store, args, reply);
                false
            }
            Ok(Routed::Clear) => {
                reply.error("ERR this command needs a connection");
                false
            }
            Err(text) => {
                reply.error(&text);
                false
            }
        }
    }

    /// Runs one command on this node's replica of a shard, for another node; answers one RESP3 frame. FLUSHALL is meant
    /// for that shard alone.
    pub(crate) fn call_shard(&mut self, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
        let mut reply = Reply::new(Proto::Resp3);
        let at = shard.0 as usize;
        let arrived_us = steady_us();
        let (args, slots) = match args {
            [command @ .., word, slots] if *word == SLOTS => (command, Some(*slots)),
            _ => (args, None),
        };
        let Some(view) = self.store.known().view(at).filter(|view| view.leading()).cloned() else {
            reply.error("CLUSTERDOWN this node does not lead the shard");
            return reply.buf;
        };
        // Before and after: rows of slots that are given away meanwhile would be missed.
        let ranges = || view.owned().map(|slots| ranges_text(slots.ranges()).into_bytes());
        let divided = || slots.is_some_and(|slots| ranges().as_deref() != Some(slots));
        if !divided() {
            self.call_view(&view, args, arrived_us, &mut reply);
        }
        if divided() {
            reply.buf.clear();
            reply.error(DIVIDED);
        }
        reply.buf
    }

    fn call_view(&mut self, view: &ShardView, args: &[&[u8]], arrived_us: u64, reply: &mut Reply) {
        if table::lookup(args[0]).is_some_and(|spec| spec.does(behaviour::CLEARS_STORE)) {
            if self.submit_write(0, view.id(), Slot(0), Write::Clear, KeyHashes::new(), reply) {
                let until = Instant::now() + CALL_WITHIN;
                self.wait(Some(until), &mut |_, answer| reply.buf.extend_from_slice(answer));
                if reply.buf.is_empty() {
                    reply.error("TIMEOUT the write was not confirmed in time: it may be made later, or never");
                }
            }
            return;
        }
        match node::command::peer_handler(args) {
            Some(handler) => self.read(Some(view.id()), Slot(view.slots().0), handler, args, arrived_us, reply),
            None => reply.error("ERR this command is not for other nodes"),
        }
    }

    /// Brings everything that was written to a shard to the disks of a majority; answers the index up to which, or none
    /// if that did not come about.
    pub(crate) fn sync_shard(&mut self, shard: ShardId) -> Option<u64> {
        let view = self.store.known().view(shard.0 as usize).filter(|view| view.leading()).cloned()?;
        let nothing = Write::Transaction { watches: Vec::new(), commands: Vec::new() };
        let mut reply = Reply::new(Proto::Resp2);
        self.submit_durably(shard, nothing, &mut reply).then_some(())?;
        let mut done = false;
        self.wait(Some(Instant::now() + CALL_WITHIN), &mut |_, answer| done = answer.starts_with(b"*"));
        done.then(|| view.engine().applied_index())
    }

    /// Makes a change of the map and waits until the metadata group, which this node leads, has applied it. The error is
    /// the text of its reply, its code first.
    pub(crate) fn change(&mut self, change: &cluster::Change) -> Result<(), String> {
        self.confirm(ShardId::META, Write::Change(change.encode()))
    }

    /// Has all replicas of a shard, which this node leads, take a snapshot of one moment.
    pub(crate) fn mark(&mut self, shard: ShardId, comparison: u64) -> Result<(), String> {
        self.confirm(shard, Write::Mark(comparison))
    }

    fn confirm(&mut self, shard: ShardId, write: Write) -> Result<(), String> {
        let mut reply = Reply::new(Proto::Resp2);
        if self.submit_durably(shard, write, &mut reply) {
            self.wait(Some(Instant::now() + CALL_WITHIN), &mut |_, answer| reply.buf.extend_from_slice(answer));
        }
        let text = String::from_utf8_lossy(&reply.buf);
        match text.trim_end().strip_prefix('-') {
            Some(error) => Err(error.to_owned()),
            None if text.is_empty() => Err("TIMEOUT it was not confirmed in time: it may be made later".to_owned()),
            None => Ok(()),
        }
    }

    fn submit_durably(&mut self, shard: ShardId, write: Write, reply: &mut Reply) -> bool {
        let durability = Durability { sync: true, acks: Acks::Majority };
        self.send_write(0, shard, Slot(0), write, KeyHashes::new(), durability, reply)
    }

    /// Has a write on its way to a shard that this node leads; its answer is one of `await_answers`.
    pub(crate) fn submit_command(&mut self, shard: ShardId, slot: Slot, command: EncodedCommand) -> Result<(), String> {
        let mut reply = Reply::new(Proto::Resp2);
        let write = Write::Command(command);
        if self.submit_write(0, shard, slot, write, KeyHashes::new(), &mut reply) {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&reply.buf).trim_start_matches('-').trim_end().to_owned())
    }

    /// Waits for answers to what was submitted: those that are there, at least one; none if it takes too long.
    pub(crate) fn await_answers(&mut self) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        self.wait(Some(Instant::now() + CALL_WITHIN), &mut |_, answer| answers.push(answer.to_vec()));
        answers
    }

    /// True if the answer will come later.
    fn submit_write(
        &mut self,
        token: u32,
        shard: ShardId,
        slot: Slot,
        write: Write,
        keys: KeyHashes,
        reply: &mut Reply,
    ) -> bool {
        let durability = Durability::of_settings(&self.store.config);
        self.send_write(token, shard, slot, write, keys, durability, reply)
    }

    #[expect(clippy::too_many_arguments, reason = "one write's facts, all of them needed")]
    fn send_write(
        &mut self,
        token: u32,
        shard: ShardId,
        slot: Slot,
        write: Write,
        keys: KeyHashes,
        Durability { sync, acks }: Durability,
        reply: &mut Reply,
    ) -> bool {
        let ticket = Ticket {
            worker: EMBEDDED,
            connection: self.id as u32,
            generation: self.answers.generation(),
            sequence: u64::from(token),
            proto: reply.proto,
            slot,
            sync,
            acks,
            reply_bytes: 0,
        };
        let bytes = write.bytes();
        let message = WorkerMessage::Write(Submission { shard, write, keys, ticket });
        match self.store.mailbox(self.store.owner_of(shard.0 as usize)) {
            Some(mailbox) => {
                self.store.write_queued(bytes);
                mailbox.send(message);
                true
            }
            None => {
                reply.error("ERR the store is not running");
                false
            }
        }
    }

    fn read(
        &mut self,
        shard: Option<ShardId>,
        slot: Slot,
        handler: ReadHandler,
        args: &[&[u8]],
        arrived_us: u64,
        reply: &mut Reply,
    ) {
        let request = ReadRequest::new(slot, Consistency::Absolute, arrived_us);
        let (known, now) = (self.store.known(), self.store.moment());
        let local = self.store.local(&known, shard);
        let mut begun = request.begin(local, now, || self.store.moment());
        if matches!(begun, Begin::WaitForLease(_))
            && local.and_then(|local| local.handle).is_some_and(|view| self.store.confirm_leader(view, arrived_us))
        {
            begun = request.begin(local, self.store.moment(), || self.store.moment());
        }
        let attempt = match begun {
            Begin::Run(attempt) => attempt,
            Begin::WaitForLease(_) => return reply.error(&Refusal::NoLeader.to_string()),
            Begin::NotHere(why) => {
                return reply.error(&refusal_text(&known, slot, Consistency::Absolute, &why));
            }
        };
        let mark = reply.buf.len();
        let (view, now) = (*attempt.handle(), now.wall_ms);
        match handler.run(args, &mut CachedSpace::new(view, now), reply) {
            Err(Error::Fault(Fault::WouldBlock)) => {
                reply.buf.truncate(mark);
                self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut space = SnapshotSpace::new(view, now, self.seed);
                let done = handler.run(args, &mut space, reply);
                conclude_on(view, done, reply, mark);
            }
            done => conclude_on(view, done, reply, mark),
        }
        if self.store.finish_read(&attempt) != Finish::Answer {
            reply.buf.truncate(mark);
            reply.error(&Refusal::NoLeader.to_string());
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.store.embedded.leave(self.id);
    }
}
