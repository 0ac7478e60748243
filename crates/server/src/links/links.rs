//! All links of a node, inside an event loop of its owner: no thread of its own.
//!
//! Invariants: at most one link to a node is up. Between `Up` and `Down` of a node come all its messages, each once and
//! in the order in which they were sent, but for those that were dropped and for urgent ones, which overtake bulk. Memory is bounded whatever the others do.

use super::complaints::Complaint;
use super::connections::{CONNECTIONS_MAX, Connections};
use super::dialer::{Call, Dialer, Ended};
use super::frame::{self, Packer, Packing, messages};
use super::greeting::{PIECES_SINCE, Purpose};
use super::handshake::{Handshake, Peer, Step, welcome};
use super::identity::SharedIdentity;
use super::link::{End, Link, LinkState, ReadOnce};
use super::queue::OutQueue;
use super::refusal::{Refusal, RefusalKind};
use crate::net::Stream;
use crate::os::random;
use crate::security::PeerMode;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use node::peer_protocol::PeerMessage;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use vocab::limits::{HANDSHAKES_MAX, PEER_FRAME_BYTES_MAX, PEER_READ_BYTES_SOFT};
use vocab::{NodeId, StoreId};

/// How long a call may take until the node has said who it is.
const MEETING_MAX: Duration = Duration::from_secs(3);
/// How long a node may be silent before it counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// While large requests are under way, which may keep it busy.
const SILENCE_BUSY_MAX: Duration = Duration::from_secs(10);
/// How long this side is silent before it says that it lives.
const SILENCE_OWN_MAX: Duration = Duration::from_millis(500);
/// A tick that comes later than this after the last one says that this process slept, not the others.
const TICK_LATE: Duration = Duration::from_secs(1);
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
        /// Its port for clients with TLS; 0: none.
        tls_port: u16,
        /// Whether the link is encrypted.
        encrypted: bool,
    },
    /// From a node.
    Message(NodeId, PeerMessage),
    /// A piece of a large message of so many bytes has come.
    Piece(usize),
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
    /// A node sends requests of one of its clients; the stream does not block.
    Client(Stream),
}

/// Receives the events of the links.
pub type Hear<'a> = dyn FnMut(LinkEvent) + 'a;

/// Decides whether a node is let in that has proven what it says, and has shown a certificate if the connection is encrypted.
pub type Guard = Box<dyn Fn(&Peer, Option<&tls::Certificate>) -> Result<(), Refusal> + Send>;

