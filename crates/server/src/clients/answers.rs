//! Answers and counts requests that have ended.

use super::connection::{Connection, RunningTransaction};
use super::forwarded::{Deed, Forwarded};
use super::forwarding::Kept;
use super::replica_count::{is_applied, leader_knows_written};
use super::store_setting::set_for_store;
use crate::os::{SteadyTime, steady_us};
use crate::shared::NodeShared;
use node::pubsub::Answered;
use node::session::{self, Cost};
use node::stats::Lookups;
use node::tracking::TrackingElsewhere;
use node::{Outcome, Ticket};
use resp::Reply;
use resp::table::{CommandSpec, behaviour};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What an error says has become of a request of a client of a database, and the request's command.
pub(super) fn outcome_for(
    connection: &Connection,
    ticket: &Ticket,
    reply: &[u8],
) -> Option<(Outcome, &'static CommandSpec)> {
    Some((Outcome::of_answer(reply)?, connection.unanswered(ticket.sequence)?.spec))
}

/// This node has stopped leading, and has not made a request: it is to be sent to the node that leads. Or else its answer.
pub(super) fn hand_on(
    store: &NodeShared,
    connection: &mut Connection,
    ticket: &Ticket,
    (spec, kept): (&'static CommandSpec, Kept),
) -> Option<Vec<u8>> {
    let now_us = steady_us();
    // Whether CLIENT CACHING was about it is not known any more: a client may be told of a key that it has not cached.
    let tracking = connection.session.tracking_elsewhere().map(TrackingElsewhere::registering);
    let request = match kept {
        Kept::Command(command) => {
            let script_user = connection.script_user_of(spec);
            Forwarded { script_user, ..Forwarded::command(*ticket, spec, &command.args(), now_us) }
        }
        Kept::Watch(command) => {
            Forwarded { deed: Deed::Watch, ..Forwarded::command(*ticket, spec, &command.args(), now_us) }
        }
        Kept::Transaction(transaction) if transaction.watches().is_empty() => {
            let knows_written = leader_knows_written(store, connection, &transaction);
            let transaction = transaction.for_other_node(knows_written);
            let script_user = connection.session.script_user().map(|user| user.name().clone());
            let request = Forwarded::transaction(*ticket, &transaction, now_us);
            if let Some(running) = &mut connection.transaction {
                running.transaction = transaction;
            }
            Forwarded { script_user, ..request }
        }
        Kept::Transaction(_) => {
            // The other node does not know the versions of what it watches: these count as changed.
            let mut reply = Reply::new(ticket.proto);
            reply.null_array();
            return Some(reply.buf);
        }
    };
    connection.unsettle(ticket.sequence);
    connection.forwarding().wait(Forwarded { tracking, ..request });
    None
}

/// Answers the EXEC of a transaction whose commands have run.
pub(super) fn answer_transaction(
    store: &Arc<NodeShared>,
    connection: &mut Connection,
    running: RunningTransaction,
    ticket: &Ticket,
    answers: (&[u8], &[Vec<u8>]),
) {
    let mut whole = Reply::new(ticket.proto);
    let ns = connection.begun_at(ticket.sequence).map_or(0, |at| SteadyTime::now().ns_since(at));
    let effect = running.transaction.answer(&mut connection.session, &**store, answers, ns, &mut whole);
    if matches!(effect, session::Effect::ReplyOnceKnown { .. }) {
        connection.confirms(ticket.sequence);
        let answered = Answered { ticket: *ticket, reply: whole.buf };
        if let Some(answered) = store.broker.wait(answered, steady_us()) {
            connection.answer(ticket.sequence, Cow::Owned(answered.reply));
        }
        return;
    }
    if let session::Effect::ReplyOnceStored { setting, .. } = effect {
        set_for_store(store, setting, None);
    }
    // A sleep inside a transaction is not slept: its replies are one.
    if matches!(effect, session::Effect::Shutdown { .. }) {
        store.stop_asked.store(true, Ordering::Release);
        connection.session.close();
    }
    connection.answer(ticket.sequence, Cow::Owned(whole.buf));
    note_script(store, connection, ticket);
}

/// Answers a command, and counts it.
pub(super) fn answer_command(
    store: &NodeShared,
    worker: usize,
    connection: &mut Connection,
    ticket: &Ticket,
    reply: Cow<'_, [u8]>,
) {
    // What is asked of the reply once it has gone.
    let is_null = matches!(&*reply, b"$-1\r\n" | b"_\r\n");
    let first = reply.first().copied();
    let reply_bytes = reply.len() as u64;
    let error = (first == Some(b'-')).then(|| reply.to_vec());
    let Some(begun) = connection.answer(ticket.sequence, reply) else { return };
    let is_elsewhere = error.as_deref().is_some_and(|text| text.starts_with(b"-MOVED ") || text.starts_with(b"-ASK "));
    if begun.spec.is_write() && !is_elsewhere {
        if begun.spec.does(behaviour::LOOKS_UP) {
            let mut lookups = Lookups::default();
            lookups.note(!is_null);
            store.stats.worker(worker).looked_up(lookups);
        }
        match begun.spec.has_keys() {
            true => note_written(store, connection, ticket),
            false => note_written_anywhere(store, connection),
        }
    }
    if begun.spec.does(behaviour::RUNS_SCRIPT) {
        note_script(store, connection, ticket);
    }
    // The time of a blocking command is its client's: it may have waited.
    let ns = if ticket.may_wait { 0 } else { SteadyTime::now().ns_since(begun.at) };
    // A long reply is no error, whatever its last part begins with.
    let whole = error.as_deref().unwrap_or(first.as_slice());
    let counted = if begun.part_bytes > 0 { b"*" } else { whole };
    store.stats.worker(worker).finished(begun.spec.id, ns, counted);
    let cost = Cost { elapsed_ns: ns, reply_bytes: begun.part_bytes + reply_bytes };
    session::note_if_costly(connection.session.entry(), begun.spec, cost, store, || begun.args());
}

/// A script was answered, or a transaction, which may have run some.
fn note_script(store: &NodeShared, connection: &mut Connection, ticket: &Ticket) {
    store.known().handle_of(ticket.slot).into_iter().for_each(|handle| connection.scripts.answered(handle));
}

/// What the connection has written may be in any shard, as that of FLUSHALL: this node knows of those that it leads. A client of a
/// database may ask for one that another node leads.
fn note_written_anywhere(store: &NodeShared, connection: &mut Connection) {
    if connection.is_of_database() && !store.is_alone() {
        connection.wrote_anywhere();
    }
    for handle in store.known().data_handles().filter(|handle| handle.leading()) {
        connection.session.wrote(handle.id(), handle.engine().applied_index());
    }
}

/// A transaction has run, before what follows it: WAIT among that counts what is applied by then. If it writes nothing, no other node
/// has noted anything.
pub(super) fn note_transaction(
    store: &NodeShared,
    connection: &mut Connection,
    running: &RunningTransaction,
    ticket: &Ticket,
) {
    let transaction = &running.transaction;
    let is_led = store.known().handle_of(ticket.slot).is_some_and(|handle| handle.leading());
    if transaction.slot().is_some() && (is_led || transaction.has_writes()) {
        note_written(store, connection, ticket);
    }
}

/// What the connection has written is in the entry that was applied last in the shard, or before it; or else, if it was not waited
/// for, in the entry of which the answer tells: for WAIT.
fn note_written(store: &NodeShared, connection: &mut Connection, ticket: &Ticket) {
    let known = store.known();
    let handle = known.handle_of(ticket.slot);
    match handle {
        Some(handle) if handle.leading() => {
            connection.session.wrote(handle.id(), handle.engine().applied_index());
            connection.wrote_here(ticket.slot);
        }
        // What a follower has applied may be less than what was answered.
        _ => known.shard_of(ticket.slot).into_iter().for_each(|shard| connection.session.wrote_elsewhere(shard)),
    }
    if let Some(entry) = ticket.early {
        connection.session.wrote_early(entry, |before| is_applied(store, before));
        connection.early_is_here(ticket.slot);
    }
    // Of one shard only: a client may have written to many, and is answered often.
    let shard = ticket.early.map(|entry| entry.shard).or(handle.map(|handle| handle.id()));
    connection.session.settle_early(|entry| Some(entry.shard) == shard && is_applied(store, entry));
}
