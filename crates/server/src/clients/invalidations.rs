//! CLIENT TRACKING on an event loop: clients are registered for the keys that they read, and told of changes.

use super::client_id::ClientId;
use super::connection::Connection;
use super::letters::Letter;
use super::registry::Clients;
use crate::mailbox::{SubscriberNews, WorkerMessage};
use crate::shared::NodeShared;
use node::ShardHandle;
use node::config::ClientClass;
use node::pubsub::Subscriber;
use node::session::ToldHow;
use node::tracking::{Invalidation, ToldRoom, write_broken_redirect};
use resp::Proto;
use resp::table::{CommandSpec, behaviour};
use std::sync::Arc;

/// Keys that are evicted from the table in a turn.
const EVICTED_PER_TURN_MAX: usize = 1024;
/// Bytes that clients are told of evicted keys in a turn, each counted for each client.
const EVICTED_BYTES_PER_TURN_SOFT: usize = 256 * 1024;
/// Clients, as often as they are registered, that are found in a turn to forget all.
const LOST_PER_TURN_MAX: usize = 4096;

/// Registers a client for the keys of a command before it is run, if that reads and its client is to be told of changes. Of a script
/// its run tells what it reads.
#[inline]
pub(super) fn track(connection: &Connection, handle: &ShardHandle, spec: &CommandSpec, args: &[&[u8]]) {
    if !spec.does(behaviour::RUNS_SCRIPT) {
        track_declared(connection, handle, spec, args);
    }
}

/// The same; of a script that only reads, the keys that it declares.
#[inline]
pub(super) fn track_declared(connection: &Connection, handle: &ShardHandle, spec: &CommandSpec, args: &[&[u8]]) {
    if !spec.is_write()
        && let Some(tracker) = connection.session.tracker()
        && let Some(keys) = handle.tracked()
        && let Ok(positions) = spec.keys(args)
    {
        keys.add(positions.map(|at| args[at]), tracker);
    }
}

/// Tells clients of an invalidation, whichever workers they are of.
pub(crate) fn tell(store: &NodeShared, clients: &mut Clients, told: Invalidation) {
    let told = Arc::new(told);
    for worker in told.workers() {
        if worker as usize == clients.worker() {
            tell_own(store, clients, &told);
        } else {
            let news = SubscriberNews::Invalidated(told.clone());
            store.mailboxes.tell(worker as usize, WorkerMessage::Subscribers(news));
        }
    }
}

/// Tells the clients of this worker: very many by and by, and many of those who are told much.
pub(crate) fn tell_own(store: &NodeShared, clients: &mut Clients, told: &Arc<Invalidation>) {
    if clients.crowds.takes(told.clients.len(), told.bytes()) {
        let worker = clients.worker() as u32;
        clients.crowds.add_forgotten(told, worker);
    } else {
        tell_here(store, clients, told);
    }
}

/// Tells the clients of this worker at once.
pub(super) fn tell_here(store: &NodeShared, clients: &mut Clients, told: &Invalidation) {
    tell_these(store, clients, told, &told.clients);
}

/// Whether a client is owed so much already that it is told to forget all rather than which keys: that is never wrong, and short. It is
/// closed if it goes on to take too little.
fn is_behind(store: &NodeShared, connection: &Connection) -> bool {
    let class = if connection.session.is_subscriber() { ClientClass::Pubsub } else { ClientClass::Normal };
    let limit = store.config.output_limit(class);
    connection.owes_more(if limit.soft_bytes > 0 { limit.soft_bytes } else { limit.hard_bytes })
}

