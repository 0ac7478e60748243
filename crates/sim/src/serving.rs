//! What a client asks of a node, as a server's event loops deal with it: brought to the shard, held while a slot changes
//! hands, and answered when that is allowed.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::acknowledged;
use crate::effects::Outbox;
use crate::event::{NodeEvent, Place};
use crate::history::{Action, Answer, Outcome as Told};
use crate::host::{self, WaitingRead};
use crate::request::{Form, Request};
use crate::schedule::MILLISECOND;
use crate::world::{Outcome, World};
use node::session::Acks;
use node::{Ticket, key_hash};
use resp::Proto;
use vocab::{Moment, ShardId, slot_of};

/// How long a request waits for the shard that its slot is given to, in µs.
const HOLD_US: u64 = 5_000_000;

impl World {
    /// A client's request comes to a node.
    pub(crate) fn request(
        &mut self,
        place: Place,
        operation: usize,
        request: Request,
        since_us: u64,
        out: &mut Outbox,
    ) -> Outcome {
        let now = self.moment(place);
        if now.mono_us > since_us + HOLD_US {
            self.refuse(operation, None);
            return Ok(());
        }
        if !request.writes() {
            return self.try_read(place, WaitingRead { operation, request, arrived_us: now.mono_us, since_us });
        }
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let slot = slot_of(&request.keys()[0]);
        let Some(shard) = process.shard_of(slot) else {
            self.refuse(operation, None);
            return Ok(());
        };
        let write = request.write();
        let view = process.core.shard(shard).map(|shard| shard.view().clone());
        if write.is_of_slot() && view.is_some_and(|view| view.leading() && !view.owns(slot)) {
            self.hold(place, operation, request, since_us);
            return Ok(());
        }
        let keys: Vec<u64> = request.keys().iter().map(|key| key_hash(key)).collect();
        let acks = match request.form {
            Form::Set => Acks::None,
            _ if self.prng.happens(100) => Acks::All,
            _ => Acks::Majority,
        };
        let sync = self.plan.sync;
        let ticket = Ticket {
            worker: 0,
            connection: 0,
            generation: shard.0,
            sequence: operation as u64,
            proto: Proto::Resp2,
            slot,
            sync,
            acks,
            reply_bytes: 0,
        };
        let early = (self.bug == Some(Bug::EarlyAck)).then(|| process.core.shard(shard)).flatten();
        let early = early.filter(|shard| shard.replica().serves()).map(|shard| shard.replica().status().last + 1);
        let put = matches!(request.actions[..], [(_, Action::Put(_))]);
        process.writes.insert((operation, shard), request);
        process.core.submit(shard, &write, &keys, ticket, out);
        if let Some(version) = early
            && put
            && process.writes.remove(&(operation, shard)).is_some()
        {
            self.answer(operation, Answer::Done(vec![Told::Written(version)]), None);
        }
        Ok(())
    }

    /// The slot is being given to another shard: in a moment it is known who leads that.
    fn hold(&mut self, place: Place, operation: usize, request: Request, since_us: u64) {
        let delay = self.prng.between(1, 50) * MILLISECOND;
        self.later(delay, place, NodeEvent::Request(operation, request, Some(since_us)));
    }

    /// Makes a read, if this node leads the shard.
    pub(crate) fn try_read(&mut self, place: Place, read: WaitingRead) -> Outcome {
        let now = self.moment(place);
        let Some(process) = &self.hosts[place].process else { return Ok(()) };
        let slot = slot_of(&read.request.keys()[0]);
        let Some(shard) = process.shard_of(slot) else {
            self.refuse(read.operation, None);
            return Ok(());
        };
        let here = process.core.shard(shard);
        let leader = process.leaders.of(shard);
        if let Some(consistency) = read.request.weak
            && let Some(here) = here.filter(|here| here.view().has_slot(slot))
            && !here.view().leading()
        {
            let view = here.view().clone();
            return self.try_weak(place, &view, read, consistency);
        }
        let anywhere = self.bug == Some(Bug::ReadAnywhere);
        let Some(here) = here.filter(|here| anywhere || here.view().leading()) else {
            self.refuse(read.operation, leader);
            return Ok(());
        };
        if !here.view().owns(slot) {
            self.hold(place, read.operation, read.request, read.since_us);
            return Ok(());
        }
        // What a leader has that was not confirmed yet may be old.
        if !anywhere && self.bug != Some(Bug::NoLease) && !here.view().readable(read.arrived_us, now.mono_us) {
            return self.wait_for_lease(place, shard, read);
        }
        let clock = match self.bug {
            Some(Bug::OldClock) => Moment { wall_ms: now.wall_ms - 3_600_000, ..now },
            _ => now,
        };
        here.view().note_operations(slot, 1);
        let reply = host::read(here.view(), &read.request, clock);
        // From memory, or by a thread that waits for the disk.
        let delay = if self.prng.happens(900) { 0 } else { self.prng.below(20 * MILLISECOND) };
        self.later(delay, place, NodeEvent::ReadMade(Box::new(read), shard, reply));
        Ok(())
    }

    /// A read has been made: its answer goes out if the node was leading all the time, and the slot was the shard's.
    pub(crate) fn read_made(&mut self, place: Place, shard: ShardId, read: WaitingRead, reply: &[u8]) -> Outcome {
        let now = self.moment(place);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let Some(view) = process.core.shard(shard).map(|here| here.view().clone()) else {
            self.refuse(read.operation, None);
            return Ok(());
        };
        // The slot first, see `ShardView::owns`.
        if !view.owns(slot_of(&read.request.keys()[0])) {
            self.hold(place, read.operation, read.request, read.since_us);
            return Ok(());
        }
        let careless = matches!(self.bug, Some(Bug::NoLease | Bug::ReadAnywhere));
        if careless || view.readable(read.arrived_us, now.mono_us) {
            let answer = read.request.answer(reply)?;
            self.answer(read.operation, answer, None);
            Ok(())
        } else {
            self.wait_for_lease(place, shard, read)
        }
    }

    fn wait_for_lease(&mut self, place: Place, shard: ShardId, read: WaitingRead) -> Outcome {
        let now = self.moment(place);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        process.reads.entry(shard).or_default().push(read);
        process.core.ask_lease(shard, now);
        Ok(())
    }

    /// A shard has answered a write.
    pub(crate) fn answered(&mut self, place: Place, ticket: &Ticket, reply: Option<Vec<u8>>) -> Outcome {
        let operation = ticket.sequence as usize;
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        // One that was sent again may have come to a shard that was split off meanwhile, and wait there too.
        let shard = ShardId(ticket.generation);
        let Some(request) = process.writes.remove(&(operation, shard)) else { return Ok(()) };
        let leader = process.leaders.of(shard);
        let answer = reply.map_or(Ok(Answer::Refused), |reply| request.answer(&reply))?;
        let mut told = self.history.operations()[operation].clone();
        told.answer = answer.clone();
        self.check_holders(place, shard, ticket, &told)?;
        if request.form == Form::Clear && matches!(answer, Answer::Done(_)) {
            self.cleared.insert(operation, shard);
        }
        let group = self.groups.entry(shard).or_default();
        // Of a request that was sent more than once, another one may be in the log.
        if answer != Answer::Refused || request.id.is_none() {
            acknowledged::check(&told, group.values())?;
        }
        self.answer(operation, answer, leader);
        Ok(())
    }
}
