//! Reads of one shard: on the event loop where memory answers, by way of the disk where not; confirmed where they must be.

use super::forwarding::Kept;
use super::invalidations::track;
use super::reply_queue::{Effect, Mask};
use super::request::Request;
use super::turn::{Step, Target, Turn};
use super::write::keep;
use crate::disk_reads::{DeferredGet, DeferredRead, read_in_pool};
use crate::os::steady_us;
use node::command::{Error, ReadHandler, conclude_on};
use node::read::{Attempt, Begin, Finish, ReadRequest};
use node::{CachedSpace, EncodedCommand, Fault, SnapshotSpace};
use resp::Reply;
use std::time::Instant;
use vocab::limits::STREAM_STEP_BYTES_SOFT;

/// What a reply that may be long counts for among those that a connection is owed before its first part is there: about one
/// in eight is long.
const FIRST_PART_BYTES: usize = STREAM_STEP_BYTES_SOFT / 8;
/// With more arguments such a reply is made by the pool alone: an event loop would begin it again for each block that it
/// lacks.
const ARGUMENTS_MAX: usize = 64;
/// With more arguments any read is made by the pool: to look at each of them would keep an event loop.
const ARGUMENTS_HERE_MAX: usize = 1024;

pub(super) fn read(
    turn: &mut Turn<'_>,
    request: Request<'_>,
    target: Target,
    handler: ReadHandler,
    reply: &mut Reply,
) -> Step {
    let (Request { id, spec, args }, Target { shard, slot, wider, mask }) = (request, target);
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    // Nor before a read of the same key that may take a while: it would answer the newer value of the two.
    if connection.must_wait(mask, Effect::Read) || connection.reads_slowly(spec, args) {
        return turn.stall(id);
    }
    let arrived_us = connection.waiting_since_us().unwrap_or(turn.requests.arrived_us);
    let consistency = connection.session.consistency_for(spec, args);
    let asked = ReadRequest::new(slot, consistency, arrived_us).over(wider);
    let known = turn.requests.store.known();
    let attempt =
        match asked.begin(known.local(turn.requests.store.node(), shard), turn.now, || turn.requests.store.moment()) {
            Begin::Run(attempt) if args.len() > ARGUMENTS_HERE_MAX => {
                return defer(turn, request, mask, attempt.into(), handler);
            }
            Begin::Run(attempt) => attempt,
            Begin::WaitForLease(shard) => return turn.wait_for_lease(id, shard),
            Begin::NotHere(why) => return turn.not_here(id, slot, consistency, &why),
        };
    let handle = *attempt.handle();
    track(connection, handle, spec, args);
    // Straight into the connection's output where nothing is before it.
    let direct = connection.is_quiet() && !connection.session.silent();
    let proto = reply.proto;
    if direct {
        std::mem::swap(reply, &mut connection.output.tail);
        reply.proto = proto;
    }
    let mark = reply.buf.len();
    let mut cached = CachedSpace::new(handle, turn.now.wall_ms);
    let mut done = handler.run(args, &mut cached, reply);
    let mut lookups = cached.lookups();
    if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
        reply.buf.truncate(mark);
        if turn.requests.store.reads_are_fast(|| turn.now.wall_ms) {
            let begun = Instant::now();
            let seed = turn.requests.next_seed();
            let mut space = SnapshotSpace::new(handle, turn.now.wall_ms, seed).of_few_rows(Some(steady_us));
            done = handler.run(args, &mut space, reply);
            lookups = space.lookups();
            drop(space);
            turn.requests.store.note_read(begun.elapsed(), || turn.now.wall_ms);
        }
        // It would wait for the disk, or reads too much for an event loop.
        if matches!(done, Err(Error::Fault(Fault::WouldBlock))) {
            reply.buf.truncate(mark);
            if direct {
                std::mem::swap(reply, &mut connection.output.tail);
            }
            return defer(turn, request, mask, attempt.into(), handler);
        }
    }
    conclude_on(handle, done, reply, mark);
    let finish = attempt.finish(steady_us);
    let counts = finish == Finish::Answer;
    if !counts {
        reply.buf.truncate(mark);
    } else {
        turn.looked_up(handle, request, lookups);
        turn.requests.sampler.note(handle, slot, 1);
        turn.finished(request, &reply.buf[mark..]);
    }
    if !direct {
        if counts {
            turn.clients.put_unless_silent(id, &reply.buf);
        }
    } else if let Some(connection) = turn.clients.get_mut(id) {
        std::mem::swap(reply, &mut connection.output.tail);
    }
    match finish {
        Finish::Answer => Step::Next,
        Finish::Again(why) => turn.read_again(id, handle.id(), why),
    }
}

/// Has a read made that waits for the disk.
fn defer(turn: &mut Turn<'_>, request: Request<'_>, mask: Mask, attempt: Attempt, handler: ReadHandler) -> Step {
    let Some(ticket) = turn.begin_slow_read(request, mask) else { return Step::Stall };
    if let Some(connection) = turn.clients.get(request.id) {
        track(connection, attempt.handle(), request.spec, request.args);
    }
    turn.requests.sampler.note(attempt.handle(), attempt.request().slot, 1);
    let command = EncodedCommand::of(request.spec, request.args);
    keep(turn, &ticket, || Kept::Command(command.clone()));
    let in_steps = matches!(handler, ReadHandler::Steps(_));
    if let Some(connection) = turn.clients.get_mut(request.id).filter(|_| in_steps) {
        connection.promise(ticket.sequence, FIRST_PART_BYTES);
    }
    let read = DeferredGet {
        store: turn.requests.store.clone(),
        ticket,
        spec: request.spec,
        command,
        handler,
        attempt,
        seed: turn.requests.next_seed(),
        held: Vec::new(),
    };
    let most = if in_steps { ARGUMENTS_MAX } else { ARGUMENTS_HERE_MAX };
    if request.args.len() > most {
        read_in_pool(&turn.requests.store.pool, &mut vec![DeferredRead::Get(read)]);
    } else {
        turn.requests.wanted.reads.push(DeferredRead::Get(read));
    }
    Step::Next
}
