//! Callers in this process: the same shards, threads and log as behind the sockets, without sockets.

use super::route::route;
use super::routed::{KeyTarget, Routed, ScriptRuns};
use super::scatter_gather::{DIVIDED, SLOTS, StoreRequest, ranges_text, run_on_store};
use super::scripts::learn;
use super::writer::{ANSWER_WITHIN, ShardWrite, ShardWriter};
use crate::os::steady_us;
use crate::shared::NodeShared;
use crate::shared::refusal_text;
use node::command::{Error, ReadHandler};
use node::read::{Begin, Finish, ReadRequest, Refusal};
use node::session::{Consistency, Durability};
use node::{CachedSpace, EncodedCommand, Fault, ShardHandle, SnapshotSpace, Write};
use resp::table::{self, behaviour};
use resp::{Proto, Reply};
use std::sync::Arc;
use std::time::Instant;
use vocab::{ShardId, Slot};

/// Runs one command of this process's own, which is promised `durability` if it writes, or else what the settings say; answers one
/// RESP2 frame.
pub(crate) fn run_own_command(store: &Arc<NodeShared>, args: &[&[u8]], durability: Option<Durability>) -> Vec<u8> {
    Caller { durability, ..Caller::new(store.clone()) }.call(args)
}

/// One caller: for one thread at a time.
pub struct Caller {
    writer: ShardWriter,
    seed: u64,
    /// What its writes are promised, if not what the settings say.
    durability: Option<Durability>,
}

impl Caller {
    pub(crate) fn new(store: Arc<NodeShared>) -> Self {
        let seed = steady_us();
        Self { writer: ShardWriter::new(store), seed, durability: None }
    }

    /// Takes a command. True if its answer, one RESP2 frame, has been appended to `reply`: reads run at once on this
    /// thread, and wait for the disk if necessary. Otherwise the answer comes through `wait` with `token`.
    pub fn submit(&mut self, token: u32, args: &[&[u8]], reply: &mut Vec<u8>) -> bool {
        let mut own = Reply::with_buffer(std::mem::take(reply), Proto::Resp2);
        let later = self.start(token, args, &mut own);
        *reply = own.buf;
        !later
    }