/// Tells some of its clients: those of this worker.
pub(super) fn tell_these(store: &NodeShared, clients: &mut Clients, told: &Invalidation, some: &[Subscriber]) {
    let worker = clients.worker();
    let all = Invalidation::forget_all(Vec::new());
    // Who is told here speaks RESP3: it is encoded once for all of them.
    let encoded = (some.len() > 1).then(|| {
        let mut encoded = Vec::new();
        told.write(Proto::Resp3, &mut encoded);
        encoded
    });
    for client in some.iter().filter(|client| client.worker as usize == worker) {
        let id = ClientId::from(client);
        if let Some(away) = clients.away(id) {
            away.letters.keep(Letter::Told(told.to(*client)));
            continue;
        }
        let Some(connection) = clients.find(id) else { continue };
        match connection.session.told_how(told) {
            ToldHow::NotAtAll => continue,
            ToldHow::Here if told.keys.is_some() && is_behind(store, connection) => {
                connection.invalidate(|proto, output| all.write(proto, output));
            }
            ToldHow::Here => connection.invalidate(|proto, output| match &encoded {
                Some(encoded) => output.extend_from_slice(encoded),
                None => told.write(proto, output),
            }),
            ToldHow::ByAnother(other) => match store.clients.get(other) {
                Some(entry) => {
                    let told = told.to(entry.subscriber());
                    if entry.worker == worker && !clients.are_of_thread() {
                        tell_instead(clients, &told);
                    } else {
                        let news = SubscriberNews::Redirected(Box::new(told));
                        store.mailboxes.tell(entry.worker, WorkerMessage::Subscribers(news));
                    }
                    continue;
                }
                None => {
                    connection.session.redirect_is_broken();
                    if connection.session.proto() == Proto::Resp3 {
                        connection.invalidate(|_, output| write_broken_redirect(other, output));
                    }
                }
            },
        }
        clients.touch(id.id);
    }
}

/// Tells clients of this worker instead of others: one of RESP2 only while it listens.
pub(crate) fn tell_instead(clients: &mut Clients, told: &Invalidation) {
    let (store, all) = (clients.store().clone(), Invalidation::forget_all(Vec::new()));
    for client in &told.clients {
        let id = ClientId::from(client);
        if let Some(away) = clients.away(id) {
            away.letters.keep(Letter::Instead(told.to(*client)));
            continue;
        }
        let Some(connection) = clients.find(id) else { continue };
        if connection.session.proto() == Proto::Resp3 || connection.session.is_subscriber() {
            let told = if told.keys.is_some() && is_behind(&store, connection) { &all } else { told };
            connection.push(|proto, output| told.write(proto, output));
            clients.touch(id.id);
        }
    }
}

/// Tells clients to forget all where changes may have been missed, and keeps the table within its bound.
pub(crate) fn tend(store: &NodeShared, clients: &mut Clients) {
    if let Some(lost) = store.tracking.take_lost(LOST_PER_TURN_MAX) {
        tell(store, clients, lost);
    }
    if clients.databases_are_exchanged() {
        clients.rounds.begin_exchanged(&clients.connections);
    }
    let excess = store.tracking.excess(store.config.tracked_keys_max());
    // One worker does it: several would evict too many.
    if excess == 0 || clients.worker() > 0 {
        return;
    }
    // Requests bring keys faster than turns evict them one by one.
    if excess > store.tracking.keys() / 2 && excess > EVICTED_PER_TURN_MAX {
        store.known().data_handles().for_each(|handle| handle.lose_trackers());
        return;
    }
    let mut room = ToldRoom::new(excess.min(EVICTED_PER_TURN_MAX), EVICTED_BYTES_PER_TURN_SOFT);
    for keys in store.known().data_handles().filter_map(|handle| handle.tracked()) {
        keys.evict(&mut room).into_iter().for_each(|told| tell(store, clients, told));
        if room.is_over() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use node::session::Keyspace;

    #[test]
    fn a_client_is_behind_beyond_its_soft_limit_or_else_the_hard_one() {
        let node = IdleNode::open();
        let mut clients = Clients::new(0, node.store.clone());
        let (stream, _socket) = IdleNode::accept();
        clients.connect(stream, Keyspace::Cluster, node.poll.registry(), 0);
        let id = clients.ids()[0];
        clients.get_mut(id).unwrap().push(|_, output| output.extend_from_slice(&[b'x'; 100]));
        for (limits, expected) in [
            ("normal 0 0 0", false),
            ("normal 99 0 0", true),
            ("normal 100 0 0", false),
            ("normal 200 99 60", true),
            ("normal 200 100 60", false),
        ] {
            node.store.config.set(&[(b"client-output-buffer-limit", limits.as_bytes())]).unwrap();
            assert_eq!(is_behind(&node.store, clients.get(id).unwrap()), expected, "{limits}");
        }
    }
}
