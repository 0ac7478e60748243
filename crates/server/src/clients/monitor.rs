//! MONITOR on an event loop: shows monitors the commands that were run.

use super::crowds::ForMany;
use super::pushes::show_to;
use super::registry::Clients;
use super::request::Request;
use super::turn::Turn;
use crate::mailbox::{SubscriberNews, WorkerMessage};
use crate::shared::NodeShared;
use node::pubsub::workers_of;
use node::session::Host as _;
use node::{DeniedCall, MonitoredCalls, Ticket, monitored};
use std::sync::Arc;

/// Shows monitors of all workers a request that was run, or queued by MULTI, as the client of that database has sent it.
#[inline]
pub(super) fn show(turn: &mut Turn<'_>, database: u16, request: Request<'_>) {
    if turn.requests.store.monitors.any() {
        show_all(turn, database, request);
    }
}

#[cold]
fn show_all(turn: &mut Turn<'_>, database: u16, request: Request<'_>) {
    let store = turn.requests.store.clone();
    let Some(connection) = turn.clients.get(request.id).filter(|connection| !connection.session.was_rejected()) else {
        return;
    };
    let client = (database, &*connection.session.entry().addr);
    let Some(line) = monitored(store.now_us(), client, request.spec, request.args) else { return };
    show_line(&store, turn.clients, line);
}

/// Counts the commands of scripts, and shows them to monitors of all workers after the requests that ran the scripts.
pub(crate) fn show_calls(store: &NodeShared, worker: usize, calls: MonitoredCalls) {
    store.stats.worker(worker).ran_in_script(calls.all_ended());
    let lines = calls.into_lines();
    if !lines.is_empty() {
        store.mailboxes.tell(worker, WorkerMessage::Subscribers(SubscriberNews::ScriptCalls(lines)));
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
    if clients.crowds.takes(own.len()) {
        let bytes = (line.len() * own.len()) as u64;
        if clients.crowds.add(ForMany::Shown(line.clone(), own), bytes) {
            store.broker.sets_out(bytes);
        }
        return;
    }
    own.iter().for_each(|client| show_to(clients, client.into(), line));
}
