//! The one owner of all that a node knows of subscribers: what every thread of the node asks.
//!
//! It decides and never sends: what is to be sent is its answer.

use super::announcements::{Announcement, Announcements, Answered};
use super::client::{ClientSubscriptions, Refused};
use super::delivery::Delivery;
use super::kind::{Name, SubscriptionKind};
use super::push::Message;
use super::receivers::{Counted, ReceiverCounts};
use super::remote::RemoteInterest;
use super::subscriptions::{Place, SomeEvicted, Subscriptions};
use crate::peer_protocol::Interest;
use crate::shard::Ticket;
use crate::subscriber::Subscriber;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use resp::Reply;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vocab::limits::{PATTERN_STEPS_MAX, PUSH_BACKLOG_BYTES_MAX, RECEIVERS_WAIT_US_MAX, SUBSCRIBE_WAIT_US_MAX};
use vocab::{NodeId, Slot};

/// After so many names of a request others have the lock.
const NAMES_PER_LOCK: usize = 256;
/// An event loop looks at so many patterns for a message.
const PATTERNS_MANY: usize = 1024;

/// What becomes of a message that a client has published.
#[derive(Debug, Default)]
pub struct Publication {
    /// The clients of this node that get it.
    pub deliveries: Vec<Delivery>,
    /// The other nodes that get it.
    pub nodes: Vec<NodeId>,
    /// How many steps it took to compare the channel with patterns.
    pub steps: usize,
}

impl Publication {
    /// How many clients of this node get it; one that listens twice counts twice.
    #[must_use]
    pub fn receivers(&self) -> usize {
        self.deliveries.iter().map(|delivery| delivery.audience.len()).sum()
    }
}

/// How subscriptions have been changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Other nodes are to be told.
    pub announces: bool,
    /// Some node does not know all of the interest: a confirmation waits for it.
    pub waits: bool,
}

#[derive(Default)]
struct BrokerState {
    subscriptions: Subscriptions,
    remote: RemoteInterest,
    announcements: Announcements,
}

/// What a node knows of its subscribers and of those of the others.
#[derive(Default)]
pub struct Broker {
    state: RwLock<BrokerState>,
    counts: Mutex<ReceiverCounts>,
    /// How many patterns clients of this node and of others listen to.
    patterns: AtomicUsize,
    /// Bytes that the mailboxes of workers hold for subscribers.
    backlog_bytes: AtomicU64,
}

impl Broker {
    /// A client subscribes to names: to all, or to none. `confirm` is told each name, and how many subscriptions the client
    /// has then.
    pub fn subscribe(
        &self,
        subscriber: Subscriber,
        own: &mut ClientSubscriptions,
        kind: SubscriptionKind,
        names: &[&[u8]],
        mut confirm: impl FnMut(&[u8], usize),
    ) -> Result<Settled, Refused> {
        let mut state = self.state.write();
        own.check(kind, names)?;
        state.subscriptions.check(names)?;
        for (n, name) in names.iter().enumerate() {
            let_others(n, &mut state);
            if !own.has(kind, name) {
                let added = state.subscriptions.add(kind, name, subscriber);
                if added.is_first {
                    state.wish(kind, &added.name, true);
                }
                own.add(kind, added.name);
            }
            confirm(name, own.told_count(kind));
        }
        self.note_patterns(&state);
        Ok(state.settled(kind))
    }

    /// A client's subscriptions to names end. `confirm` as in `subscribe`.
    pub fn unsubscribe(
        &self,
        subscriber: Subscriber,
        own: &mut ClientSubscriptions,
        kind: SubscriptionKind,
        names: &[&[u8]],
        mut confirm: impl FnMut(&[u8], usize),
    ) -> Settled {
        let mut state = self.state.write();
        for (n, name) in names.iter().enumerate() {
            let_others(n, &mut state);
            if own.remove(kind, name) {
                state.remove(kind, name, subscriber);
            }
            confirm(name, own.told_count(kind));
        }
        self.note_patterns(&state);
        Settled { announces: state.settled(kind).announces, waits: false }
    }