/// What links are made with.
pub struct LinksOptions {
    /// Who this node is.
    pub identity: SharedIdentity,
    /// Where others call; `None`: they cannot.
    pub listener: Option<std::net::TcpListener>,
    /// When frames are packed.
    pub packing: Packing,
    /// Decides which nodes are let in.
    pub guard: Guard,
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
    /// The listener's token; those of the connections count down from it.
    top: usize,
    identity: SharedIdentity,
    guard: Guard,
    listener: Option<TcpListener>,
    pub(super) connections: Connections,
    pub(super) dialer: Dialer,
    packer: Packer,
    /// Keys of connections with something to send.
    dirty: Vec<usize>,
    /// Keys of connections with something left to send that the socket may take.
    unsent: Vec<usize>,
    /// Keys of connections with something left to read.
    unfinished: Vec<usize>,
    /// Keys of connections whose sending failed.
    broken: Vec<usize>,
    ticked: Option<Instant>,
    /// Other nodes may be slow.
    is_patient: bool,
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
            top: top.0,
            identity: options.identity,
            guard: options.guard,
            listener: listener.transpose()?,
            connections: Connections::new(registry, Token(top.0 - 1), me),
            dialer: Dialer::new(me),
            packer: Packer::new(options.packing)?,
            dirty: Vec::new(),
            unsent: Vec::new(),
            unfinished: Vec::new(),
            broken: Vec::new(),
            ticked: None,
            is_patient: false,
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
        self.dialer.dial(address, now);
    }

    /// Keeps a link to a node, at `address`.
    pub fn know(&mut self, node: NodeId, address: &str, now: Instant) {
        self.dialer.know(node, address, now);
    }

    /// A node is not called any more; a link to it stays while it is there.
    pub fn call_no_more(&mut self, node: NodeId) {
        self.dialer.forget(node);
    }

    /// Ends the link to a node, which is not called any more.
    pub fn forget(&mut self, node: NodeId, now: Instant, hear: &mut Hear) {
        self.dialer.forget(node);
        if let Some(key) = self.connections.link_to(node) {
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
        let is_strange = |link: &Link| {
            let theirs = link.peer().and_then(|peer| peer.store);
            theirs.is_some_and(|theirs| theirs != store)
        };
        let strange: Vec<usize> =
            self.connections.links().filter(|(_, _, link)| is_strange(link)).map(|(_, key, _)| key).collect();
        for key in strange {
            self.end(key, End::Forgotten, now, hear);
        }
    }

    /// When frames are packed, from now on.
    pub fn set_packing(&mut self, packing: Packing) {
        self.packer.set(packing);
    }

    /// Whether nodes may be slow, since large requests are under way.
    pub fn be_patient(&mut self, is_bulk: bool) {
        self.is_patient = is_bulk;
    }

    /// Sends a message to a node with the next `flush`; false if it was dropped, because there is no link or no room.
    pub fn send(&mut self, to: NodeId, message: &PeerMessage) -> bool {
        let Some(key) = self.connections.link_to(to) else { return false };
        let Some(link) = self.connections.get_mut(key) else { return false };
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
            let Some(link) = self.connections.get_mut(key) else { continue };
            link.dirty = false;
            match link.flush(&mut self.packer, now) {
                Ok(true) => self.unsent.push(key),
                Ok(false) => {}
                Err(e) => {
                    link.failed = Some(e);
                    self.broken.push(key);
                }
            }
        }
    }

    /// Goes on with what was left unsent so that others had their turn.
    fn send_rest(&mut self, now: Instant) {
        for key in std::mem::take(&mut self.unsent) {
            if let Some(link) = self.connections.get_mut(key)
                && !link.dirty
            {
                link.dirty = true;
                self.dirty.push(key);
            }
        }
        self.flush(now);
    }

    /// Whether `resume` has something to do at once.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.unfinished.is_empty() || !self.unsent.is_empty() || !self.broken.is_empty()
    }

    /// Goes on with what was left so that others had their turn, and calls the contacts that are due.
    pub fn resume(&mut self, now: Instant, hear: &mut Hear) {
        for key in std::mem::take(&mut self.broken) {
            if let Some(e) = self.connections.get_mut(key).and_then(|link| link.failed.take()) {
                self.end(key, End::Failed(e), now, hear);
            }
        }
        for key in std::mem::take(&mut self.unfinished) {
            self.receive(key, now, hear);
        }
        self.send_rest(now);
        self.call_due(now);
    }

    /// What the event loop has noticed for a token of the links.
    pub fn notice(&mut self, token: Token, event: &Event, now: Instant, hear: &mut Hear) {
        if token.0 == self.top {
            self.accept(now, true);
            return;
        }
        let key = self.connections.key_of(token);
        let Some(link) = self.connections.get_mut(key) else { return };
        if event.is_writable() || event.is_error() {
            link.writable = true;
            if let Err(end) = self.write(key, event.is_error(), now) {
                self.end(key, end, now, hear);
                return;
            }
        }
        let Some(link) = self.connections.get_mut(key) else { return };
        if event.is_readable() || event.is_read_closed() {
            link.readable = true;
            link.hung_up |= event.is_read_closed();
            self.receive(key, now, hear);
        }
    }

    /// Calls, gives up, says that this side lives. At least every 100 ms.
    pub fn tick(&mut self, now: Instant, hear: &mut Hear) {
        self.resume(now, hear);
        // Connections that could not be accepted for want of descriptors are not announced again.
        self.accept(now, false);
        let slept = self.ticked.is_some_and(|ticked| now.saturating_duration_since(ticked) > TICK_LATE);
        self.ticked = Some(now);
        let silence_max = if self.is_patient { SILENCE_BUSY_MAX } else { SILENCE_MAX };
        let encrypts = self.identity.peer_mode() == PeerMode::Yes;
        let mut ends = Vec::new();
        for (key, link) in self.connections.iter_mut() {
            if slept {
                link.heard = now;
            }
            let since = |then| now.saturating_duration_since(then);
            match link.state {
                LinkState::Up(_) if since(link.heard) > silence_max => ends.push((key, End::Silent)),
                LinkState::Up(_) if encrypts && !link.stream.is_encrypted() => ends.push((key, End::Plain)),
                LinkState::Up(_) if since(link.spoke) > SILENCE_OWN_MAX && link.out.waiting() == 0 => {
                    link.out.push_empty();
                    if !link.dirty {
                        link.dirty = true;
                        self.dirty.push(key);
                    }
                }
                LinkState::Shaking(_) if since(link.opened) > MEETING_MAX => ends.push((key, End::Silent)),
                _ => {}
            }
        }
        for (key, end) in ends {
            self.end(key, end, now, hear);
        }
        self.flush(now);
    }

    /// When `resume` has a call to make.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.dialer.next_due(|node| self.connections.link_to(node).is_some())
    }

    /// The nodes that can be talked to.
    pub fn connected(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.connections.nodes()
    }

    /// Whether a node can be talked to.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.connections.link_to(node).is_some()
    }

    /// Figures of the links that are up.
    #[must_use]
    pub fn stats(&self) -> Vec<LinkStats> {
        let figures = |(node, _, link): (NodeId, usize, &Link)| LinkStats {
            node,
            address: link.address,
            called: link.contact.is_some(),
            waiting_bytes: link.out.waiting(),
            sent_bytes: link.sent_bytes,
            received_bytes: link.received_bytes,
            sent_messages: link.sent_messages,
            received_messages: link.received_messages,
            dropped_messages: link.out.dropped,
        };
        self.connections.links().map(figures).collect()
    }

    fn accept(&mut self, now: Instant, announced: bool) {
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => {
                    // A caller beyond the limit is not told: it tries again.
                    if self.connections.shaking() < HANDSHAKES_MAX && !self.connections.is_full() {
                        let state = LinkState::Shaking(Box::new(Handshake::accept(self.identity.now(), random())));
                        let stream = Stream::plain(stream.into());
                        let opened = self.connections.open(stream, address, None, state, OutQueue::default(), now);
                        opened.unwrap_or_else(|e| log::warn!("cannot serve the node at {address}: {e}"));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    if announced {
                        log::warn!("cannot accept a connection of a node: {e}");
                    }
                    return;
                }
            }
        }
    }

    /// Makes the calls that are due.
    fn call_due(&mut self, now: Instant) {
        for call in self.dialer.due(now, |node| self.connections.link_to(node).is_some()) {
            if let Err(why) = self.call(&call, now) {
                self.dialer.failed(&call, &why, now);
            }
        }
    }

    fn call(&mut self, call: &Call, now: Instant) -> Result<(), String> {
        let address = call.address.clone()?;
        if self.connections.is_full() {
            return Err("too many connections".to_owned());
        }
        let mut stream = Stream::begin_connect(address).map_err(|e| e.to_string())?;
        let identity = self.identity.now();
        if identity.peer_mode().encrypts(call.failures) {
            stream.encrypt(identity.call_with_tls(&call.name)?).map_err(|e| e.to_string())?;
        }
        let mut out = OutQueue::default();
        let handshake = Handshake::dial(identity, Purpose::Link, call.expected, random(), out.plain());
        let state = LinkState::Shaking(Box::new(handshake));
        self.connections.open(stream, address, Some(call.contact), state, out, now).map_err(|e| e.to_string())
    }

    /// The socket of a connection takes bytes, or its call has come to something.
    fn write(&mut self, key: usize, failed: bool, now: Instant) -> Result<(), End> {
        let Some(link) = self.connections.get_mut(key) else { return Ok(()) };
        // Most events say that it can be written to: that costs no system call of its own.
        if (failed || !link.connected)
            && let Some(e) = link.stream.take_error().map_err(End::Failed)?
        {
            return Err(End::Failed(e));
        }
        if !link.connected {
            link.connected = link.stream.is_connected().map_err(End::Failed)?;
            if !link.connected {
                link.writable = false;
                return Ok(());
            }
        }
        if link.flush(&mut self.packer, now).map_err(End::Failed)? {
            self.unsent.push(key);
        }
        Ok(())
    }

    /// Reads what a node has sent and hands it on.
    fn receive(&mut self, key: usize, now: Instant, hear: &mut Hear) {
        let mut read = 0;
        loop {
            let Some(link) = self.connections.get_mut(key) else { return };
            if !link.readable || !link.connected {
                return;
            }
            if read >= PEER_READ_BYTES_SOFT {
                self.unfinished.push(key);
                return;
            }
            if link.is_undecided {
                match self.settle_transport(key, now) {
                    Ok(()) => continue,
                    Err(end) => return self.end(key, end, now, hear),
                }
            }
            let end = match link.read(now) {
                Ok(ReadOnce::More(n)) => {
                    read += n;
                    self.understand(key, now, hear).err()
                }
                Ok(ReadOnce::Drained) => None,
                Ok(ReadOnce::Closed) => Some(End::Closed),
                Err(end) => Some(end),
            };
            if let Some(end) = end {
                self.end(key, end, now, hear);
                return;
            }
        }
    }

    /// A node has called: whether it speaks TLS, its first byte says.
    fn settle_transport(&mut self, key: usize, now: Instant) -> Result<(), End> {
        let Some(link) = self.connections.get_mut(key) else { return Ok(()) };
        let begins_with_tls = match link.stream.begins_with_tls() {
            Ok(None) => {
                link.readable = false;
                return Ok(());
            }
            Ok(Some(begins_with_tls)) => begins_with_tls,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(End::Closed),
            Err(e) => return Err(End::Failed(e)),
        };
        link.is_undecided = false;
        let identity = self.identity.now();
        if begins_with_tls {
            let connection = identity.accept_with_tls();
            let connection = connection.map_err(|why| End::Refuse(Refusal::new(RefusalKind::Certificate, why)))?;
            return link.stream.encrypt(connection).map_err(End::Failed);
        }
        if identity.peer_mode() == PeerMode::Yes {
            let text = format!("node {} speaks TLS with other nodes alone (setting tls-cluster)", identity.node);
            return Err(link.refuse(Refusal::new(RefusalKind::Plain, text), &mut self.packer, now));
        }
        Ok(())
    }

    /// Lets a node in that has proven what it says, or refuses it.
    fn guard(&mut self, key: usize, peer: &Peer, now: Instant) -> Result<(), End> {
        let Some(link) = self.connections.get_mut(key) else { return Ok(()) };
        let decision = (self.guard)(peer, link.stream.peer_certificate().as_ref());
        decision.map_err(|refusal| link.refuse(refusal, &mut self.packer, now))
    }

    fn understand(&mut self, key: usize, now: Instant, hear: &mut Hear) -> Result<(), End> {
        while let Some(link) = self.connections.get_mut(key)
            && let LinkState::Shaking(handshake) = &mut link.state
        {
            let (used, step) = handshake.advance(link.input.ready(), link.out.plain());
            link.input.consume(used);
            if !matches!(step, Step::Proven(_)) {
                link.flush(&mut self.packer, now).map_err(End::Failed)?;
            }
            match step {
                Step::Wait => return Ok(()),
                Step::Garbage => return Err(End::Garbage("not a node's handshake")),
                Step::Refuse(refusal) => return Err(End::Refuse(refusal)),
                Step::Refused(refusal) => return Err(End::Refused(refusal)),
                Step::Proven(peer) => {
                    self.guard(key, &peer, now)?;
                    if peer.purpose != Purpose::Link {
                        return self.hand_over(key, &peer, now, hear);
                    }
                    self.admit(key, peer, now, hear)?;
                }
                Step::Welcome(peer) => self.admit(key, peer, now, hear)?,
            }
        }
        let Some(link) = self.connections.get_mut(key) else { return Ok(()) };
        let LinkState::Up(peer) = &link.state else { return Ok(()) };
        let node = peer.node;
        let (mut count, mut unknown, mut piece_of) = (0, None, None);
        // A message that cannot be understood is dropped. The next ones may be of other shards, for which the link goes on.
        let mut deliver = |message: Result<PeerMessage, &'static str>| match message {
            Ok(message) => {
                count += 1;
                hear(LinkEvent::Message(node, message));
            }
            Err(why) => unknown = Some(why),
        };
        while let Some(frame) = frame::first(link.input.ready()).map_err(End::Garbage)? {
            let bytes = frame.bytes();
            let unpacked = frame.packed.then(|| self.packer.unpack(frame.payload)).transpose().map_err(End::Garbage)?;
            let payload = unpacked.as_deref().unwrap_or(frame.payload);
            if frame.is_piece {
                let whole = link.pieces.add(payload, PEER_FRAME_BYTES_MAX).map_err(End::Garbage)?;
                piece_of = Some(link.pieces.total());
                whole.iter().for_each(|whole| deliver(PeerMessage::decode_shared(whole)));
            } else {
                for message in messages(payload) {
                    deliver(PeerMessage::decode(message.map_err(End::Garbage)?));
                }
            }
            link.input.consume(bytes);
        }
        link.received_messages += count;
        if let Some(bytes) = piece_of {
            hear(LinkEvent::Piece(bytes));
        }
        if let Some(why) = unknown {
            let about = link.address.ip().to_string();
            self.dialer.complain(&about, Complaint::Garbage, &format!("a message of node {node} is dropped: {why}"));
        }
        Ok(())
    }

    /// A connection becomes the link to its node, unless another one is to stay.
    fn admit(&mut self, key: usize, peer: Peer, now: Instant, hear: &mut Hear) -> Result<(), End> {
        let rival = self.connections.rival(key, &peer, now);
        if let Ok(Some(old)) = rival {
            self.end(old, End::Replaced, now, hear);
        }
        let Some(link) = self.connections.get_mut(key) else { return Ok(()) };
        if let Err(refusal) = rival {
            return Err(link.refuse(refusal, &mut self.packer, now));
        }
        let here = link.stream.local_addr().map(|local| local.ip());
        if link.address.ip().is_loopback() || here.is_ok_and(|here| here == link.address.ip()) {
            link.out.near();
        }
        if link.contact.is_none() {
            welcome(link.out.plain());
            link.flush(&mut self.packer, now).map_err(End::Failed)?;
        }
        self.dialer.answered(link.contact, link.address.ip(), peer.node);
        if peer.version >= PIECES_SINCE {
            link.out.take_pieces();
        }
        let Peer { node, store, version, ref hello, tls_port, .. } = peer;
        let (address, encrypted) = (link.address, link.stream.is_encrypted());
        let up = LinkEvent::Up { node, store, version, hello: hello.clone(), address, tls_port, encrypted };
        self.connections.set_up(key, peer);
        hear(up);
        Ok(())
    }

    /// Gives a connection that is no link to whom it is for.
    fn hand_over(&mut self, key: usize, peer: &Peer, now: Instant, hear: &mut Hear) -> Result<(), End> {
        let Some(link) = self.connections.get_mut(key) else { return Ok(()) };
        if !link.input.ready().is_empty() {
            return Err(End::Garbage("bytes before the welcome"));
        }
        welcome(link.out.plain());
        link.flush(&mut self.packer, now).map_err(End::Failed)?;
        if link.out.waiting() > 0 {
            return Err(End::Silent);
        }
        let Some(Link { stream, .. }) = self.connections.close(key) else { return Ok(()) };
        if peer.purpose == Purpose::Client {
            hear(LinkEvent::Client(stream));
            return Ok(());
        }
        match stream.set_nonblocking(false) {
            Ok(()) => hear(LinkEvent::Snapshot { node: peer.node, stream }),
            Err(e) => log::warn!("cannot take the snapshot of node {}: {e}", peer.node),
        }
        Ok(())
    }

    /// Ends a connection.
    fn end(&mut self, key: usize, end: End, now: Instant, hear: &mut Hear) {
        let Some(link) = self.connections.close(key) else { return };
        let met = match &link.state {
            LinkState::Up(peer) => Some(peer.node),
            LinkState::Shaking(handshake) => handshake.peer().map(|peer| peer.node),
        };
        let was_up = link.peer().is_some();
        let ended = Ended { contact: link.contact, address: link.address, met, was_up, end: &end };
        let about = self.dialer.ended(&ended, now);
        if let End::Refuse(refusal) | End::Refused(refusal) = &end
            && refusal.kind == RefusalKind::Store
        {
            hear(LinkEvent::Stranger { about, why: refusal.text.clone() });
        }
        if let Some(node) = met.filter(|_| was_up) {
            hear(LinkEvent::Down(node));
        }
    }
}
