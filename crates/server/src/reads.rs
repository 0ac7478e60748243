//! Reads of one shard: on the event loop where memory answers, by way of the disk where not; confirmed where they must be.

use crate::access::{Access, HOLD_US};
use crate::api::conclude;
use crate::clients::{Effect, Step, Target};
use crate::cold_reads::ColdRead;
use crate::disk_reads::Cold;
use crate::os::steady_us;
use crate::worker::Worker;
use node::command::{Call, Error, Handler};
use node::session::Consistency;
use node::{CachedSpace, EncodedCommand, Fault, ShardView, SnapshotSpace, Space};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use std::time::Instant;
use vocab::{ShardId, Slot};

impl Worker {
    /// A request whose shard has no leader here or elsewhere waits a while, or is refused.
    pub(crate) fn wait_for_leader(&mut self, id: usize, consistency: Consistency, reply: &mut Reply) -> Step {
        let arrived_us = self.arrived_us;
        let Some(connection) = self.outbox.connections.get_mut(id) else { return Step::Next };
        if connection.waits_since_us == 0 {
            connection.waits_since_us = arrived_us;
        }
        if arrived_us < connection.waits_since_us + self.store.hold_us(consistency) {
            self.stall(id);
            return Step::Stall;
        }
        self.refuse(id, &self.store.no_leader(consistency), reply)
    }

    pub(crate) fn refuse(&mut self, id: usize, text: &str, reply: &mut Reply) -> Step {
        reply.error(text);
        self.put_unless_silent(id, &reply.buf);
        Step::Next
    }

    /// A read was made, or is about to be, whose leader is not confirmed: it waits for that.
    pub(crate) fn wait_for_lease(&mut self, id: usize, shard: usize) -> Step {
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

    pub(crate) fn read(
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
        // Nor before one of the same key that may take a while: it would answer the newer value of the two.
        if connection.must_wait(mask, Effect::Read) || connection.reads_slowly(spec, args) {
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
        let mut lookups = cached.lookups();
        if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
            reply.buf.truncate(mark);
            if !self.store.reads_are_fast(self.now.wall_ms) {
                if direct {
                    std::mem::swap(reply, &mut connection.output);
                }
                let place = (view.clone(), leads);
                return self.read_in_pool(id, spec, target, place, (arrived_us, consistency), handler, args);
            }
            let begun = Instant::now();
            let seed = self.next_seed();
            let mut space = SnapshotSpace::new(view, self.now.wall_ms, seed);
            done = handler(&mut Call { args, space: &mut space, reply });
            lookups = space.lookups();
            drop(space);
            self.store.note_read(begun.elapsed(), self.now.wall_ms);
        }
        conclude(done, reply, mark);
        // Asked again, after the read: the process may have slept since. The slot first, see `ShardView::owns`.
        let owned = if leads { view.owns(slot) } else { view.has_slot(slot) };
        let counts = owned && (!leads || view.is_unquestioned() || view.readable(arrived_us, steady_us()));
        if !counts {
            reply.buf.truncate(mark);
        } else {
            self.store.stats.worker(self.index).looked_up(lookups);
            self.sampler.note(view, slot, 1);
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

    pub(crate) fn held_too_long(&self, id: usize) -> bool {
        let since_us = self.outbox.connections.get(id).map_or(0, |connection| connection.waits_since_us);
        since_us > 0 && self.arrived_us >= since_us + HOLD_US
    }

    /// `place`: the replica, and whether it leads; `asked`: when the request came, and what its client was promised.
    #[expect(clippy::too_many_arguments, reason = "one read's facts, all of them needed")]
    pub(crate) fn read_in_pool(
        &mut self,
        id: usize,
        spec: &'static CommandSpec,
        target: Target,
        place: (Arc<ShardView>, bool),
        asked: (u64, Consistency),
        handler: Handler,
        args: &[&[u8]],
    ) -> Step {
        let Some(ticket) = self.begin_in_pool(id, spec, args, target.mask) else { return Step::Stall };
        self.sampler.note(&place.0, target.slot, 1);
        let (arrived_us, consistency) = asked;
        let read = ColdRead {
            store: self.store.clone(),
            ticket,
            spec,
            command: EncodedCommand::new(args),
            handler,
            slot: target.slot,
            place,
            arrived_us,
            consistency,
            seed: self.next_seed(),
            held: Vec::new(),
        };
        self.outbox.cold.push(Cold::Read(read));
        Step::Next
    }

    /// Looks up what the watched keys' versions are. Nothing of the connection is under way.
    pub(crate) fn watch(&mut self, id: usize, keys: &[Vec<u8>], reply: &mut Reply) -> Step {
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
            let absent = view.watch_absent(key);
            match SnapshotSpace::new(&view, self.now.wall_ms, 0).get(key) {
                Ok(Some(record)) => versions.push(Ok(record.view().version)),
                Ok(None) => versions.push(Err(absent)),
                Err(fault) => {
                    conclude(Err(Error::Fault(fault)), reply, 0);
                    break;
                }
            }
        }
        if !view.owns(slot) || !view.readable(arrived_us, steady_us()) {
            return match self.held_too_long(id) {
                true => self.refuse(id, &self.store.no_leader(Consistency::Absolute), reply),
                false => self.wait_for_lease(id, shard),
            };
        }
        if let Some(connection) = self.outbox.connections.get_mut(id) {
            for (key, version) in keys.iter().zip(versions) {
                match version {
                    Ok(version) => connection.session.watching(key, version),
                    Err(absent) => connection.session.watching_absent(key, absent),
                }
            }
        }
        if reply.buf.is_empty() {
            reply.ok();
        }
        self.put_unless_silent(id, &reply.buf);
        Step::Next
    }
}
