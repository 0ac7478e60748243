//! A published message reaches every subscriber, in the order of its publisher, and never twice.
//!
//! Between two nodes that holds while their link stays, from when the subscription was confirmed, or since both ends have had the
//! link for a moment. Where a link breaks or has no room, or a node stands still, messages may be lost for a while.

use crate::messages::{Listened, Party, Published};
use crate::places::{Place, node_id};
use crate::schedule::{MILLISECOND, Micros, SECOND};
use node::pubsub::SubscriptionKind;
use resp::glob_matches;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, Slot, slot_of};

/// A confirmation that has come within this time has not given up waiting for a node.
const PROMPT_MAX: Micros = 800 * MILLISECOND;
/// After this time without a fault a node knows what another has told it, whatever was lost before: it is told again after two
/// seconds.
const TOLD_AGAIN: Micros = 4 * SECOND;
/// What a node is told over a link that works it knows after this time.
const TOLD_MAX: Micros = 3 * SECOND / 2;

/// A subscription of which a node knows.
#[derive(Clone, Copy, Debug)]
struct Subscription {
    place: Place,
    asked: Micros,
    /// When it was confirmed, if that was prompt.
    confirmed: Option<Micros>,
}

/// A message that is to reach a subscription.
#[derive(Clone, Debug)]
struct Due {
    from: Place,
    to: Place,
    at: Micros,
}

