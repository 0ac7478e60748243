//! What clients of collections ask of a node. Of blocking commands `node::blocking` decides, and this carries it out.

use crate::checkers::Outcome;
use crate::client_read::ClientRead;
use crate::collections::{CollectionRequest, Told};
use crate::effects::{Outbox, WaitNews};
use crate::host::Process;
use crate::places::Place;
use crate::reading;
use crate::serving::{shard_of_write, ticket};
use crate::store::Store;
use node::blocking::{Answered, Attempt, Begin, BlockingCommand};
use node::read::is_slot_moving;
use node::{EncodedCommand, KeyHash, Ticket, Write, key_hash};
use vocab::{Moment, ShardId};

/// Tickets of clients of collections bear this as their connection, and more.
pub const COLLECTIONS: u32 = 1000;

/// A request for collections comes to a node.
pub fn ask(store: &mut Store, place: Place, request: CollectionRequest, out: &mut Outbox) -> Outcome {
    if !request.writes {
        let arrived_us = store.moment(place).mono_us;
        return reading::begin_read(store, place, ClientRead::of_collection(request, arrived_us));
    }
    let shard = match shard_of_write(store, place, request.slot()) {
        Ok(shard) => shard,
        Err(leader) => {
            store.answer_collection(&request, Told::Refused, leader);
            return Ok(());
        }
    };
    let (connection, may_wait) = (COLLECTIONS + request.client as u32, request.is_blocking());
    let ticket = Ticket { connection, may_wait, ..ticket(store, shard, request.slot(), request.tag) };
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let (write, keys) = (request.write(), request.key_hashes());
    process.collections.insert((ticket.connection, ticket.sequence), request);
    match begins(process, shard, &write, ticket, now) {
        Begin::Wait => {
            store.checks.waits_collection(ticket.sequence);
            return Ok(());
        }
        Begin::Later => return Ok(()),
        Begin::Propose | Begin::Refuse(_) => {}
    }
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    if process.core.submit(shard, &write, &keys, ticket, out) {
        process.blocked.proposed(&write);
    }
    Ok(())
}

/// A client is told what a shard has answered.
fn told(store: &mut Store, place: Place, ticket: &Ticket, reply: Option<Vec<u8>>) -> Outcome {
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Some(request) = process.collections.remove(&(ticket.connection, ticket.sequence)) else { return Ok(()) };
    let leader = process.leaders.of(ShardId(ticket.generation));
    let answer = reply.map_or(Ok(Told::Refused), |reply| request.answer(&reply))?;
    store.answer_collection(&request, answer, leader);
    Ok(())
}

/// What the client of a command does first, which is blocking or is proposed.
fn begins(process: &mut Process, shard: ShardId, write: &Write, ticket: Ticket, now: Moment) -> Begin {
    let Process { core, blocked, .. } = process;
    let (Some(shard), Write::Command(command), true) = (core.shard(shard), write, ticket.may_wait) else {
        return Begin::Propose;
    };
    match BlockingCommand::of(command) {
        Some(command) => blocked.begin(shard.handle(), ticket, command, now.mono_us),
        // What makes no sense, its handler refuses.
        None => Begin::Propose,
    }
}

/// There is news of keys for which clients may wait.
pub fn hear(store: &mut Store, place: Place, news: WaitNews) {
    let Some(process) = &mut store.nodes[place].process else { return };
    match news {
        WaitNews::Ready(keys) => process.blocked.keys_ready(keys),
        WaitNews::Cleared(shard) => process.blocked.cleared(shard),
    }
}

/// A shard has answered a request, or an attempt for a client that may wait; `None`: it does not lead.
pub fn answered(store: &mut Store, place: Place, ticket: &Ticket, reply: Option<Vec<u8>>) -> Outcome {
    if !ticket.may_wait {
        return told(store, place, ticket, reply);
    }
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Process { core, blocked, .. } = process;
    let Some(reply) = reply else {
        return if blocked.withdraw(ticket, now.mono_us) { Ok(()) } else { told(store, place, ticket, None) };
    };
    match blocked.answered(ticket, &reply, now, |shard| core.shard(shard).map(|shard| shard.handle())) {
        Answered::Deliver => told(store, place, ticket, Some(reply)),
        Answered::DeliverInstead(reply) => told(store, place, ticket, Some(reply)),
        Answered::Waits(begins) => {
            if begins {
                store.checks.waits_collection(ticket.sequence);
            }
            Ok(())
        }
    }
}

/// A shard has given slots away.
pub fn moved(process: &mut Process, parent: ShardId, now: Moment) {
    let Process { core, blocked, .. } = process;
    if let Some(parent) = core.shard(parent) {
        blocked.withdraw_moved(parent.handle(), now.mono_us);
    }
}

/// Proposes what clients that wait can have now, and ends waits.
pub fn serve(store: &mut Store, place: Place, out: &mut Outbox) -> Outcome {
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Process { core, blocked, .. } = process;
    if blocked.is_idle() {
        return Ok(());
    }
    blocked.expire(now.mono_us);
    if let Some(look) = blocked.take_look(now) {
        blocked.looked(look.step(), now);
    }
    blocked.withdraw_lost(now.mono_us, |shard| core.shard(shard).is_some_and(|shard| shard.handle().leading()));
    for attempt in blocked.take_attempts() {
        let ticket = attempt.ticket;
        if core.shard(attempt.shard).is_none_or(|shard| is_slot_moving(shard.handle(), ticket.slot)) {
            blocked.withdraw(&ticket, now.mono_us);
        } else {
            let keys = keys_of(&attempt.command);
            core.submit(attempt.shard, &Write::Command(attempt.command), &keys, ticket, out);
        }
    }
    let (lost, ended) = (blocked.take_lost(), blocked.take_ended());
    for attempt in lost {
        route_again(store, place, attempt, out)?;
    }
    for ended in ended {
        told(store, place, &ended.ticket, Some(ended.reply))?;
    }
    Ok(())
}

/// The shard of a client that waits is another one, or led elsewhere.
fn route_again(store: &mut Store, place: Place, attempt: Attempt, out: &mut Outbox) -> Outcome {
    let Attempt { ticket, command, .. } = attempt;
    store.checks.waits_no_longer(ticket.sequence);
    let Ok(shard) = shard_of_write(store, place, ticket.slot) else {
        return told(store, place, &ticket, None);
    };
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Some(request) = process.collections.get(&(ticket.connection, ticket.sequence)) else { return Ok(()) };
    let (keys, ticket) = (keys_of(&command), Ticket { generation: shard.0, ..ticket });
    let write = Write::Command(request.tagged(&command));
    match begins(process, shard, &write, ticket, now) {
        Begin::Wait => store.checks.waits_collection(ticket.sequence),
        Begin::Later => {}
        Begin::Propose | Begin::Refuse(_) => _ = process.core.submit(shard, &write, &keys, ticket, out),
    }
    Ok(())
}

fn keys_of(command: &EncodedCommand) -> Vec<KeyHash> {
    command.args().iter().filter(|word| word.starts_with(b"{g")).map(|key| key_hash(key)).collect()
}
