//! This node's interest on its way to the other nodes, and the clients that wait until these know of it.

use super::kind::{Name, SubscriptionKind};
use super::subscriptions::{Place, Subscriptions};
use crate::peer_protocol::{Interest, Wish};
use crate::shard::Ticket;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use vocab::NodeId;
use vocab::limits::{INTEREST_MESSAGE_BYTES_SOFT, INTEREST_MESSAGES_MAX};

/// After this time without a confirmation a node is told everything again, in µs.
const AGAIN_US: u64 = 2_000_000;
/// A node that has more changes before it than the interest has names, and this many, is told everything again instead.
const BACKLOG_MIN: usize = 1024;

/// The version of what there was before a node could be talked to.
const WHOLE_VERSION: u64 = 1;
/// So many changes that count no more are freed at a time.
const FREE_STEP_MAX: usize = 1024;

/// By rising version, which is 2 or more. No queue, which moves as it grows: there may be a million.
type Changes = BTreeMap<u64, Wish>;

/// A message that a node has not confirmed.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    /// Of its first change.
    version: u64,
}

/// What one node has been told, and is to be told.
#[derive(Debug, Default)]
struct Peer {
    /// The number of the last message to it.
    number: u64,
    /// The next message begins anew.
    begins: bool,
    /// It has been sent the whole interest up to this place, and is sent the rest before any change; none: all of it.
    whole_up_to: Option<Bound<Place>>,
    /// What has changed since in what it has been sent.
    changes: Changes,
    /// Messages that it has not confirmed, by rising number.
    sent: VecDeque<Sent>,
    /// When it last confirmed one, or when there was none to confirm, in µs of the steady clock.
    heard_us: u64,
    /// It did not confirm in time: no client waits for it until it does.
    is_late: bool,
}

impl Peer {
    /// All changes up to this version are known to it.
    fn known(&self) -> u64 {
        let whole = self.whole_up_to.as_ref().map(|_| WHOLE_VERSION);
        let oldest = self.sent.front().map(|sent| sent.version).or(whole).or(self.changes.keys().next().copied());
        oldest.map_or(u64::MAX, |version| version - 1)
    }

    /// It is told everything, whatever it was told before. Answers the changes that count no more.
    fn begin(&mut self) -> Changes {
        self.begins = true;
        self.sent.clear();
        self.whole_up_to = Some(Bound::Unbounded);
        std::mem::take(&mut self.changes)
    }

    /// Whether it has had messages to confirm since then or longer, and has confirmed none.
    fn is_silent_since(&self, us: u64) -> bool {
        !self.sent.is_empty() && self.heard_us <= us
    }

    /// Whether it has been sent what there was at a place.
    fn has_been_sent(&self, place: &Place) -> bool {
        match &self.whole_up_to {
            None => true,
            Some(Bound::Unbounded) => false,
            Some(Bound::Included(last) | Bound::Excluded(last)) => place <= last,
        }
    }

    /// The next message to it, if it may be sent one.
    fn next(&mut self, now_us: u64, subscriptions: &Subscriptions) -> Option<Interest> {
        let has_more = self.whole_up_to.is_some() || !self.changes.is_empty();
        if !has_more || self.sent.len() >= INTEREST_MESSAGES_MAX {
            return None;
        }
        if self.sent.is_empty() {
            self.heard_us = now_us;
        }
        let mut message = Message::default();
        let version = match self.whole_up_to.take() {
            Some(up_to) => {
                let mut places = subscriptions.of_store_behind(&up_to).peekable();
                self.whole_up_to = loop {
                    let Some(place) = places.next() else { break None };
                    message.add(wish(&place, true));
                    if message.is_full() {
                        break places.peek().is_some().then_some(Bound::Excluded(place));
                    }
                };
                WHOLE_VERSION
            }
            None => self.changes.keys().next().copied().unwrap_or(WHOLE_VERSION),
        };
        while self.whole_up_to.is_none()
            && !message.is_full()
            && let Some((_, wish)) = self.changes.pop_first()
        {
            message.add(wish);
        }
        self.number += 1;
        self.sent.push_back(Sent { number: self.number, version });
        let begins = std::mem::take(&mut self.begins);
        Some(Interest { number: self.number, begins, wishes: message.wishes })
    }
}

/// A message that is being put together.
#[derive(Default)]
struct Message {
    wishes: Vec<Wish>,
    bytes: usize,
}

impl Message {
    fn add(&mut self, wish: Wish) {
        self.bytes += wish.name.len() + 8;
        self.wishes.push(wish);
    }

    fn is_full(&self) -> bool {
        self.bytes >= INTEREST_MESSAGE_BYTES_SOFT
    }
}