    /// A client is gone, or begins anew. Answers whether other nodes are to be told.
    pub fn leave(&self, subscriber: Subscriber, own: &ClientSubscriptions) -> bool {
        let mut state = self.state.write();
        for kind in SubscriptionKind::ALL {
            for (n, name) in own.names(kind).iter().enumerate() {
                let_others(n, &mut state);
                state.remove(kind, name, subscriber);
            }
        }
        self.note_patterns(&state);
        state.announcements.is_under_way()
    }

    fn note_patterns(&self, state: &BrokerState) {
        let patterns = state.subscriptions.count(SubscriptionKind::Pattern) + state.remote.patterns();
        self.patterns.store(patterns, Ordering::Relaxed);
    }

    /// What becomes of a message that a client has published to a channel of the store.
    #[must_use]
    pub fn publish(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> Publication {
        let (mut state, message) = (self.state.read(), Message::new(channel, message));
        // Each has its own: what clients here listen to takes nothing from those of other nodes.
        let (mut here, mut there) = (PATTERN_STEPS_MAX, PATTERN_STEPS_MAX);
        let nodes = match kind.is_of_store() {
            true => state.remote.nodes(&kind.known_name(channel), &mut there),
            false => Vec::new(),
        };
        let deliveries = match kind {
            SubscriptionKind::ShardChannel | SubscriptionKind::PlainShardChannel => {
                state.subscriptions.shard_deliveries(kind, &message)
            }
            _ => deliveries(&mut state, &message, &mut here),
        };
        Publication { deliveries, nodes, steps: 2 * PATTERN_STEPS_MAX - here - there }
    }

    /// Whether clients listen to so many patterns which a channel may match that to find those which it matches is no work for an event loop.
    #[must_use]
    pub fn has_many_patterns(&self, channel: &[u8]) -> bool {
        if self.patterns.load(Ordering::Relaxed) <= PATTERNS_MANY {
            return false;
        }
        let (state, mut left) = (self.state.read(), PATTERNS_MANY);
        state.subscriptions.look_through(channel, &mut left);
        state.remote.look_through(channel, &mut left);
        left == 0
    }

    /// Whether a client of any node listens to a channel of the store.
    #[must_use]
    pub fn has_listeners(&self) -> bool {
        let state = self.state.read();
        state.remote.any()
            || [SubscriptionKind::Channel, SubscriptionKind::Pattern].map(|kind| state.subscriptions.count(kind))
                != [0; 2]
    }

    /// The clients of this node that get a message which was published at another one, to a channel as nodes know it.
    #[must_use]
    pub fn heard(&self, channel: &[u8], message: &[u8]) -> Publication {
        let (kind, channel) = SubscriptionKind::of_known_name(channel);
        let (message, mut steps) = (Message::new(channel, message), PATTERN_STEPS_MAX);
        let deliveries = match kind {
            SubscriptionKind::Channel => deliveries(&mut self.state.read(), &message, &mut steps),
            kind => self.state.read().subscriptions.shard_deliveries(kind, &message),
        };
        Publication { deliveries, nodes: Vec::new(), steps: PATTERN_STEPS_MAX - steps }
    }

    /// Counts the receivers of a message that goes to other nodes. Answers its number, and the reply if it is due now.
    pub fn count(&self, ticket: Ticket, publication: &Publication, now_us: u64) -> (u64, Option<Answered>) {
        let (here, until_us) = (publication.receivers() as u64, now_us + RECEIVERS_WAIT_US_MAX);
        let (message, counted) = self.counts.lock().begin(ticket, here, &publication.nodes, until_us);
        (message, counted.map(answered))
    }

    /// A node tells how many of its clients got a message.
    pub fn counted(&self, from: NodeId, message: u64, receivers: u64) -> Option<Answered> {
        self.counts.lock().told(from, message, receivers).map(answered)
    }

    /// There is a link to a node that knows of messages.
    pub fn link_up(&self, node: NodeId) {
        self.state.write().announcements.up(node);
    }

    /// The link to a node has broken. Answers the replies that need not wait any longer.
    #[must_use]
    pub fn link_down(&self, node: NodeId) -> Vec<Answered> {
        let mut answers: Vec<Answered> = self.counts.lock().lost(node).into_iter().map(answered).collect();
        let mut state = self.state.write();
        state.remote.forget(node);
        self.note_patterns(&state);
        answers.extend(state.announcements.down(node));
        answers
    }

    /// A node tells its interest. Answers the number that it is to be confirmed, if it has a meaning.
    pub fn hear_interest(&self, from: NodeId, interest: &Interest) -> Option<u64> {
        let mut state = self.state.write();
        let number = state.remote.hear(from, interest);
        self.note_patterns(&state);
        number
    }

    /// A node has confirmed what it was told of this node's interest. Answers the replies that waited for that.
    #[must_use]
    pub fn confirmed(&self, from: NodeId, number: u64, now_us: u64) -> Vec<Answered> {
        self.state.write().announcements.confirmed(from, number, now_us)
    }

    /// What other nodes are to be told of this node's interest now.
    #[must_use]
    pub fn take_announcements(&self, now_us: u64) -> Vec<Announcement> {
        let mut state = self.state.write();
        let BrokerState { announcements, subscriptions, .. } = &mut *state;
        let of_store = SubscriptionKind::ALL.into_iter().filter(|kind| kind.is_of_store());
        announcements.shorten(of_store.map(|kind| subscriptions.count(kind)).sum());
        announcements.take(now_us, subscriptions)
    }

    /// A reply is due when all nodes know the interest as it is now. Gives it back if they do.
    pub fn wait(&self, answered: Answered, now_us: u64) -> Option<Answered> {
        let mut state = self.state.write();
        if !state.announcements.is_under_way() {
            return Some(answered);
        }
        state.announcements.wait(answered, now_us, now_us + SUBSCRIBE_WAIT_US_MAX);
        None
    }

    /// Time passes. Answers the replies that have waited for long enough.
    #[must_use]
    pub fn tick(&self, now_us: u64) -> Vec<Answered> {
        let mut answers: Vec<Answered> = self.counts.lock().tick(now_us).into_iter().map(answered).collect();
        let mut state = self.state.write();
        state.remote.free_some();
        answers.extend(state.announcements.tick(now_us));
        answers
    }

    /// Ends the subscriptions to channels of slots that are led elsewhere, of some channels behind a place.
    pub fn evict(&self, behind: &Bound<Name>, is_led_elsewhere: impl Fn(Slot) -> bool) -> SomeEvicted {
        if self.count_of(SubscriptionKind::ShardChannel) == 0 {
            return SomeEvicted { evicted: Vec::new(), rest: None };
        }
        self.state.write().subscriptions.evict(behind, is_led_elsewhere)
    }

    /// How many names of a kind this node's clients have subscribed to.
    #[must_use]
    pub fn count_of(&self, kind: SubscriptionKind) -> usize {
        self.state.read().subscriptions.count(kind)
    }

    /// How many of this node's clients have subscribed to a name.
    #[must_use]
    pub fn subscribers(&self, kind: SubscriptionKind, name: &[u8]) -> usize {
        self.state.read().subscriptions.subscribers(kind, name)
    }

    /// The names of a kind that this node's clients have subscribed to, in their order.
    #[must_use]
    pub fn names(&self, kind: SubscriptionKind) -> Vec<Name> {
        let (mut names, mut behind) = (Vec::new(), Bound::Unbounded);
        let mut state = self.state.read();
        loop {
            let some = state.subscriptions.names_behind(kind, &behind, NAMES_PER_LOCK);
            let Some(last) = some.last() else { return names };
            behind = Bound::Excluded(last.clone());
            names.extend(some);
            RwLockReadGuard::bump(&mut state);
        }
    }

    /// Bytes for subscribers set out for the mailbox of a worker.
    pub fn sets_out(&self, bytes: u64) {
        self.backlog_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A worker has taken bytes for its subscribers out of its mailbox. True if publishers may go on that could not before.
    pub fn arrived(&self, bytes: u64) -> bool {
        let before = self.backlog_bytes.fetch_sub(bytes, Ordering::Relaxed);
        before > PUSH_BACKLOG_BYTES_MAX && before - bytes <= PUSH_BACKLOG_BYTES_MAX
    }

    /// Whether the mailboxes of workers hold as many bytes for subscribers as they may: publishers wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.backlog_bytes.load(Ordering::Relaxed) > PUSH_BACKLOG_BYTES_MAX
    }

    /// Whether they hold so many that a message of another node, which cannot wait, is dropped.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.backlog_bytes.load(Ordering::Relaxed) > 4 * PUSH_BACKLOG_BYTES_MAX
    }
}