/// Who listens, what is on its way, and what has come.
#[derive(Debug, Default)]
pub struct Messages {
    subscriptions: BTreeMap<Listened, Subscription>,
    /// When a name was last listened to at a place.
    ended: BTreeMap<(Place, SubscriptionKind, &'static str), Micros>,
    /// Since when two nodes' links have worked: the lower place first.
    links: BTreeMap<(Place, Place), Micros>,
    /// Until when they tell each other again what was dropped, perhaps before both had the link.
    tell_again: BTreeMap<(Place, Place), Micros>,
    /// Places that stand still.
    paused: BTreeSet<Place>,
    /// Until when a place that stood still may be behind.
    behind: BTreeMap<Place, Micros>,
    due: BTreeMap<(Listened, Published), Due>,
    /// The number of the last message of a publisher that has come to a subscription.
    last: BTreeMap<(Listened, Party), u64>,
    /// What was published, and to how many it has come.
    published: BTreeMap<Published, (SubscriptionKind, &'static str, i64)>,
}

fn pair(a: Place, b: Place) -> (Place, Place) {
    (a.min(b), a.max(b))
}

/// Whether a message to a channel is for a subscription.
fn concerns(kind: SubscriptionKind, channel: &str, listened: (SubscriptionKind, &str)) -> bool {
    match listened {
        (SubscriptionKind::Pattern, pattern) => {
            kind == SubscriptionKind::Channel && glob_matches(pattern.as_bytes(), channel.as_bytes(), false)
        }
        (other, name) => kind == other && name == channel,
    }
}

impl Messages {
    /// A node is asked for a subscription.
    pub fn asked(&mut self, listened: &Listened, place: Place, now: Micros) {
        let subscription = Subscription { place, asked: now, confirmed: None };
        self.subscriptions.entry(listened.clone()).or_insert(subscription);
    }

    /// A subscription is confirmed.
    pub fn confirmed(&mut self, listened: &Listened, now: Micros) {
        if let Some(subscription) = self.subscriptions.get_mut(listened)
            && now - subscription.asked <= PROMPT_MAX
        {
            subscription.confirmed.get_or_insert(now);
        }
    }

    /// A subscription ends.
    pub fn ended(&mut self, listened: &Listened, now: Micros) {
        if let Some(subscription) = self.subscriptions.remove(listened) {
            self.ended.insert((subscription.place, listened.kind, listened.name), now);
            self.due.retain(|(due, _), _| due != listened);
        }
    }

    /// A listener leaves.
    pub fn left(&mut self, party: Party, now: Micros) {
        let of: Vec<Listened> = self.subscriptions.keys().filter(|of| of.party == party).cloned().collect();
        of.iter().for_each(|listened| self.ended(listened, now));
    }

    /// A subscription to a channel of a slot ends, because another node leads that.
    pub fn evicted(&mut self, party: Party, name: &[u8], now: Micros) {
        let is_it = |of: &&Listened| {
            of.party == party && of.kind == SubscriptionKind::ShardChannel && of.name.as_bytes() == name
        };
        if let Some(listened) = self.subscriptions.keys().find(is_it).cloned() {
            self.ended(&listened, now);
        }
    }

    /// A node's process is gone, with those that listen there.
    pub fn crashed(&mut self, place: Place) {
        let of: Vec<Listened> =
            self.subscriptions.iter().filter(|(_, of)| of.place == place).map(|(of, _)| of.clone()).collect();
        of.iter().for_each(|listened| self.ended(listened, 0));
        self.ended.retain(|(at, ..), _| *at != place);
        self.paused.remove(&place);
        self.behind.remove(&place);
    }

    /// A node stands still, or goes on.
    pub fn stands_still(&mut self, place: Place, still: bool, now: Micros) {
        if still {
            self.paused.insert(place);
        } else if self.paused.remove(&place) {
            self.behind.insert(place, now + TOLD_AGAIN);
        }
    }

    /// Two nodes have a link, both of them.
    pub fn linked(&mut self, a: Place, b: Place, now: Micros) {
        self.links.insert(pair(a, b), now);
    }

    /// The link of two nodes has broken: what was under way may be lost.
    pub fn unlinked(&mut self, a: Place, b: Place) {
        self.links.remove(&pair(a, b));
        self.tell_again.remove(&pair(a, b));
        self.lose(a, b);
    }

    /// Something was dropped for want of room on a link.
    pub fn dropped(&mut self, a: Place, b: Place, now: Micros) {
        self.tell_again.insert(pair(a, b), now + TOLD_AGAIN);
        self.lose(a, b);
    }

    fn lose(&mut self, a: Place, b: Place) {
        self.due.retain(|_, due| pair(due.from, due.to) != pair(a, b) || due.from == due.to);
    }

    /// Since when the link of two nodes has worked.
    fn works_since(&self, a: Place, b: Place, now: Micros) -> Option<Micros> {
        let since = *self.links.get(&pair(a, b))?;
        if self.paused.contains(&a) || self.paused.contains(&b) {
            return None;
        }
        let behind = |place| self.behind.get(&place).copied().unwrap_or(0);
        let told = self.tell_again.get(&pair(a, b)).copied().unwrap_or(0);
        Some(since.max(told).max(behind(a)).max(behind(b))).filter(|since| *since <= now)
    }

    /// Whether a message that is published at a place now must reach a subscription.
    fn must_reach(&self, from: Place, to: &Subscription, now: Micros) -> bool {
        if from == to.place {
            return true;
        }
        let Some(since) = self.works_since(from, to.place, now) else { return false };
        let was_told = now - since > TOLD_MAX && now - to.asked > TOLD_MAX;
        // Where a new link takes the place of one that had broken, those who waited for the other node are answered at that
        // moment, before it is told.
        was_told || to.confirmed.is_some_and(|confirmed| confirmed > since && confirmed <= now)
    }

    /// A message is published at a place; `nodes`: the others that are sent it.
    pub fn published(
        &mut self,
        message: Published,
        (kind, channel): (SubscriptionKind, &'static str),
        (from, nodes): (Place, &[Place]),
        now: Micros,
    ) -> Result<(), String> {
        self.published.insert(message, (kind, channel, 0));
        for place in nodes {
            let has_told = self.works_since(from, *place, now).is_some_and(|since| now - since > TOLD_MAX);
            let listens = self
                .subscriptions
                .iter()
                .any(|(of, at)| at.place == *place && concerns(kind, channel, (of.kind, of.name)));
            let is_recent = |((at, of, name), ended): (&(Place, SubscriptionKind, &str), &Micros)| {
                at == place && concerns(kind, channel, (*of, *name)) && now - ended <= TOLD_MAX
            };
            if has_told && !listens && !self.ended.iter().any(is_recent) {
                let (from, to) = (from + 1, place + 1);
                return Err(format!("node {from} sends a message to {channel} to node {to}, where no client listens"));
            }
        }
        let heard = self.subscriptions.iter().filter(|(of, at)| {
            let is_there = kind != SubscriptionKind::ShardChannel || at.place == from;
            is_there && concerns(kind, channel, (of.kind, of.name)) && self.must_reach(from, at, now)
        });
        let due: Vec<_> = heard.map(|(of, at)| ((of.clone(), message), Due { from, to: at.place, at: now })).collect();
        self.due.extend(due);
        Ok(())
    }

    /// A message comes to a listener, for one of its subscriptions.
    pub fn delivered(
        &mut self,
        party: Party,
        (kind, name): (SubscriptionKind, &[u8]),
        message: Published,
        place: Place,
    ) -> Result<(), String> {
        let listened = self
            .subscriptions
            .iter()
            .find(|(of, at)| of.party == party && of.kind == kind && of.name.as_bytes() == name && at.place == place);
        let text = message.text();
        let Some((listened, _)) = listened else {
            let name = String::from_utf8_lossy(name);
            return Err(format!("message {text} comes to client {}, which does not listen to {name}", party.0));
        };
        let listened = listened.clone();
        let Some((of, channel, count)) = self.published.get_mut(&message) else {
            return Err(format!("message {text} comes, and was not published"));
        };
        if !concerns(*of, channel, (listened.kind, listened.name)) {
            return Err(format!("message {text} to {channel} comes as one for {listened:?}"));
        }
        *count += 1;
        let last = self.last.entry((listened.clone(), message.party)).or_default();
        if *last >= message.number {
            return Err(format!("message {text} comes after message {last} of the same publisher: {listened:?}"));
        }
        *last = message.number;
        self.due.remove(&(listened, message));
        Ok(())
    }

    /// A publisher is told how many have got its message.
    pub fn counted(&mut self, message: Published, receivers: i64) -> Result<(), String> {
        let count = self.published.get(&message).map_or(0, |(_, _, count)| *count);
        if receivers > count {
            let text = message.text();
            return Err(format!("{receivers} clients are told to have got message {text}, {count} did"));
        }
        Ok(())
    }

    /// All that was to come has come; `leader_of`: who leads a slot at the end.
    pub fn check(&self, leader_of: impl Fn(Slot) -> Option<NodeId>) -> Result<(), String> {
        if let Some(((listened, message), Due { from, to, at })) = self.due.iter().next() {
            let (text, from, to) = (message.text(), from + 1, to + 1);
            return Err(format!(
                "message {text}, published at node {from} at {at} µs, has not come to {listened:?} at node {to}, which was to get it"
            ));
        }
        for (listened, at) in &self.subscriptions {
            let leader = leader_of(slot_of(listened.name.as_bytes()));
            if listened.kind == SubscriptionKind::ShardChannel && leader != Some(node_id(at.place)) {
                return Err(format!("{listened:?} is at node {}, and {leader:?} leads its slot", at.place + 1));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SubscriptionKind::{Channel, Pattern, ShardChannel};

    const HERE: Place = 0;
    const THERE: Place = 1;

    fn listened(kind: SubscriptionKind, name: &'static str) -> Listened {
        Listened { party: Party(1), kind, name }
    }

    fn message(number: u64) -> Published {
        Published { party: Party(9), number }
    }

    /// One listens at each of two places that are linked.
    fn begun(kind: SubscriptionKind, name: &'static str) -> Messages {
        let mut messages = Messages::default();
        messages.linked(HERE, THERE, 0);
        messages.asked(&listened(kind, name), THERE, 10);
        messages.confirmed(&listened(kind, name), 20);
        messages
    }

    fn publish(messages: &mut Messages, number: u64, now: Micros) -> Result<(), String> {
        messages.published(message(number), (Channel, "news"), (HERE, &[THERE]), now)
    }

    fn deliver(messages: &mut Messages, number: u64) -> Result<(), String> {
        messages.delivered(Party(1), (Channel, b"news"), message(number), THERE)
    }

    fn found(messages: &Messages) -> String {
        messages.check(|_| Some(node_id(HERE))).err().unwrap_or_default()
    }

    #[test]
    fn what_is_due_must_come_unless_its_link_was_lost() {
        type Then = fn(&mut Messages);
        let cases: [(Then, bool); 8] = [
            (|_| {}, true),
            (|messages| assert_eq!(deliver(messages, 1), Ok(())), false),
            (|messages| messages.unlinked(THERE, HERE), false),
            (|messages| messages.dropped(HERE, THERE, 40), false),
            (|messages| messages.crashed(THERE), false),
            (|messages| messages.left(Party(1), 40), false),
            (|messages| messages.ended(&listened(Channel, "news"), 40), false),
            (|messages| messages.stands_still(THERE, true, 40), true),
        ];
        for (case, (then, is_missed)) in cases.into_iter().enumerate() {
            let mut messages = begun(Channel, "news");
            assert_eq!(publish(&mut messages, 1, 30), Ok(()));
            then(&mut messages);
            assert_eq!(found(&messages).contains("has not come"), is_missed, "case {case}");
        }
    }

    #[test]
    fn what_a_node_cannot_know_of_is_not_due() {
        let mut messages = Messages::default();
        messages.asked(&listened(Pattern, "n*"), THERE, 10);
        messages.confirmed(&listened(Pattern, "n*"), 20);
        assert_eq!((publish(&mut messages, 1, 30), messages.due.len()), (Ok(()), 0), "there is no link");
        messages.linked(HERE, THERE, 40);
        assert_eq!((publish(&mut messages, 2, 50), messages.due.len()), (Ok(()), 0), "it is told of it now");
        assert_eq!((publish(&mut messages, 3, 50 + TOLD_MAX), messages.due.len()), (Ok(()), 1));
        messages.stands_still(HERE, true, 60 + TOLD_MAX);
        messages.stands_still(HERE, false, 70 + TOLD_MAX);
        assert_eq!((publish(&mut messages, 4, 80 + TOLD_MAX), messages.due.len()), (Ok(()), 1), "it was behind");
    }

    #[test]
    fn order_doubles_and_strangers_are_found() {
        let mut messages = begun(Channel, "news");
        (1..4).for_each(|number| assert_eq!(publish(&mut messages, number, 30), Ok(())));
        assert_eq!(deliver(&mut messages, 2), Ok(()));
        for number in [1, 2] {
            assert!(deliver(&mut messages, number).is_err_and(|what| what.contains("comes after")), "{number}");
        }
        assert!(deliver(&mut messages, 4).is_err_and(|what| what.contains("was not published")));
        let other = messages.delivered(Party(2), (Channel, b"news"), message(3), THERE);
        assert!(other.is_err_and(|what| what.contains("does not listen")));
        assert_eq!(messages.counted(message(2), 2), Ok(()), "it came twice");
        assert!(messages.counted(message(2), 3).is_err());
    }

    #[test]
    fn nothing_is_sent_where_no_client_listens() {
        let mut messages = begun(Channel, "news");
        messages.ended(&listened(Channel, "news"), 40);
        assert_eq!(publish(&mut messages, 1, 50), Ok(()), "it cannot know yet");
        assert!(publish(&mut messages, 2, 2 * TOLD_MAX).is_err_and(|what| what.contains("where no client listens")));
    }

    #[test]
    fn channels_of_slots_are_where_their_leaders_are() {
        let mut messages = Messages::default();
        messages.asked(&listened(ShardChannel, "s"), THERE, 10);
        assert!(found(&messages).contains("leads its slot"));
        messages.evicted(Party(1), b"s", 20);
        assert_eq!(found(&messages), "");
    }
}
