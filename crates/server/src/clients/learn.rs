//! Scripts that this node does not know: it asks the metadata group, and the request that runs one begins again.

use super::client_id::ClientId;
use super::registry::Clients;
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::Request;
use super::turn::{Step, Turn};
use crate::api::{Routed, learn, route};
use crate::mailbox::{LearnedScript, WorkerMessage};
use crate::shared::NodeShared;
use resp::Reply;
use resp::table::CommandSpec;

/// Has this node know the script of a request, which begins again then; one that cannot be had is refused.
pub(super) fn learn_first(turn: &mut Turn<'_>, request: Request<'_>, reply: &mut Reply) -> Step {
    let Request { id, args, .. } = request;
    let Some(connection) = turn.clients.get_mut(id) else { return Step::Next };
    if let Some(text) = connection.take_learning_failure() {
        reply.error(&text);
        turn.finished(request, &reply.buf);
        turn.clients.put_unless_silent(id, &reply.buf);
        return Step::Next;
    }
    connection.begin_learning();
    let client = ClientId { id, generation: connection.generation };
    let (store, worker) = (turn.requests.store.clone(), turn.clients.worker());
    let (spec, name) = (request.spec, args[1].to_vec());
    turn.requests.store.pool.run_patient(Box::new(move || {
        let failed = learn(&store, spec, &name).err();
        let learned = LearnedScript { place: client.id, generation: client.generation, failed };
        store.mailboxes.tell(worker, WorkerMessage::LearnedScript(Box::new(learned)));
    }));
    turn.stall(id)
}

/// Has this node know the script of a command that MULTI has queued, before its client is told so. EXEC says what is wrong with it.
pub(super) fn learn_queued(turn: &mut Turn<'_>, request: Request<'_>, queued: &Reply) {
    let Some(ticket) = turn.clients.register(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock) else { return };
    let (store, reply) = (turn.requests.store.clone(), queued.buf.clone());
    let (spec, name) = (request.spec, request.args[1].to_vec());
    turn.requests.store.pool.run_patient(Box::new(move || {
        // What is not known by then is refused when it is to run.
        let _ = learn(&store, spec, &name);
        store.mailboxes.answer(ticket, reply);
    }));
}

/// The script of a connection's next request is known now, or cannot be had.
pub(crate) fn learned(clients: &mut Clients, learned: LearnedScript) {
    let client = ClientId { id: learned.place, generation: learned.generation };
    let Some(connection) = clients.find(client) else { return };
    connection.learned(learned.failed);
    clients.unstall(client.id);
}

/// Whether a request that MULTI has queued runs a script that this node does not know.
pub(super) fn is_of_unknown_script(store: &NodeShared, spec: &'static CommandSpec, args: &[&[u8]]) -> bool {
    matches!(route(store, spec, args), Ok(Routed::UnknownScript))
}
