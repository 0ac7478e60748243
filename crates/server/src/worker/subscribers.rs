//! What links bring about subscribers, and what is told over them: interest, messages, and the numbers of receivers.

use crate::mailbox::{SubscriberNews, WorkerMessage};
use crate::os::steady_us;
use crate::shared::{LINKS_WORKER, NodeShared};
use node::peer_protocol::PeerMessage;
use node::pubsub::{Announcement, Answered, Delivery};
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
}

impl Subscribers {
    pub(super) fn new(store: Arc<NodeShared>) -> Self {
        Self { store, deliveries: Vec::new() }
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
        answers.into_iter().for_each(|answered| self.store.answer(&answered));
    }
}

/// Ends the subscriptions to channels of slots that other nodes are known to lead.
pub(super) fn evict_from_slots(store: &NodeShared) {
    let known = store.known();
    let is_led_elsewhere = |slot| {
        let leader = known.shard_of(slot).and_then(|shard| store.leader_of(shard));
        leader.is_some_and(|leader| leader != store.node())
    };
    for evicted in store.broker.evict(is_led_elsewhere) {
        for worker in evicted.audience.workers() {
            store
                .mailboxes
                .tell(worker as usize, WorkerMessage::Subscribers(SubscriberNews::Evicted(Box::new(evicted.clone()))));
        }
    }
}
