//! Runs the requests of a connection: at once where memory answers, through the shard's log or the pool where not.

use super::connection::{ALL_KEYS, Begun, Effect, Mask, mask_of_all};
use crate::api::{Routed, route};
use crate::os::steady_us;
use crate::whole_store::{Asked, run_on_store};
use crate::worker::Worker;
use node::session::{self, Admission, Consistency, Durability};
use node::{EncodedCommand, Ticket};
use resp::table::{self, CommandSpec};
use resp::{Parsed, Reply, parse_request};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vocab::{Slot, limits};

type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// What becomes of a request.
pub(crate) enum Step {
    /// It is answered or under way: on to the next.
    Next,
    /// It must be looked at again, later.
    Stall,
}

/// What a request is about.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) shard: usize,
    pub(crate) slot: Slot,
    pub(crate) mask: Mask,
}

impl Worker {
    /// Runs the requests at the beginning of `input`, up to one that must wait; answers how many bytes they took.
    pub(crate) fn run_requests(&mut self, id: usize, input: &[u8]) -> usize {
        let mut used = 0;
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(8);
        self.outbox.touch(id);
        self.clock = Instant::now();
        // After the bytes were read: so no request that a lease is held against came later.
        self.arrived_us = steady_us();
        let Some(connection) = self.outbox.connections.get_mut(id) else { return 0 };
        connection.session.active(self.now.wall_ms);
        let mut limits = self.store.config.request_limits(connection.session.authenticated(&*self.store));
        loop {
            let Some(connection) = self.outbox.connections.get_mut(id) else { return used };
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
                    self.put(id, &reply.buf);
                    if let Some(connection) = self.outbox.connections.get_mut(id) {
                        connection.session.close();
                        connection.deaf = true;
                    }
                    return input.len();
                }
            };
            match self.request(id, &args) {
                Step::Next => used += consumed,
                Step::Stall => return used,
            }
            if !limits.authenticated
                && let Some(connection) = self.outbox.connections.get(id)
            {
                limits = self.store.config.request_limits(connection.session.authenticated(&*self.store));
            }
        }
    }

    fn request(&mut self, id: usize, args: &[&[u8]]) -> Step {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if connection.is_full() || connection.held_until_ms > self.now.wall_ms {
            self.stall(id);
            return Step::Stall;
        }
        // EXEC and WATCH change the session when they are admitted: only when nothing before them is under way.
        if is_barrier(args) && (!connection.is_quiet() || self.store.is_full()) {
            self.stall(id);
            return Step::Stall;
        }
        let mut reply = std::mem::take(&mut self.scratch);
        reply.buf.clear();
        reply.proto = connection.session.proto();
        let admission = connection.session.admit(args, &*self.store, &mut reply);
        self.served_others |= !matches!(admission, Admission::Execute(spec) if spec.is_write());
        let step = match admission {
            Admission::Execute(spec) => self.execute(id, spec, args, &mut reply),
            Admission::Answered(effect) => {
                self.put_after(id, effect, &reply);
                Step::Next
            }
            Admission::ExecuteAt { spec, slot, handler } => {
                let shard = self.store.known().shard_of(slot).unwrap_or_default();
                self.read(id, spec, Target { shard, slot, mask: ALL_KEYS }, handler, args, &mut reply)
            }
            Admission::Watch(keys) => self.watch(id, &keys, &mut reply),
            Admission::Transaction(transaction) => self.transaction(id, transaction),
            Admission::WaitFor(wait) => self.wait_for(id, wait),
            Admission::Hold { until_ms } => {
                connection.held_until_ms = until_ms;
                self.stall(id);
                self.scratch = reply;
                return Step::Stall;
            }
        };
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            match step {
                Step::Stall => connection.session.put_back(),
                Step::Next => connection.waits_since_us = 0,
            }
        }
        // A large answer leaves no large buffer behind.
        if reply.buf.capacity() > limits::OUTPUT_BUFFER_BYTES_SOFT {
            reply.buf = Vec::new();
        }
        self.scratch = reply;
        step
    }

    /// Puts a reply in its place: behind the requests under way.
    fn put(&mut self, id: usize, reply: &[u8]) {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return };
        if reply.is_empty() {
            return;
        }
        if connection.is_quiet() {
            connection.output.buf.extend_from_slice(reply);
        } else {
            connection.queue(reply.to_vec());
        }
    }

    /// Puts the reply of a command of the session in its place, and does what the session asks.
    fn put_after(&mut self, id: usize, effect: session::Effect, reply: &Reply) {
        match effect {
            session::Effect::None => self.put(id, &reply.buf),
            session::Effect::ReplyAfter { us } => {
                let Some(spec) = table::lookup(b"debug") else { return };
                // Later requests of the connection wait too, as behind any request on every key.
                if let Some(ticket) = self.note(id, spec, &[], ALL_KEYS, Effect::Unsettled) {
                    let at = Instant::now() + Duration::from_micros(us);
                    self.delayed.push((at, ticket, reply.buf.clone()));
                }
                if let Some(connection) = self.outbox.connections.get_mut(id) {
                    connection.held_until_ms = self.now.wall_ms + us / 1000;
                }
            }
            session::Effect::Shutdown { .. } => {
                self.store.stop_asked.store(true, Ordering::Release);
                if let Some(connection) = self.outbox.connections.get_mut(id) {
                    connection.session.close();
                }
            }
        }
    }

    /// Sends the replies whose time has come; answers when the next one's will.
    pub(crate) fn send_delayed(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.delayed).into_iter().partition(|(at, _, _)| *at <= now);
        self.delayed = later;
        let due: Vec<(Instant, Ticket, Vec<u8>)> = due;
        for (_, ticket, reply) in due {
            self.outbox.deliver(&ticket, &reply);
        }
        self.delayed.iter().map(|(at, _, _)| *at).min()
    }

    pub(crate) fn put_unless_silent(&mut self, id: usize, reply: &[u8]) {
        if self.outbox.connections.get(id).is_some_and(|connection| !connection.session.silent()) {
            self.put(id, reply);
        }
    }

    /// Counts a command that is done, by the clock that runs from one to the next.
    pub(crate) fn finished(&mut self, id: usize, spec: &'static CommandSpec, args: &[&[u8]], reply: &[u8]) {
        let now = Instant::now();
        let ns = now.duration_since(self.clock).as_nanos() as u64;
        self.clock = now;
        self.store.stats.worker(self.index).finished(spec.id, ns, reply);
        if let Some(connection) = self.outbox.connections.get(id) {
            connection.session.slow(spec, args, ns, &*self.store);
        }
    }

    fn execute(&mut self, id: usize, spec: &'static CommandSpec, args: &[&[u8]], reply: &mut Reply) -> Step {
        match route(&self.store, spec, args) {
            Ok(Routed::Shard { shard, slot, keys, handler }) => {
                let target = Target { shard, slot, mask: mask_of_all(&keys) };
                if spec.is_write() {
                    self.write(id, spec, target, &keys, args)
                } else {
                    self.read(id, spec, target, handler, args, reply)
                }
            }
            Ok(Routed::Store { handler }) => {
                let Some(ticket) = self.begin_in_pool(id, spec, args, ALL_KEYS) else { return Step::Stall };
                let (store, command) = (self.store.clone(), EncodedCommand::new(args));
                let (seed, arrived_us) = (self.next_seed(), self.arrived_us);
                let consistency = self
                    .outbox
                    .connections
                    .get(id)
                    .map_or(Consistency::Absolute, |connection| connection.session.consistency_for(spec, args));
                self.store.pool.run(Box::new(move || {
                    let mut reply = Reply::new(ticket.proto);
                    let asked = Asked { args: &command.args(), seed, arrived_us, consistency };
                    run_on_store(&store, spec, handler, &asked, &mut reply);
                    store.answer(ticket, reply.buf);
                }));
                Step::Next
            }
            Ok(Routed::Pool { handler }) => {
                let Some(ticket) = self.begin_in_pool(id, spec, args, ALL_KEYS) else { return Step::Stall };
                let (store, command) = (self.store.clone(), EncodedCommand::new(args));
                self.store.pool.run(Box::new(move || {
                    let mut reply = Reply::new(ticket.proto);
                    handler(&store, &command.args(), &mut reply);
                    store.answer(ticket, reply.buf);
                }));
                Step::Next
            }
            Ok(Routed::Clear) => self.clear(id, spec, args),
            Err(text) => {
                if let Some(connection) = self.outbox.connections.get_mut(id) {
                    connection.session.reject(Some(spec.id), &text, &*self.store, reply);
                }
                self.put_unless_silent(id, &reply.buf);
                Step::Next
            }
        }
    }

    /// Notes a request as under way, if nothing under way forbids it; the ticket for its answer.
    pub(crate) fn begin(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        mask: Mask,
        effect: Effect,
    ) -> Option<Ticket> {
        if self.outbox.connections.get(id)?.must_wait(mask, effect) {
            self.stall(id);
            return None;
        }
        self.note(id, spec, args, mask, effect)
    }

    /// As `begin`, for a read whose answer comes from the pool: not if the client is owed as much as it may be.
    pub(crate) fn begin_in_pool(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        mask: Mask,
    ) -> Option<Ticket> {
        let connection = self.outbox.connections.get(id)?;
        if !connection.may_owe_more() || connection.reads_slowly(spec, args) {
            self.stall(id);
            return None;
        }
        let ticket = self.begin(id, spec, args, mask, Effect::Read)?;
        self.outbox.connections.get_mut(id)?.begin_slow_read(ticket.sequence, spec, args);
        Some(ticket)
    }

    /// Another seed for each read, so that no two draw the same at random.
    pub(crate) fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.seed
    }

    /// Notes a request as under way, whatever else is; the ticket for its answer.
    fn note(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        args: &[&[u8]],
        mask: Mask,
        effect: Effect,
    ) -> Option<Ticket> {
        let worker = self.index as u32;
        let connection = self.outbox.connections.get_mut(id)?;
        let sequence = connection.begin(mask, effect, Begun::new(spec, self.clock, args));
        let (generation, proto) = (connection.generation, connection.session.proto());
        let Durability { sync, acks } = connection.session.durability_for(spec, args);
        let connection = id as u32;
        Some(Ticket { worker, connection, generation, sequence, proto, slot: Slot(0), sync, acks, reply_bytes: 0 })
    }
}

/// Whether a request changes the session in a way that must not overtake, or be overtaken by, what is under way.
fn is_barrier(args: &[&[u8]]) -> bool {
    let is = |name: &[u8]| args[0].eq_ignore_ascii_case(name);
    match args[0].len() {
        4 => is(b"EXEC") || is(b"WAIT"),
        5 => is(b"WATCH"),
        7 => is(b"FLUSHDB") || is(b"WAITAOF"),
        8 => is(b"FLUSHALL"),
        _ => false,
    }
}
