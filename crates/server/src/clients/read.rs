//! Reads of one shard: on the event loop where memory answers, by way of the disk where not; confirmed where they must be.

use super::dispatch::{Request, Step, Target, Turn};
use super::reply_queue::Effect;
use super::write::leads;
use crate::access::{Access, HOLD_US};
use crate::api::conclude_on;
use crate::cold_reads::ColdRead;
use crate::disk_reads::Cold;
use crate::os::steady_us;
use node::command::{Call, Error, Handler};
use node::session::Consistency;
use node::{CachedSpace, EncodedCommand, Fault, ShardView, SnapshotSpace, Space};
use resp::Reply;
use std::sync::Arc;
use std::time::Instant;
use vocab::{ShardId, Slot};

/// A request whose shard has no leader here or elsewhere waits a while, or is refused.
pub(super) fn wait_for_leader(turn: &mut Turn<'_>, id: usize, consistency: Consistency, reply: &mut Reply) -> Step {
    let arrived_us = turn.requests.arrived_us;
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    if connection.waits_since_us == 0 {
        connection.waits_since_us = arrived_us;
    }
    if arrived_us < connection.waits_since_us + turn.requests.store.hold_us(consistency) {
        return turn.stall(id);
    }
    let text = turn.requests.store.no_leader(consistency);
    turn.refuse(id, &text, reply)
}

/// A read was made, or is about to be, whose leader is not confirmed: it waits for that.
fn wait_for_lease(turn: &mut Turn<'_>, id: usize, shard: usize) -> Step {
    let arrived_us = turn.requests.arrived_us;
    if let Some(connection) = turn.clients.get_mut(id)
        && connection.waits_since_us == 0
    {
        connection.waits_since_us = arrived_us;
    }
    turn.requests.wanted.leases.push(ShardId(shard as u32));
    turn.stall(id)
}

pub(super) fn read(
    turn: &mut Turn<'_>,
    request: Request<'_>,
    target: Target,
    handler: Handler,
    reply: &mut Reply,
) -> Step {
    let Request { id, spec, args } = request;
    let Target { shard, slot, mask } = target;
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    // Nor before a read of the same key that may take a while: it would answer the newer value of the two.
    if connection.must_wait(mask, Effect::Read) || connection.reads_slowly(spec, args) {
        return turn.stall(id);
    }
    let waits_since_us = connection.waits_since_us;
    let arrived_us = if waits_since_us > 0 { waits_since_us } else { turn.requests.arrived_us };
    let consistency = connection.session.consistency_for(spec, args);
    let known = turn.requests.store.known();
    let (view, leads) = match turn.requests.store.access(&known, shard, slot, consistency) {
        Access::Leader(view) => (view, true),
        Access::Follower(view) => (view, false),
        Access::Refused(text) => return turn.refuse(id, &text, reply),
        Access::Wait => return wait_for_leader(turn, id, consistency, reply),
    };
    if leads && !view.readable(arrived_us, turn.now.mono_us) {
        return wait_for_lease_or_refuse(turn, id, shard, consistency, reply);
    }
    // Straight into the connection's output where nothing is before it.
    let direct = connection.is_quiet() && !connection.session.silent();
    let proto = reply.proto;
    if direct {
        std::mem::swap(reply, &mut connection.output);
        reply.proto = proto;
    }
    let mark = reply.buf.len();
    let mut cached = CachedSpace::new(view, turn.now.wall_ms);
    let mut done = handler(&mut Call { args, space: &mut cached, reply });
    let mut lookups = cached.lookups();
    if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
        reply.buf.truncate(mark);
        if turn.requests.store.reads_are_fast(turn.now.wall_ms) {
            let begun = Instant::now();
            let seed = turn.requests.next_seed();
            let mut space = SnapshotSpace::new(view, turn.now.wall_ms, seed).of_few_rows();
            done = handler(&mut Call { args, space: &mut space, reply });
            lookups = space.lookups();
            drop(space);
            turn.requests.store.note_read(begun.elapsed(), turn.now.wall_ms);
        }
        // It would wait for the disk, or reads too much for an event loop.
        if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
            reply.buf.truncate(mark);
            if direct {
                std::mem::swap(reply, &mut connection.output);
            }
            let place = (view.clone(), leads);
            return defer(turn, request, target, place, arrived_us, consistency, handler);
        }
    }
    conclude_on(view, done, reply, mark);
    // Asked again, after the read: the process may have slept since. The slot first, see `ShardView::owns`.
    let owned = if leads { view.owns(slot) } else { view.has_slot(slot) };
    let counts = owned && (!leads || view.is_unquestioned() || view.readable(arrived_us, steady_us()));
    if !counts {
        reply.buf.truncate(mark);
    } else {
        turn.requests.store.stats.worker(turn.requests.worker).looked_up(lookups);
        turn.requests.sampler.note(view, slot, 1);
        turn.finished(request, &reply.buf[mark..]);
    }
    if !direct {
        if counts {
            turn.clients.put_unless_silent(id, &reply.buf);
        }
    } else if let Some(connection) = turn.clients.get_mut(id) {
        std::mem::swap(reply, &mut connection.output);
    }
    if counts { Step::Next } else { wait_for_lease(turn, id, shard) }
}

