//! What the clients of this node have subscribed to.

use super::candidates;
use super::client::{Refused, SUBSCRIPTION_COST};
use super::delivery::{Audience, Delivery, Evicted};
use super::kind::{Name, SubscriptionKind};
use super::push::{Message, Push};
use crate::subscriber::Subscriber;
use resp::glob_matches_within;
use std::collections::BTreeMap;
use std::ops::Bound;
use vocab::limits::NODE_SUBSCRIPTION_BYTES_MAX;
use vocab::{Slot, slot_of};

/// So many channels are looked at before others have their turn.
const EVICT_STEP_MAX: usize = 512;
/// So many patterns are looked at before others have the lock.
const PATTERNS_STEP_MAX: usize = 256;

/// Where a name stands among those that other nodes are told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: SubscriptionKind,
    pub(super) name: Name,
}

/// What ended at one step through the channels of slots.
#[derive(Debug)]
pub struct SomeEvicted {
    /// Whose subscriptions.
    pub evicted: Vec<Evicted>,
    /// Where to go on; none: that was all.
    pub rest: Option<Bound<Name>>,
}

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
    /// By kind, then by name: in order, so that one can go through them in steps, and nothing moves when there are many.
    audiences: [BTreeMap<Name, Audience>; 4],
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

    /// The names of a kind behind a place that have subscribers, in their order: so many at most.
    pub(super) fn names_behind(&self, kind: SubscriptionKind, place: &Bound<Name>, most: usize) -> Vec<Name> {
        let range = (place.as_ref().map(|name| &**name), Bound::Unbounded);
        self.audiences[kind.index()].range::<[u8], _>(range).take(most).map(|(name, _)| name.clone()).collect()
    }

    /// The places behind one of what other nodes are told, in their order.
    pub(super) fn of_store_behind(&self, place: &Bound<Place>) -> impl Iterator<Item = Place> {
        let (first, after) = match place {
            Bound::Unbounded => (SubscriptionKind::ALL[0], Bound::Unbounded),
            Bound::Included(Place { kind, name }) => (*kind, Bound::Included(&**name)),
            Bound::Excluded(Place { kind, name }) => (*kind, Bound::Excluded(&**name)),
        };
        let kinds = SubscriptionKind::ALL.into_iter().filter(move |kind| *kind >= first && kind.is_of_store());
        kinds.flat_map(move |kind| {
            let from = if kind == first { after } else { Bound::Unbounded };
            let names = self.audiences[kind.index()].range::<[u8], _>((from, Bound::Unbounded));
            names.map(move |(name, _)| Place { kind, name: name.clone() })
        })
    }

    /// Who gets a message to a channel of the store as its subscriber.
    pub(super) fn deliveries(&self, message: &Message<'_>) -> Vec<Delivery> {
        self.to_name(SubscriptionKind::Channel, message.channel, || Push::message(message))
    }

    /// Who gets it as a subscriber of one of some patterns behind a place, in the order of these. Answers where to go on, if there
    /// may be more.
    pub(super) fn pattern_deliveries(
        &self,
        message: &Message<'_>,
        behind: &Bound<Name>,
        steps: &mut usize,
        deliveries: &mut Vec<Delivery>,
    ) -> Option<Bound<Name>> {
        let patterns = &self.audiences[SubscriptionKind::Pattern.index()];
        let from = |place: Bound<&[u8]>| patterns.range::<[u8], _>((place, Bound::Unbounded));
        let (behind, mut left) = (behind.as_ref().map(|name| &**name), PATTERNS_STEP_MAX);
        let last = candidates::go_through(message.channel, behind, &mut left, from, |pattern, audience| {
            if glob_matches_within(pattern, message.channel, steps).unwrap_or(false) {
                deliveries.push(Delivery {
                    push: Push::pattern_message(pattern, message),
                    kind: SubscriptionKind::Pattern,
                    name: pattern.clone(),
                    audience: audience.clone(),
                });
            }
            *steps > 0
        });
        last.map(|pattern| Bound::Excluded(pattern.clone()))
    }

    /// Looks at up to `left` patterns that a channel may match, and counts that down.
    pub(super) fn look_through(&self, channel: &[u8], left: &mut usize) {
        let patterns = &self.audiences[SubscriptionKind::Pattern.index()];
        let from = |place: Bound<&[u8]>| patterns.range::<[u8], _>((place, Bound::Unbounded));
        candidates::go_through(channel, Bound::Unbounded, left, from, |_, _| true);
    }

    /// Who gets a message to a channel of a slot, of one of the two kinds.
    pub(super) fn shard_deliveries(&self, kind: SubscriptionKind, message: &Message<'_>) -> Vec<Delivery> {
        self.to_name(kind, message.channel, || Push::shard_message(message))
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

    /// Ends the subscriptions to channels of slots that are led elsewhere, among the next channels behind a place.
    pub(super) fn evict(&mut self, behind: &Bound<Name>, is_led_elsewhere: impl Fn(Slot) -> bool) -> SomeEvicted {
        let channels = &mut self.audiences[SubscriptionKind::ShardChannel.index()];
        let range = (behind.as_ref().map(|name| &**name), Bound::Unbounded);
        let looked_at = channels.range::<[u8], _>(range).take(EVICT_STEP_MAX);
        let (mut gone, mut last, mut count) = (Vec::new(), None, 0);
        for (name, _) in looked_at {
            if is_led_elsewhere(slot_of(name)) {
                gone.push(name.clone());
            }
            (last, count) = (Some(name), count + 1);
        }
        let rest = last.filter(|_| count == EVICT_STEP_MAX).map(|name| Bound::Excluded(name.clone()));
        let evicted: Vec<Evicted> = gone
            .into_iter()
            .filter_map(|name| {
                let audience = channels.remove(&name)?;
                Some(Evicted { name, audience })
            })
            .collect();
        for evicted in &evicted {
            self.bytes -= evicted.name.len() + evicted.audience.len() * SUBSCRIPTION_COST;
        }
        SomeEvicted { evicted, rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SubscriptionKind::{Channel, Pattern, ShardChannel};
    use vocab::limits::PATTERN_STEPS_MAX;

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
            let (message, mut steps) = (Message::new(channel.as_bytes(), b"hi"), PATTERN_STEPS_MAX);
            let mut found = subscriptions.deliveries(&message);
            assert_eq!(subscriptions.pattern_deliveries(&message, &Bound::Unbounded, &mut steps, &mut found), None);
            assert_eq!(shown(&found), expected);
        }
        for (channel, expected) in [("news", "ShardChannel news: 4"), ("n", "")] {
            let message = Message::new(channel.as_bytes(), b"hi");
            assert_eq!(shown(&subscriptions.shard_deliveries(ShardChannel, &message)), expected);
        }
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
        assert_eq!(subscriptions.evict(&Bound::Unbounded, |_| false).evicted.len(), 0);
        let SomeEvicted { evicted, rest } = subscriptions.evict(&Bound::Unbounded, |slot| slot == slot_of(b"news"));
        assert_eq!((evicted.len(), evicted[0].audience.len(), rest), (1, 1, None));
        assert_eq!((subscriptions.bytes, subscriptions.count(ShardChannel)), (0, 0), "nothing is left");
    }

    #[test]
    fn many_channels_are_looked_at_in_steps() {
        let mut subscriptions = Subscriptions::default();
        let many = 2 * EVICT_STEP_MAX + 1;
        for n in 0..many {
            subscriptions.add(ShardChannel, format!("c{n}").as_bytes(), client(1));
        }
        let (mut behind, mut steps) = (Bound::Unbounded, Vec::new());
        loop {
            let SomeEvicted { evicted, rest } = subscriptions.evict(&behind, |slot| slot.0 % 2 == 0);
            steps.push(evicted.len());
            match rest {
                Some(rest) => behind = rest,
                None => break,
            }
        }
        assert!(steps.len() == 3 && steps.iter().all(|step| *step < EVICT_STEP_MAX), "{steps:?}");
        let left = subscriptions.names_behind(ShardChannel, &Bound::Unbounded, many);
        assert!(left.iter().all(|name| slot_of(name).0 % 2 == 1) && left.len() + steps.iter().sum::<usize>() == many);
    }

    #[test]
    fn what_other_nodes_are_told_has_an_order() {
        let mut subscriptions = Subscriptions::default();
        for (kind, name) in [(Pattern, "b*"), (ShardChannel, "s"), (Channel, "c"), (Channel, "a"), (Pattern, "a*")] {
            subscriptions.add(kind, name.as_bytes(), client(1));
        }
        let told = |behind: &Bound<Place>| {
            let names =
                subscriptions.of_store_behind(behind).map(|place| String::from_utf8_lossy(&place.name).into_owned());
            names.collect::<Vec<_>>()
        };
        let behind = |kind, name: &str| Bound::Excluded(Place { kind, name: name.as_bytes().into() });
        for (place, expected) in [
            (Bound::Unbounded, vec!["a", "c", "a*", "b*"]),
            (behind(Channel, "a"), vec!["c", "a*", "b*"]),
            (behind(Channel, "b"), vec!["c", "a*", "b*"]),
            (behind(Channel, "c"), vec!["a*", "b*"]),
            (behind(Pattern, "b*"), vec![]),
        ] {
            assert_eq!(told(&place), expected, "{place:?}");
        }
    }
}
