//! What connections are looked at for: by ticks, because one was killed or a pause is over, when the users of the node change, and after
//! SWAPDB.

use super::client_id::ClientId;
use super::connection::Connection;
use super::invalidations::tell_own;
use super::large_clients::close_largest;
use super::letters::Letter;
use super::moved_waits::waits_elsewhere;
use super::registry::Clients;
use super::slow::note_slow;
use node::blocking::End;
use node::config::ClientClass;
use node::pubsub::Subscriber;
use node::tracking::Invalidation;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use vocab::limits::BLOCKED_CLIENTS_STEP_MAX;

/// Every connection is to be looked at again: one was killed, or a pause is over.
pub(crate) fn look_at_all(clients: &mut Clients) {
    clients.rounds.begin_look(&clients.connections);
}

/// Databases have the slots of others: `done` is told when every wait that is to go on elsewhere has been told to end.
pub(crate) fn databases_exchanged(clients: &mut Clients, done: SyncSender<()>) {
    if clients.databases_are_exchanged() {
        clients.rounds.begin_exchanged(&clients.connections);
    }
    clients.rounds.tell_exchanged(done);
}

/// The users of the node have changed: every connection is to go by it, those that have lost their user are closed, and then
/// `done` is told.
pub(crate) fn users_changed(clients: &mut Clients, done: Option<SyncSender<()>>) {
    clients.rounds.begin_users(&clients.connections, done);
}

/// Goes on with the rounds that are under way.
pub(crate) fn go_round(clients: &mut Clients) {
    if !clients.rounds.are_under_way() {
        return;
    }
    for id in clients.rounds.next_of_look(&mut clients.connections) {
        if let Some(away) = clients.connections.away_at(id) {
            away.letters.keep(Letter::Look);
        } else {
            clients.end_pause(id);
            clients.set_ready(id);
        }
    }
    for id in clients.rounds.next_of_users(&mut clients.connections) {
        if let Some(away) = clients.connections.away_at(id) {
            away.letters.keep(Letter::UsersChanged);
        } else {
            users_changed_at(clients, id);
        }
    }
    exchanged(clients);
    // They may have been given up.
    clients.rounds.take_told().into_iter().for_each(|done| _ = done.send(()));
    clients.rounds.take_told_exchanged().into_iter().for_each(|done| _ = done.send(()));
}

/// Databases have the slots of others: clients that wait go on for the keys that their names stand for now, and those that may have cached
/// keys are told to forget them. Requests before have found the old ones, later ones find the new.
fn exchanged(clients: &mut Clients) {
    let mut caching = Vec::new();
    for id in clients.rounds.next_of_exchanged(&mut clients.connections) {
        if let Some(away) = clients.connections.away_at(id) {
            away.letters.keep(Letter::Exchanged);
        } else {
            caching.extend(exchanged_at(clients, id));
        }
    }
    forget_all(clients, caching);
    let moving = clients.store().moving_waits.clone();
    for client in clients.rounds.take_moving() {
        let databases = clients.databases().clone();
        let Some(connection) = clients.find(client).filter(|it| waits_elsewhere(it, &databases).is_some()) else {
            continue;
        };
        let number = connection.session.entry().id;
        clients.unblock(client.id, number, End::Moved, None);
        if let Some(blocking) = clients.get_mut(client.id).and_then(Connection::blocking_mut) {
            blocking.moves(moving.clone());
        }
    }
}

/// Databases have the slots of others, since when one was away.
pub(super) fn exchanged_of(clients: &mut Clients, client: ClientId) {
    if clients.find(client).is_some() {
        let caching = exchanged_at(clients, client.id).into_iter().collect();
        forget_all(clients, caching);
    }
}

/// Notes a wait that is to move; answers the client if it may have cached keys.
fn exchanged_at(clients: &mut Clients, id: usize) -> Option<Subscriber> {
    let databases = clients.databases().clone();
    let connection = clients.get_mut(id)?;
    let client = ClientId { id, generation: connection.generation };
    let since_us = waits_elsewhere(connection, &databases);
    let session = &connection.session;
    let caches = session.tracking_elsewhere().is_some() && session.keyspace().database().is_some();
    let caching = caches.then(|| session.subscriber());
    if let Some(since_us) = since_us {
        clients.rounds.moves(since_us, client);
    }
    caching
}

/// Tells clients to forget what they have cached.
fn forget_all(clients: &mut Clients, caching: Vec<Subscriber>) {
    if !caching.is_empty() {
        let store = clients.store().clone();
        tell_own(&store, clients, &Arc::new(Invalidation { keys: None, is_broadcast: false, clients: caching }));
    }
}

/// The users have changed while one was away.
pub(super) fn users_changed_of(clients: &mut Clients, client: ClientId) {
    if clients.find(client).is_some() {
        users_changed_at(clients, client.id);
    }
}

fn users_changed_at(clients: &mut Clients, id: usize) {
    let store = clients.store().clone();
    let Some(connection) = clients.get_mut(id) else { return };
    let (is_refused, entry) = (connection.users_changed(&store), connection.session.entry().id);
    if connection.session.closing() {
        clients.set_ready(id);
    }
    if is_refused {
        clients.unblock(id, entry, End::Error, None);
    }
}

/// Finds the connections that are idle for too long, or to be closed.
pub(crate) fn tick(clients: &mut Clients, now_ms: u64) {
    clients.unstall_all();
    clients.unblock_again();
    let (store, worker) = (clients.store().clone(), clients.worker());
    let normal_limit = store.config.output_limit(ClientClass::Normal);
    clients.subscribers_limit = store.config.output_limit(ClientClass::Pubsub);
    let Clients { connections, rounds, subscribers_limit, taken_bytes, .. } = clients;
    let mut rooms_left = BLOCKED_CLIENTS_STEP_MAX;
    let mut dirty = Vec::new();
    let looked_at = rounds.next_of_tick(connections);
    for &id in &looked_at {
        let Some(connection) = connections.get_mut(id) else { continue };
        rooms_left -= usize::from(rooms_left > 0 && connection.give_room_back());
        let (before, unread) =
            (connection.session.entry().total_bytes(), connection.session.entry().buffers().output_bytes);
        connection.note_buffers();
        if connection.has_long_reply() || connection.session.entry().buffers().output_bytes < unread {
            // Who takes what it is sent is not idle.
            connection.session.active(now_ms);
        }
        *taken_bytes = (*taken_bytes + connection.session.entry().total_bytes()).saturating_sub(before);
        let limit = if connection.session.is_subscriber() { *subscribers_limit } else { normal_limit };
        if let Some(why) = connection.is_slow(limit, now_ms) {
            note_slow(&store, worker, connection, why);
        }
        let idle = connection.is_quiet() && connection.session.timed_out(&*store, now_ms);
        // What it does not read is not waited for.
        if (connection.session.entry().killed() || idle) && !connection.is_writable() {
            connection.break_off();
        }
        if connection.is_broken() && connection.mark_dirty() {
            dirty.push(id);
        }
        let ends = connection.session.closing() || connection.is_deaf();
        if idle || (ends && !connection.is_dirty()) {
            connection.hear_no_more();
            connection.mark_dirty();
            dirty.push(id);
        }
    }
    clients.put_dirty(dirty);
    close_largest(clients, &looked_at);
}
