//! Runs the requests of a connection: at once where memory answers, through the shard's log or the pool where not.

use crate::connection::{ALL_KEYS, Begun, Cold, Effect, Mask, mask_of_all};
use crate::inbox::Message;
use crate::access::{Access, HOLD_US};
use crate::requests::{KeyHashes, Routed, conclude, route};
use crate::store::steady_us;
use crate::whole_store::run_on_store;
use crate::worker::Worker;
use node::exec::{Call, Error, Handler};
use node::session::{self, Admission, Consistency, Durability, Transaction};
use node::{CachedSpace, EncodedCommand, Fault, ShardView, SnapshotSpace, Space, Ticket, Write, key_hash};
use resp::table::{self, CommandSpec};
use resp::{Parsed, Reply, parse_request};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vocab::{ShardId, Slot, limits};

type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// What becomes of a request.
enum Step {
    /// It is answered or under way: on to the next.
    Next,
    /// It must be looked at again, later.
    Stall,
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
            Admission::WaitFor(wait) => {
                // Nothing is known here of what followers hold.
                wait.answer(false, 0, &mut reply);
                self.store.stats.worker(self.index).finished(wait.spec.id, 0, &reply.buf);
                self.put_unless_silent(id, &reply.buf);
                Step::Next
            }
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

    fn put_unless_silent(&mut self, id: usize, reply: &[u8]) {
        if self.outbox.connections.get(id).is_some_and(|connection| !connection.session.silent()) {
            self.put(id, reply);
        }
    }

