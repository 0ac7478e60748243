//! Requests that threads of the pool run.

use super::connection::Connection;
use super::deed::Deed;
use super::reply_queue::ALL_KEYS;
use super::request::Request;
use super::turn::{Step, Turn};
use crate::api::{PoolCommand, StoreRequest, begin_on_store};
use crate::disk_reads::next_part;
use node::EncodedCommand;
use node::command::StoreHandler;
use node::session::Consistency;
use resp::Reply;
use std::sync::Arc;

/// Has a thread of the pool run a request.
pub(super) fn run(turn: &mut Turn<'_>, request: Request<'_>, handler: PoolCommand) -> Step {
    let Some(ticket) = turn.begin_slow_read(request, ALL_KEYS) else { return Step::Stall };
    let (store, command) = (turn.requests.store.clone(), EncodedCommand::of(request.spec, request.args));
    let deed = turn.clients.get(request.id);
    let deed = deed.and_then(|connection| Deed::of(&connection.session, request.spec, request.args));
    turn.requests.store.pool.run_patient(Box::new(move || {
        let mut reply = Reply::new(ticket.proto);
        handler.run(&store, &command.args(), ticket.durability(), &mut reply);
        if let Some(deed) = deed {
            deed.note(&store, &reply);
        }
        store.mailboxes.answer(ticket, reply.buf);
    }));
    Step::Next
}

/// Has a thread of the pool run a command over the whole store.
pub(super) fn on_store(turn: &mut Turn<'_>, request: Request<'_>, handler: StoreHandler) -> Step {
    let Request { id, spec, args } = request;
    let Some(ticket) = turn.begin_slow_read(request, ALL_KEYS) else { return Step::Stall };
    let (store, command) = (turn.requests.store.clone(), EncodedCommand::of(spec, args));
    let (seed, arrived_us) = (turn.requests.next_seed(), turn.requests.arrived_us);
    let connection = turn.clients.get(id);
    let client = connection.map(|connection| Arc::downgrade(connection.session.entry()));
    let consistency = |connection: &Connection| connection.session.consistency_for(spec, args);
    let consistency = turn.clients.get(id).map_or(Consistency::Absolute, consistency);
    let job = Box::new(move || {
        let mut reply = Reply::new(ticket.proto);
        let asked = StoreRequest { args: &command.args(), seed, arrived_us, consistency, client };
        let stream = begin_on_store(&store, handler, &asked, &mut reply);
        store.mailboxes.tell(ticket.worker as usize, next_part(&store, ticket, stream, reply));
    });
    let pool = &turn.requests.store.pool;
    // Also a walk that may wait for other nodes: it takes longer than a wait.
    match handler.walk() {
        Some(walk) => pool.run_walk(walk, job),
        None if handler.awaits_others(args) => pool.run_patient(job),
        None => pool.run(job),
    }
    Step::Next
}
