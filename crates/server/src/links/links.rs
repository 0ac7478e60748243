//! All links of a node, inside an event loop of its owner: no thread of its own.
//!
//! Invariants: at most one link to a node is up. Between `Up` and `Down` of a node come all its messages, each once and
//! in the order in which they were sent, but for those that were dropped and for urgent ones, which overtake bulk. Memory is bounded whatever the others do.

use super::complaints::Complaints;
use super::contacts::Contacts;
use super::frame::{Packer, Packing};
use super::identity::{SharedIdentity, random};
use super::link::{End, Link, State};
use super::resolver::Resolver;
use crate::net::Stream;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use node::peer::PeerMessage;
use slab::Slab;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use vocab::limits::{HANDSHAKES_MAX, LINKS_MAX};
use vocab::{NodeId, StoreId};

/// How long a call may take until the node has said who it is.
const MEETING_MAX: Duration = Duration::from_secs(3);
/// How long a node may be silent before it counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How long this side is silent before it says that it lives.
const SILENCE_OWN_MAX: Duration = Duration::from_millis(500);
/// A tick that comes later than this after the last one says that this process slept, not the others.
const TICK_LATE: Duration = Duration::from_secs(1);
/// Connections of one kind or another.
pub(super) const CONNECTIONS_MAX: usize = LINKS_MAX + HANDSHAKES_MAX;

/// What the links have to tell.
#[derive(Debug)]
pub enum LinkEvent {
    /// A node can be talked to.
    Up {
        /// The node.
        node: NodeId,
        /// The store that it belongs to, if it does.
        store: Option<StoreId>,
        /// The version of the protocol that both speak.
        version: u16,
        /// What it tells everybody of itself.
        hello: Vec<u8>,
        /// Where it is, as seen from here.
        address: SocketAddr,
    },
    /// From a node.
    Message(NodeId, PeerMessage),
    /// A node cannot be talked to any more; what was sent last may be lost.
    Down(NodeId),
    /// A node belongs to another store.
    Stranger {
        /// Where it is.
        about: String,
        /// Who belongs to what, and what to do.
        why: String,
    },
    /// A node wants to send a snapshot; the stream blocks.
    Snapshot {
        /// The node.
        node: NodeId,
        /// What it sends comes out of it.
        stream: Stream,
    },
}

/// Receives the events of the links.
pub type Hear<'a> = dyn FnMut(LinkEvent) + 'a;

/// What links are made with.
pub struct LinksOptions {
    /// Who this node is.
    pub identity: SharedIdentity,
    /// Where others call; `None`: they cannot.
    pub listener: Option<std::net::TcpListener>,
    /// When frames are packed.
    pub packing: Packing,
}

/// Figures of one link.
#[derive(Clone, Debug)]
pub struct LinkStats {
    /// The node at the other end.
    pub node: NodeId,
    /// Where it is.
    pub address: SocketAddr,
    /// Whether this node has called it.
    pub called: bool,
    /// Bytes that wait to go out.
    pub waiting_bytes: usize,
    /// Bytes that went out.
    pub sent_bytes: u64,
    /// Bytes that came in.
    pub received_bytes: u64,
    /// Messages that went out.
    pub sent_messages: u64,
    /// Messages that came in.
    pub received_messages: u64,
    /// Messages for which there was no room.
    pub dropped_messages: u64,
}

/// All links of a node, run by its owner's event loop.
pub struct Links {
    pub(super) registry: Registry,
    /// The listener's token; those of the links count down from it.
    pub(super) top: usize,
    pub(super) identity: SharedIdentity,
    pub(super) me: NodeId,
    pub(super) listener: Option<TcpListener>,
    pub(super) links: Slab<Link>,
    pub(super) up: HashMap<NodeId, usize>,
    pub(super) contacts: Contacts,
    pub(super) resolver: Resolver,
    pub(super) complaints: Complaints,
    pub(super) packer: Packer,
    /// With something to send.
    dirty: Vec<usize>,
    /// With something left to read.
    pub(super) unfinished: Vec<usize>,
    /// Whose sending failed.
    pub(super) broken: Vec<usize>,
    ticked: Option<Instant>,
}

impl Links {
    /// Links that use the tokens from `top` downwards, `Links::TOKENS` of them.
    pub fn new(registry: Registry, top: Token, options: LinksOptions) -> io::Result<Self> {
        let listener = options.listener.map(|listener| -> io::Result<_> {
            listener.set_nonblocking(true)?;
            let mut listener = TcpListener::from_std(listener);
            registry.register(&mut listener, top, Interest::READABLE)?;
            Ok(listener)
        });
        let me = options.identity.now().node;
        Ok(Self {
            registry,
            top: top.0,
            me,
            identity: options.identity,
            listener: listener.transpose()?,
            links: Slab::new(),
            up: HashMap::new(),
            contacts: Contacts::new(me, u64::from_le_bytes(random())),
            resolver: Resolver::new(),
            complaints: Complaints::default(),
            packer: Packer::new(options.packing)?,
            dirty: Vec::new(),
            unfinished: Vec::new(),
            broken: Vec::new(),
            ticked: None,
        })
    }

    /// How many tokens the links may use.
    pub const TOKENS: usize = CONNECTIONS_MAX + 1;

    /// Whether an event with that token is for the links.
    #[must_use]
    pub fn owns(&self, token: Token) -> bool {
        token.0 <= self.top && self.top - token.0 < Self::TOKENS
    }

    /// Where others call.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Who this node is; snapshots are sent and received by the same.
    #[must_use]
    pub fn identity(&self) -> &SharedIdentity {
        &self.identity
    }