/// What other nodes are told of a subscription.
fn wish(Place { kind, name }: &Place, wanted: bool) -> Wish {
    let is_pattern = *kind == SubscriptionKind::Pattern;
    let name: Name = match kind.known_name(name) {
        Cow::Borrowed(_) => name.clone(),
        Cow::Owned(known) => known.into(),
    };
    Wish { name, is_pattern, wanted }
}

/// A client that waits until the other nodes know of its subscription.
#[derive(Debug)]
struct Waiting {
    version: u64,
    since_us: u64,
    until_us: u64,
    answered: Answered,
}

/// A reply that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Whose.
    pub ticket: Ticket,
    /// Encoded.
    pub reply: Vec<u8>,
}

/// A message for another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Which.
    pub node: NodeId,
    /// This node's interest.
    pub interest: Interest,
}

/// This node's interest on its way to the nodes that have a link.
///
/// Invariants: versions rise in `changes` and `sent` of each node and in `waiting`; a node has at most
/// `INTEREST_MESSAGES_MAX` messages that it has not confirmed.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// The number of the last change.
    version: u64,
    peers: BTreeMap<NodeId, Peer>,
    waiting: VecDeque<Waiting>,
    /// Changes that no node is to be told any more, and that are freed some at a time.
    garbage: Vec<Changes>,
}

impl Announcements {
    /// There is a link to a node that understands it: it is told the whole interest.
    pub(super) fn up(&mut self, node: NodeId) {
        let before = self.peers.insert(node, Peer::default());
        let now = self.peers.get_mut(&node).map(Peer::begin);
        self.garbage.extend(before.map(|peer| peer.changes).into_iter().chain(now));
    }

    /// The link to a node has broken. Answers the clients that waited for it alone.
    pub(super) fn down(&mut self, node: NodeId) -> Vec<Answered> {
        self.garbage.extend(self.peers.remove(&node).map(|peer| peer.changes));
        self.take_known()
    }

    /// The interest changes.
    pub(super) fn change(&mut self, place: &Place, wanted: bool) {
        self.version = self.version.max(WHOLE_VERSION) + 1;
        let mut change = None;
        for peer in self.peers.values_mut().filter(|peer| peer.has_been_sent(place)) {
            let change = change.get_or_insert_with(|| wish(place, wanted));
            peer.changes.insert(self.version, change.clone());
        }
    }

    /// Tells everything again to the nodes that have more changes before them than that: so many names.
    pub(super) fn shorten(&mut self, names: usize) {
        let long = self.peers.values_mut().filter(|peer| peer.changes.len() > names + BACKLOG_MIN);
        self.garbage.extend(long.map(Peer::begin));
    }

    /// Frees some of what counts no more: called often.
    pub(super) fn free_some(&mut self) {
        for _ in 0..FREE_STEP_MAX {
            let Some(changes) = self.garbage.last_mut() else { return };
            if changes.pop_first().is_none() {
                self.garbage.pop();
            }
        }
    }

    /// The messages that are to be sent now.
    pub(super) fn take(&mut self, now_us: u64, subscriptions: &Subscriptions) -> Vec<Announcement> {
        let of = |(node, peer): (&NodeId, &mut Peer)| {
            let node = *node;
            let messages = std::iter::from_fn(|| peer.next(now_us, subscriptions));
            messages.map(|interest| Announcement { node, interest }).collect::<Vec<_>>()
        };
        self.peers.iter_mut().flat_map(of).collect()
    }

    /// A node knows what it was told up to a message. Answers the clients that waited for it.
    pub(super) fn confirmed(&mut self, node: NodeId, number: u64, now_us: u64) -> Vec<Answered> {
        let Some(peer) = self.peers.get_mut(&node) else { return Vec::new() };
        let before = peer.sent.len();
        while peer.sent.pop_front_if(|sent| sent.number <= number).is_some() {}
        if peer.sent.len() < before {
            peer.heard_us = now_us;
            peer.is_late = false;
        }
        self.take_known()
    }

    /// Whether some node that is waited for does not know the whole interest.
    pub(super) fn is_under_way(&self) -> bool {
        self.known() < self.version
    }

    /// A client is answered when all nodes know the interest as it is now, at the latest at `until_us`.
    pub(super) fn wait(&mut self, answered: Answered, since_us: u64, until_us: u64) {
        self.waiting.push_back(Waiting { version: self.version, since_us, until_us, answered });
    }