    /// Waits until an answer is there or `until` is reached, and hands over every answer that is, in any order.
    pub fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) {
        self.writer.wait(until, each);
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
        match route(self.store(), spec, args) {
            Ok(Routed::Write(KeyTarget { shard, slot, wider, keys })) => {
                let Some(shard) = shard else {
                    reply.error(&Refusal::NoStore.to_string());
                    return false;
                };
                let write = Write::Command(EncodedCommand::of(spec, args));
                self.submit_write(token, ShardWrite { shard, slot, wider, write, keys }, reply)
            }
            Ok(Routed::Read(KeyTarget { shard, slot, wider, .. }, handler)) => {
                let asked = ReadRequest::new(slot, Consistency::Absolute, arrived_us).over(wider);
                self.read(shard, asked, handler, args, reply);
                false
            }
            Ok(Routed::Store { handler, .. }) => {
                self.seed = self.seed.wrapping_add(0x9E37_79B9);
                let (seed, consistency) = (self.seed, Consistency::Absolute);
                let asked = StoreRequest { args, seed, arrived_us, consistency, client: None };
                run_on_store(self.store(), handler, &asked, reply);
                false
            }
            Ok(Routed::Pool { handler }) => {
                handler.run(self.store(), args, self.durability(), reply);
                false
            }
            Ok(Routed::Script { target: KeyTarget { shard, slot, wider, .. }, command, runs: ScriptRuns::Read }) => {
                let handler = ReadHandler::Keys(node::read_script);
                let asked = ReadRequest::new(slot, Consistency::Absolute, arrived_us).over(wider);
                self.read(shard, asked, handler, &command.args(), reply);
                false
            }
            Ok(Routed::Script { target: KeyTarget { shard, slot, wider, keys }, command, .. }) => match shard {
                Some(shard) => {
                    let write = Write::Command(command);
                    self.submit_write(token, ShardWrite { shard, slot, wider, write, keys }, reply)
                }
                None => {
                    reply.error(&Refusal::NoStore.to_string());
                    false
                }
            },
            Ok(Routed::UnknownScript) => match learn(self.store(), spec, args[1]) {
                Ok(()) => self.start(token, args, reply),
                Err(text) => {
                    reply.error(&text);
                    false
                }
            },
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
    /// for that shard alone, and may say by `DURABILITY word word` what its client is promised.
    pub(crate) fn call_shard(&mut self, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
        let mut reply = Reply::new(Proto::Resp3);
        let arrived_us = steady_us();
        let (args, slots) = match args {
            [command @ .., word, slots] if *word == SLOTS => (command, Some(*slots)),
            _ => (args, None),
        };
        let Some(handle) = self.store().known().handle(shard).filter(|handle| handle.leading()).cloned() else {
            reply.error("CLUSTERDOWN this node does not lead the shard");
            return reply.buf;
        };
        // Checked before and after: otherwise rows of slots that are given away meanwhile would be missed.
        let ranges = || handle.owned().map(|slots| ranges_text(slots.ranges()).into_bytes());
        let divided = || slots.is_some_and(|slots| ranges().as_deref() != Some(slots));
        if !divided() {
            self.call_on(&handle, args, arrived_us, &mut reply);
        }
        if divided() {
            reply.buf.clear();
            reply.error(DIVIDED);
        }
        reply.buf
    }

    fn call_on(&mut self, handle: &ShardHandle, args: &[&[u8]], arrived_us: u64, reply: &mut Reply) {
        if table::lookup(args[0]).is_some_and(|spec| spec.does(behaviour::CLEARS_STORE)) {
            self.durability = match args {
                [_, b"DURABILITY", words @ ..] => Durability::of_words(words),
                _ => None,
            };
            if self.submit_write(0, ShardWrite::of_shard(handle.id(), Write::Clear), reply) {
                // Longer than the shard needs to tell that some replicas do not have it in time.
                let until = Instant::now() + ANSWER_WITHIN * 3 / 2;
                self.wait(Some(until), &mut |_, answer| reply.buf.extend_from_slice(answer));
                if reply.buf.is_empty() {
                    reply.error("TIMEOUT the write was not confirmed in time: it may be made later, or never");
                }
            }
            return;
        }
        match node::command::peer_handler(args) {
            Some(handler) => {
                let asked = ReadRequest::new(Slot(handle.slots().0), Consistency::Absolute, arrived_us);
                self.read(Some(handle.id()), asked, handler, args, reply);
            }
            None => reply.error("ERR this command is not for other nodes"),
        }
    }

    /// Answers true if the answer comes later.
    fn submit_write(&mut self, token: u32, write: ShardWrite, reply: &mut Reply) -> bool {
        match self.writer.submit(token, write, self.durability(), reply.proto) {
            Ok(()) => true,
            Err(text) => {
                reply.error(text);
                false
            }
        }
    }

    fn store(&self) -> &Arc<NodeShared> {
        self.writer.store()
    }

    fn durability(&self) -> Durability {
        self.durability.unwrap_or_else(|| Durability::of_settings(&self.store().config))
    }

    fn read(
        &mut self,
        shard: Option<ShardId>,
        request: ReadRequest,
        handler: ReadHandler,
        args: &[&[u8]],
        reply: &mut Reply,
    ) {
        let (known, now) = (self.store().known(), self.store().moment());
        let local = known.local(self.store().node(), shard);
        let mut begun = request.begin(local, now, || self.store().moment());
        if matches!(begun, Begin::WaitForLease(_))
            && local
                .and_then(|local| local.handle)
                .is_some_and(|handle| self.store().access().confirm_leader(handle, request.arrived_us))
        {
            begun = request.begin(local, self.store().moment(), || self.store().moment());
        }
        let attempt = match begun {
            Begin::Run(attempt) => attempt,
            Begin::WaitForLease(_) => return reply.error(&Refusal::NoLeader.to_string()),
            Begin::NotHere(why) => {
                return reply.error(&refusal_text(&known, request.slot, Consistency::Absolute, &why));
            }
        };
        let mark = reply.buf.len();
        let (handle, now) = (*attempt.handle(), now.wall_ms);
        match handler.run(args, &mut CachedSpace::new(handle, now), reply) {
            Err(Error::Fault(Fault::WouldBlock)) => {
                reply.buf.truncate(mark);
                self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut space = SnapshotSpace::new(handle, now, self.seed);
                let done = handler.run(args, &mut space, reply);
                attempt.conclude(done, reply, mark);
            }
            done => attempt.conclude(done, reply, mark),
        }
        if self.store().access().finish_read(&attempt) != Finish::Answer {
            reply.buf.truncate(mark);
            reply.error(&Refusal::NoLeader.to_string());
        }
    }
}
