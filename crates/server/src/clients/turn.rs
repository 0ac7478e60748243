//! One request while it runs: the connection it came by, its place among that connection's requests, its ticket.
//!
//! What a request needs beyond the connections (a write for a shard, a read of the disk, a confirmed lease, followers) is
//! collected in `Wanted`; the worker takes it from there.

use super::registry::Clients;
use super::reply_queue::{Begun, Effect, Mask};
use crate::disk_reads::Cold;
use crate::mailbox::{Mailbox, Submission, WaitingClient};
use crate::shared::NodeShared;
use node::session::{self, Durability};
use node::{LoadSampler, Ticket};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use std::time::Instant;
use vocab::{Moment, ShardId, Slot};

/// What becomes of a request.
pub(super) enum Step {
    /// It is answered or under way: on to the next.
    Next,
    /// It waits, and is looked at again later.
    Stall,
}

/// What a request is about.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// `None` while the node belongs to no store.
    pub(super) shard: Option<ShardId>,
    pub(super) slot: Slot,
    pub(super) mask: Mask,
}

/// A request of a connection.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// The connection.
    pub(super) id: usize,
    pub(super) spec: &'static CommandSpec,
    pub(super) args: &'a [&'a [u8]],
}

/// What requests want of the worker.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Writes for their shards.
    pub(crate) writes: Vec<Submission>,
    /// Reads that wait for the disk.
    pub(crate) reads: Vec<Cold>,
    /// Shards whose leader's lease is to be confirmed.
    pub(crate) leases: Vec<ShardId>,
    /// Clients that wait for followers.
    pub(crate) waits: Vec<WaitingClient>,
}

/// What all requests of a worker share while they run.
pub(super) struct Requests {
    pub(super) worker: usize,
    pub(super) store: Arc<NodeShared>,
    /// The mailbox of the worker.
    pub(super) mailbox: Arc<Mailbox>,
    /// When the last command was done.
    pub(super) clock: Instant,
    seed: u64,
    /// Which slots are read.
    pub(super) sampler: LoadSampler,
    /// When the requests that run now arrived, in µs of the steady clock.
    pub(super) arrived_us: u64,
    pub(super) wanted: Wanted,
}

/// Requests that run, with the connections that they came by.
pub(super) struct Turn<'a> {
    pub(super) requests: &'a mut Requests,
    pub(super) clients: &'a mut Clients,
    pub(super) now: Moment,
}

impl Requests {
    pub(super) fn new(worker: usize, store: Arc<NodeShared>, mailbox: Arc<Mailbox>) -> Self {
        Self {
            worker,
            store,
            mailbox,
            clock: Instant::now(),
            seed: worker as u64,
            sampler: LoadSampler::new(worker as u64),
            arrived_us: 0,
            wanted: Wanted::default(),
        }
    }

    /// Another seed for each read, so that no two draw the same at random.
    pub(super) fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.seed
    }
}

impl Turn<'_> {
    pub(super) fn stall(&mut self, id: usize) -> Step {
        self.clients.stall(id);
        Step::Stall
    }

    /// Counts a command that is done, by the clock that runs from one to the next.
    pub(super) fn finished(&mut self, request: Request<'_>, reply: &[u8]) {
        let now = Instant::now();
        let ns = now.duration_since(self.requests.clock).as_nanos() as u64;
        self.requests.clock = now;
        let store = &self.requests.store;
        store.stats.worker(self.requests.worker).finished(request.spec.id, ns, reply);
        if let Some(connection) = self.clients.get(request.id) {
            session::note_if_slow(connection.session.entry(), request.spec, request.args, ns, &**store);
        }
    }

    /// Answers a request with an error.
    pub(super) fn refuse(&mut self, id: usize, text: &str, reply: &mut Reply) -> Step {
        reply.error(text);
        self.clients.put_unless_silent(id, &reply.buf);
        Step::Next
    }

    /// Registers a request as under way, if nothing under way forbids it; the ticket for its answer.
    pub(super) fn begin(&mut self, request: Request<'_>, mask: Mask, effect: Effect) -> Option<Ticket> {
        if self.clients.get(request.id)?.must_wait(mask, effect) {
            self.clients.stall(request.id);
            return None;
        }
        self.register(request, mask, effect)
    }

    /// Registers a read whose answer comes later. It stalls if the connection's budget of unsent replies is used up.
    pub(super) fn begin_slow_read(&mut self, request: Request<'_>, mask: Mask) -> Option<Ticket> {
        let Request { id, spec, args } = request;
        let connection = self.clients.get(id)?;
        if !connection.may_owe_more() || connection.reads_slowly(spec, args) {
            self.clients.stall(id);
            return None;
        }
        let ticket = self.begin(request, mask, Effect::Read)?;
        self.clients.get_mut(id)?.begin_slow_read(ticket.sequence, spec, args);
        Some(ticket)
    }

    /// Registers a request as under way, whatever else is; the ticket for its answer.
    pub(super) fn register(&mut self, request: Request<'_>, mask: Mask, effect: Effect) -> Option<Ticket> {
        let Request { id, spec, args } = request;
        let worker = self.requests.worker as u32;
        let connection = self.clients.get_mut(id)?;
        let sequence = connection.begin(mask, effect, Begun::new(spec, self.requests.clock, args));
        let (generation, proto) = (connection.generation, connection.session.proto());
        let Durability { sync, acks } = connection.session.durability_for(spec, args);
        Some(Ticket {
            worker,
            connection: id as u32,
            generation,
            sequence,
            proto,
            slot: Slot(0),
            sync,
            acks,
            reply_bytes: 0,
        })
    }
}