    /// Time passes. Answers the clients that have waited for long enough.
    pub(super) fn tick(&mut self, now_us: u64) -> Vec<Answered> {
        let is_overdue = |peer: &&mut Peer| !peer.sent.is_empty() && now_us.saturating_sub(peer.heard_us) > AGAIN_US;
        self.garbage.extend(self.peers.values_mut().filter(is_overdue).map(Peer::begin));
        self.free_some();
        let mut answered = Vec::new();
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.until_us <= now_us) {
            // One whose link is newer than that wait, or that has confirmed something meanwhile, is waited for on.
            let is_silent = |peer: &&mut Peer| peer.known() < waiting.version && peer.is_silent_since(waiting.since_us);
            self.peers.values_mut().filter(is_silent).for_each(|peer| peer.is_late = true);
            answered.push(waiting.answered);
        }
        answered.extend(self.take_known());
        answered
    }

    /// Up to which version all nodes know it that are waited for.
    fn known(&self) -> u64 {
        self.peers.values().filter(|peer| !peer.is_late).map(Peer::known).min().unwrap_or(u64::MAX)
    }

    fn take_known(&mut self) -> Vec<Answered> {
        let known = self.known();
        let mut answered = Vec::new();
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.version <= known) {
            answered.push(waiting.answered);
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriber::Subscriber;

    /// What a node's clients listen to, and the others on their way to know it.
    #[derive(Default)]
    struct Told {
        subscriptions: Subscriptions,
        announcements: Announcements,
    }

    impl Told {
        fn change(&mut self, name: &str, wanted: bool) {
            let (kind, client) = (SubscriptionKind::Channel, Subscriber { worker: 0, connection: 1, generation: 1 });
            if wanted {
                self.subscriptions.add(kind, name.as_bytes(), client);
            } else {
                self.subscriptions.remove(kind, name.as_bytes(), client);
            }
            self.announcements.change(&Place { kind, name: name.as_bytes().into() }, wanted);
        }

        fn take(&mut self, now_us: u64) -> Vec<Announcement> {
            self.announcements.take(now_us, &self.subscriptions)
        }
    }

    fn client(sequence: u64) -> Answered {
        Answered { ticket: Ticket { sequence, ..Ticket::NONE }, reply: Vec::new() }
    }

    fn clients(answered: &[Answered]) -> Vec<u64> {
        answered.iter().map(|answered| answered.ticket.sequence).collect()
    }

    /// What is sent, as `node#number` with `!` if it begins anew, and the names.
    fn sent(told: &mut Told, now_us: u64) -> Vec<String> {
        let shown = |Announcement { node, interest }: Announcement| {
            let names = interest.wishes.iter().map(|wish| {
                let sign = if wish.wanted { "+" } else { "-" };
                format!(" {sign}{}", String::from_utf8_lossy(&wish.name))
            });
            let begins = if interest.begins { "!" } else { "" };
            format!("{}#{}{begins}{}", node.0, interest.number, names.collect::<String>())
        };
        told.take(now_us).into_iter().map(shown).collect()
    }

    #[test]
    fn clients_wait_until_every_node_knows() {
        let (a, b) = (NodeId(1), NodeId(2));
        let mut told = Told::default();
        told.change("x", true);
        assert!(!told.announcements.is_under_way(), "there is no other node");
        told.announcements.up(a);
        told.announcements.up(b);
        assert_eq!(sent(&mut told, 0), ["1#1! +x", "2#1! +x"]);
        assert_eq!(sent(&mut told, 0), [""; 0]);
        told.announcements.wait(client(1), 0, 1000);
        told.change("y", true);
        told.announcements.wait(client(2), 0, 1000);
        assert!(told.announcements.is_under_way());
        assert_eq!(sent(&mut told, 0), ["1#2 +y", "2#2 +y"]);
        assert_eq!(clients(&told.announcements.confirmed(a, 2, 1)), []);
        assert_eq!(clients(&told.announcements.confirmed(b, 1, 1)), [1]);
        assert_eq!(clients(&told.announcements.confirmed(b, 2, 1)), [2]);
        assert!(!told.announcements.is_under_way());
        // A node goes down: it is not waited for.
        told.change("y", false);
        told.announcements.wait(client(3), 0, 1000);
        assert_eq!(sent(&mut told, 2), ["1#3 -y", "2#3 -y"]);
        assert_eq!(clients(&told.announcements.confirmed(a, 3, 2)), []);
        assert_eq!(clients(&told.announcements.down(b)), [3]);
    }

    #[test]
    fn a_node_whose_link_is_new_is_waited_for() {
        let (a, b) = (NodeId(1), NodeId(2));
        let mut told = Told::default();
        told.announcements.up(a);
        told.change("x", true);
        assert_eq!(sent(&mut told, 0), ["1#1! +x"]);
        told.announcements.wait(client(1), 10, 1000);
        told.announcements.up(b);
        assert_eq!(sent(&mut told, 900), ["2#1! +x"]);
        assert_eq!(clients(&told.announcements.tick(1000)), [1]);
        assert!(told.announcements.is_under_way(), "the first node is late, the second is not");
        told.announcements.confirmed(b, 1, 1001);
        assert!(!told.announcements.is_under_way());
    }

    #[test]
    fn a_node_that_does_not_confirm_is_told_again_and_delays_one_client_only() {
        let a = NodeId(1);
        let mut told = Told::default();
        told.announcements.up(a);
        assert_eq!(sent(&mut told, 0), ["1#1!"]);
        told.change("x", true);
        told.announcements.wait(client(1), 0, 1000);
        assert_eq!(sent(&mut told, 0), ["1#2 +x"]);
        assert_eq!(clients(&told.announcements.tick(999)), []);
        assert_eq!(clients(&told.announcements.tick(1000)), [1]);
        told.change("z", true);
        assert!(!told.announcements.is_under_way(), "the node is late");
        assert_eq!(clients(&told.announcements.tick(AGAIN_US + 1)), []);
        assert_eq!(sent(&mut told, AGAIN_US + 1), ["1#3! +x +z"]);
        assert_eq!(clients(&told.announcements.confirmed(a, 2, AGAIN_US + 1)), [], "of what was before");
        assert_eq!(told.announcements.peers[&a].sent.len(), 1);
        told.announcements.confirmed(a, 3, AGAIN_US + 2);
        told.change("u", true);
        assert!(told.announcements.is_under_way(), "it is waited for again");
    }

    #[test]
    fn what_is_sent_at_once_is_bounded() {
        let mut told = Told::default();
        let long = "n".repeat(INTEREST_MESSAGE_BYTES_SOFT);
        (0..INTEREST_MESSAGES_MAX + 2).for_each(|n| told.change(&format!("{n}{long}"), true));
        told.announcements.up(NodeId(1));
        assert_eq!(told.take(0).len(), INTEREST_MESSAGES_MAX);
        told.announcements.confirmed(NodeId(1), 1, 0);
        assert_eq!(told.take(0).len(), 1);
        assert!(told.announcements.peers[&NodeId(1)].known() == 0, "of the first version some is on its way");
        told.announcements.confirmed(NodeId(1), 5, 0);
        assert_eq!(told.take(0).len(), 1, "the last name");
        assert!(told.announcements.is_under_way());
        told.announcements.confirmed(NodeId(1), 6, 0);
        assert_eq!(told.take(0), [], "there is nothing behind it");
        assert!(!told.announcements.is_under_way());
        // Changes that come faster than they are confirmed.
        (0..3 * BACKLOG_MIN).for_each(|n| told.change("x", n % 2 == 0));
        told.announcements.shorten(3 * BACKLOG_MIN);
        assert_eq!(told.announcements.peers[&NodeId(1)].changes.len(), 3 * BACKLOG_MIN);
        told.announcements.shorten(1);
        let begun = &told.announcements.peers[&NodeId(1)];
        assert!(begun.changes.is_empty() && begun.begins);
        (0..4).for_each(|_| told.announcements.free_some());
        assert!(told.announcements.garbage.is_empty(), "it is freed by and by");
    }

    #[test]
    fn what_changes_while_a_node_is_told_the_whole_is_told_once() {
        let mut told = Told::default();
        let long = |name: &str| format!("{name}{}", "n".repeat(INTEREST_MESSAGE_BYTES_SOFT / 2));
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(long);
        names.iter().for_each(|name| told.change(name, true));
        told.announcements.up(NodeId(1));
        let shown = |announcements: Vec<Announcement>| {
            let wishes = announcements.into_iter().flat_map(|announcement| announcement.interest.wishes);
            let one = |wish: Wish| format!("{}{}", if wish.wanted { '+' } else { '-' }, wish.name[0] as char);
            wishes.map(one).collect::<String>()
        };
        assert_eq!(shown(told.take(0)), "+a+b+c+d+e+f+g+h");
        // What it has been sent changes, and what it has not.
        told.change(&names[0], false);
        told.change(&names[8], false);
        told.change(&long("k"), true);
        told.change(&long("aa"), true);
        told.announcements.wait(client(1), 0, 1000);
        told.announcements.confirmed(NodeId(1), 2, 0);
        assert_eq!(shown(told.take(0)), "+j+k-a+a");
        assert_eq!(clients(&told.announcements.confirmed(NodeId(1), 5, 0)), []);
        assert_eq!(clients(&told.announcements.confirmed(NodeId(1), 6, 0)), [1]);
    }
}
