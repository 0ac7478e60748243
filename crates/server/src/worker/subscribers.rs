//! What links bring about subscribers, and what is told over them: interest, messages, and the numbers of receivers.

use crate::mailbox::{SubscriberNews, WorkerMessage};
use crate::os::steady_us;
use crate::shared::{LINKS_WORKER, NodeShared};
use node::peer_protocol::PeerMessage;
use node::pubsub::{Announcement, Answered, Delivery, Name, SomeEvicted};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vocab::NodeId;

/// The first version of the protocol between nodes whose speakers know of subscribers.
const MESSAGES_SINCE: u16 = 5;

/// A message for another node.
pub(super) struct Note {
    pub(super) to: NodeId,
    pub(super) message: PeerMessage,
}

/// The part of the links' worker in publish and subscribe.
pub(super) struct Subscribers {
    store: Arc<NodeShared>,
    /// For this worker's own clients.
    deliveries: Vec<Delivery>,
    /// Behind which channel of a slot it is to be seen which of them are led elsewhere; none: it is known.
    unsettled: Option<Bound<Name>>,
    /// Slots have moved since that began.
    is_outdated: bool,
}

impl Subscribers {
    pub(super) fn new(store: Arc<NodeShared>) -> Self {
        Self { store, deliveries: Vec::new(), unsettled: None, is_outdated: false }
    }

    /// Slots may be led by other nodes than before: the subscriptions to channels of those end, some at a time.
    pub(super) fn slots_moved(&mut self) {
        self.is_outdated = self.unsettled.is_some();
        if !self.is_outdated {
            self.unsettled = Some(Bound::Unbounded);
            self.settle_some();
        }
    }

