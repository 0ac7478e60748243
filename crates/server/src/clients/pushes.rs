//! What clients are sent unasked: messages, commands that monitors see, ends of subscriptions.

use super::client_id::ClientId;
use super::crowds::{COPIED_STEP_BYTES_SOFT, ForMany, copied_bytes};
use super::invalidations::{tell_here, tell_these};
use super::letters::Letter;
use super::registry::Clients;
use crate::mailbox::WorkerMessage;
use node::pubsub::{Delivery, Evicted, Subscriber, SubscriptionKind};
use resp::Reply;
use vocab::limits::CLIENTS_TOLD_STEP_MAX;

/// Brings what was published to those of a worker's connections that have subscribed to it, in its order: very many by and by, and many of
/// those who get a copy of much. One that is too slow is closed. Answers how many bytes all of them get.
pub(crate) fn push(clients: &mut Clients, deliveries: &[Delivery]) -> usize {
    let worker = clients.worker() as u32;
    let (mut receivers, mut copied, mut bytes) = (0, 0, 0);
    for Delivery { push, audience, .. } in deliveries {
        let own = audience.of_worker(worker).len();
        receivers += own;
        copied += own * copied_bytes(push);
        bytes += own * push.bytes();
    }
    if !clients.crowds.takes_all(receivers, copied) {
        for delivery in deliveries {
            delivery.audience.of_worker(worker).iter().for_each(|client| push_to(clients, client.into(), delivery));
        }
        return bytes;
    }
    for delivery in deliveries.iter().filter(|delivery| !delivery.audience.of_worker(worker).is_empty()) {
        // Until they have it, publishers wait for it.
        let bytes = (delivery.push.bytes() * delivery.audience.of_worker(worker).len()) as u64;
        if clients.crowds.add(ForMany::Message(delivery.clone()), bytes) {
            clients.store().broker.sets_out(bytes);
        }
    }
    bytes
}

/// Brings it to one of them.
pub(super) fn push_to(clients: &mut Clients, client: ClientId, delivery: &Delivery) {
    let Some(connection) = clients.get_mut(client.id) else {
        if let Some(away) = clients.away(client) {
            away.letters.keep(Letter::Push(delivery.clone()));
        }
        return;
    };
    let listens =
        connection.generation == client.generation && connection.session.listens(delivery.kind, &delivery.name);
    if listens && !connection.is_broken() {
        connection.push_message(&delivery.push);
        clients.pushed(client.id);
    }
}

/// Shows a monitor a command. One that does not take what it is shown is closed as a slow subscriber is.
pub(super) fn show_to(clients: &mut Clients, client: ClientId, line: &[u8]) {
    let connection = clients.get_mut(client.id).filter(|connection| connection.generation == client.generation);
    let Some(connection) = connection else {
        if let Some(away) = clients.away(client) {
            away.letters.keep(Letter::Shown(line.to_vec()));
        }
        return;
    };
    if !connection.is_broken() && connection.session.is_monitor() {
        connection.push(|_, output| output.extend_from_slice(line));
        clients.pushed(client.id);
    }
}

/// The subscriptions of some of a worker's connections to a channel of a slot have ended: they are told.
pub(crate) fn evict(clients: &mut Clients, evicted: &Evicted) {
    for client in evicted.audience.of_worker(clients.worker() as u32) {
        evict_one(clients, client.into(), evicted);
    }
}

/// One of them is told.
pub(super) fn evict_one(clients: &mut Clients, client: ClientId, evicted: &Evicted) {
    if let Some(away) = clients.away(client) {
        return away.letters.keep(Letter::Evicted(evicted.clone()));
    }
    let Some(connection) = clients.find(client) else { return };
    let Some(left) = connection.session.evicted(&evicted.name) else { return };
    connection.push(|proto, output| {
        let mut reply = Reply::with_buffer(std::mem::take(output), proto);
        reply.push(3);
        reply.bulk(SubscriptionKind::ShardChannel.unsubscribed());
        reply.bulk(&evicted.name);
        reply.int(left as i64);
        *output = reply.buf;
    });
    clients.touch(client.id);
}

