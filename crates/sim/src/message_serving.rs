//! What publishers, listeners and other nodes want of a node, as a server's event loops deal with it.

use crate::bug::Bug;
use crate::checkers::Outcome;
use crate::event::{Event, NodeEvent};
use crate::messages::{Listened, MessageRequest, Party, Published, WireNews};
use crate::places::{Place, node_id, place_of};
use crate::sessions::Sessions;
use crate::store::Store;
use crate::wires::Sending;
use node::Ticket;
use node::peer_protocol::PeerMessage;
use node::pubsub::{self, Announcement, Answered, Delivery, Publication, SomeEvicted, Subscriber, SubscriptionKind};
use node::read::{Begin, ReadRequest};
use node::session::Consistency;
use resp::{Proto, Value};
use std::ops::Bound;
use vocab::{NodeId, slot_of};

/// The version of the protocol between nodes that all of them speak.
const VERSION: u16 = u16::MAX;

/// Tickets of publishers bear this as their worker, those of confirmations 0.
const PUBLISHERS: u32 = 1;

fn subscriber(party: Party) -> Subscriber {
    Subscriber { worker: 0, connection: party.0, generation: 1 }
}

/// A request comes to a node.
pub fn ask(store: &mut Store, place: Place, request: MessageRequest) -> Outcome {
    match request {
        MessageRequest::Subscribe(listened) => subscribe(store, place, listened)?,
        MessageRequest::Unsubscribe(listened) => {
            let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
            let Sessions { broker, own, .. } = &mut process.sessions;
            let Some(own) = own.get_mut(&listened.party) else { return Ok(()) };
            let (kind, name) = (listened.kind, listened.name.as_bytes());
            broker.unsubscribe(subscriber(listened.party), own, kind, &[name], |_, _| ());
            // A confirmation that is under way is of the subscription that ends, not of the next one to that name.
            process.sessions.unconfirmed.retain(|_, of| *of != listened);
            store.checks.messages.ended(&listened, store.env.now());
        }
        MessageRequest::Leave(party) => {
            let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
            if let Some(own) = process.sessions.own.remove(&party) {
                process.sessions.broker.leave(subscriber(party), &own);
            }
            store.checks.messages.left(party, store.env.now());
        }
        MessageRequest::Publish(message, kind, channel) => publish(store, place, message, kind, channel)?,
    }
    announce(store, place);
    Ok(())
}

fn subscribe(store: &mut Store, place: Place, listened: Listened) -> Outcome {
    let (kind, name) = (listened.kind, listened.name.as_bytes());
    if kind == SubscriptionKind::ShardChannel && leader_of(store, place, name) != Some(node_id(place)) {
        let leader = leader_of(store, place, name);
        store.env.after(0, Event::NotHere(listened.party, leader));
        return Ok(());
    }
    let now = store.moment(place);
    store.checks.messages.asked(&listened, place, store.env.now());
    let is_early = store.env.has(Bug::EarlyConfirm);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Sessions { broker, own, unconfirmed, last, .. } = &mut process.sessions;
    let own = own.entry(listened.party).or_default();
    let settled = broker.subscribe(subscriber(listened.party), own, kind, &[name], |_, _| ());
    let settled = settled.map_err(|refused| format!("a subscription is refused: {refused}"))?;
    *last += 1;
    let ticket = Ticket { worker: 0, sequence: *last, ..Ticket::NONE };
    unconfirmed.insert(*last, listened);
    let confirmation = Answered { ticket, reply: Vec::new() };
    let due = if settled.waits && !is_early { broker.wait(confirmation, now.mono_us) } else { Some(confirmation) };
    answer(store, place, due)
}

fn leader_of(store: &Store, place: Place, name: &[u8]) -> Option<NodeId> {
    let process = store.nodes[place].process.as_ref()?;
    process.leaders.of(process.shard_of(slot_of(name))?)
}

