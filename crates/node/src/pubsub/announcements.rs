//! This node's interest on its way to the other nodes, and the clients that wait until these know of it.

use crate::peer_protocol::{Interest, Wish};
use crate::shard::Ticket;
use std::collections::{BTreeMap, VecDeque};
use vocab::NodeId;
use vocab::limits::{INTEREST_MESSAGE_BYTES_SOFT, INTEREST_MESSAGES_MAX};

/// After this time without a confirmation a node is told everything again, in µs.
const AGAIN_US: u64 = 2_000_000;
/// A node that has more changes before it than the interest has names, and this many, is told everything again instead.
const BACKLOG_MIN: usize = 1024;

/// A change that a node is to be told.
#[derive(Clone, Debug)]
struct Change {
    /// The version of the interest that it makes; 1 for what there was before the node could be talked to.
    version: u64,
    wish: Wish,
}

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
    /// By rising version.
    changes: VecDeque<Change>,
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
        let oldest = self.sent.front().map(|sent| sent.version).or(self.changes.front().map(|change| change.version));
        oldest.map_or(u64::MAX, |version| version - 1)
    }

    /// It is told everything, whatever it was told before.
    fn begin(&mut self, names: &[Wish]) {
        self.begins = true;
        self.sent.clear();
        self.changes = names.iter().map(|wish| Change { version: 1, wish: wish.clone() }).collect();
    }

    /// The next message to it, if it may be sent one.
    fn next(&mut self, now_us: u64) -> Option<Interest> {
        let has_more = self.begins || !self.changes.is_empty();
        if !has_more || self.sent.len() >= INTEREST_MESSAGES_MAX {
            return None;
        }
        if self.sent.is_empty() {
            self.heard_us = now_us;
        }
        let version = self.changes.front().map_or(1, |change| change.version);
        let (mut wishes, mut bytes) = (Vec::new(), 0);
        while bytes < INTEREST_MESSAGE_BYTES_SOFT
            && let Some(Change { wish, .. }) = self.changes.pop_front()
        {
            bytes += wish.name.len() + 8;
            wishes.push(wish);
        }
        self.number += 1;
        self.sent.push_back(Sent { number: self.number, version });
        Some(Interest { number: self.number, begins: std::mem::take(&mut self.begins), wishes })
    }
}

/// A client that waits until the other nodes know of its subscription.
#[derive(Debug)]
struct Waiting {
    version: u64,
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
}

impl Announcements {
    /// There is a link to a node that understands it; `names` is the whole interest.
    pub(super) fn up(&mut self, node: NodeId, names: &[Wish]) {
        let mut peer = Peer::default();
        peer.begin(names);
        self.peers.insert(node, peer);
    }

    /// The link to a node has broken. Answers the clients that waited for it alone.
    pub(super) fn down(&mut self, node: NodeId) -> Vec<Answered> {
        self.peers.remove(&node);
        self.take_known()
    }

    /// The interest changes.
    pub(super) fn change(&mut self, wish: &Wish) {
        // Version 1 is that of what a node is told first.
        self.version = self.version.max(1) + 1;
        for peer in self.peers.values_mut() {
            peer.changes.push_back(Change { version: self.version, wish: wish.clone() });
        }
    }

    /// Whether a node that has changes before it is to be told everything again instead, which is less.
    pub(super) fn has_long_backlog(&self, names: usize) -> bool {
        self.peers.values().any(|peer| peer.changes.len() > names + BACKLOG_MIN)
    }

    /// Tells everything again to the nodes that have more changes before them than that.
    pub(super) fn shorten(&mut self, names: &[Wish]) {
        let long = self.peers.values_mut().filter(|peer| peer.changes.len() > names.len() + BACKLOG_MIN);
        long.for_each(|peer| peer.begin(names));
    }

