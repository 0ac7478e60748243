//! The nodes' exchange about subscribers: what a received message changes, what is sent, and which node has a slot's channels.

use super::announcements::Answered;
use super::broker::{Broker, Publication};
use super::delivery::Delivery;
use super::kind::Name;
use super::subscriptions::SomeEvicted;
use crate::peer_protocol::PeerMessage;
use std::ops::Bound;
use vocab::{NodeId, Slot};

/// The first version of the protocol between nodes whose speakers know of subscribers.
const MESSAGES_SINCE: u16 = 5;

/// What comes of something that another node has told.
#[derive(Debug, Default)]
pub struct Heard {
    /// The clients of this node that get a message, in its publisher's order.
    pub deliveries: Vec<Delivery>,
    /// Replies that are due.
    pub answers: Vec<Answered>,
    /// What that node is to be told.
    pub reply: Option<PeerMessage>,
}

/// There is a link to a node, over which that version of the protocol is spoken: it is told the whole interest.
pub fn link_up(broker: &Broker, node: NodeId, version: u16) {
    if version >= MESSAGES_SINCE {
        broker.link_up(node);
    }
}

/// A node has told something. What is not about subscribers comes to nothing.
#[must_use]
pub fn hear(broker: &Broker, from: NodeId, message: PeerMessage, now_us: u64) -> Heard {
    let mut heard = Heard::default();
    match message {
        PeerMessage::Interest(interest) => {
            let known = broker.hear_interest(from, &interest);
            heard.reply = known.map(|number| PeerMessage::InterestKnown { number });
        }
        PeerMessage::InterestKnown { number } => heard.answers = broker.confirmed(from, number, now_us),
        PeerMessage::Publish { id, channel, message } => {
            let publication = broker.heard(&channel, &message);
            let receivers = publication.receivers() as u64;
            // No client waits for the number of a message that has none.
            heard.reply = (id > 0).then_some(PeerMessage::Published { id, receivers });
            heard.deliveries = publication.deliveries;
        }
        PeerMessage::Published { id, receivers } => heard.answers.extend(broker.counted(from, id, receivers)),
        _ => {}
    }
    heard
}

/// What other nodes are sent of a message, to a channel that they know by that name. Where no client waits for the number of
/// receivers, its own is 0.
#[must_use]
pub fn posts(publication: &Publication, id: u64, channel: &[u8], message: &[u8]) -> Vec<(NodeId, PeerMessage)> {
    if publication.nodes.is_empty() {
        return Vec::new();
    }
    let message = PeerMessage::Publish { id, channel: channel.into(), message: message.into() };
    publication.nodes.iter().map(|node| (*node, message.clone())).collect()
}

/// Ends the subscriptions to channels of slots that other nodes are known to lead. One that is led by none, as far as this node
/// knows, stays: it may be led here again. Some of the channels at a time, those behind that one.
pub fn evict_from_slots(
    broker: &Broker,
    me: NodeId,
    behind: &Bound<Name>,
    leader_of: impl Fn(Slot) -> Option<NodeId>,
) -> SomeEvicted {
    broker.evict(behind, |slot| leader_of(slot).is_some_and(|leader| leader != me))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_protocol::{Interest, Wish};
    use crate::pubsub::{ClientSubscriptions, SubscriptionKind};
    use crate::shard::Ticket;
    use crate::subscriber::Subscriber;
    use vocab::slot_of;

    const HERE: NodeId = NodeId(1);
    const THERE: NodeId = NodeId(2);

    fn broker(kind: SubscriptionKind, name: &[u8]) -> Broker {
        let (broker, mut own) = (Broker::default(), ClientSubscriptions::default());
        let client = Subscriber { worker: 0, connection: 1, generation: 1 };
        assert!(broker.subscribe(client, &mut own, kind, &[name], |_, _| {}).is_ok());
        broker
    }

    #[test]
    fn what_another_node_tells_is_answered_and_reaches_the_clients_here() {
        let broker = broker(SubscriptionKind::Channel, b"news");
        let publish =
            |id, channel: &[u8]| PeerMessage::Publish { id, channel: channel.into(), message: b"m"[..].into() };
        let interest = |number, begins| PeerMessage::Interest(Interest { number, begins, wishes: Vec::new() });
        let known = |number| Some(PeerMessage::InterestKnown { number });
        let counted = |id, receivers| Some(PeerMessage::Published { id, receivers });
        // What is told, what is answered, and how many messages clients get.
        let cases = [
            (interest(6, false), None, 0),
            (interest(5, true), known(5), 0),
            (interest(6, false), known(6), 0),
            (interest(8, false), None, 0),
            (publish(7, b"news"), counted(7, 1), 1),
            (publish(0, b"news"), None, 1),
            (publish(8, b"other"), counted(8, 0), 0),
            (PeerMessage::Wake { shards: Vec::new() }, None, 0),
        ];
        for (i, (told, answer, deliveries)) in cases.into_iter().enumerate() {
            let heard = hear(&broker, THERE, told, 0);
            assert_eq!((heard.reply, heard.deliveries.len()), (answer, deliveries), "case {i}");
        }
    }

    #[test]
    fn a_publisher_is_answered_when_the_other_node_has_counted() {
        let broker = Broker::default();
        link_up(&broker, THERE, MESSAGES_SINCE);
        let all = Wish { name: b"*"[..].into(), is_pattern: true, wanted: true };
        let interest = Interest { number: 1, begins: true, wishes: vec![all] };
        assert!(hear(&broker, THERE, PeerMessage::Interest(interest), 0).reply.is_some());
        let publication = broker.publish(SubscriptionKind::Channel, b"news", b"m");
        let (id, answered) = broker.count(Ticket { sequence: 9, ..Ticket::NONE }, &publication, 0);
        assert_eq!(answered, None);
        let sent = posts(&publication, id, b"news", b"m");
        let message = PeerMessage::Publish { id, channel: b"news"[..].into(), message: b"m"[..].into() };
        assert_eq!(sent, [(THERE, message)]);
        let answers = hear(&broker, THERE, PeerMessage::Published { id, receivers: 3 }, 1).answers;
        assert_eq!(
            answers.iter().map(|of| (of.ticket.sequence, &of.reply[..])).collect::<Vec<_>>(),
            [(9, &b":3\r\n"[..])]
        );
        assert_eq!(posts(&Publication::default(), 1, b"news", b"m"), []);
    }

    #[test]
    fn interest_is_told_to_nodes_that_know_of_subscribers_and_once() {
        for (version, told) in [(MESSAGES_SINCE - 1, 0), (MESSAGES_SINCE, 1), (MESSAGES_SINCE + 1, 1)] {
            let broker = broker(SubscriptionKind::Channel, b"news");
            link_up(&broker, THERE, version);
            let counts = [broker.take_announcements(0).len(), broker.take_announcements(0).len()];
            assert_eq!(counts, [told, 0], "version {version}");
        }
    }

    #[test]
    fn subscriptions_to_channels_of_slots_end_when_another_node_leads_them() {
        let broker = broker(SubscriptionKind::ShardChannel, b"c");
        for (leader, ended) in [(None, 0), (Some(HERE), 0), (Some(THERE), 1), (Some(THERE), 0)] {
            let leader_of = |slot: Slot| if slot == slot_of(b"c") { leader } else { Some(THERE) };
            let some = evict_from_slots(&broker, HERE, &Bound::Unbounded, leader_of);
            assert_eq!((some.evicted.len(), some.rest), (ended, None), "{leader:?}");
        }
    }
}