fn publish(
    store: &mut Store,
    place: Place,
    message: Published,
    kind: SubscriptionKind,
    channel: &'static str,
) -> Outcome {
    if kind == SubscriptionKind::ShardChannel && !may_publish_to_slot(store, place, channel.as_bytes()) {
        return Ok(());
    }
    let (now, text) = (store.moment(place), message.text());
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let broker = &process.sessions.broker;
    let publication = broker.publish(kind, channel.as_bytes(), text.as_bytes());
    let places: Vec<Place> = publication.nodes.iter().map(|node| place_of(*node)).collect();
    store.checks.messages.published(message, (kind, channel), (place, &places), store.env.now())?;
    let (mut id, mut answered) = (0, None);
    if !publication.nodes.is_empty() {
        let connection = message.party.0;
        let ticket = Ticket { worker: PUBLISHERS, connection, sequence: message.number, ..Ticket::NONE };
        (id, answered) = broker.count(ticket, &publication, now.mono_us);
    }
    let posts = pubsub::posts(&publication, id, &kind.known_name(channel.as_bytes()), text.as_bytes());
    let Publication { deliveries, .. } = publication;
    deliver(store, place, deliveries)?;
    for (to, message) in posts {
        post(store, place, to, message);
    }
    answer(store, place, answered)
}

/// Whether the node leads the slot of a channel for sure.
fn may_publish_to_slot(store: &Store, place: Place, channel: &[u8]) -> bool {
    let (turn, now, slot) = (store.turn(place), store.moment(place), slot_of(channel));
    let Some(process) = &store.nodes[place].process else { return false };
    let shard = process.shard_of(slot);
    let handle = shard.and_then(|shard| process.core.shard(shard)).map(|here| here.handle().clone());
    let asked = ReadRequest::new(slot, Consistency::Absolute, now.mono_us);
    matches!(asked.begin(process.local(node_id(place), shard, handle.as_ref()), turn, || now), Begin::Run(_))
}

/// Messages reach the clients of a node.
fn deliver(store: &mut Store, place: Place, deliveries: Vec<Delivery>) -> Outcome {
    for Delivery { push, kind, name, audience } in deliveries {
        let mut bytes = Vec::new();
        push.write(Proto::Resp2, &mut bytes);
        let words = match resp::decode(&bytes) {
            Ok(Some((Value::Array(words), length))) if length == bytes.len() => words,
            other => return Err(format!("a message is not one: {other:?}")),
        };
        let message = match words.last() {
            Some(Value::Bulk(text)) => Published::of_text(text),
            _ => None,
        };
        let message = message.ok_or_else(|| format!("a message that none has sent: {words:?}"))?;
        for client in audience.of_worker(0) {
            store.checks.messages.delivered(Party(client.connection), (kind, &name[..]), message, place)?;
        }
    }
    Ok(())
}

/// Replies go out.
fn answer(store: &mut Store, place: Place, answers: impl IntoIterator<Item = Answered>) -> Outcome {
    let now = store.env.now();
    for Answered { ticket, reply } in answers {
        let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
        if ticket.worker == PUBLISHERS {
            let message = Published { party: Party(ticket.connection), number: ticket.sequence };
            let Ok(Some((Value::Int(receivers), _))) = resp::decode(&reply) else {
                return Err(format!("the reply of PUBLISH is no number: {reply:?}"));
            };
            store.checks.messages.counted(message, receivers)?;
        } else if let Some(listened) = process.sessions.unconfirmed.remove(&ticket.sequence) {
            store.checks.messages.confirmed(&listened, now);
        }
    }
    Ok(())
}

/// Other nodes are told of changes of the interest.
fn announce(store: &mut Store, place: Place) {
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return };
    for Announcement { node, interest } in process.sessions.broker.take_announcements(now.mono_us) {
        post(store, place, node, PeerMessage::Interest(interest));
    }
}

/// 50 ms have passed.
pub fn tick(store: &mut Store, place: Place) -> Outcome {
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let due = process.sessions.broker.tick(now.mono_us);
    answer(store, place, due)?;
    announce(store, place);
    Ok(())
}

/// Leaders or the map have changed: subscriptions to channels of slots that others lead end.
pub fn evict(store: &mut Store, place: Place) {
    if store.env.has(Bug::KeepSubscribers) {
        return;
    }
    let Some(process) = &mut store.nodes[place].process else { return };
    let mut next = Some(Bound::Unbounded);
    while let Some(behind) = next {
        let leader_of = |slot| process.shard_of(slot).and_then(|shard| process.leaders.of(shard));
        let SomeEvicted { evicted, rest } =
            pubsub::evict_from_slots(&process.sessions.broker, node_id(place), &behind, leader_of);
        for evicted in evicted {
            for client in evicted.audience.of_worker(0) {
                let party = Party(client.connection);
                if let Some(own) = process.sessions.own.get_mut(&party) {
                    own.remove(SubscriptionKind::ShardChannel, &evicted.name);
                }
                store.checks.messages.evicted(party, &evicted.name, store.env.now());
            }
        }
        next = rest;
    }
}