    /// Calls `address`, now and whenever the link is lost.
    pub fn dial(&mut self, address: &str, now: Instant) {
        self.contacts.dial(address, now);
    }

    /// Keeps a link to a node, at `address`.
    pub fn know(&mut self, node: NodeId, address: &str, now: Instant) {
        self.contacts.know(node, address, now);
    }

    /// Ends the link to a node, which is not called any more.
    pub fn forget(&mut self, node: NodeId, now: Instant, hear: &mut Hear) {
        self.contacts.forget(node);
        if let Some(&key) = self.up.get(&node) {
            self.end(key, End::Forgotten, now, hear);
        }
    }

    /// The node belongs to this store from now on. Links to nodes that said that they belong to another one end: where they
    /// meet again each says so.
    pub fn set_store(&mut self, store: StoreId, now: Instant, hear: &mut Hear) {
        if self.identity.now().store == Some(store) {
            return;
        }
        self.identity.set_store(store);
        let is_strange = |key: &usize| {
            let peer = self.links.get(*key).and_then(Link::peer);
            peer.and_then(|peer| peer.store).is_some_and(|theirs| theirs != store)
        };
        let strange: Vec<usize> = self.up.values().copied().filter(is_strange).collect();
        for key in strange {
            self.end(key, End::Forgotten, now, hear);
        }
    }

    /// When frames are packed, from now on.
    pub fn set_packing(&mut self, packing: Packing) {
        self.packer.set(packing);
    }

    /// Sends a message to a node with the next `flush`; false if it was dropped, because there is no link or no room.
    pub fn send(&mut self, to: NodeId, message: &PeerMessage) -> bool {
        let Some(&key) = self.up.get(&to) else { return false };
        let link = &mut self.links[key];
        if !link.out.push(message) {
            return false;
        }
        link.sent_messages += 1;
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(key);
        }
        true
    }

    /// Sends what was given to `send`: one write for each node.
    pub fn flush(&mut self, now: Instant) {
        while let Some(key) = self.dirty.pop() {
            let Some(link) = self.links.get_mut(key) else { continue };
            link.dirty = false;
            if let Err(e) = link.flush(&mut self.packer, now) {
                link.failed = Some(e);
                self.broken.push(key);
            }
        }
    }

    /// Whether `resume` has something to do at once.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.unfinished.is_empty() || !self.broken.is_empty()
    }

    /// Goes on with what was left so that others had their turn, and calls the contacts that are due.
    pub fn resume(&mut self, now: Instant, hear: &mut Hear) {
        for key in std::mem::take(&mut self.broken) {
            if let Some(e) = self.links.get_mut(key).and_then(|link| link.failed.take()) {
                self.end(key, End::Failed(e), now, hear);
            }
        }
        for key in std::mem::take(&mut self.unfinished) {
            self.receive(key, now, hear);
        }
        self.call_due(now);
    }

    /// What the event loop has noticed for a token of the links.
    pub fn notice(&mut self, token: Token, event: &Event, now: Instant, hear: &mut Hear) {
        if token.0 == self.top {
            self.accept(now, true);
            return;
        }
        let key = self.top - 1 - token.0;
        let Some(link) = self.links.get_mut(key) else { return };
        if event.is_writable() || event.is_error() {
            link.writable = true;
            if let Err(end) = self.write(key, event.is_error(), now) {
                self.end(key, end, now, hear);
                return;
            }
        }
        let Some(link) = self.links.get_mut(key) else { return };
        if event.is_readable() || event.is_read_closed() {
            link.readable = true;
            link.hung_up |= event.is_read_closed();
            self.receive(key, now, hear);
        }
    }

    /// Calls, gives up, says that this side lives. At least every 100 ms.
    pub fn tick(&mut self, now: Instant, hear: &mut Hear) {
        self.resume(now, hear);
        // Those that could not be accepted for want of descriptors are not announced again.
        self.accept(now, false);
        let slept = self.ticked.is_some_and(|ticked| now.saturating_duration_since(ticked) > TICK_LATE);
        self.ticked = Some(now);
        let mut ends = Vec::new();
        for (key, link) in &mut self.links {
            if slept {
                link.heard = now;
            }
            let since = |then| now.saturating_duration_since(then);
            match link.state {
                State::Up(_) if since(link.heard) > SILENCE_MAX => ends.push(key),
                State::Up(_) if since(link.spoke) > SILENCE_OWN_MAX && link.out.waiting() == 0 => {
                    link.out.push_empty();
                    if !link.dirty {
                        link.dirty = true;
                        self.dirty.push(key);
                    }
                }
                State::Shaking(_) if since(link.opened) > MEETING_MAX => ends.push(key),
                _ => {}
            }
        }
        for key in ends {
            self.end(key, End::Silent, now, hear);
        }
        self.flush(now);
    }

    /// When `resume` has a call to make.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.contacts.next(|node| self.up.contains_key(&node))
    }

    /// The nodes that can be talked to.
    pub fn connected(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.up.keys().copied()
    }

    /// Whether a node can be talked to.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up.contains_key(&node)
    }

    /// Figures of the links that are up.
    #[must_use]
    pub fn stats(&self) -> Vec<LinkStats> {
        let figures = |(&node, &key): (&NodeId, &usize)| {
            let link = &self.links[key];
            LinkStats {
                node,
                address: link.address,
                called: link.contact.is_some(),
                waiting_bytes: link.out.waiting(),
                sent_bytes: link.sent_bytes,
                received_bytes: link.received_bytes,
                sent_messages: link.sent_messages,
                received_messages: link.received_messages,
                dropped_messages: link.out.dropped,
            }
        };
        self.up.iter().map(figures).collect()
    }
}
