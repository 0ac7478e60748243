//! The connections of a node to others, and which of them is the link to which node.
//!
//! Invariant: `up` maps a node to a key exactly while the connection with that key is in `LinkState::Up` with that node.

use super::handshake::Peer;
use super::link::{Link, LinkState};
use super::queue::OutQueue;
use super::refusal::{Refusal, RefusalKind};
use crate::net::Stream;
use mio::{Interest, Registry, Token};
use slab::Slab;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use vocab::NodeId;
use vocab::limits::{HANDSHAKES_MAX, LINKS_MAX};

/// Connections of all kinds together.
pub(super) const CONNECTIONS_MAX: usize = LINKS_MAX + HANDSHAKES_MAX;

/// How long a link may have been silent and still keep another process of the same node out.
const LIVELY: Duration = Duration::from_millis(1500);

/// The connections of a node, by key.
pub(super) struct Connections {
    registry: Registry,
    /// The token of the connection with key 0; the others count down from it.
    top: usize,
    me: NodeId,
    all: Slab<Link>,
    up: HashMap<NodeId, usize>,
}

impl Connections {
    pub(super) fn new(registry: Registry, top: Token, me: NodeId) -> Self {
        Self { registry, top: top.0, me, all: Slab::new(), up: HashMap::new() }
    }

    /// The key of the connection that has that token.
    pub(super) fn key_of(&self, token: Token) -> usize {
        self.top - token.0
    }

    /// Whether there is room for one more.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= CONNECTIONS_MAX
    }

    /// Connections whose handshake is under way.
    pub(super) fn shaking(&self) -> usize {
        self.all.iter().filter(|(_, link)| link.peer().is_none()).count()
    }

    pub(super) fn open(
        &mut self,
        stream: Stream,
        address: SocketAddr,
        contact: Option<u64>,
        state: LinkState,
        out: OutQueue,
        now: Instant,
    ) -> io::Result<()> {
        let _ = stream.set_nodelay();
        let entry = self.all.vacant_entry();
        let token = Token(self.top - entry.key());
        stream.register(&self.registry, token, Interest::READABLE | Interest::WRITABLE)?;
        entry.insert(Link::new(stream, address, contact, state, out, now));
        Ok(())
    }

    pub(super) fn get(&self, key: usize) -> Option<&Link> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Link> {
        self.all.get_mut(key)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Link)> {
        self.all.iter_mut()
    }

    /// The connection becomes the link to its node.
    pub(super) fn set_up(&mut self, key: usize, peer: Peer) {
        let Some(link) = self.all.get_mut(key) else { return };
        let before = self.up.insert(peer.node, key);
        assert!(before.is_none(), "at most one link to a node is up");
        link.state = LinkState::Up(peer);
    }

    /// The link to a node.
    pub(super) fn link_to(&self, node: NodeId) -> Option<usize> {
        self.up.get(&node).copied()
    }

    /// The nodes to which a link is up.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.up.keys().copied()
    }

    /// The links that are up, with their nodes.
    pub(super) fn links(&self) -> impl Iterator<Item = (NodeId, usize, &Link)> + '_ {
        self.up.iter().map(|(node, key)| (*node, *key, &self.all[*key]))
    }

    /// Takes a connection out.
    pub(super) fn close(&mut self, key: usize) -> Option<Link> {
        let link = self.all.try_remove(key)?;
        if let Some(peer) = link.peer() {
            let key_known = self.up.remove(&peer.node);
            assert_eq!(key_known, Some(key), "a link that is up is known as such");
        }
        if let Err(e) = link.stream.deregister(&self.registry) {
            log::debug!("cannot deregister the connection of {}: {e}", link.address);
        }
        Some(link)
    }

    /// The link that the connection `key` to `peer` takes the place of, if there is one; or why it may not.
    pub(super) fn rival(&self, key: usize, peer: &Peer, now: Instant) -> Result<Option<usize>, Refusal> {
        let Some(old) = self.link_to(peer.node) else { return Ok(None) };
        let link = &self.all[old];
        let pair = Pair {
            same_process: link.peer().is_none_or(|known| known.instance == peer.instance),
            old_is_dead: now.saturating_duration_since(link.heard) > LIVELY || link.hung_up,
            old_by_me: link.contact.is_some(),
            new_by_me: self.get(key).is_some_and(|link| link.contact.is_some()),
            me_is_lower: self.me < peer.node,
        };
        match pair.stays() {
            Stays::New => Ok(Some(old)),
            Stays::Old if pair.same_process => {
                let text = format!("node {} and node {} are connected", self.me, peer.node);
                Err(Refusal::new(RefusalKind::Linked, text))
            }
            Stays::Old => {
                let (node, address) = (peer.node, link.address);
                let text = format!("node {node} is connected already, from {address}: two processes of one node?");
                Err(Refusal::new(RefusalKind::Duplicate, text))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

/// Two connections to one node, of which one is to stay.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The same process is at the other end of both.
    same_process: bool,
    /// Nothing was heard on the old one for a while, or it has an end to be read.
    old_is_dead: bool,
    /// This node has called the old one.
    old_by_me: bool,
    new_by_me: bool,
    /// This node's id is the lower of the two.
    me_is_lower: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Old,
    New,
}

impl Pair {
    /// Of two connections between the same processes the one stays that the lower node has called. Both ends decide
    /// alike, so one stays. A newer one of the same caller counts more: its caller knows that the old one is dead.
    fn stays(self) -> Stays {
        let new_counts = if self.same_process {
            self.new_by_me == self.me_is_lower || self.new_by_me == self.old_by_me
        } else {
            self.old_is_dead
        };
        if new_counts { Stays::New } else { Stays::Old }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(flags: [bool; 5]) -> Pair {
        let [same_process, old_is_dead, old_by_me, new_by_me, me_is_lower] = flags;
        Pair { same_process, old_is_dead, old_by_me, new_by_me, me_is_lower }
    }

    #[test]
    fn the_connection_that_the_lower_has_called_stays() {
        for (old_by_me, new_by_me, me_is_lower, stays) in [
            (false, true, true, Stays::New),
            (true, false, true, Stays::Old),
            (false, true, false, Stays::Old),
            (true, false, false, Stays::New),
            // The same caller has called again.
            (true, true, true, Stays::New),
            (true, true, false, Stays::New),
            (false, false, true, Stays::New),
            (false, false, false, Stays::New),
        ] {
            // Whether the old one was heard of does not matter between the same processes.
            for dead in [false, true] {
                let pair = pair([true, dead, old_by_me, new_by_me, me_is_lower]);
                assert_eq!(pair.stays(), stays, "{pair:?}");
            }
        }
    }

    #[test]
    fn both_ends_decide_alike() {
        for bits in 0..8 {
            let [old_by_me, new_by_me, lower] = [bits & 1 > 0, bits & 2 > 0, bits & 4 > 0];
            let here = pair([true, false, old_by_me, new_by_me, lower]).stays();
            let there = pair([true, false, !old_by_me, !new_by_me, !lower]).stays();
            assert_eq!(here, there, "{bits:b}");
        }
    }

    #[test]
    fn another_process_of_a_node_takes_the_place_of_a_dead_one_alone() {
        for bits in 0..8 {
            for (dead, stays) in [(true, Stays::New), (false, Stays::Old)] {
                let pair = pair([false, dead, bits & 1 > 0, bits & 2 > 0, bits & 4 > 0]);
                assert_eq!(pair.stays(), stays, "{pair:?}");
            }
        }
    }
}