/// Brings some of the clients what is for them.
pub(crate) fn bring_some(clients: &mut Clients) {
    if clients.crowds.is_empty() {
        return;
    }
    let store = clients.store().clone();
    let (mut left, mut left_bytes) = (CLIENTS_TOLD_STEP_MAX, COPIED_STEP_BYTES_SOFT);
    // Half of them: what else waits must go on, or it would stay too much.
    if let Some(told) = clients.crowds.take_forgetful(left / 2) {
        left -= told.clients.len();
        tell_here(&store, clients, &told);
    }
    while left > 0
        && left_bytes > 0
        && let Some(mut crowd) = clients.crowds.take_next()
    {
        let each = crowd.what.copied_bytes();
        // One has it in any case: nothing is too long for a turn.
        let most = left.min((left_bytes / each.max(1)).max(1));
        let (done, is_over) = bring(clients, &crowd.what, crowd.next, most);
        (crowd.next, left) = (crowd.next + done, left.saturating_sub(done.max(1)));
        left_bytes = left_bytes.saturating_sub(done * each);
        if !is_over {
            clients.crowds.put_back(crowd);
            continue;
        }
        clients.crowds.end(&crowd);
        // Publishers that waited for that go on.
        if store.broker.arrived(crowd.bytes) {
            store.mailboxes.tell_all(|| WorkerMessage::Led);
        }
    }
}

/// Brings it to some of its clients, from the `next` one on; answers how many were looked at, and whether they were the last.
fn bring(clients: &mut Clients, what: &ForMany, next: usize, most: usize) -> (usize, bool) {
    let some = |all: &[Subscriber]| next..all.len().min(next + most);
    match what {
        ForMany::Message(delivery) => {
            let all = delivery.audience.of_worker(clients.worker() as u32);
            let some = &all[some(all)];
            some.iter().for_each(|client| push_to(clients, ClientId::from(client), delivery));
            (some.len(), next + some.len() == all.len())
        }
        ForMany::Forgotten(told) => {
            let some = &told.clients[some(&told.clients)];
            let store = clients.store().clone();
            tell_these(&store, clients, told, some);
            (some.len(), next + some.len() == told.clients.len())
        }
        ForMany::Shown(line, all) => {
            let some = &all[some(all)];
            some.iter().for_each(|client| show_to(clients, client.into(), line));
            (some.len(), next + some.len() == all.len())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use node::pubsub::ClientSubscriptions;

    #[test]
    fn what_matches_very_many_patterns_is_brought_by_and_by() {
        const STEP: usize = CLIENTS_TOLD_STEP_MAX;
        // How many patterns one client has that the channel matches, and after how many turns it has all messages.
        for (patterns, turns) in [(STEP, 0), (STEP + 1, 2), (3 * STEP, 3)] {
            let node = IdleNode::open();
            let mut clients = Clients::new(0, node.store.clone());
            let client = Subscriber { worker: 0, connection: 1, generation: 1 };
            let names: Vec<String> = (1..=patterns).map(|stars| "*".repeat(stars)).collect();
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let (mut own, kind) = (ClientSubscriptions::default(), SubscriptionKind::Pattern);
            node.store.broker.subscribe(client, &mut own, kind, &names, |_, _| {}).unwrap();
            let publication = node.store.broker.publish(SubscriptionKind::Channel, b"news", b"hi");
            assert_eq!(publication.receivers(), patterns);
            push(&mut clients, &publication.deliveries);
            let mut taken = 0;
            while !clients.crowds.is_empty() {
                bring_some(&mut clients);
                taken += 1;
            }
            assert_eq!(taken, turns, "{patterns} patterns");
        }
    }
}
