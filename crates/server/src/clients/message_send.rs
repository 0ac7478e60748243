//! How a published message leaves for other nodes, and PUBLISH and SPUBLISH within transactions.

use crate::mailbox::{EMBEDDED, WorkerMessage};
use crate::os::steady_us;
use crate::shared::{Answers, NodeShared};
use node::Ticket;
use node::pubsub::{Publication, Refused, SubscriptionKind, posts};
use node::session::Host as _;
use resp::Reply;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits::RECEIVERS_WAIT_US_MAX;
use vocab::slot_of;

/// How long a transaction waits for the number of receivers: longer than the broker, which gives up before.
const WAIT_MAX: Duration = Duration::from_micros(2 * RECEIVERS_WAIT_US_MAX);

/// Sends a message to the other nodes that have subscribers, which know the channel by that name.
pub(super) fn send_message(
    store: &NodeShared,
    ticket: Ticket,
    publication: &Publication,
    channel: &[u8],
    message: &[u8],
) {
    let (id, answered) = store.broker.count(ticket, publication, steady_us());
    for (node, message) in posts(publication, id, channel, message) {
        store.mailboxes.tell_links_worker(WorkerMessage::Post(node, message));
    }
    if let Some(answered) = answered {
        store.answer(answered);
    }
}

/// Brings a message to its subscribers within a transaction, on a thread that may wait; answers the reply.
pub(super) fn publish_and_wait(
    store: &Arc<NodeShared>,
    kind: SubscriptionKind,
    args: &[&[u8]],
    ticket: Ticket,
) -> Vec<u8> {
    let mut reply = Reply::new(ticket.proto);
    let (channel, message) = (args[1], args[2]);
    if channel.len() > kind.name_bytes_max() {
        reply.error(&Refused::Channel.to_string());
        return reply.buf;
    }
    if kind == SubscriptionKind::ShardChannel
        && let Some(text) = store.refuses_slot(slot_of(channel))
    {
        reply.error(&text);
        return reply.buf;
    }
    let publication = store.broker.publish(kind, channel, message);
    for delivery in &publication.deliveries {
        store.mailboxes.deliver(&store.broker, delivery, None);
    }
    if publication.nodes.is_empty() {
        reply.int(publication.receivers() as i64);
        return reply.buf;
    }
    let (id, answers) = store.embedded.enter();
    let own =
        Ticket { worker: EMBEDDED, connection: id as u32, generation: answers.generation(), sequence: 0, ..ticket };
    send_message(store, own, &publication, &kind.known_name(channel), message);
    let mut taken = Answers::default();
    answers.take(Some(Instant::now() + WAIT_MAX), &mut taken);
    store.embedded.leave(id);
    taken.drain(&mut |_, answer| reply.raw(answer));
    if reply.buf.is_empty() {
        reply.int(publication.receivers() as i64);
    }
    reply.buf
}