    /// Whether subscriptions may be left that are to end.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled.is_some()
    }

    /// Ends some of the subscriptions to channels of slots that other nodes are known to lead.
    pub(super) fn settle_some(&mut self) {
        let Some(behind) = self.unsettled.take() else { return };
        let known = self.store.known();
        let is_led_elsewhere = |slot| {
            let leader = known.shard_of(slot).and_then(|shard| self.store.leader_of(shard));
            leader.is_some_and(|leader| leader != self.store.node())
        };
        let SomeEvicted { evicted, rest } = self.store.broker.evict(&behind, is_led_elsewhere);
        for evicted in evicted {
            for worker in evicted.audience.workers() {
                let news = SubscriberNews::Evicted(Box::new(evicted.clone()));
                self.store.mailboxes.tell(worker as usize, WorkerMessage::Subscribers(news));
            }
        }
        let again = || std::mem::take(&mut self.is_outdated).then_some(Bound::Unbounded);
        self.unsettled = rest.or_else(again);
    }

    /// Messages for clients of the links' worker.
    pub(super) fn take_deliveries(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.deliveries)
    }

    /// There is a link to a node, over which that version is spoken.
    pub(super) fn up(&self, node: NodeId, version: u16) {
        if version >= MESSAGES_SINCE {
            self.store.broker.link_up(node);
        }
    }

    /// The link to a node has broken.
    pub(super) fn down(&self, node: NodeId) {
        self.answer(self.store.broker.link_down(node));
    }

    /// A node has told something; answers what it is to be told.
    pub(super) fn hear(&mut self, from: NodeId, message: PeerMessage) -> Option<PeerMessage> {
        let broker = &self.store.broker;
        match message {
            PeerMessage::Interest(interest) => {
                broker.hear_interest(from, &interest).map(|number| PeerMessage::InterestKnown { number })
            }
            PeerMessage::InterestKnown { number } => {
                self.answer(broker.confirmed(from, number, steady_us()));
                None
            }
            PeerMessage::Publish { id, channel, message } => self.deliver(id, &channel, &message),
            PeerMessage::Published { id, receivers } => {
                self.answer(broker.counted(from, id, receivers));
                None
            }
            _ => None,
        }
    }

    fn deliver(&mut self, id: u64, channel: &[u8], message: &[u8]) -> Option<PeerMessage> {
        let broker = &self.store.broker;
        let publication = broker.heard(channel, message);
        let receivers = publication.receivers() as u64;
        // Its publisher is another node's: it cannot be told to wait.
        let reaches_others = !broker.is_overfull();
        for delivery in publication.deliveries {
            if reaches_others {
                self.store.mailboxes.deliver(broker, &delivery, Some(LINKS_WORKER as u32));
            }
            self.deliveries.push(delivery);
        }
        (id > 0).then_some(PeerMessage::Published { id, receivers })
    }

    /// What the other nodes are to be told of this node's interest now.
    pub(super) fn announcements(&self) -> Vec<Note> {
        self.store.announces.store(false, Ordering::Release);
        let note = |Announcement { node, interest }| Note { to: node, message: PeerMessage::Interest(interest) };
        self.store.broker.take_announcements(steady_us()).into_iter().map(note).collect()
    }

    /// Time passes.
    pub(super) fn tick(&self) {
        self.answer(self.store.broker.tick(steady_us()));
    }

    fn answer(&self, answers: impl IntoIterator<Item = Answered>) {
        answers.into_iter().for_each(|answered| self.store.answer(answered));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use cluster::NodeInfo;
    use node::Ticket;
    use node::peer_protocol::Interest;
    use node::pubsub::{ClientSubscriptions, Publication, Subscriber, SubscriptionKind};
    use vocab::{StoreId, slot_of};

    const THERE: NodeId = NodeId(99);

    /// A client of the links' worker subscribes to a name.
    fn subscribe(node: &IdleNode, kind: SubscriptionKind, name: &[u8]) {
        let client = Subscriber { worker: LINKS_WORKER as u32, connection: 1, generation: 1 };
        let mut own = ClientSubscriptions::default();
        node.store.broker.subscribe(client, &mut own, kind, &[name], |_, _| {}).unwrap();
    }

    #[test]
    fn what_another_node_tells_is_answered_and_messages_reach_the_clients_here() {
        let node = IdleNode::open();
        subscribe(&node, SubscriptionKind::Channel, b"news");
        let mut subscribers = Subscribers::new(node.store.clone());
        let publish = |id, channel: &[u8]| PeerMessage::Publish {
            id,
            channel: Arc::from(channel),
            message: Arc::from(&b"m"[..]),
        };
        let interest = |number, begins| PeerMessage::Interest(Interest { number, begins, wishes: Vec::new() });
        let known = |number| Some(PeerMessage::InterestKnown { number });
        let counted = |id, receivers| Some(PeerMessage::Published { id, receivers });
        // What is told, what is answered, and how many messages clients of this worker get.
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
            assert_eq!(subscribers.hear(THERE, told), answer, "case {i}");
            assert_eq!(subscribers.take_deliveries().len(), deliveries, "case {i}");
        }
    }

    #[test]
    fn interest_is_told_to_nodes_that_know_of_subscribers_and_once() {
        for (version, told) in [(MESSAGES_SINCE - 1, 0), (MESSAGES_SINCE, 1), (MESSAGES_SINCE + 1, 1)] {
            let node = IdleNode::open();
            subscribe(&node, SubscriptionKind::Channel, b"news");
            let subscribers = Subscribers::new(node.store.clone());
            subscribers.up(THERE, version);
            let notes = subscribers.announcements();
            assert_eq!(notes.iter().filter(|note| note.to == THERE).count(), told, "version {version}");
            assert!(subscribers.announcements().is_empty(), "version {version}");
        }
    }

    /// A publisher that waits for the number of another node's receivers.
    #[test]
    fn a_publisher_is_answered_when_the_others_have_counted_or_are_gone() {
        type Then = fn(&mut Subscribers, u64);
        let cases: [(Then, &[&str]); 3] = [
            (|_, _| {}, &[]),
            (|all, id| drop(all.hear(THERE, PeerMessage::Published { id, receivers: 3 })), &[":3\r\n"]),
            (|all, _| all.down(THERE), &[":0\r\n"]),
        ];
        for (i, (then, expected)) in cases.into_iter().enumerate() {
            let node = IdleNode::open();
            let mut subscribers = Subscribers::new(node.store.clone());
            subscribers.up(THERE, MESSAGES_SINCE);
            let ticket = Ticket { worker: LINKS_WORKER as u32, ..Ticket::NONE };
            let publication = Publication { deliveries: Vec::new(), nodes: vec![THERE] };
            let (id, answered) = node.store.broker.count(ticket, &publication, steady_us());
            assert!(answered.is_none(), "case {i}");
            then(&mut subscribers, id);
            let word = |message| match message {
                WorkerMessage::Answer { reply, .. } => String::from_utf8(reply).unwrap(),
                _ => "?".to_owned(),
            };
            assert_eq!(node.mail().into_iter().map(word).collect::<Vec<_>>(), expected, "case {i}");
        }
    }

    #[test]
    fn subscriptions_to_channels_of_slots_end_when_another_node_leads_them() {
        let node = IdleNode::open();
        let mut subscribers = Subscribers::new(node.store.clone());
        let here = node.store.node();
        let other = NodeInfo { id: THERE, ..node.store.node_info() };
        let map = cluster::initial_map(StoreId(1), &[node.store.node_info(), other], 2, 2).unwrap();
        node.store.routing.set_map(Arc::new(map));
        subscribe(&node, SubscriptionKind::ShardChannel, b"c");
        let known = node.store.known();
        let leader = &known.place(known.shard_of(slot_of(b"c")).unwrap()).unwrap().leader;
        for (led_by, term, ended) in [(None, 0, 0), (Some(here), 1, 0), (Some(THERE), 2, 1), (Some(THERE), 2, 0)] {
            _ = leader.learn(led_by, term);
            subscribers.slots_moved();
            assert!(!subscribers.is_unsettled(), "there are few");
            let is_end =
                |message: &WorkerMessage| matches!(message, WorkerMessage::Subscribers(SubscriberNews::Evicted(_)));
            assert_eq!(node.mail().iter().filter(|message| is_end(message)).count(), ended, "{led_by:?}");
        }
    }
}
