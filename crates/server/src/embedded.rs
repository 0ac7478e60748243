//! Callers in this process: the same shards, threads and log as behind the sockets, without sockets.

use crate::outbox::EMBEDDED;
use crate::requests::{Routed, route};
use crate::store::{Store, now_ms};
use node::exec::{Call, Error};
use node::{CachedSpace, EncodedCommand, Fault, SnapshotSpace, Ticket, Write};
use resp::{Proto, Reply, table};
use slab::Slab;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Answers that have arrived, one after the other in one buffer.
#[derive(Default)]
struct Arrived {
    bytes: Vec<u8>,
    /// Token and end of each.
    ends: Vec<(u32, usize)>,
}

/// One caller's answers.
#[derive(Default)]
struct Mailbox {
    /// Tells the caller from those that had its place before: their answers may still come.
    generation: u32,
    arrived: Mutex<Arrived>,
    changed: Condvar,
}

/// All callers of a store.
#[derive(Default)]
pub(crate) struct Callers {
    mailboxes: RwLock<Slab<Arc<Mailbox>>>,
    generations: AtomicU32,
}

impl Callers {
    pub(crate) fn deliver(&self, ticket: &Ticket, reply: &[u8]) {
        let mailboxes = self.mailboxes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(mailbox) = mailboxes.get(ticket.connection as usize)
            && mailbox.generation == ticket.generation
        {
            let mut arrived = lock(&mailbox.arrived);
            arrived.bytes.extend_from_slice(reply);
            let end = arrived.bytes.len();
            arrived.ends.push((ticket.sequence as u32, end));
            let first = arrived.ends.len() == 1;
            drop(arrived);
            if first {
                mailbox.changed.notify_one();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One caller: for one thread at a time.
pub struct Caller {
    store: Arc<Store>,
    id: usize,
    mailbox: Arc<Mailbox>,
    taken: Arrived,
    seed: u64,
}

impl Caller {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let generation = store.embedded.generations.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox { generation, ..Mailbox::default() });
        let id = store.embedded.mailboxes.write().unwrap_or_else(PoisonError::into_inner).insert(mailbox.clone());
        Self { store, id, mailbox, taken: Arrived::default(), seed: id as u64 }
    }

    /// Takes a command. True when its answer, one RESP2 frame, has been appended to `reply`: reads run at once on this
    /// thread, and wait for the disk where they must. Otherwise the answer comes through `wait` and bears `token`.
    pub fn submit(&mut self, token: u32, args: &[&[u8]], reply: &mut Vec<u8>) -> bool {
        let mut own = Reply { buf: std::mem::take(reply), proto: Proto::Resp2 };
        let later = self.start(token, args, &mut own);
        *reply = own.buf;
        !later
    }

    /// Waits until an answer is there or `until` is reached, and hands over every answer that is, in any order.
    pub fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) {
        let mut arrived = lock(&self.mailbox.arrived);
        while arrived.ends.is_empty() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                None => arrived = self.mailbox.changed.wait(arrived).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return,
                Some(left) => {
                    let waited = self.mailbox.changed.wait_timeout(arrived, left);
                    arrived = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        std::mem::swap(&mut *arrived, &mut self.taken);
        drop(arrived);
        let mut from = 0;
        for &(token, to) in &self.taken.ends {
            each(token, &self.taken.bytes[from..to]);
            from = to;
        }
        self.taken.bytes.clear();
        self.taken.ends.clear();
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
        match route(&self.store, spec, args) {
            Ok(Routed::Shard { shard, keys, handler: _ }) if spec.is_write() => {
                let ticket = Ticket {
                    worker: EMBEDDED,
                    connection: self.id as u32,
                    generation: self.mailbox.generation,
                    sequence: u64::from(token),
                    proto: reply.proto,
                };
                let write = Write::Command(EncodedCommand::new(args));
                let bytes = write.bytes();
                let message = crate::inbox::Message::Write { shard: shard as u32, write, keys: keys.to_vec(), ticket };
                match self.store.inbox(self.store.owner_of(shard)) {
                    Some(inbox) => {
                        self.store.write_queued(bytes);
                        inbox.send(message);
                    }
                    None => {
                        reply.error("ERR the store is not running");
                        return false;
                    }
                }
                true
            }
            Ok(Routed::Shard { shard, handler, .. }) => {
                self.read(shard, handler, args, reply);
                false
            }
            Ok(Routed::Store { handler }) => {
                self.seed = self.seed.wrapping_add(0x9E37_79B9);
                crate::requests::run_on_store(&self.store, spec, handler, args, reply, self.seed);
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

    fn read(&mut self, shard: usize, handler: node::exec::Handler, args: &[&[u8]], reply: &mut Reply) {
        let view = self.store.views[shard].clone();
        let view = &*view;
        if !view.serving() {
            return reply.error("CLUSTERDOWN Hash slot not served");
        }
        let mark = reply.buf.len();
        let now = now_ms();
        match handler(&mut Call { args, space: &mut CachedSpace::new(view, now), reply }) {
            Err(Error::Fault(Fault::WouldBlock)) => reply.buf.truncate(mark),
            done => return crate::requests::conclude(done, reply, mark),
        }
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut space = SnapshotSpace::new(view, now, self.seed);
        let done = handler(&mut Call { args, space: &mut space, reply });
        crate::requests::conclude(done, reply, mark);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut mailboxes = self.store.embedded.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        mailboxes.try_remove(self.id);
    }
}
