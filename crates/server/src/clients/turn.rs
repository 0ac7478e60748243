//! What requests share while they run: the connections, the time, and where a request waits that this node cannot serve now.
//!
//! What a request needs beyond the connections (a write for a shard, a read of the disk, a confirmed lease, followers) is
//! collected in `Wanted`; the worker takes it from there.

use super::registry::Clients;
use super::reply_queue::{ALL_KEYS, Effect, Mask, mask_of_all};
use super::request::Request;
use crate::api::KeyTarget;
use crate::disk_reads::DeferredRead;
use crate::mailbox::{Mailbox, Submission, WaitingClient};
use crate::os::{SteadyTime, steady_us};
use crate::shared::{NodeShared, refusal_text, tell_misses};
use node::pubsub::Answered;
use node::read::{Again, Begin, NotHere, ReadRequest};
use node::session::{self, Consistency, Cost};
use node::stats::{Lookups, ShortArgs};
use node::{HotCost, KeyHash, LoadSampler, ShardHandle, Ticket};
use resp::Reply;
use resp::table::{CommandSpec, behaviour};
use std::sync::Arc;
use vocab::{Moment, ShardId, Slot, SlotSpan, slot_of};

/// What becomes of a request.
pub(super) enum Step {
    /// It is answered or under way: on to the next.
    Next,
    /// It waits, and is looked at again later.
    Stall,
    /// Nothing has happened: it is for the thread that runs large requests.
    Lend,
}

/// What a request is about.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// `None` while the node belongs to no store.
    pub(super) shard: Option<ShardId>,
    pub(super) slot: Slot,
    /// Where the keys are, if they are of several slots.
    pub(super) wider: Option<SlotSpan>,
    pub(super) mask: Mask,
}

impl Target {
    pub(super) fn of(at: &KeyTarget, mask: Mask) -> Self {
        Self { shard: at.shard, slot: at.slot, wider: at.wider, mask }
    }

    /// Of a command, which may be about more keys than those that it names.
    pub(super) fn of_command(spec: &CommandSpec, at: &KeyTarget) -> Self {
        const MORE: u64 = behaviour::READS_BY_PATTERN | behaviour::EMPTIES_NAMED | behaviour::WALKS_DATABASE;
        let names_all = spec.behaviour & MORE == 0;
        Self::of(at, if names_all { mask_of_all(&at.keys) } else { ALL_KEYS })
    }
}

/// After so many requests the clock is looked at.
const REQUESTS_PER_LOOK: u32 = 16;
/// So many bytes of one count as another request.
const LOOK_BYTES: usize = 1024;

/// What requests want of the worker.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Writes for their shards.
    pub(crate) writes: Vec<Submission>,
    /// Reads that wait for the disk.
    pub(crate) reads: Vec<DeferredRead>,
    /// Shards whose leader's lease is to be confirmed.
    pub(crate) leases: Vec<ShardId>,
    /// Clients that wait for followers.
    pub(crate) waits: Vec<WaitingClient>,
}

impl Wanted {
    /// What requests want that have run on another thread.
    pub(super) fn add(&mut self, others: Self) {
        let Self { writes, reads, leases, waits } = others;
        self.writes.extend(writes);
        self.reads.extend(reads);
        self.leases.extend(leases);
        self.waits.extend(waits);
    }
}

/// What all requests of a worker share while they run.
pub(super) struct Requests {
    pub(super) worker: usize,
    pub(super) store: Arc<NodeShared>,
    /// The mailbox of the worker.
    pub(super) mailbox: Arc<Mailbox>,
    /// When the last command was done.
    pub(super) clock: SteadyTime,
    seed: u64,
    /// Which slots are read.
    pub(super) sampler: LoadSampler,
    /// When others have their turn: no further request of the connection is looked at after that.
    pub(super) until: SteadyTime,
    /// When the requests of this turn have run for long enough.
    pub(super) turn_until: SteadyTime,
    /// When the requests that run now arrived, in µs of the steady clock.
    pub(super) arrived_us: u64,
    /// Bytes that the requests of the connection which is looked at have pushed to this worker's subscribers.
    pub(super) pushed_bytes: usize,
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
            clock: SteadyTime::now(),
            until: SteadyTime::now(),
            turn_until: SteadyTime::now(),
            seed: worker as u64,
            sampler: LoadSampler::new(worker as u64),
            arrived_us: 0,
            pushed_bytes: 0,
            wanted: Wanted::default(),
        }
    }

    /// Another seed for each read, so that no two draw the same at random.
    /// Requests arrive now.
    pub(super) fn arrive(&mut self) {
        self.clock = SteadyTime::now();
        self.arrived_us = self.clock.us();
    }

    pub(super) fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.seed
    }
}

