//! What links bring about subscribers, and what is told over them: interest, messages, and the numbers of receivers.

use crate::mailbox::{SubscriberNews, WorkerMessage};
use crate::os::steady_us;
use crate::shared::{LINKS_WORKER, NodeShared};
use node::peer_protocol::PeerMessage;
use node::pubsub::{self, Announcement, Answered, Delivery, Heard, Name, SomeEvicted};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vocab::NodeId;

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
        let leader_of = |slot| known.shard_of(slot).and_then(|shard| self.store.leader_of(shard));
        let SomeEvicted { evicted, rest } =
            pubsub::evict_from_slots(&self.store.broker, self.store.node(), &behind, leader_of);
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
        pubsub::link_up(&self.store.broker, node, version);
    }

    /// The link to a node has broken.
    pub(super) fn down(&self, node: NodeId) {
        self.answer(self.store.broker.link_down(node));
    }

    /// A node has told something; answers what it is to be told.
    pub(super) fn hear(&mut self, from: NodeId, message: PeerMessage) -> Option<PeerMessage> {
        let Heard { deliveries, answers, reply } = pubsub::hear(&self.store.broker, from, message, steady_us());
        self.answer(answers);
        let broker = &self.store.broker;
        // The publisher is another node's: it cannot be told to wait.
        let reaches_others = !broker.is_overfull();
        for delivery in deliveries {
            if reaches_others {
                self.store.mailboxes.deliver(broker, &delivery, Some(LINKS_WORKER as u32));
            }
            self.deliveries.push(delivery);
        }
        reply
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
    use node::pubsub::{ClientSubscriptions, Publication, Subscriber, SubscriptionKind};
    use vocab::{StoreId, slot_of};

    const THERE: NodeId = NodeId(99);
    /// A version of the protocol that knows of subscribers.
    const NEWEST: u16 = u16::MAX;

    /// A client of the links' worker subscribes to a name.
    fn subscribe(node: &IdleNode, kind: SubscriptionKind, name: &[u8]) {
        let client = Subscriber { worker: LINKS_WORKER as u32, connection: 1, generation: 1 };
        let mut own = ClientSubscriptions::default();
        node.store.broker.subscribe(client, &mut own, kind, &[name], |_, _| {}).unwrap();
    }

    #[test]
    fn messages_of_another_node_reach_the_clients_of_this_worker() {
        let node = IdleNode::open();
        subscribe(&node, SubscriptionKind::Channel, b"news");
        let mut subscribers = Subscribers::new(node.store.clone());
        for (channel, receivers) in [(&b"news"[..], 1), (&b"other"[..], 0)] {
            let message = PeerMessage::Publish { id: 7, channel: channel.into(), message: b"m"[..].into() };
            assert_eq!(subscribers.hear(THERE, message), Some(PeerMessage::Published { id: 7, receivers }));
            assert_eq!(subscribers.take_deliveries().len() as u64, receivers);
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
            subscribers.up(THERE, NEWEST);
            let ticket = Ticket { worker: LINKS_WORKER as u32, ..Ticket::NONE };
            let publication = Publication { nodes: vec![THERE], ..Publication::default() };
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
