//! What the clients of this node have subscribed to.

use super::client::{Refused, SUBSCRIPTION_COST};
use super::delivery::{Audience, Delivery, Evicted};
use super::kind::{Name, SubscriptionKind};
use super::push::Push;
use crate::subscriber::Subscriber;
use resp::glob_matches_within;
use std::collections::HashMap;
use vocab::limits::{NODE_SUBSCRIPTION_BYTES_MAX, PATTERN_STEPS_MAX};
use vocab::{Slot, slot_of};

/// A subscription that was added.
pub(super) struct Added {
    /// The name, shared with the other subscriptions to it.
    pub(super) name: Name,
    /// No client had subscribed to it.
    pub(super) is_first: bool,
}

/// What the clients of this node have subscribed to.
///
/// Invariants: no audience is empty; `bytes` is what names and subscriptions take, at most `NODE_SUBSCRIPTION_BYTES_MAX`.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// By kind, then by name.
    audiences: [HashMap<Name, Audience>; 4],
    bytes: usize,
}

impl Subscriptions {
    /// Whether clients may subscribe to all of these names.
    pub(super) fn check(&self, names: &[&[u8]]) -> Result<(), Refused> {
        let bytes: usize = names.iter().map(|name| name.len() + SUBSCRIPTION_COST).sum();
        if self.bytes + bytes > NODE_SUBSCRIPTION_BYTES_MAX { Err(Refused::Node) } else { Ok(()) }
    }

    /// A client subscribes to a name to which it has not subscribed.
    pub(super) fn add(&mut self, kind: SubscriptionKind, name: &[u8], subscriber: Subscriber) -> Added {
        let audiences = &mut self.audiences[kind.index()];
        let known = audiences.get_key_value(name).map(|(name, _)| name.clone());
        let is_first = known.is_none();
        let name = known.unwrap_or_else(|| name.into());
        audiences.entry(name.clone()).or_default().add(subscriber);
        self.bytes += SUBSCRIPTION_COST + if is_first { name.len() } else { 0 };
        Added { name, is_first }
    }

    /// A client's subscription ends; true if it was the last one to the name.
    pub(super) fn remove(&mut self, kind: SubscriptionKind, name: &[u8], subscriber: Subscriber) -> bool {
        let audiences = &mut self.audiences[kind.index()];
        let Some(audience) = audiences.get_mut(name) else { return false };
        if !audience.remove(subscriber) {
            return false;
        }
        self.bytes -= SUBSCRIPTION_COST;
        let is_last = audience.is_empty();
        if is_last {
            self.bytes -= name.len();
            audiences.remove(name);
        }
        is_last
    }

    /// How many clients have subscribed to a name.
    pub(super) fn subscribers(&self, kind: SubscriptionKind, name: &[u8]) -> usize {
        self.audiences[kind.index()].get(name).map_or(0, Audience::len)
    }

    /// How many names of a kind have subscribers.
    pub(super) fn count(&self, kind: SubscriptionKind) -> usize {
        self.audiences[kind.index()].len()
    }

