//! How links come and go: calls, handshakes, which of two connections stays, and what is logged about it.

use super::complaints::Complaint;
use super::greeting::{PIECES_SINCE, Purpose};
use super::handshake::{Handshake, Peer, Step, refuse, welcome};
use super::identity::random;
use super::link::{End, Link, Read1, State};
use super::links::{CONNECTIONS_MAX, Hear, LinkEvent, Links};
use super::queue::OutQueue;
use super::refusal::{Refusal, RefusalKind};
use super::resolver::Found;
use super::{frame, frame::messages};
use crate::net::Stream;
use mio::{Interest, Token};
use node::peer::PeerMessage;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use vocab::NodeId;
use vocab::limits::{HANDSHAKES_MAX, PEER_FRAME_BYTES_MAX, PEER_READ_BYTES_SOFT};

/// How lately a link must have been heard of to keep another process of the same node out.
const LIVELY: Duration = Duration::from_millis(1500);

impl Links {
    pub(super) fn accept(&mut self, now: Instant, announced: bool) {
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => {
                    let meeting = self.links.iter().filter(|(_, link)| link.peer().is_none()).count();
                    // A caller beyond the limit is not told: it tries again.
                    if meeting < HANDSHAKES_MAX && self.links.len() < CONNECTIONS_MAX {
                        let state = State::Shaking(Box::new(Handshake::accept(self.identity.now(), random())));
                        let stream = Stream::plain(stream.into());
                        let opened = self.open(stream, address, None, state, OutQueue::default(), now);
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

    fn open(
        &mut self,
        stream: Stream,
        address: SocketAddr,
        contact: Option<u64>,
        state: State,
        out: OutQueue,
        now: Instant,
    ) -> io::Result<()> {
        let _ = stream.set_nodelay();
        let entry = self.links.vacant_entry();
        let token = Token(self.top - 1 - entry.key());
        stream.register(&self.registry, token, Interest::READABLE | Interest::WRITABLE)?;
        entry.insert(Link::new(stream, address, contact, state, out, now));
        Ok(())
    }

    /// Calls those that are due.
    pub(super) fn call_due(&mut self, now: Instant) {
        for id in self.contacts.due(now, |node| self.up.contains_key(&node)) {
            let Some(contact) = self.contacts.get(id) else { continue };
            if let Some(found) = self.resolver.find(id, &contact.address) {
                self.call(id, &found, now);
            }
        }
        while let Some((id, found)) = self.resolver.next() {
            self.call(id, &found, now);
        }
    }

    fn call(&mut self, id: u64, found: &Found, now: Instant) {
        let Some(contact) = self.contacts.get(id) else { return };
        let (name, failures) = (contact.address.clone(), contact.failures as usize);
        let expected = contact.node.filter(|_| contact.known);
        let called = match found {
            Ok(addresses) if addresses.is_empty() => Err("the name has no address".to_owned()),
            Err(e) => Err(e.clone()),
            Ok(_) if self.links.len() >= CONNECTIONS_MAX => Err("too many connections".to_owned()),
            Ok(addresses) => {
                let address = addresses[failures % addresses.len()];
                Stream::begin_connect(address)
                    .and_then(|stream| {
                        let mut out = OutQueue::default();
                        let handshake =
                            Handshake::dial(self.identity.now(), Purpose::Link, expected, random(), out.plain());
                        self.open(stream, address, Some(id), State::Shaking(Box::new(handshake)), out, now)
                    })
                    .map_err(|e| e.to_string())
            }
        };
        if let Err(why) = called {
            self.complain(&name, Complaint::Silence, &format!("cannot call the node at {name}: {why}"));
            self.contacts.failed(id, None, now);
        }
    }

    /// The socket of a connection takes bytes, or its call has come to something.
    pub(super) fn write(&mut self, key: usize, failed: bool, now: Instant) -> Result<(), End> {
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
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
        link.flush(&mut self.packer, now).map_err(End::Failed)
    }

    /// Reads what a node has sent and hands it on.
    pub(super) fn receive(&mut self, key: usize, now: Instant, hear: &mut Hear) {
        let mut read = 0;
        loop {
            let Some(link) = self.links.get_mut(key) else { return };
            if !link.readable || !link.connected {
                return;
            }
            if read >= PEER_READ_BYTES_SOFT {
                self.unfinished.push(key);
                return;
            }
            let end = match link.read(now) {
                Ok(Read1::More(n)) => {
                    read += n;
                    self.understand(key, now, hear).err()
                }
                Ok(Read1::Drained) => None,
                Ok(Read1::Closed) => Some(End::Closed),
                Err(end) => Some(end),
            };
            if let Some(end) = end {
                self.end(key, end, now, hear);
                return;
            }
        }
    }

    fn understand(&mut self, key: usize, now: Instant, hear: &mut Hear) -> Result<(), End> {
        while let Some(link) = self.links.get_mut(key)
            && let State::Shaking(handshake) = &mut link.state
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
                Step::Proven(peer) if peer.purpose == Purpose::Snapshot => {
                    return self.hand_over(key, &peer, now, hear);
                }
                Step::Proven(peer) | Step::Welcome(peer) => self.admit(key, peer, now, hear)?,
            }
        }
        let Some(link) = self.links.get_mut(key) else { return Ok(()) };
        let State::Up(peer) = &link.state else { return Ok(()) };
        let node = peer.node;
        let (mut count, mut unknown) = (0, None);
        // One that cannot be understood is dropped: the others are not of the same shard, and links are for all of them.
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
                whole.iter().for_each(|whole| deliver(PeerMessage::decode_shared(whole)));
            } else {
                for message in messages(payload) {
                    deliver(PeerMessage::decode(message.map_err(End::Garbage)?));
                }
            }
            link.input.consume(bytes);
        }
        link.received_messages += count;
        if let Some(why) = unknown {
            let about = link.address.ip().to_string();
            self.complain(&about, Complaint::Garbage, &format!("a message of node {node} is dropped: {why}"));
        }
        Ok(())
    }

    /// A connection becomes the link to its node, unless another one is to stay.
    fn admit(&mut self, key: usize, peer: Peer, now: Instant, hear: &mut Hear) -> Result<(), End> {
        let called = self.links[key].contact;
        match self.rival(key, &peer, now) {
            Ok(Some(old)) => self.end(old, End::Replaced, now, hear),
            Ok(None) => {}
            Err(refusal) => {
                let link = &mut self.links[key];
                refuse(&refusal, link.out.plain());
                link.flush(&mut self.packer, now).map_err(End::Failed)?;
                return Err(End::Refuse(refusal));
            }
        }
        let link = &mut self.links[key];
        let here = link.stream.local_addr().map(|local| local.ip());
        if link.address.ip().is_loopback() || here.is_ok_and(|here| here == link.address.ip()) {
            link.out.near();
        }
        if called.is_none() {
            welcome(link.out.plain());
            link.flush(&mut self.packer, now).map_err(End::Failed)?;
        }
        self.complaints.settle(&link.address.ip().to_string());
        if let Some(id) = called {
            self.contacts.answered(id, peer.node);
            if let Some(contact) = self.contacts.get(id) {
                self.complaints.settle(&contact.address);
            }
        }
        if peer.version >= PIECES_SINCE {
            link.out.take_pieces();
        }
        self.up.insert(peer.node, key);
        let up = LinkEvent::Up {
            node: peer.node,
            store: peer.store,
            version: peer.version,
            hello: peer.hello.clone(),
            address: link.address,
        };
        link.state = State::Up(peer);
        hear(up);
        Ok(())
    }

    /// The link that a new connection takes the place of, if there is one; or why it may not.
    ///
    /// Of two connections between the same processes the one stays that the lower node has called. Both ends decide
    /// alike, so one stays; a newer one of the same caller counts more, as its caller knows that the old one is dead.
    fn rival(&self, key: usize, peer: &Peer, now: Instant) -> Result<Option<usize>, Refusal> {
        let Some(&old) = self.up.get(&peer.node) else { return Ok(None) };
        let link = &self.links[old];
        let other_process = link.peer().is_some_and(|known| known.instance != peer.instance);
        if other_process {
            if now.saturating_duration_since(link.heard) > LIVELY || link.hung_up {
                return Ok(Some(old));
            }
            let text =
                format!("node {} is connected already, from {}: two processes of one node?", peer.node, link.address);
            return Err(Refusal::new(RefusalKind::Duplicate, text));
        }
        let by_me = self.links[key].contact.is_some();
        let by_lower = by_me == (self.me < peer.node);
        if by_lower || by_me == link.contact.is_some() {
            return Ok(Some(old));
        }
        Err(Refusal::new(RefusalKind::Linked, format!("node {} and node {} are connected", self.me, peer.node)))
    }

    /// Gives a connection for a snapshot to the snapshot receiver.
    fn hand_over(&mut self, key: usize, peer: &Peer, now: Instant, hear: &mut Hear) -> Result<(), End> {
        let link = &mut self.links[key];
        if !link.input.ready().is_empty() {
            return Err(End::Garbage("bytes before the welcome"));
        }
        welcome(link.out.plain());
        link.flush(&mut self.packer, now).map_err(End::Failed)?;
        if link.out.waiting() > 0 {
            return Err(End::Silent);
        }
        let stream = self.links.remove(key).stream;
        let handed = stream.deregister(&self.registry).and_then(|()| stream.set_nonblocking(false));
        match handed {
            Ok(()) => hear(LinkEvent::Snapshot { node: peer.node, stream }),
            Err(e) => log::warn!("cannot take the snapshot of node {}: {e}", peer.node),
        }
        Ok(())
    }

    /// Ends a connection.
    pub(super) fn end(&mut self, key: usize, end: End, now: Instant, hear: &mut Hear) {
        let Some(link) = self.links.try_remove(key) else { return };
        // It may be gone from there already.
        let _ = link.stream.deregister(&self.registry);
        let about = link.contact.and_then(|id| self.contacts.get(id)).map(|contact| contact.address.clone());
        let about = about.unwrap_or_else(|| link.address.ip().to_string());
        let met = match &link.state {
            State::Up(peer) => Some(peer.node),
            State::Shaking(handshake) => handshake.peer().map(|peer| peer.node),
        };
        let was_up = link.peer().is_some();
        self.log_end(&about, met.filter(|_| was_up), &end);
        if let End::Refuse(refusal) | End::Refused(refusal) = &end
            && refusal.kind == RefusalKind::Store
        {
            hear(LinkEvent::Stranger { about: about.clone(), why: refusal.text.clone() });
        }
        if let Some(id) = link.contact {
            match &end {
                End::Refuse(refusal) | End::Refused(refusal) if refusal.kind == RefusalKind::Myself => {
                    log::info!("{about} is this node's own address");
                    self.contacts.remove(id);
                }
                _ if was_up => self.contacts.ended(id, now),
                _ => self.contacts.failed(id, met, now),
            }
        }
        if let Some(node) = met.filter(|_| was_up) {
            let key = self.up.remove(&node);
            assert!(key.is_some(), "a link that is up is known as such");
            self.contacts.parted(node, now);
            hear(LinkEvent::Down(node));
        }
    }

    fn log_end(&mut self, about: &str, up: Option<NodeId>, end: &End) {
        let who = up.map_or_else(|| format!("the node at {about}"), |node| format!("node {node} at {about}"));
        match end {
            End::Replaced | End::Forgotten => {}
            End::Refuse(refusal) | End::Refused(refusal)
                if matches!(refusal.kind, RefusalKind::Linked | RefusalKind::Myself) => {}
            End::Refuse(refusal) => {
                self.complain(about, Complaint::Refusal(refusal.kind), &format!("refused {who}: {refusal}"));
            }
            End::Refused(refusal) => {
                self.complain(about, Complaint::Refusal(refusal.kind), &format!("{who} refuses: {refusal}"));
            }
            End::Garbage(what) => {
                self.complain(about, Complaint::Garbage, &format!("{who} sends what makes no sense: {what}"));
            }
            End::Closed if up.is_some() => log::info!("{who} has closed the link"),
            End::Failed(e) if up.is_some() => log::info!("the link to {who} is lost: {e}"),
            End::Silent if up.is_some() => log::warn!("{who} is silent; the link is closed"),
            End::Closed => self.complain(about, Complaint::Silence, &format!("{who} closes the connection")),
            End::Failed(e) => self.complain(about, Complaint::Silence, &format!("cannot call {who}: {e}")),
            End::Silent => self.complain(about, Complaint::Silence, &format!("{who} does not answer")),
        }
    }

    fn complain(&mut self, about: &str, complaint: Complaint, text: &str) {
        if self.complaints.is_new(about, complaint) {
            log::warn!("{text}");
        }
    }
}
