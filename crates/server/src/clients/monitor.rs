//! MONITOR on an event loop: shows monitors the commands that were run.

use super::client_id::ClientId;
use super::connection::Connection;
use super::crowds::ForMany;
use super::letters::Letter;
use super::pushes::show_to;
use super::registry::Clients;
use super::request::Request;
use super::turn::Turn;
use crate::mailbox::{EMBEDDED, SubscriberNews, WorkerMessage};
use crate::shared::NodeShared;
use node::pubsub::{Subscriber, workers_of};
use node::session::{Host as _, Keyspace, Session};
use node::{DeniedCall, MonitoredCalls, ShownCall, Ticket, monitored};
use std::sync::Arc;

/// Shows monitors of all workers a request that was run, or queued by MULTI, as the client of that database has sent it. A request of a
/// client of another node is shown at that node.
#[inline]
pub(super) fn show(turn: &mut Turn<'_>, database: u16, request: Request<'_>) {
    if turn.requests.store.monitors.any() {
        show_all(turn, database, request);
    }
}

#[cold]
fn show_all(turn: &mut Turn<'_>, database: u16, request: Request<'_>) {
    let store = turn.requests.store.clone();
    let is_shown =
        |connection: &&Connection| !connection.session.was_rejected() && !is_of_other_node(&connection.session);
    let Some(connection) = turn.clients.get(request.id).filter(is_shown) else { return };
    let client = (database, &*connection.session.entry().addr);
    let Some(line) = monitored(store.now_us(), client, request.spec, request.args) else { return };
    show_line(&store, turn.clients, line);
}

/// Whether a request is shown at another node, which its client is connected to.
fn is_of_other_node(session: &Session) -> bool {
    session.keyspace() == Keyspace::Stored
}

/// Counts what a read has run in a script of that client, and has it shown behind the request.
pub(crate) fn show_calls(store: &NodeShared, client: Subscriber, calls: MonitoredCalls) {
    let worker = client.worker as usize;
    store.stats.worker(worker).ran_in_script(calls.all_ended());
    let lines: Vec<Vec<u8>> = calls.into_lines().into_iter().map(|call| call.line).collect();
    if !lines.is_empty() {
        store.mailboxes.tell(worker, WorkerMessage::Subscribers(SubscriberNews::ScriptCalls(client, lines)));
    }
}

/// The same for a script that an event loop has run: what is for another node goes out before the answer.
pub(super) fn show_calls_here(store: &NodeShared, clients: &mut Clients, id: usize, calls: MonitoredCalls) {
    let Some(connection) = clients.get(id) else { return };
    let client = connection.session.subscriber();
    if !is_of_other_node(&connection.session) {
        return show_calls(store, client, calls);
    }
    store.stats.worker(clients.worker()).ran_in_script(calls.all_ended());
    calls.into_lines().into_iter().for_each(|call| show_call(store, clients, client, call.line));
}

/// Shows what the scripts of an entry have run, each at the node of its client.
pub(crate) fn show_calls_of_entry(
    store: &NodeShared,
    clients: &mut Clients,
    calls: Vec<ShownCall>,
    tickets: &[Ticket],
) {
    let mut calls = calls.into_iter().peekable();
    while let Some(ShownCall { item, line }) = calls.next() {
        let client = item.and_then(|item| tickets.get(item)).and_then(Ticket::client);
        // A caller in this process has no connection.
        let Some(client) = client.filter(|client| client.worker != EMBEDDED) else {
            show_line(store, clients, line);
            continue;
        };
        if client.worker as usize == clients.worker() {
            show_call(store, clients, client, line);
            continue;
        }
        let mut lines = vec![line];
        while let Some(next) = calls.next_if(|next| next.item == item) {
            lines.push(next.line);
        }
        let news = SubscriberNews::ScriptCalls(client, lines);
        store.mailboxes.tell(client.worker as usize, WorkerMessage::Subscribers(news));
    }
}

/// Shows a command that a script of a client of this worker has run: to the monitors of the node that the client is connected to.
pub(crate) fn show_call(store: &NodeShared, clients: &mut Clients, client: Subscriber, line: Vec<u8>) {
    let client = ClientId::from(&client);
    if let Some(away) = clients.away(client) {
        return away.letters.keep(Letter::Called(line));
    }
    match clients.find(client) {
        Some(connection) if is_of_other_node(&connection.session) => {
            if connection.session.shows_calls() {
                connection.show_before(&line);
                clients.touch(client.id);
            }
        }
        _ => show_line(store, clients, line),
    }
}

/// Tells the worker of a client which command its script was refused.
pub(crate) fn tell_denied(store: &NodeShared, ticket: &Ticket, denied: Vec<DeniedCall>) {
    if !denied.is_empty() {
        store.mailboxes.tell(ticket.worker as usize, WorkerMessage::DeniedInScript(*ticket, denied));
    }
}

/// Shows a line to monitors of all workers.
pub(crate) fn show_line(store: &NodeShared, clients: &mut Clients, line: Vec<u8>) {
    let line: Arc<[u8]> = line.into();
    for worker in workers_of(&store.monitors.clients()) {
        if worker as usize == clients.worker() && !clients.are_of_thread() {
            show_here(store, clients, &line);
        } else if !store.broker.is_overfull() {
            store.broker.sets_out(line.len() as u64);
            let news = SubscriberNews::Monitored(line.clone());
            store.mailboxes.tell(worker as usize, WorkerMessage::Subscribers(news));
        }
    }
}

/// Shows a command to the monitors of this worker.
pub(crate) fn show_here(store: &NodeShared, clients: &mut Clients, line: &Arc<[u8]>) {
    let worker = clients.worker() as u32;
    let mut own = store.monitors.clients();
    own.retain(|client| client.worker == worker);
    if clients.crowds.takes(own.len(), line.len()) {
        let bytes = (line.len() * own.len()) as u64;
        if clients.crowds.add(ForMany::Shown(line.clone(), own), bytes) {
            store.broker.sets_out(bytes);
        }
        return;
    }
    own.iter().for_each(|client| show_to(clients, client.into(), line));
}