/// The clients of this node that get a message to a channel of the store: its subscribers, then those of patterns in the order of
/// these. Others have the lock in between: there may be a hundred thousand.
fn deliveries(state: &mut RwLockReadGuard<'_, BrokerState>, message: &Message<'_>, steps: &mut usize) -> Vec<Delivery> {
    let (mut deliveries, mut behind) = (state.subscriptions.deliveries(message), Bound::Unbounded);
    while let Some(rest) = state.subscriptions.pattern_deliveries(message, &behind, steps, &mut deliveries) {
        behind = rest;
        RwLockReadGuard::bump(state);
    }
    deliveries
}

/// Every so many names, those who wait for the lock have their turn: a request may have a hundred thousand.
fn let_others(names: usize, state: &mut RwLockWriteGuard<'_, BrokerState>) {
    if names % NAMES_PER_LOCK == NAMES_PER_LOCK - 1 {
        RwLockWriteGuard::bump(state);
    }
}

impl BrokerState {
    fn wish(&mut self, kind: SubscriptionKind, name: &Name, wanted: bool) {
        if kind.is_of_store() {
            self.announcements.change(&Place { kind, name: name.clone() }, wanted);
        }
    }

    fn remove(&mut self, kind: SubscriptionKind, name: &[u8], subscriber: Subscriber) {
        if self.subscriptions.remove(kind, name, subscriber) {
            self.wish(kind, &name.into(), false);
        }
    }