    /// Counts a command that is done, by the clock that runs from one to the next.
    fn finished(&mut self, id: usize, spec: &'static CommandSpec, args: &[&[u8]], reply: &[u8]) {
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
                self.store.pool.run(Box::new(move || {
                    let mut reply = Reply::new(ticket.proto);
                    run_on_store(&store, spec, handler, &command.args(), &mut reply, seed, arrived_us);
                    answer(&store, ticket, reply.buf);
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
    fn begin(
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
    fn begin_in_pool(&mut self, id: usize, spec: &'static CommandSpec, args: &[&[u8]], mask: Mask) -> Option<Ticket> {
        if !self.outbox.connections.get(id)?.may_owe_more() {
            self.stall(id);
            return None;
        }
        self.begin(id, spec, args, mask, Effect::Read)
    }

    /// Another seed for each read, so that no two draw the same at random.
    fn next_seed(&mut self) -> u64 {
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
        Some(Ticket { worker, connection, generation, sequence, proto, slot: Slot(0), sync, acks })
    }

    /// A request whose shard has no leader here or elsewhere waits a while, or is refused.
    fn wait_for_leader(&mut self, id: usize, consistency: Consistency, reply: &mut Reply) -> Step {
        let arrived_us = self.arrived_us;
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if connection.waits_since_us == 0 {
            connection.waits_since_us = arrived_us;
        }
        if arrived_us < connection.waits_since_us + HOLD_US {
            self.stall(id);
            return Step::Stall;
        }
        self.refuse(id, &self.store.no_leader(consistency), reply)
    }

    fn refuse(&mut self, id: usize, text: &str, reply: &mut Reply) -> Step {
        reply.error(text);
        self.put_unless_silent(id, &reply.buf);
        Step::Next
    }

    /// A read was made, or is about to be, whose leader is not confirmed: it waits for that.
    fn wait_for_lease(&mut self, id: usize, shard: usize) -> Step {
        let arrived_us = self.arrived_us;
        if let Some(connection) = self.outbox.connections.get_mut(id)
            && connection.waits_since_us == 0
        {
            connection.waits_since_us = arrived_us;
        }
        if self.store.owner_of(shard) == self.index {
            self.core.ask_lease(ShardId(shard as u32), self.now);
        } else {
            self.store.ask_lease(shard);
        }
        self.stall(id);
        Step::Stall
    }

    fn read(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        target: Target,
        handler: Handler,
        args: &[&[u8]],
        reply: &mut Reply,
    ) -> Step {
        let Target { shard, slot, mask } = target;
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if connection.must_wait(mask, Effect::Read) {
            self.stall(id);
            return Step::Stall;
        }
        let arrived_us = if connection.waits_since_us > 0 { connection.waits_since_us } else { self.arrived_us };
        let consistency = connection.session.consistency_for(spec, args);
        let known = self.store.known();
        let (view, leads) = match self.store.access(&known, shard, slot, consistency) {
            Access::Leader(view) => (view, true),
            Access::Follower(view) => (view, false),
            Access::Refused(text) => return self.refuse(id, &text, reply),
            Access::Wait => return self.wait_for_leader(id, consistency, reply),
        };
        if leads && !view.readable(arrived_us, self.now.mono_us) {
            return match self.held_too_long(id) {
                true => self.refuse(id, &self.store.no_leader(consistency), reply),
                false => self.wait_for_lease(id, shard),
            };
        }
        // Straight into the connection's output where nothing is before it.
        let direct = connection.is_quiet() && !connection.session.silent();
        let proto = reply.proto;
        if direct {
            std::mem::swap(reply, &mut connection.output);
            reply.proto = proto;
        }
        let mark = reply.buf.len();
        let mut cached = CachedSpace::new(view, self.now.wall_ms);
        let mut done = handler(&mut Call { args, space: &mut cached, reply });
        if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
            reply.buf.truncate(mark);
            if !self.store.reads_are_fast(self.now.wall_ms) {
                if direct {
                    std::mem::swap(reply, &mut connection.output);
                }
                let view = leads.then_some(arrived_us);
                return self.read_in_pool(id, spec, target, view, handler, args);
            }
            let begun = Instant::now();
            let seed = self.next_seed();
            let mut space = SnapshotSpace::new(view, self.now.wall_ms, seed);
            done = handler(&mut Call { args, space: &mut space, reply });
            drop(space);
            self.store.note_read(begun.elapsed(), self.now.wall_ms);
        }
        conclude(done, reply, mark);
        // Asked again, after the read: the process may have slept since.
        let counts = !leads || view.is_unquestioned() || view.readable(arrived_us, steady_us());
        if !counts {
            reply.buf.truncate(mark);
        } else {
            self.finished(id, spec, args, &reply.buf[mark..]);
        }
        if !direct {
            if counts {
                self.put_unless_silent(id, &reply.buf);
            }
        } else if let Some(connection) = self.outbox.connections.get_mut(id) {
            std::mem::swap(reply, &mut connection.output);
        }
        if counts { Step::Next } else { self.wait_for_lease(id, shard) }
    }

    fn held_too_long(&self, id: usize) -> bool {
        let since_us = self.outbox.connections.get(id).map_or(0, |connection| connection.waits_since_us);
        since_us > 0 && self.arrived_us >= since_us + HOLD_US
    }

    /// `confirm`: when the request came, if the answer counts only from a leader that was confirmed since.
    fn read_in_pool(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        target: Target,
        confirm: Option<u64>,
        handler: Handler,
        args: &[&[u8]],
    ) -> Step {
        let Some(ticket) = self.begin_in_pool(id, spec, args, target.mask) else { return Step::Stall };
        let (store, command) = (self.store.clone(), EncodedCommand::new(args));
        let Some(view) = self.store.known().view(target.shard).cloned() else { return Step::Next };
        let seed = self.next_seed();
        self.store.pool.run(Box::new(move || {
            let begun = Instant::now();
            let now_ms = crate::store::now_ms();
            let mut reply = Reply::new(ticket.proto);
            let mut space = SnapshotSpace::new(&view, now_ms, seed);
            let done = handler(&mut Call { args: &command.args(), space: &mut space, reply: &mut reply });
            drop(space);
            conclude(done, &mut reply, 0);
            store.note_read(begun.elapsed(), now_ms);
            if confirm.is_some_and(|arrived_us| !store.confirm_read(&view, arrived_us)) {
                reply.buf.clear();
                let moved = store.redirection(target.shard, target.slot);
                reply.error(&moved.unwrap_or_else(|| store.no_leader(Consistency::Absolute)));
            }
            answer(&store, ticket, reply.buf);
        }));
        Step::Next
    }

    /// Whether this node leads the shard of a write: if not, the client has been answered, or waits.
    fn leads(&mut self, id: usize, shard: usize, slot: Slot) -> Result<Arc<ShardView>, Step> {
        let known = self.store.known();
        let mut reply = Reply::default();
        if let Some(connection) = self.outbox.connections.get(id) {
            reply.proto = connection.session.proto();
        }
        match self.store.access(&known, shard, slot, Consistency::Absolute) {
            Access::Leader(view) | Access::Follower(view) => Ok(view.clone()),
            Access::Refused(text) => Err(self.refuse(id, &text, &mut reply)),
            Access::Wait => Err(self.wait_for_leader(id, Consistency::Absolute, &mut reply)),
        }
    }

    fn write(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        target: Target,
        keys: &KeyHashes,
        args: &[&[u8]],
    ) -> Step {
        if self.store.is_full() {
            self.stall(id);
            return Step::Stall;
        }
        let Target { shard, slot, mask } = target;
        let view = match self.leads(id, shard, slot) {
            Ok(view) => view,
            Err(step) => return step,
        };
        let ready = self.store.reads_are_fast(self.now.wall_ms)
            || spec.keys(args).is_ok_and(|mut positions| positions.all(|at| view.is_cached(args[at])));
        let command = EncodedCommand::new(args);
        let Some(ticket) = self.begin(id, spec, args, mask, Effect::Write) else { return Step::Stall };
        let ticket = Ticket { slot, ..ticket };
        self.store.write_queued(command.bytes());
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if ready && connection.cold.is_empty() {
            self.hand_over(shard, Write::Command(command), keys.clone(), ticket);
            return Step::Next;
        }
        // What the command will find is brought into the cache first, so that applying it need not wait for the disk;
        // the connection's later writes queue up behind it.
        if !ready {
            let (store, command, inbox) = (self.store.clone(), command.clone(), self.inbox.clone());
            self.store.pool.run(Box::new(move || {
                warm(&store, spec, &view, &command);
                inbox.send(Message::Warm(ticket));
            }));
        }
        connection.cold.push_back(Cold { ready, shard, write: Write::Command(command), keys: keys.clone(), ticket });
        Step::Next
    }

    /// FLUSHALL: every shard removes its keys, wherever it is led.
    fn clear(&mut self, id: usize, spec: &'static CommandSpec, args: &[&[u8]]) -> Step {
        let Some(ticket) = self.begin(id, spec, args, ALL_KEYS, Effect::Unsettled) else { return Step::Stall };
        let known = self.store.known();
        let shards = known.shards();
        let part = self.outbox.gather(ticket, shards.len());
        for (shard, (first, _)) in shards {
            let at = shard.0 as usize;
            if known.view(at).is_some_and(|view| view.leading()) {
                self.store.write_queued(Write::Clear.bytes());
                self.hand_over(at, Write::Clear, KeyHashes::new(), Ticket { slot: Slot(first), ..part });
                continue;
            }
            let store = self.store.clone();
            self.store.pool.run(Box::new(move || {
                let reply = store.call_leader(shard, &[b"FLUSHALL"]).unwrap_or_else(|text| {
                    let mut reply = Reply::new(part.proto);
                    reply.error(&text);
                    reply.buf
                });
                answer(&store, part, reply);
            }));
        }
        Step::Next
    }

    /// What a cold write needs is in memory: it goes on, with the writes behind it that waited for it alone.
    pub(crate) fn warmed(&mut self, ticket: &Ticket) {
        let id = ticket.connection as usize;
        loop {
            let Some(connection) = self.outbox.connections.get_mut(id) else { return };
            if connection.generation != ticket.generation {
                return;
            }
            if let Some(cold) = connection.cold.iter_mut().find(|cold| cold.ticket.sequence == ticket.sequence) {
                cold.ready = true;
            }
            let Some(cold) = connection.cold.pop_front_if(|cold| cold.ready) else { return };
            self.hand_over(cold.shard, cold.write, cold.keys, cold.ticket);
        }
    }

    fn hand_over(&mut self, shard: usize, write: Write, keys: KeyHashes, ticket: Ticket) {
        let owner = self.store.owner_of(shard);
        if owner == self.index {
            self.submit(shard, &write, &keys, ticket);
        } else if let Some(inbox) = self.store.inbox(owner) {
            inbox.send(Message::Write { shard: shard as u32, write, keys: keys.to_vec(), ticket });
        }
    }

    fn transaction(&mut self, id: usize, transaction: Transaction) -> Step {
        let slot = transaction.slot().unwrap_or(Slot(0));
        let shard = self.store.known().shard_of(slot).unwrap_or_default();
        let commands: Vec<EncodedCommand> = transaction.data().cloned().collect();
        let hashes = |command: &EncodedCommand| {
            let args = command.args();
            let spec = table::resolve(&args).ok();
            let positions = spec.and_then(|spec| spec.keys(&args).ok()).into_iter().flatten();
            positions.map(|at| key_hash(args[at])).collect::<Vec<_>>()
        };
        let keys: KeyHashes = commands.iter().flat_map(hashes).collect();
        let write = Write::Transaction { watches: transaction.watches().to_vec(), commands };
        let Some(spec) = table::lookup(b"exec") else { return Step::Next };
        let Some(ticket) = self.begin(id, spec, &[b"exec"], ALL_KEYS, Effect::Unsettled) else { return Step::Stall };
        let ticket = Ticket { slot, ..ticket };
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            connection.transaction = Some((ticket.sequence, transaction));
        }
        self.store.write_queued(write.bytes());
        self.hand_over(shard, write, keys, ticket);
        Step::Next
    }

    /// Looks up what the watched keys' versions are. Nothing of the connection is under way.
    fn watch(&mut self, id: usize, keys: &[Vec<u8>], reply: &mut Reply) -> Step {
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        let slot = keys.first().map_or(Slot(0), |key| vocab::slot_of(key));
        let arrived_us = if connection.waits_since_us > 0 { connection.waits_since_us } else { self.arrived_us };
        let shard = self.store.known().shard_of(slot).unwrap_or_default();
        let view = match self.leads(id, shard, slot) {
            Ok(view) => view,
            Err(step) => return step,
        };
        let mut versions = Vec::with_capacity(keys.len());
        for key in keys {
            match SnapshotSpace::new(&view, self.now.wall_ms, 0).get(key) {
                Ok(record) => versions.push(record.map_or(0, |record| record.view().version)),
                Err(fault) => {
                    conclude(Err(Error::Fault(fault)), reply, 0);
                    break;
                }
            }
        }
        if !view.readable(arrived_us, steady_us()) {
            return match self.held_too_long(id) {
                true => self.refuse(id, &self.store.no_leader(Consistency::Absolute), reply),
                false => self.wait_for_lease(id, shard),
            };
        }
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            for (key, version) in keys.iter().zip(versions) {
                connection.session.watching(key, version);
            }
        }
        if reply.buf.is_empty() {
            reply.ok();
        }
        self.put_unless_silent(id, &reply.buf);
        Step::Next
    }
}

/// What a request is about.
#[derive(Clone, Copy)]
struct Target {
    shard: usize,
    slot: Slot,
    mask: Mask,
}

/// Reads what a write will find, so that it is in memory when the write is applied.
fn warm(store: &crate::store::Store, spec: &CommandSpec, view: &ShardView, command: &EncodedCommand) {
    let begun = Instant::now();
    let now_ms = crate::store::now_ms();
    let args = command.args();
    for at in spec.keys(&args).into_iter().flatten() {
        // A failure shows when the command is applied.
        let _ = SnapshotSpace::new(view, now_ms, 0).get(args[at]);
    }
    store.note_read(begun.elapsed(), now_ms);
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

/// Sends an answer to the worker whose connection waits for it.
pub(crate) fn answer(store: &crate::store::Store, ticket: Ticket, reply: Vec<u8>) {
    if let Some(inbox) = store.inbox(ticket.worker as usize) {
        inbox.send(Message::Answer { ticket, reply });
    }
}
