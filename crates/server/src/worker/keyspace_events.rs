//! Publishes what entries have done to keys.

use crate::clients::Clients;
use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use node::peer_protocol::PeerMessage;
use node::pubsub::SubscriptionKind;
use node::{KeyspaceEvent, ScriptMessage};

/// The part of a worker in keyspace events: it publishes those of the entries that its shards have proposed and applied.
pub(super) struct EventPublisher<'a> {
    pub(super) store: &'a NodeShared,
    pub(super) worker: u32,
    pub(super) clients: &'a mut Clients,
}

impl EventPublisher<'_> {
    /// Publishes events, in their order, to the subscribers of all nodes.
    pub(super) fn publish(&mut self, events: &[KeyspaceEvent]) {
        if !self.store.broker.has_listeners() {
            return;
        }
        let classes = self.store.config.event_classes();
        for event in events {
            if classes.by_key() {
                self.tell(&event.channel_of_key(), event.event.name.as_bytes());
            }
            if classes.by_event() {
                self.tell(&event.channel_of_event(), event.shown_key());
            }
        }
    }

    /// Publishes what a script of an entry has published.
    pub(super) fn send(&mut self, message: &ScriptMessage) {
        let kind = if message.is_of_slot { SubscriptionKind::ShardChannel } else { SubscriptionKind::Channel };
        self.publish_to(kind, &message.channel, &message.message);
    }

    fn tell(&mut self, channel: &[u8], message: &[u8]) {
        self.publish_to(SubscriptionKind::Channel, channel, message);
    }

    fn publish_to(&mut self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) {
        let broker = &self.store.broker;
        let publication = broker.publish(kind, channel, message);
        // The entry is applied: it cannot be told to wait.
        let reaches_others = !broker.is_overfull();
        for delivery in &publication.deliveries {
            if reaches_others {
                self.store.mailboxes.deliver(broker, delivery, Some(self.worker));
            }
            self.clients.push(delivery);
        }
        // No one counts the receivers: the message has no number.
        let message = PeerMessage::Publish { id: 0, channel: channel.into(), message: message.into() };
        for node in publication.nodes {
            self.store.mailboxes.tell_links_worker(WorkerMessage::Post(node, message.clone()));
        }
    }
}