    fn settled(&self, kind: SubscriptionKind) -> Settled {
        let is_under_way = kind.is_of_store() && self.announcements.is_under_way();
        Settled { announces: is_under_way, waits: is_under_way }
    }
}

/// The reply of a PUBLISH whose receivers are counted.
fn answered(Counted { ticket, receivers }: Counted) -> Answered {
    let mut reply = Reply::new(ticket.proto);
    reply.int(receivers as i64);
    Answered { ticket, reply: reply.buf }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_protocol::Wish;
    use SubscriptionKind::{Channel, Pattern, ShardChannel};
    use std::collections::BTreeSet;

    /// A node of a store without sockets.
    struct Node {
        id: NodeId,
        broker: Broker,
        own: ClientSubscriptions,
    }

    const CLIENT: Subscriber = Subscriber { worker: 0, connection: 1, generation: 1 };

    impl Node {
        fn new(id: u64) -> Self {
            Self { id: NodeId(id), broker: Broker::default(), own: ClientSubscriptions::default() }
        }

        fn subscribe(&mut self, kind: SubscriptionKind, name: &str) -> Settled {
            let settled = self.broker.subscribe(CLIENT, &mut self.own, kind, &[name.as_bytes()], |_, _| ());
            settled.expect("there is room")
        }

        fn unsubscribe(&mut self, kind: SubscriptionKind, name: &str) -> Settled {
            self.broker.unsubscribe(CLIENT, &mut self.own, kind, &[name.as_bytes()], |_, _| ())
        }

        /// Tells others what is to be told, and brings the confirmations back.
        fn tell(&self, others: &[&Self]) -> Vec<Answered> {
            let mut answers = Vec::new();
            for Announcement { node, interest } in self.broker.take_announcements(0) {
                let to = others.iter().find(|other| other.id == node).expect("it is there");
                let number = to.broker.hear_interest(self.id, &interest).expect("nothing is lost");
                answers.extend(self.broker.confirmed(node, number, 0));
            }
            answers
        }
    }

    fn ticket(sequence: u64) -> Ticket {
        Ticket { sequence, ..Ticket::NONE }
    }

    #[test]
    fn a_message_goes_where_clients_listen_and_nowhere_else() {
        let (mut a, mut b, c) = (Node::new(1), Node::new(2), Node::new(3));
        let none = Settled::default();
        assert_eq!(a.subscribe(Channel, "early"), none, "there is no other node");
        a.broker.link_up(b.id);
        a.broker.link_up(c.id);
        b.broker.link_up(a.id);
        assert_eq!(a.tell(&[&b, &c]), []);
        b.tell(&[&a]);
        assert_eq!(a.subscribe(Pattern, "n*"), Settled { announces: true, waits: true });
        let waiting = Answered { ticket: ticket(1), reply: b"x".to_vec() };
        assert_eq!(a.broker.wait(waiting.clone(), 0), None);
        assert_eq!(a.tell(&[&b, &c]), std::slice::from_ref(&waiting), "both know it");
        assert_eq!(a.broker.wait(waiting.clone(), 0), Some(waiting));
        assert_eq!(a.subscribe(ShardChannel, "s"), none, "no other node is told of it");
        b.subscribe(Channel, "news");
        b.tell(&[&a]);
        for (at, channel, receivers, nodes) in [
            (&a, "early", 1, vec![]),
            (&a, "news", 1, vec![b.id]),
            (&b, "news", 1, vec![a.id]),
            (&b, "now", 0, vec![a.id]),
            (&b, "other", 0, vec![]),
            (&c, "early", 0, vec![a.id]),
        ] {
            let publication = at.broker.publish(Channel, channel.as_bytes(), b"hi");
            assert_eq!((publication.receivers(), publication.nodes), (receivers, nodes), "{channel} at {}", at.id);
        }
        let publication = b.broker.publish(Channel, b"news", b"hi");
        let (message, now) = b.broker.count(ticket(9), &publication, 0);
        assert_eq!(now, None);
        let receivers = a.broker.heard(b"news", b"hi").receivers() as u64;
        let answered = b.broker.counted(a.id, message, receivers).expect("it was the last");
        assert_eq!((answered.ticket.sequence, &answered.reply[..]), (9, &b":2\r\n"[..]));
        // What ends is told, and not waited for.
        assert_eq!(a.unsubscribe(Pattern, "n*"), Settled { announces: true, waits: false });
        a.tell(&[&b, &c]);
        assert_eq!(b.broker.publish(Channel, b"now", b"hi").nodes, []);
        assert!(a.broker.leave(CLIENT, &a.own));
        a.tell(&[&b, &c]);
        assert_eq!(c.broker.publish(Channel, b"early", b"hi").nodes, []);
        assert_eq!([Channel, Pattern, ShardChannel].map(|kind| a.broker.count_of(kind)), [0, 0, 0]);
    }

    #[test]
    fn of_many_patterns_those_count_that_a_channel_may_match() {
        let mut a = Node::new(1);
        for n in 0..PATTERNS_MANY {
            a.subscribe(Pattern, &format!("user:{n}:*"));
            a.subscribe(Pattern, &format!("*:{n}"));
        }
        let has_many = |a: &Node, channel: &str| a.broker.has_many_patterns(channel.as_bytes());
        assert!(has_many(&a, "user:7:x"), "all that begin with a star may match");
        for n in 0..PATTERNS_MANY {
            a.unsubscribe(Pattern, &format!("*:{n}"));
        }
        a.subscribe(Pattern, "*");
        assert!(!has_many(&a, "user:7:x"));
        let publication = a.broker.publish(Channel, b"user:7:x", b"hi");
        assert_eq!(publication.receivers(), 2);
        assert!(publication.steps > 0 && publication.steps < 100, "{} steps", publication.steps);
        let bodies: BTreeSet<_> = publication.deliveries.iter().map(|of| of.push.body().as_ptr()).collect();
        assert_eq!(bodies.len(), 1, "they share what they get");
    }

    #[test]
    fn a_plain_channel_of_slots_is_one_of_the_whole_store_and_no_other() {
        use SubscriptionKind::PlainShardChannel;
        let (mut a, b) = (Node::new(1), Node::new(2));
        a.broker.link_up(b.id);
        b.broker.link_up(a.id);
        a.tell(&[&b]);
        a.subscribe(Channel, "news");
        a.subscribe(ShardChannel, "news");
        assert!(a.subscribe(PlainShardChannel, "news").announces);
        a.tell(&[&b]);
        let nodes = |kind, name: &str| b.broker.publish(kind, name.as_bytes(), b"hi").nodes;
        assert_eq!(nodes(PlainShardChannel, "news"), [a.id]);
        assert_eq!((nodes(ShardChannel, "news"), nodes(PlainShardChannel, "other")), (vec![], vec![]));
        let known = PlainShardChannel.known_name(b"news");
        let heard = |name: &[u8]| a.broker.heard(name, b"hi").deliveries.iter().map(|of| of.kind).collect::<Vec<_>>();
        assert_eq!((heard(&known), heard(b"news")), (vec![PlainShardChannel], vec![Channel]));
        assert_eq!(a.own.told_count(PlainShardChannel), 1);
        a.unsubscribe(PlainShardChannel, "news");
        a.tell(&[&b]);
        assert_eq!(b.broker.publish(PlainShardChannel, b"news", b"hi").nodes, []);
    }

    #[test]
    fn a_node_that_is_lost_holds_nothing_up() {
        let (mut a, b) = (Node::new(1), Node::new(2));
        a.broker.link_up(b.id);
        let heard = Interest {
            number: 1,
            begins: true,
            wishes: vec![Wish { name: b"x"[..].into(), is_pattern: false, wanted: true }],
        };
        assert_eq!(a.broker.hear_interest(b.id, &heard), Some(1));
        let publication = a.broker.publish(Channel, b"x", b"hi");
        a.broker.count(ticket(1), &publication, 0);
        a.subscribe(Channel, "y");
        let confirmation = Answered { ticket: ticket(2), reply: Vec::new() };
        a.broker.wait(confirmation.clone(), 0);
        let sequences = |answers: Vec<Answered>| answers.iter().map(|of| of.ticket.sequence).collect::<Vec<_>>();
        assert_eq!(sequences(a.broker.tick(1)), []);
        assert_eq!(sequences(a.broker.link_down(b.id)), [1, 2]);
        assert_eq!(a.broker.publish(Channel, b"x", b"hi").nodes, []);
        a.broker.link_up(b.id);
        a.broker.hear_interest(b.id, &heard);
        a.broker.count(ticket(3), &publication, 0);
        a.subscribe(Channel, "z");
        a.broker.wait(confirmation, 0);
        let late = RECEIVERS_WAIT_US_MAX.max(SUBSCRIBE_WAIT_US_MAX);
        assert_eq!(sequences(a.broker.tick(late)), [3, 2]);
    }

    #[test]
    fn publishers_wait_for_workers_that_are_behind() {
        let broker = Broker::default();
        broker.sets_out(PUSH_BACKLOG_BYTES_MAX);
        assert!(!broker.is_full());
        broker.sets_out(10);
        assert!(broker.is_full() && !broker.is_overfull());
        assert!(!broker.arrived(5), "there are too many still");
        assert!(broker.arrived(5));
        assert!(!broker.arrived(5), "no publisher waits");
        broker.sets_out(4 * PUSH_BACKLOG_BYTES_MAX);
        assert!(broker.is_overfull());
    }
}