/// Something comes over the link of that number.
pub fn news(store: &mut Store, place: Place, from: NodeId, number: u64, news: WireNews) -> Outcome {
    let other = place_of(from);
    match news {
        WireNews::Up => {
            let Some(had_another) = store.wires.has(place, other, number) else { return Ok(()) };
            if had_another {
                down(store, place, from)?;
            }
            let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
            if !(store.env.has(Bug::ForgetInterest) && number > 1) {
                pubsub::link_up(&process.sessions.broker, from, VERSION);
            }
            if store.wires.is_whole(place, other) {
                store.checks.messages.linked(place, other, store.env.now());
            }
            announce(store, place);
        }
        WireNews::Down => {
            if store.wires.noticed(place, other, number) {
                down(store, place, from)?;
            }
        }
        WireNews::Message(bytes) => {
            if store.wires.carries(place, other, number) {
                let message = PeerMessage::decode(&bytes).map_err(|e| format!("a message cannot be read: {e}"))?;
                hear(store, place, from, message)?;
            }
        }
    }
    Ok(())
}

fn down(store: &mut Store, place: Place, other: NodeId) -> Outcome {
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let due = process.sessions.broker.link_down(other);
    answer(store, place, due)
}

fn hear(store: &mut Store, place: Place, from: NodeId, message: PeerMessage) -> Outcome {
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let confirms = matches!(message, PeerMessage::InterestKnown { .. });
    let heard = pubsub::hear(&process.sessions.broker, from, message, now.mono_us);
    answer(store, place, heard.answers)?;
    deliver(store, place, heard.deliveries)?;
    if let Some(reply) = heard.reply {
        post(store, place, from, reply);
    }
    if confirms {
        announce(store, place);
    }
    Ok(())
}

/// A message goes to another node, in its order.
fn post(store: &mut Store, from: Place, to: NodeId, message: PeerMessage) {
    let is_message = matches!(message, PeerMessage::Publish { .. });
    if is_message && store.env.has(Bug::SwapMessages) {
        let Some(process) = &mut store.nodes[from].process else { return };
        let Some(before) = process.sessions.held_back.remove(&to) else {
            process.sessions.held_back.insert(to, message);
            return;
        };
        send(store, from, to, &message);
        return send(store, from, to, &before);
    }
    send(store, from, to, &message);
    if is_message && store.env.has(Bug::DoubleMessage) {
        send(store, from, to, &message);
    }
}

fn send(store: &mut Store, from: Place, to: NodeId, message: &PeerMessage) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let (other, now) = (place_of(to), store.env.now());
    let is_cut = store.env.is_cut(from, other);
    let fails = !store.env.is_healing() && store.env.plan().faults.network;
    match store.wires.send(from, other, now, (is_cut, fails)) {
        Sending::Arrives(delay, number) => {
            let news = NodeEvent::Wire(node_id(from), number, WireNews::Message(bytes));
            store.env.later(delay, other, news);
        }
        Sending::Lost => {}
        Sending::Dropped => store.checks.messages.dropped(from, other, now),
        Sending::Breaks => {
            if store.wires.break_off(from, other, &mut store.env) {
                store.checks.messages.unlinked(from, other);
            }
        }
    }
}

/// One of two nodes calls the other.
pub fn dial(store: &mut Store, a: Place, b: Place) {
    let run = [a, b].iter().all(|place| store.nodes[*place].process.is_some());
    let are_reachable = !store.env.is_cut(a, b) && !store.nodes[a].paused && !store.nodes[b].paused;
    store.wires.dial(a, b, (run, are_reachable), &mut store.env);
}

/// A process has been started: it and the others find each other.
pub fn started(store: &mut Store, place: Place) {
    if store.env.plan().listeners == 0 {
        return;
    }
    for other in (0..store.nodes.count()).filter(|other| *other != place) {
        store.wires.call(place, other, &mut store.env);
    }
}
