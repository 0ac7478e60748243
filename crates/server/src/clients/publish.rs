//! PUBLISH and SPUBLISH on an event loop: a message to its subscribers.

use super::message_send::send_message;
use super::pushes::push;
use super::reply_queue::Effect;
use super::request::Request;
use super::turn::{Step, Turn};
use crate::shared::refusal_text;
use node::pubsub::{Refused, SubscriptionKind};
use node::read::{Begin, NotHere, ReadRequest};
use node::session::Consistency;
use resp::Reply;
use vocab::limits::PUSH_LOOK_BYTES_SOFT;
use vocab::slot_of;

/// Brings a client's message to its subscribers. The reply is their number; where other nodes have some, it comes when these
/// have told theirs.
pub(super) fn publish(turn: &mut Turn<'_>, request: Request<'_>, kind: SubscriptionKind, reply: &mut Reply) -> Step {
    let Request { id, args, .. } = request;
    let (channel, message) = (args[1], args[2]);
    if channel.len() > kind.name_bytes_max() {
        return turn.refuse(id, &Refused::Channel.to_string(), reply);
    }
    if turn.requests.store.broker.is_full() {
        return turn.stall(id);
    }
    if turn.requests.pushed_bytes > PUSH_LOOK_BYTES_SOFT {
        // What was pushed leaves first; other connections have their turn.
        turn.clients.set_ready(id);
        return turn.stall(id);
    }
    if kind == SubscriptionKind::ShardChannel
        && let Some(step) = led_elsewhere(turn, id, channel, reply)
    {
        return step;
    }
    if turn.requests.store.broker.has_many_patterns(channel) && turn.clients.may_lend() {
        return Step::Lend;
    }
    let publication = turn.requests.store.broker.publish(kind, channel, message);
    let brings = (!turn.clients.are_of_thread()).then_some(turn.requests.worker as u32);
    for delivery in &publication.deliveries {
        turn.requests.store.mailboxes.deliver(&turn.requests.store.broker, delivery, brings);
    }
    if brings.is_some() {
        turn.requests.pushed_bytes += push(turn.clients, &publication.deliveries);
    }
    if publication.nodes.is_empty() {
        reply.int(publication.receivers() as i64);
        turn.clients.put_unless_silent(id, &reply.buf);
        turn.finished(request, &reply.buf);
        return Step::Next;
    }
    // No other request waits for this one: where it is in the order is settled when it is sent.
    if let Some(ticket) = turn.clients.register(request, 0, Effect::Read, turn.requests.clock) {
        send_message(&turn.requests.store, ticket, &publication, &kind.known_name(channel), message);
    }
    Step::Next
}

/// What becomes of a message for a channel whose slot this node is not known to lead.
fn led_elsewhere(turn: &mut Turn<'_>, id: usize, channel: &[u8], reply: &mut Reply) -> Option<Step> {
    let slot = slot_of(channel);
    let asked = ReadRequest::new(slot, Consistency::Absolute, turn.arrived_us(id));
    let known = turn.requests.store.known();
    let local = known.local(turn.requests.store.node(), known.shard_of(slot));
    match asked.begin(local, turn.now, || turn.requests.store.moment()) {
        Begin::Run(_) => None,
        Begin::WaitForLease(shard) => Some(turn.wait_for_lease(id, shard)),
        // Such a message does not go to other nodes.
        Begin::NotHere(why @ NotHere::Redirect(_)) => {
            let text = refusal_text(&known, slot, Consistency::Absolute, &why);
            Some(turn.refuse(id, &text, reply))
        }
        Begin::NotHere(why) => Some(turn.not_here(id, slot, Consistency::Absolute, &why)),
    }
}