fn wait_for_lease_or_refuse(
    turn: &mut Turn<'_>,
    id: usize,
    shard: usize,
    consistency: Consistency,
    reply: &mut Reply,
) -> Step {
    if held_too_long(turn, id) {
        let text = turn.requests.store.no_leader(consistency);
        return turn.refuse(id, &text, reply);
    }
    wait_for_lease(turn, id, shard)
}

fn held_too_long(turn: &Turn<'_>, id: usize) -> bool {
    let since_us = turn.clients.get(id).map_or(0, |connection| connection.waits_since_us);
    since_us > 0 && turn.requests.arrived_us >= since_us + HOLD_US
}

/// Has a read made that waits for the disk. `place`: the replica, and whether it leads.
fn defer(
    turn: &mut Turn<'_>,
    request: Request<'_>,
    target: Target,
    place: (Arc<ShardView>, bool),
    arrived_us: u64,
    consistency: Consistency,
    handler: Handler,
) -> Step {
    let Some(ticket) = turn.begin_slow_read(request, target.mask) else { return Step::Stall };
    turn.requests.sampler.note(&place.0, target.slot, 1);
    let read = ColdRead {
        store: turn.requests.store.clone(),
        ticket,
        spec: request.spec,
        command: EncodedCommand::new(request.args),
        handler,
        slot: target.slot,
        place,
        arrived_us,
        consistency,
        seed: turn.requests.next_seed(),
        held: Vec::new(),
    };
    turn.requests.wanted.reads.push(Cold::Read(read));
    Step::Next
}

/// Looks up the versions of watched keys. Nothing of the connection is under way.
pub(super) fn watch(turn: &mut Turn<'_>, id: usize, keys: &[Vec<u8>], reply: &mut Reply) -> Step {
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    let slot = keys.first().map_or(Slot(0), |key| vocab::slot_of(key));
    let waits_since_us = connection.waits_since_us;
    let arrived_us = if waits_since_us > 0 { waits_since_us } else { turn.requests.arrived_us };
    let shard = turn.requests.store.known().shard_of(slot).unwrap_or_default();
    let view = match leads(turn, id, shard, slot) {
        Ok(view) => view,
        Err(step) => return step,
    };
    let mut versions = Vec::with_capacity(keys.len());
    for key in keys {
        let absent = view.watch_absent(key);
        match SnapshotSpace::new(&view, turn.now.wall_ms, 0).get(key) {
            Ok(Some(record)) => versions.push(Ok(record.view().version)),
            Ok(None) => versions.push(Err(absent)),
            Err(fault) => {
                conclude_on(&view, Err(Error::Fault(fault)), reply, 0);
                break;
            }
        }
    }
    if !view.owns(slot) || !view.readable(arrived_us, steady_us()) {
        return wait_for_lease_or_refuse(turn, id, shard, Consistency::Absolute, reply);
    }
    if let Some(connection) = turn.clients.get_mut(id) {
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
    turn.clients.put_unless_silent(id, &reply.buf);
    Step::Next
}
