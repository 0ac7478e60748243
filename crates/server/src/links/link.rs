//! One connection to another node: its socket and what goes in and out.

use super::frame::{self, Packer};
use super::handshake::{Handshake, Peer, refuse};
use super::queue::{InBuffer, OutQueue};
use super::refusal::Refusal;
use crate::net::{Received, Stream};
use node::peer_protocol::Pieces;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Instant;
use vocab::limits::PEER_SEND_BYTES_SOFT;

/// Room for a part of a handshake, in bytes.
const SHAKE_BYTES: usize = 8 * 1024;

/// How far a connection has come.
pub(super) enum LinkState {
    /// The two get to know each other.
    Shaking(Box<Handshake>),
    /// Messages go to and fro.
    Up(Peer),
}

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The other side has closed it.
    Closed,
    /// The system says so.
    Failed(io::Error),
    /// Nothing was heard for too long.
    Silent,
    /// What came makes no sense.
    Garbage(&'static str),
    /// This side refuses.
    Refuse(Refusal),
    /// The other side refuses.
    Refused(Refusal),
    /// Another connection has taken its place.
    Replaced,
    /// It has no TLS, and nodes speak TLS from now on.
    Plain,
    /// The node is not to be talked to any more.
    Forgotten,
}

/// The outcome of one read.
pub(super) enum ReadOnce {
    /// Bytes, and perhaps more.
    More(usize),
    /// Nothing for now.
    Drained,
    /// The end.
    Closed,
}

pub(super) struct Link {
    pub(super) stream: Stream,
    pub(super) address: SocketAddr,
    /// The contact that was called; `None` if the other side called.
    pub(super) contact: Option<u64>,
    /// The other side has answered the call.
    pub(super) connected: bool,
    pub(super) state: LinkState,
    pub(super) input: InBuffer,
    /// A message of which not all pieces are here.
    pub(super) pieces: Pieces,
    pub(super) out: OutQueue,
    pub(super) readable: bool,
    /// There is an end to be read.
    pub(super) hung_up: bool,
    pub(super) writable: bool,
    /// It is in the list of those to flush.
    pub(super) dirty: bool,
    /// What writing came to, if it failed.
    pub(super) failed: Option<io::Error>,
    /// The other side has called, and it is not known whether it begins with TLS.
    pub(super) is_undecided: bool,
    pub(super) opened: Instant,
    /// When bytes last came.
    pub(super) heard: Instant,
    /// When bytes last went.
    pub(super) spoke: Instant,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_messages: u64,
    pub(super) sent_messages: u64,
}

impl Link {
    pub(super) fn new(
        stream: Stream,
        address: SocketAddr,
        contact: Option<u64>,
        state: LinkState,
        out: OutQueue,
        now: Instant,
    ) -> Self {
        Self {
            stream,
            address,
            contact,
            connected: contact.is_none(),
            state,
            input: InBuffer::default(),
            pieces: Pieces::default(),
            out,
            readable: false,
            hung_up: false,
            writable: contact.is_none(),
            dirty: false,
            failed: None,
            is_undecided: contact.is_none(),
            opened: now,
            heard: now,
            spoke: now,
            received_bytes: 0,
            sent_bytes: 0,
            received_messages: 0,
            sent_messages: 0,
        }
    }

    /// The node at the other end, once it has proven that it is one.
    pub(super) fn peer(&self) -> Option<&Peer> {
        match &self.state {
            LinkState::Up(peer) => Some(peer),
            LinkState::Shaking(_) => None,
        }
    }

    /// Reads once.
    pub(super) fn read(&mut self, now: Instant) -> Result<ReadOnce, End> {
        let wanted = match self.state {
            LinkState::Up(_) => frame::wanted(self.input.ready()).map_err(End::Garbage)?,
            LinkState::Shaking(_) => SHAKE_BYTES,
        };
        let room = self.input.room(wanted);
        let n = match self.stream.try_receive(room).map_err(End::Failed)? {
            Received::Closed => return Ok(ReadOnce::Closed),
            Received::Drained(n) => {
                // There is no more, unless the end itself is still to be read.
                self.readable = self.hung_up && n > 0;
                n
            }
            Received::More(n) => n,
        };
        if n == 0 {
            return Ok(ReadOnce::Drained);
        }
        self.input.filled(n);
        self.heard = now;
        self.received_bytes += n as u64;
        Ok(ReadOnce::More(n))
    }

    /// Tells the other side why it is refused; how the connection ends.
    pub(super) fn refuse(&mut self, refusal: Refusal, packer: &mut Packer, now: Instant) -> End {
        refuse(&refusal, self.out.plain());
        match self.flush(packer, now) {
            Ok(_) => End::Refuse(refusal),
            Err(e) => End::Failed(e),
        }
    }

    /// Sends what the socket takes, up to `PEER_SEND_BYTES_SOFT`. True if there is more that it may take.
    pub(super) fn flush(&mut self, packer: &mut Packer, now: Instant) -> io::Result<bool> {
        let sent_before = self.sent_bytes;
        while self.writable && self.out.waiting() > 0 {
            if self.sent_bytes - sent_before >= PEER_SEND_BYTES_SOFT {
                return Ok(true);
            }
            match (&self.stream).write(self.out.seal(packer)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.out.advance(n);
                    self.spoke = now;
                    self.sent_bytes += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    self.out.pushed_back();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }
}
