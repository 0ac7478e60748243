//! Runs the requests of connections: at once where memory answers, through the shard's log or the disk where not.
//!
//! What a request needs beyond the connections (a write for a shard, a read of the disk, a confirmed lease, followers) is
//! collected in `Wanted`; the worker takes it from there.

use super::connection::Connection;
use super::read;
use super::registry::Clients;
use super::reply_queue::{ALL_KEYS, Begun, Effect, Mask, mask_of_all};
use super::wait;
use super::write;
use crate::api::{Asked, run_on_store};
use crate::api::{KeyTarget, Routed, route};
use crate::disk_reads::Cold;
use crate::mailbox::{Mailbox, Submission, WaitingClient};
use crate::net::Received;
use crate::os::steady_us;
use crate::shared::NodeShared;
use node::session::{self, Admission, Consistency, Durability};
use node::{EncodedCommand, LoadSampler, Ticket};
use resp::table::{self, CommandSpec, behaviour};
use resp::{Parsed, Reply, parse_request};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vocab::{Moment, ShardId, Slot, limits};

type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// What becomes of a request.
pub(super) enum Step {
    /// It is answered or under way: on to the next.
    Next,
    /// It must be looked at again, later.
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

/// A reply that is sent later (DEBUG SLEEP).
struct DelayedReply {
    at: Instant,
    ticket: Ticket,
    reply: Vec<u8>,
}

/// A worker's running of requests.
pub(crate) struct Requests {
    pub(super) worker: usize,
    pub(super) store: Arc<NodeShared>,
    /// Of the worker.
    pub(super) mailbox: Arc<Mailbox>,
    /// For what is read from sockets.
    buffer: Vec<u8>,
    /// For replies.
    scratch: Reply,
    /// When the last command was done.
    clock: Instant,
    seed: u64,
    /// Which slots are read.
    pub(super) sampler: LoadSampler,
    delayed: Vec<DelayedReply>,
    /// When the requests that are being run arrived, in µs of the steady clock.
    pub(super) arrived_us: u64,
    /// Clients wanted other things than writes in this turn.
    served_others: bool,
    pub(super) wanted: Wanted,
}

/// Requests being run, with the connections that they came by.
pub(super) struct Turn<'a> {
    pub(super) requests: &'a mut Requests,
    pub(super) clients: &'a mut Clients,
    pub(super) now: Moment,
}

impl Requests {
    pub(crate) fn new(worker: usize, store: Arc<NodeShared>, mailbox: Arc<Mailbox>) -> Self {
        Self {
            worker,
            store,
            mailbox,
            buffer: vec![0; limits::READ_BUFFER_BYTES],
            scratch: Reply::default(),
            clock: Instant::now(),
            seed: worker as u64,
            sampler: LoadSampler::new(worker as u64),
            delayed: Vec::new(),
            arrived_us: 0,
            served_others: false,
            wanted: Wanted::default(),
        }
    }

    /// Reads what a client has sent and runs the requests in it.
    pub(crate) fn receive(&mut self, clients: &mut Clients, id: usize, now: Moment) {
        let mut buffer = std::mem::take(&mut self.buffer);
        Turn { requests: self, clients, now }.receive(id, &mut buffer);
        self.buffer = buffer;
    }

    /// Begins those requests to all shards again whose shards were divided: a part may have been left out.
    pub(crate) fn clear_again(&mut self, clients: &mut Clients, now: Moment) {
        for ticket in clients.take_divided() {
            write::clear_shards(&mut Turn { requests: self, clients, now }, ticket);
        }
    }

    /// The rows that a cold write will find are in memory: it is submitted, with the writes behind it.
    pub(crate) fn warmed(&mut self, clients: &mut Clients, ticket: &Ticket) {
        write::warmed(&self.store, &mut self.wanted, clients, ticket);
    }

    /// What requests have wanted since the last call.
    pub(crate) fn wanted(&mut self) -> &mut Wanted {
        &mut self.wanted
    }

    /// Whether clients wanted other things than writes since the last call.
    pub(crate) fn take_served_others(&mut self) -> bool {
        std::mem::take(&mut self.served_others)
    }

    /// Sends the replies whose time has come; answers when the next one's will.
    pub(crate) fn send_delayed(&mut self, clients: &mut Clients) -> Option<Instant> {
        if self.delayed.is_empty() {
            return None;
        }
        let now = Instant::now();
        for DelayedReply { ticket, reply, .. } in self.delayed.extract_if(.., |delayed| delayed.at <= now) {
            clients.deliver(&ticket, &reply);
        }
        self.delayed.iter().map(|delayed| delayed.at).min()
    }

    /// Another seed for each read, so that no two draw the same at random.
    pub(super) fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.seed
    }
}

