//! What a client asks of a node, as a server's event loops deal with it: brought to the shard, held while a slot changes
//! hands, and answered when that is allowed.

use crate::bug::Bug;
use crate::bulk::{BulkAnswer, BulkRequest};
use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::client_read::ClientRead;
use crate::effects::Outbox;
use crate::event::NodeEvent;
use crate::history::{Action, Answer, Operation, Outcome as Made};
use crate::places::{Place, node_id};
use crate::reading;
use crate::request::{Form, Request};
use crate::schedule::MILLISECOND;
use crate::store::Store;
use node::read::{Deadline, NotHere, is_slot_moving, leader_access};
use node::session::Acks;
use node::tracking::Registers;
use node::{Ticket, key_hash};
use resp::Proto;
use vocab::{NodeId, ShardId, Slot, slot_of};

/// Tickets of hostile clients bear this as their connection, and more.
const HOSTILE: u32 = 1;
/// A client's request comes to a node.
pub fn request(
    store: &mut Store,
    place: Place,
    operation: usize,
    request: Request,
    since_us: u64,
    out: &mut Outbox,
) -> Outcome {
    let now = store.moment(place);
    if !request.writes() {
        return reading::begin_read(store, place, ClientRead::new(operation, request, now.mono_us));
    }
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let slot = slot_of(&request.keys()[0]);
    let shard = process.shard_of(slot);
    let write = request.write();
    let handle = shard.and_then(|shard| process.core.shard(shard)).map(|here| here.handle().clone());
    // What comes from another worker's mailbox was let in before, and finds what has changed since.
    let is_let_in = !write.is_of_slot()
        || (store.env.happens(200) && !handle.as_ref().is_some_and(|handle| is_slot_moving(handle, slot)));
    if !is_let_in {
        let local = process.local(node_id(place), shard, handle.as_ref());
        match leader_access(local, slot, Deadline::for_slot_move(since_us), now.mono_us) {
            Ok(_) => {}
            Err(NotHere::Wait { .. }) => {
                hold(store, place, operation, request, since_us);
                return Ok(());
            }
            Err(NotHere::Redirect(node)) => {
                store.refuse(operation, Some(node));
                return Ok(());
            }
            Err(NotHere::Refuse(_)) => {
                store.refuse(operation, None);
                return Ok(());
            }
        }
    }
    let Some(shard) = shard else {
        store.refuse(operation, None);
        return Ok(());
    };
    let keys: Vec<u64> = request.keys().iter().map(|key| key_hash(key)).collect();
    let acks = match request.form {
        Form::Set => Acks::None,
        _ if store.env.happens(100) => Acks::All,
        _ => Acks::Majority,
    };
    let ticket = Ticket { acks, ..ticket(store, shard, slot, operation as u64) };
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let early = store.env.has(Bug::EarlyAck).then(|| process.core.shard(shard)).flatten();
    let early = early.filter(|shard| shard.replica().serves()).map(|shard| shard.replica().status().last + 1);
    let put = matches!(request.actions[..], [(_, Action::Put(_))]);
    process.writes.insert((operation, shard), request);
    process.core.submit(shard, &write, &keys, ticket, out);
    if let Some(version) = early
        && put
        && process.writes.remove(&(operation, shard)).is_some()
    {
        store.answer(operation, Answer::Done(vec![Made::Written(version)]), None);
    }
    Ok(())
}

/// A hostile client's request comes to a node: it passes the gate that every way in has, then goes to its shard.
pub fn bulk(store: &mut Store, place: Place, request: BulkRequest, out: &mut Outbox) -> Outcome {
    if request.refusal().is_some() && !store.env.has(Bug::NoAdmission) {
        store.answer_bulk(&request, BulkAnswer::Forbidden, None);
        return Ok(());
    }
    let shard = match shard_of_write(store, place, request.slot()) {
        Ok(shard) => shard,
        Err(leader) => {
            store.answer_bulk(&request, BulkAnswer::Refused, leader);
            return Ok(());
        }
    };
    let ticket = Ticket {
        connection: HOSTILE + request.client as u32,
        reply_bytes: request.reply_bytes(),
        ..ticket(store, shard, request.slot(), request.number)
    };
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let (write, keys) = (request.write(), request.key_hashes());
    process.bulk.insert((ticket.connection, ticket.sequence), request);
    process.core.submit(shard, &write, &keys, ticket, out);
    Ok(())
}

/// The shard that takes a write to a slot at a node, or who should be asked instead.
pub fn shard_of_write(store: &Store, place: Place, slot: Slot) -> Result<ShardId, Option<NodeId>> {
    let now = store.moment(place);
    let process = store.nodes[place].process.as_ref().ok_or(None)?;
    let shard = process.shard_of(slot).ok_or(None)?;
    let handle = process.core.shard(shard).map(|here| here.handle().clone());
    let local = process.local(node_id(place), Some(shard), handle.as_ref());
    match leader_access(local, slot, Deadline::for_slot_move(now.mono_us), now.mono_us) {
        Ok(_) => Ok(shard),
        Err(NotHere::Redirect(node)) => Err(Some(node)),
        Err(_) => Err(None),
    }
}

/// A ticket for a write to a shard, without a connection.
pub fn ticket(store: &Store, shard: ShardId, slot: Slot, sequence: u64) -> Ticket {
    Ticket {
        worker: 0,
        connection: 0,
        generation: shard.0,
        sequence,
        proto: Proto::Resp2,
        slot,
        wider: None,
        sync: store.env.plan().sync,
        acks: Acks::Majority,
        reply_bytes: 0,
        may_wait: false,
        registers: Registers::Nothing,
        early: None,
    }
}

/// A shard has answered a hostile client.
fn bulk_answered(store: &mut Store, place: Place, ticket: &Ticket, reply: Option<Vec<u8>>) -> Outcome {
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Some(request) = process.bulk.remove(&(ticket.connection, ticket.sequence)) else { return Ok(()) };
    let leader = process.leaders.of(ShardId(ticket.generation));
    let answer = reply.map_or(Ok(BulkAnswer::Refused), |reply| request.answer(&reply))?;
    store.answer_bulk(&request, answer, leader);
    Ok(())
}

/// The slot is being given to another shard: in a moment it is known who leads that.
fn hold(store: &mut Store, place: Place, operation: usize, request: Request, since_us: u64) {
    let delay = store.env.between(1, 50) * MILLISECOND;
    store.env.later(delay, place, NodeEvent::Request(operation, request, Some(since_us)));
}

/// A shard has answered a write.
pub fn answered(store: &mut Store, place: Place, ticket: &Ticket, reply: Option<Vec<u8>>) -> Outcome {
    if ticket.connection >= HOSTILE {
        return bulk_answered(store, place, ticket, reply);
    }
    let operation = ticket.sequence as usize;
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    // One that was sent again may have come to a shard that was split off meanwhile, and wait there too.
    let shard = ShardId(ticket.generation);
    let Some(request) = process.writes.remove(&(operation, shard)) else { return Ok(()) };
    let leader = process.leaders.of(shard);
    let answer = reply.map_or(Ok(Answer::Refused), |reply| request.answer(&reply))?;
    let told = Operation { answer: answer.clone(), ..store.checks.operation(operation).clone() };
    if store.env.plan().sync {
        store.nodes.check_holders(place, shard, ticket, &told, &store.checks)?;
    }
    store.checks.answered(shard, &request, &told, operation)?;
    store.answer(operation, answer, leader);
    Ok(())
}