impl Turn<'_> {
    /// A request of so many bytes was run: every so often the clock is looked at, which commands that are quick do not do.
    #[inline]
    pub(super) fn look_at_clock(&mut self, unlooked: &mut u32, bytes: usize) {
        *unlooked += 1 + (bytes / LOOK_BYTES) as u32;
        if *unlooked >= REQUESTS_PER_LOOK {
            *unlooked = 0;
            self.requests.clock = SteadyTime::now();
        }
    }

    pub(super) fn stall(&mut self, id: usize) -> Step {
        self.clients.stall(id);
        Step::Stall
    }

    /// This node does not serve a request now: it waits, or its client is told where to go.
    pub(super) fn not_here(&mut self, id: usize, slot: Slot, consistency: Consistency, why: &NotHere) -> Step {
        let is_of_database = || self.clients.get(id).is_some_and(|connection| connection.is_of_database());
        match why {
            NotHere::Wait { .. } => return self.wait(id),
            // It begins again, and goes to that node.
            NotHere::Redirect(_) if is_of_database() => return self.wait(id),
            NotHere::Redirect(_) | NotHere::Refuse(_) => {}
        }
        let mut reply = Reply::default();
        if let Some(connection) = self.clients.get(id) {
            reply.proto = connection.session.proto();
        }
        let text = refusal_text(&self.requests.store.known(), slot, consistency, why);
        self.refuse(id, &text, &mut reply)
    }

    /// What becomes of a request over the whole store that the leader of a slot is to run, if that is not this node.
    pub(super) fn elsewhere(&mut self, request: Request<'_>, slot: Slot) -> Option<Step> {
        let consistency = self.clients.get(request.id)?.session.consistency_for(request.spec, request.args);
        let asked = ReadRequest::new(slot, consistency, self.arrived_us(request.id));
        let known = self.requests.store.known();
        let local = known.local(self.requests.store.node(), known.shard_of(slot));
        match asked.begin(local, self.now, || self.requests.store.moment()) {
            Begin::Run(_) => None,
            Begin::WaitForLease(shard) => Some(self.wait_for_lease(request.id, shard)),
            Begin::NotHere(why) => Some(self.not_here(request.id, slot, consistency, &why)),
        }
    }

    /// Notes a use of keys, while eviction goes by their use.
    #[inline]
    pub(super) fn note_use(&mut self, id: usize, spec: &CommandSpec, keys: &[KeyHash]) {
        if self.requests.store.usage.tracks()
            && self.clients.get(id).is_some_and(|client| client.session.uses_keys(spec))
        {
            for key in keys {
                // The seed is a counter: its high bits alone are mixed by a multiplication.
                let chance = self.requests.next_seed().wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(32);
                self.requests.store.usage.note(*key, self.now.wall_ms, chance);
            }
        }
    }

    /// Notes what a request has cost since it began, for HOTKEYS: of one that is handed on, what that has cost so far.
    #[inline]
    pub(super) fn note_hot(&self, request: Request<'_>, began: Option<SteadyTime>, bytes: usize) {
        if let Some(began) = began {
            self.note_cost(request, HotCost { ns: SteadyTime::now().ns_since(began), bytes: bytes as u64 });
        }
    }

    #[cold]
    fn note_cost(&self, request: Request<'_>, cost: HotCost) {
        let Ok(keys) = request.spec.keys(request.args) else { return };
        let keys: Vec<&[u8]> = keys.map(|at| request.args[at]).collect();
        self.requests.store.hot_keys.note(&keys, cost, self.now.wall_ms);
    }

    /// The request stays where it is, and begins again when something has changed.
    fn wait(&mut self, id: usize) -> Step {
        let arrived_us = self.requests.arrived_us;
        if let Some(connection) = self.clients.get_mut(id) {
            connection.wait_since(arrived_us);
        }
        self.stall(id)
    }

    /// A read whose leader is not confirmed waits for that.
    pub(super) fn wait_for_lease(&mut self, id: usize, shard: ShardId) -> Step {
        self.requests.wanted.leases.push(shard);
        self.wait(id)
    }

    /// An answer is dropped: the request begins again when something has changed.
    pub(super) fn read_again(&mut self, id: usize, shard: ShardId, why: Again) -> Step {
        match why {
            Again::Unconfirmed => self.wait_for_lease(id, shard),
            Again::SlotMoved | Again::Replaying => self.wait(id),
        }
    }

    /// When the request that runs arrived, in µs of the steady clock; since then it may have waited.
    pub(super) fn arrived_us(&self, id: usize) -> u64 {
        let since_us = self.clients.get(id).and_then(|connection| connection.waiting_since_us());
        since_us.unwrap_or(self.requests.arrived_us)
    }

    /// Counts a command that is done, by the clock that runs from one to the next.
    pub(super) fn finished(&mut self, request: Request<'_>, reply: &[u8]) {
        let now = SteadyTime::now();
        let ns = now.ns_since(self.requests.clock);
        self.requests.clock = now;
        let store = &self.requests.store;
        store.stats.worker(self.requests.worker).finished(request.spec.id, ns, reply);
        if let Some(connection) = self.clients.get(request.id) {
            let cost = Cost { elapsed_ns: ns, reply_bytes: reply.len() as u64 };
            let args = || ShortArgs::of(request.spec, request.args);
            session::note_if_costly(connection.session.entry(), request.spec, cost, &**store, args);
        }
    }

    /// A request has looked keys up.
    #[inline]
    pub(super) fn looked_up(&self, handle: &ShardHandle, request: Request<'_>, lookups: Lookups) {
        let store = &self.requests.store;
        store.stats.worker(self.requests.worker).looked_up(lookups);
        tell_misses(store, handle, (request.spec, request.args), lookups);
    }

    /// Answers a request with an error.
    pub(super) fn refuse(&mut self, id: usize, text: &str, reply: &mut Reply) -> Step {
        reply.error(text);
        self.clients.put_unless_silent(id, &reply.buf);
        Step::Next
    }

    /// Confirms subscriptions when the other nodes know of them.
    pub(super) fn confirm(&mut self, ticket: Ticket, reply: Vec<u8>) {
        if let Some(connection) = self.clients.get_mut(ticket.connection as usize) {
            connection.confirms(ticket.sequence);
        }
        if let Some(answered) = self.requests.store.broker.wait(Answered { ticket, reply }, steady_us()) {
            self.clients.deliver(&ticket, &answered.reply);
        }
    }

    /// Registers a read whose answer comes later. It stalls if the connection's budget of unsent replies is used up.
    pub(super) fn begin_slow_read(&mut self, request: Request<'_>, mask: Mask) -> Option<Ticket> {
        let Request { id, spec, args } = request;
        let connection = self.clients.get(id)?;
        if !connection.may_owe_more() || connection.reads_slowly(spec, args) {
            self.clients.stall(id);
            return None;
        }
        let ticket = self.clients.begin(request, mask, Effect::Read, self.requests.clock)?;
        self.clients.get_mut(id)?.begin_slow_read(ticket.sequence, spec, args);
        // Some of them write after all, as COPY does: what they have written is in the shard of their keys.
        let first = spec.keys(args).ok().and_then(|mut keys| keys.next());
        Some(Ticket { slot: first.map_or(ticket.slot, |at| slot_of(args[at])), ..ticket })
    }

    /// Registers a request that may write as under way, if nothing under way forbids it: the ticket for its answer. `routed_by`: the version
    /// of the routing table by which its shard was found.
    pub(super) fn begin_write(
        &mut self,
        request: Request<'_>,
        mask: Mask,
        effect: Effect,
        routed_by: u64,
    ) -> Option<Ticket> {
        if self.clients.get_mut(request.id)?.must_follow(mask, routed_by) {
            self.clients.stall(request.id);
            return None;
        }
        self.clients.begin(request, mask, effect, self.requests.clock)
    }
}