impl Turn<'_> {
    fn receive(&mut self, id: usize, buffer: &mut [u8]) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        connection.stalled = false;
        if connection.held_until_ms > self.now.wall_ms || connection.is_full() {
            return self.clients.stall(id);
        }
        if !connection.input.is_empty() {
            // What stalled before goes first.
            let input = std::mem::take(&mut connection.input);
            let used = self.run_requests(id, &input);
            self.keep(id, input, used);
        }
        let Some(connection) = self.clients.get_mut(id) else { return };
        if !connection.readable || connection.stalled || connection.deaf {
            return;
        }
        match connection.receive(buffer) {
            Received::Closed => {
                connection.readable = false;
                connection.deaf = true;
                self.clients.touch(id);
            }
            Received::Drained(n) => {
                // A short read means that there is no more, unless the end itself is still to be read.
                connection.readable = connection.hung_up;
                if connection.readable {
                    self.clients.set_ready(id);
                }
                self.take_in(id, &buffer[..n]);
            }
            Received::More(n) => {
                self.clients.set_ready(id);
                self.take_in(id, &buffer[..n]);
            }
        }
    }

    fn take_in(&mut self, id: usize, bytes: &[u8]) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        if bytes.is_empty() {
            return;
        }
        self.requests.store.stats.worker(self.requests.worker).received(bytes.len());
        if connection.input.is_empty() {
            let used = self.run_requests(id, bytes);
            if let Some(connection) = self.clients.get_mut(id)
                && used < bytes.len()
                && !connection.deaf
            {
                connection.input.extend_from_slice(&bytes[used..]);
            }
        } else {
            connection.input.extend_from_slice(bytes);
            if connection.input.len() < connection.parse.wanted() {
                return;
            }
            let input = std::mem::take(&mut connection.input);
            let used = self.run_requests(id, &input);
            self.keep(id, input, used);
        }
    }

    /// Gives a connection back the bytes that were not used.
    fn keep(&mut self, id: usize, mut input: Vec<u8>, used: usize) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        if connection.deaf || used == input.len() {
            return;
        }
        input.drain(..used);
        connection.input = input;
    }

    /// Runs the requests at the beginning of `input`, up to one that must wait; answers how many bytes they took.
    fn run_requests(&mut self, id: usize, input: &[u8]) -> usize {
        let mut used = 0;
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(8);
        self.clients.touch(id);
        self.requests.clock = Instant::now();
        // After the bytes were read: no request that is held against a lease came later.
        self.requests.arrived_us = steady_us();
        let Some(connection) = self.clients.get_mut(id) else { return 0 };
        connection.session.active(self.now.wall_ms);
        let store = &self.requests.store;
        let mut limits = store.config.request_limits(connection.session.authenticated(&**store));
        loop {
            let Some(connection) = self.clients.get_mut(id) else { return used };
            if connection.session.closing() || connection.deaf {
                connection.deaf = true;
                return input.len();
            }
            let rest = &input[used..];
            let parsed = parse_request(rest, &limits, &mut ranges, &mut connection.parse);
            let (args, consumed): (Args<'_>, usize) = match parsed {
                Ok(Parsed::Incomplete) => return used,
                Ok(Parsed::Empty { consumed }) => {
                    used += consumed;
                    continue;
                }
                Ok(Parsed::Request { consumed }) => (ranges.iter().map(|r| &rest[r.clone()]).collect(), consumed),
                Ok(Parsed::Quoted { consumed }) => {
                    // Typed by hand: copied, so that the parser may go on.
                    let typed = connection.parse.quoted().to_vec();
                    let args: Args<'_> = ranges.iter().map(|r| &typed[r.clone()]).collect();
                    match self.request(id, &args) {
                        Step::Next => used += consumed,
                        Step::Stall => return used,
                    }
                    continue;
                }
                Err(e) => {
                    let mut reply = Reply::new(connection.session.proto());
                    reply.error(&e.reply_text());
                    connection.put(&reply.buf);
                    connection.session.close();
                    connection.deaf = true;
                    return input.len();
                }
            };
            match self.request(id, &args) {
                Step::Next => used += consumed,
                Step::Stall => return used,
            }
            if !limits.authenticated
                && let Some(connection) = self.clients.get(id)
            {
                let store = &self.requests.store;
                limits = store.config.request_limits(connection.session.authenticated(&**store));
            }
        }
    }

    fn request(&mut self, id: usize, args: &[&[u8]]) -> Step {
        let Some(connection) = self.clients.get_mut(id) else { return Step::Next };
        if connection.is_full() || connection.held_until_ms > self.now.wall_ms {
            return self.stall(id);
        }
        let store = &self.requests.store;
        // EXEC and WATCH change the session when they are admitted: only when nothing before them is under way.
        let row = table::resolve(args);
        let is_barrier = row.as_ref().is_ok_and(|spec| spec.does(behaviour::BARRIER));
        if is_barrier && (!connection.is_quiet() || store.is_full()) {
            return self.stall(id);
        }
        let mut reply = std::mem::take(&mut self.requests.scratch);
        reply.buf.clear();
        reply.proto = connection.session.proto();
        let admission = session::admit(&mut connection.session, row, args, &**store, &mut reply);
        self.requests.served_others |= !matches!(admission, Admission::Execute(spec) if spec.is_write());
        let step = match admission {
            Admission::Execute(spec) => self.execute(Request { id, spec, args }, &mut reply),
            Admission::Answered(effect) => {
                self.put_after(id, effect, &reply);
                Step::Next
            }
            Admission::ExecuteAt { spec, slot, handler } => {
                let shard = store.known().shard_of(slot);
                let target = Target { shard, slot, mask: ALL_KEYS };
                read::read(self, Request { id, spec, args }, target, handler, &mut reply)
            }
            Admission::Watch(keys) => read::watch(self, id, &keys, &mut reply),
            Admission::Transaction(transaction) => write::transaction(self, id, transaction),
            Admission::WaitFor(wait) => wait::wait_for(self, id, wait),
            Admission::Hold { until_ms } => {
                connection.held_until_ms = until_ms;
                self.requests.scratch = reply;
                return self.stall(id);
            }
        };
        if let Some(connection) = self.clients.get_mut(id) {
            match step {
                Step::Stall => connection.session.put_back(),
                Step::Next => connection.waits_since_us = 0,
            }
        }
        // A large answer leaves no large buffer behind.
        if reply.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            reply.buf = Vec::new();
        }
        self.requests.scratch = reply;
        step
    }

    pub(super) fn stall(&mut self, id: usize) -> Step {
        self.clients.stall(id);
        Step::Stall
    }

    /// Puts the reply of a command of the session in its place, and does what the session asks.
    fn put_after(&mut self, id: usize, effect: session::Effect, reply: &Reply) {
        match effect {
            session::Effect::None => self.clients.put(id, &reply.buf),
            session::Effect::ReplyAfter { us, command } => {
                let spec = table::row(command);
                // Later requests of the connection wait too, as behind any request on every key.
                if let Some(ticket) = self.register(Request { id, spec, args: &[] }, ALL_KEYS, Effect::Unsettled) {
                    let at = Instant::now() + Duration::from_micros(us);
                    self.requests.delayed.push(DelayedReply { at, ticket, reply: reply.buf.clone() });
                }
                if let Some(connection) = self.clients.get_mut(id) {
                    connection.held_until_ms = self.now.wall_ms + us / 1000;
                }
            }
            session::Effect::Shutdown { .. } => {
                self.requests.store.stop_asked.store(true, Ordering::Release);
                if let Some(connection) = self.clients.get_mut(id) {
                    connection.session.close();
                }
            }
        }
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

    fn execute(&mut self, request: Request<'_>, reply: &mut Reply) -> Step {
        let Request { id, spec, args } = request;
        match route(&self.requests.store, spec, args) {
            Ok(Routed::Read(KeyTarget { shard, slot, keys }, handler)) => {
                let target = Target { shard, slot, mask: mask_of_all(&keys) };
                read::read(self, request, target, handler, reply)
            }
            Ok(Routed::Write(KeyTarget { shard, slot, keys })) => {
                let target = Target { shard, slot, mask: mask_of_all(&keys) };
                write::write(self, request, target, keys)
            }
            Ok(Routed::Store { handler }) => {
                let Some(ticket) = self.begin_slow_read(request, ALL_KEYS) else { return Step::Stall };
                let (store, command) = (self.requests.store.clone(), EncodedCommand::of(spec, args));
                let (seed, arrived_us) = (self.requests.next_seed(), self.requests.arrived_us);
                let consistency = |connection: &Connection| connection.session.consistency_for(spec, args);
                let consistency = self.clients.get(id).map_or(Consistency::Absolute, consistency);
                self.requests.store.pool.run(Box::new(move || {
                    let mut reply = Reply::new(ticket.proto);
                    let asked = Asked { args: &command.args(), seed, arrived_us, consistency };
                    run_on_store(&store, handler, &asked, &mut reply);
                    store.answer(ticket, reply.buf);
                }));
                Step::Next
            }
            Ok(Routed::Pool { handler }) => {
                let Some(ticket) = self.begin_slow_read(request, ALL_KEYS) else { return Step::Stall };
                let (store, command) = (self.requests.store.clone(), EncodedCommand::of(spec, args));
                self.requests.store.pool.run(Box::new(move || {
                    let mut reply = Reply::new(ticket.proto);
                    handler(&store, &command.args(), &mut reply);
                    store.answer(ticket, reply.buf);
                }));
                Step::Next
            }
            Ok(Routed::Clear) => write::clear(self, request),
            Err(text) => {
                if let Some(connection) = self.clients.get_mut(id) {
                    connection.session.reject(Some(spec.id), &text, &*self.requests.store, reply);
                }
                self.clients.put_unless_silent(id, &reply.buf);
                Step::Next
            }
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

    /// The same for a read whose answer comes later: stalls if the connection's budget of unsent replies is used up.
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
    fn register(&mut self, request: Request<'_>, mask: Mask, effect: Effect) -> Option<Ticket> {
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