    /// The messages that are to be sent now.
    pub(super) fn take(&mut self, now_us: u64) -> Vec<Announcement> {
        let of = |(node, peer): (&NodeId, &mut Peer)| {
            let node = *node;
            std::iter::from_fn(|| peer.next(now_us)).map(|interest| Announcement { node, interest }).collect::<Vec<_>>()
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
    pub(super) fn wait(&mut self, answered: Answered, until_us: u64) {
        self.waiting.push_back(Waiting { version: self.version, until_us, answered });
    }

    /// Time passes. Answers the clients that have waited for long enough; `names` is asked for the whole interest, if a node
    /// is to be told it again.
    pub(super) fn tick(&mut self, now_us: u64, names: impl Fn() -> Vec<Wish>) -> Vec<Answered> {
        let is_overdue = |peer: &&mut Peer| !peer.sent.is_empty() && now_us.saturating_sub(peer.heard_us) > AGAIN_US;
        let mut whole = None;
        for peer in self.peers.values_mut().filter(is_overdue) {
            peer.begin(whole.get_or_insert_with(&names));
        }
        let mut answered = Vec::new();
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.until_us <= now_us) {
            for peer in self.peers.values_mut().filter(|peer| peer.known() < waiting.version) {
                peer.is_late = true;
            }
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

    fn wish(name: &str, wanted: bool) -> Wish {
        Wish { name: name.as_bytes().into(), is_pattern: false, wanted }
    }

    fn client(sequence: u64) -> Answered {
        Answered { ticket: Ticket { sequence, ..Ticket::NONE }, reply: Vec::new() }
    }

    fn clients(answered: &[Answered]) -> Vec<u64> {
        answered.iter().map(|answered| answered.ticket.sequence).collect()
    }

    /// What is sent, as `node#number` with `!` if it begins anew, and the names.
    fn sent(announcements: &mut Announcements, now_us: u64) -> Vec<String> {
        let shown = |Announcement { node, interest }: Announcement| {
            let names = interest.wishes.iter().map(|wish| {
                let sign = if wish.wanted { "+" } else { "-" };
                format!(" {sign}{}", String::from_utf8_lossy(&wish.name))
            });
            let begins = if interest.begins { "!" } else { "" };
            format!("{}#{}{begins}{}", node.0, interest.number, names.collect::<String>())
        };
        announcements.take(now_us).into_iter().map(shown).collect()
    }

    #[test]
    fn clients_wait_until_every_node_knows() {
        let (a, b) = (NodeId(1), NodeId(2));
        let mut announcements = Announcements::default();
        announcements.change(&wish("x", true));
        assert!(!announcements.is_under_way(), "there is no other node");
        announcements.up(a, &[wish("x", true)]);
        announcements.up(b, &[wish("x", true)]);
        assert_eq!(sent(&mut announcements, 0), ["1#1! +x", "2#1! +x"]);
        assert_eq!(sent(&mut announcements, 0), [""; 0]);
        announcements.wait(client(1), 1000);
        announcements.change(&wish("y", true));
        announcements.wait(client(2), 1000);
        assert!(announcements.is_under_way());
        assert_eq!(sent(&mut announcements, 0), ["1#2 +y", "2#2 +y"]);
        assert_eq!(clients(&announcements.confirmed(a, 2, 1)), []);
        assert_eq!(clients(&announcements.confirmed(b, 1, 1)), [1]);
        assert_eq!(clients(&announcements.confirmed(b, 2, 1)), [2]);
        assert!(!announcements.is_under_way());
        // A node goes down: it is not waited for.
        announcements.change(&wish("y", false));
        announcements.wait(client(3), 1000);
        assert_eq!(sent(&mut announcements, 2), ["1#3 -y", "2#3 -y"]);
        assert_eq!(clients(&announcements.confirmed(a, 3, 2)), []);
        assert_eq!(clients(&announcements.down(b)), [3]);
    }

    #[test]
    fn a_node_that_does_not_confirm_is_told_again_and_delays_one_client_only() {
        let a = NodeId(1);
        let mut announcements = Announcements::default();
        announcements.up(a, &[]);
        assert_eq!(sent(&mut announcements, 0), ["1#1!"]);
        announcements.change(&wish("x", true));
        announcements.wait(client(1), 1000);
        assert_eq!(sent(&mut announcements, 0), ["1#2 +x"]);
        let whole = || vec![wish("x", true)];
        assert_eq!(clients(&announcements.tick(999, whole)), []);
        assert_eq!(clients(&announcements.tick(1000, whole)), [1]);
        announcements.change(&wish("z", true));
        assert!(!announcements.is_under_way(), "the node is late");
        let whole = || vec![wish("x", true), wish("z", true)];
        assert_eq!(clients(&announcements.tick(AGAIN_US + 1, whole)), []);
        assert_eq!(sent(&mut announcements, AGAIN_US + 1), ["1#3! +x +z"]);
        assert_eq!(clients(&announcements.confirmed(a, 2, AGAIN_US + 1)), [], "of what was before");
        assert_eq!(announcements.peers[&a].sent.len(), 1);
        announcements.confirmed(a, 3, AGAIN_US + 2);
        announcements.change(&wish("u", true));
        assert!(announcements.is_under_way(), "it is waited for again");
    }

    #[test]
    fn what_is_sent_at_once_is_bounded() {
        let mut announcements = Announcements::default();
        let long = "n".repeat(INTEREST_MESSAGE_BYTES_SOFT);
        let names = vec![wish(&long, true); INTEREST_MESSAGES_MAX + 2];
        announcements.up(NodeId(1), &names);
        assert_eq!(announcements.take(0).len(), INTEREST_MESSAGES_MAX);
        announcements.confirmed(NodeId(1), 1, 0);
        assert_eq!(announcements.take(0).len(), 1);
        announcements.confirmed(NodeId(1), 5, 0);
        assert_eq!(announcements.take(0).len(), 1, "that was all");
        assert!(announcements.peers[&NodeId(1)].known() == 0, "of the first version some is on its way");
        // Changes that come faster than they are confirmed.
        (0..3 * BACKLOG_MIN).for_each(|_| announcements.change(&wish("x", true)));
        assert!(announcements.has_long_backlog(1) && !announcements.has_long_backlog(3 * BACKLOG_MIN));
        announcements.shorten(&[wish("x", true)]);
        assert_eq!(announcements.peers[&NodeId(1)].changes.len(), 1);
    }
}