    /// The names of a kind that have subscribers, in their order.
    pub(super) fn names(&self, kind: SubscriptionKind) -> Vec<Name> {
        let mut names: Vec<Name> = self.audiences[kind.index()].keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Who gets a message to a channel of the store: its subscribers, then those of patterns in the order of these.
    pub(super) fn deliveries(&self, channel: &[u8], message: &[u8]) -> Vec<Delivery> {
        let mut deliveries = self.to_name(SubscriptionKind::Channel, channel, || Push::message(channel, message));
        let patterns = &self.audiences[SubscriptionKind::Pattern.index()];
        if !patterns.is_empty() {
            let mut steps = PATTERN_STEPS_MAX;
            let fits = |pattern: &&Name| glob_matches_within(pattern, channel, &mut steps).unwrap_or(false);
            let mut matching: Vec<&Name> = patterns.keys().filter(fits).collect();
            matching.sort_unstable();
            deliveries.extend(matching.into_iter().flat_map(|pattern| {
                self.to_name(SubscriptionKind::Pattern, pattern, || Push::pattern_message(pattern, channel, message))
            }));
        }
        deliveries
    }

    /// Who gets a message to a channel of a slot, of one of the two kinds.
    pub(super) fn shard_deliveries(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> Vec<Delivery> {
        self.to_name(kind, channel, || Push::shard_message(channel, message))
    }

    fn to_name(&self, kind: SubscriptionKind, name: &[u8], push: impl FnOnce() -> Push) -> Vec<Delivery> {
        let found = self.audiences[kind.index()].get_key_value(name);
        let delivery = found.map(|(name, audience)| Delivery {
            push: push(),
            kind,
            name: name.clone(),
            audience: audience.clone(),
        });
        delivery.into_iter().collect()
    }

    /// Ends all subscriptions to channels of slots that are led elsewhere.
    pub(super) fn evict(&mut self, is_led_elsewhere: impl Fn(Slot) -> bool) -> Vec<Evicted> {
        let channels = &mut self.audiences[SubscriptionKind::ShardChannel.index()];
        let gone = channels.extract_if(|name, _| is_led_elsewhere(slot_of(name)));
        let gone: Vec<Evicted> = gone.map(|(name, audience)| Evicted { name, audience }).collect();
        for evicted in &gone {
            self.bytes -= evicted.name.len() + evicted.audience.len() * SUBSCRIPTION_COST;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SubscriptionKind::{Channel, Pattern, ShardChannel};

    fn client(connection: u32) -> Subscriber {
        Subscriber { worker: 0, connection, generation: 1 }
    }

    /// Who gets a message, in order: the kind's name and the connections.
    fn shown(deliveries: &[Delivery]) -> String {
        let one = |delivery: &Delivery| {
            let connections = delivery.audience.of_worker(0).iter().map(|of| of.connection.to_string());
            let name = String::from_utf8_lossy(&delivery.name).into_owned();
            format!("{:?} {name}: {}", delivery.kind, connections.collect::<Vec<_>>().join(","))
        };
        deliveries.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_message_reaches_channels_then_patterns() {
        let mut subscriptions = Subscriptions::default();
        for (kind, name, connection, is_first) in [
            (Channel, "news", 1, true),
            (Channel, "news", 2, false),
            (Pattern, "n*", 1, true),
            (Pattern, "*s", 3, true),
            (ShardChannel, "news", 4, true),
        ] {
            assert_eq!(subscriptions.add(kind, name.as_bytes(), client(connection)).is_first, is_first, "{name}");
        }
        for (channel, expected) in
            [("news", "Channel news: 1,2; Pattern *s: 3; Pattern n*: 1"), ("now", "Pattern n*: 1"), ("other", "")]
        {
            assert_eq!(shown(&subscriptions.deliveries(channel.as_bytes(), b"hi")), expected);
        }
        assert_eq!(shown(&subscriptions.shard_deliveries(ShardChannel, b"news", b"hi")), "ShardChannel news: 4");
        assert_eq!(shown(&subscriptions.shard_deliveries(ShardChannel, b"n", b"hi")), "");
        assert_eq!([Channel, Pattern, ShardChannel].map(|kind| subscriptions.count(kind)), [1, 2, 1]);
        assert_eq!(subscriptions.subscribers(Channel, b"news"), 2);
        for (kind, name, connection, is_last) in [
            (Channel, "news", 1, false),
            (Channel, "news", 1, false),
            (Channel, "news", 2, true),
            (Pattern, "n*", 1, true),
            (Pattern, "*s", 3, true),
        ] {
            assert_eq!(subscriptions.remove(kind, name.as_bytes(), client(connection)), is_last, "{name} {connection}");
        }
        assert_eq!(subscriptions.evict(|_| false).len(), 0);
        let evicted = subscriptions.evict(|slot| slot == slot_of(b"news"));
        assert_eq!((evicted.len(), evicted[0].audience.len()), (1, 1));
        assert_eq!((subscriptions.bytes, subscriptions.count(ShardChannel)), (0, 0), "nothing is left");
    }
}
