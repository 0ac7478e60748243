//! One non-blocking connection: requests out, replies in, matched by their order.
//!
//! Invariants: `pending` holds one entry for every request whose reply has not been seen, oldest first; what `out`
//! holds from `sent` on has not reached the socket. A connection that is down keeps what is asked of it until it is
//! up again, or until the attempt has failed: then everything pending fails at once.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use resp::{Frame, FrameState, Nesting};

use crate::Request;

/// Between a failure and the next attempt to connect.
const REDIAL_AFTER: Duration = Duration::from_millis(100);

/// Why a request got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The server could not be reached.
    Unreachable,
    /// The connection broke: whether the request was done is not known.
    Disconnected,
    /// No reply in time: whether the request was done is not known.
    TimedOut,
    /// What came was no reply.
    Protocol,
}

impl Failure {
    /// In one word, for counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Disconnected => "disconnected",
            Self::TimedOut => "timeout",
            Self::Protocol => "protocol",
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// The reply.
    Reply(Frame<'a>),
    /// The reply was MOVED: the slot map is being read again, and the request should be made once more.
    Moved,
    /// There is none.
    Failed(Failure),
}

#[derive(Debug)]
enum Link {
    Down {
        redial_at: Option<Instant>,
    },
    /// `connecting` until the first event on the socket.
    Up {
        stream: TcpStream,
        connecting: bool,
    },
}

/// One connection of a pool.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    token: Token,
    link: Link,
    out: Vec<u8>,
    sent: usize,
    /// The beginning of a reply whose end has not come.
    partial: Vec<u8>,
    /// How far that reply has been looked through.
    frame: FrameState,
    pending: VecDeque<(u32, Instant)>,
    /// Waits in the pool's list of connections to flush.
    pub(crate) dirty: bool,
}

/// The buffer that all connections of a pool read into, and how to report.
pub(crate) struct Reading<'a> {
    pub(crate) scratch: &'a mut [u8],
    pub(crate) failed: &'a mut Vec<(u32, Failure)>,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr, token: Token) -> Self {
        Self {
            address,
            token,
            link: Link::Down { redial_at: None },
            out: Vec::new(),
            sent: 0,
            partial: Vec::new(),
            frame: FrameState::default(),
            pending: VecDeque::new(),
            dirty: false,
        }
    }

    /// Begins a request whose answer will bear `token`.
    pub(crate) fn request(&mut self, token: u32, arguments: usize, now: Instant) -> Request<'_> {
        self.pending.push_back((token, now));
        Request::new(&mut self.out, arguments)
    }

    /// When the oldest request without a reply was made.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.pending.front().map(|&(_, since)| since)
    }

    /// Sends what there is to send, as far as the socket takes it; connects first where it must. False when it must
    /// be called again later.
    pub(crate) fn flush(&mut self, registry: &Registry, now: Instant, failed: &mut Vec<(u32, Failure)>) -> bool {
        if let Link::Down { redial_at } = self.link {
            if redial_at.is_some_and(|at| at > now) {
                return false;
            }
            if let Err(failure) = self.dial(registry) {
                self.fail(failure, now, failed);
                return true;
            }
        }
        if let Err(failure) = self.write() {
            self.fail(failure, now, failed);
        }
        true
    }

    fn dial(&mut self, registry: &Registry) -> Result<(), Failure> {
        let attempt = || -> io::Result<TcpStream> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            registry.register(&mut stream, self.token, Interest::READABLE | Interest::WRITABLE)?;
            Ok(stream)
        };
        let stream = attempt().map_err(|_| Failure::Unreachable)?;
        self.link = Link::Up { stream, connecting: true };
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        let Link::Up { stream, connecting: false } = &mut self.link else { return Ok(()) };
        while self.sent < self.out.len() {
            match stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(Failure::Disconnected),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Failure::Disconnected),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// The socket can be written to: it may have connected, or have room again.
    pub(crate) fn on_writable(&mut self, now: Instant, failed: &mut Vec<(u32, Failure)>) {
        if let Link::Up { stream, connecting } = &mut self.link
            && *connecting
        {
            if !matches!(stream.take_error(), Ok(None)) || stream.peer_addr().is_err() {
                return self.fail(Failure::Unreachable, now, failed);
            }
            *connecting = false;
        }
        if self.sent < self.out.len()
            && let Err(failure) = self.write()
        {
            self.fail(failure, now, failed);
        }
    }

    /// Reads until the socket is empty, and hands every whole reply to `each` with its request's token.
    pub(crate) fn on_readable(
        &mut self,
        closing: bool,
        reading: Reading<'_>,
        each: &mut dyn FnMut(u32, Frame<'_>, Instant),
    ) {
        if matches!(self.link, Link::Up { connecting: true, .. }) {
            return;
        }
        loop {
            let Link::Up { stream, .. } = &mut self.link else { return };
            let read = match stream.read(reading.scratch) {
                Ok(0) => Err(Failure::Disconnected),
                Ok(read) => Ok(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => Err(Failure::Disconnected),
            };
            let now = Instant::now();
            let outcome = read.and_then(|read| {
                self.take_replies(&reading.scratch[..read], now, each)?;
                // A short read has emptied the socket, unless its end waits behind the data.
                Ok(read < reading.scratch.len() && !closing)
            });
            match outcome {
                Ok(true) => return,
                Ok(false) => {}
                Err(failure) => return self.fail(failure, now, reading.failed),
            }
        }
    }

    fn take_replies(
        &mut self,
        arrived: &[u8],
        now: Instant,
        each: &mut dyn FnMut(u32, Frame<'_>, Instant),
    ) -> Result<(), Failure> {
        let mut joined = std::mem::take(&mut self.partial);
        let bytes = if joined.is_empty() {
            arrived
        } else {
            joined.extend_from_slice(arrived);
            joined.as_slice()
        };
        let mut at = 0;
        while at < bytes.len() {
            let read = Frame::read(&bytes[at..], &mut self.frame).map_err(|_| Failure::Protocol)?;
            let Some((frame, length)) = read else { break };
            at += length;
            if matches!(frame, Frame::Nested(Nesting::Push, _)) {
                continue; // It answers no request.
            }
            let (token, _) = self.pending.pop_front().ok_or(Failure::Protocol)?;
            each(token, frame, now);
        }
        if joined.is_empty() {
            self.partial.extend_from_slice(&arrived[at..]);
        } else {
            joined.drain(..at);
            self.partial = joined;
        }
        Ok(())
    }

    /// Gives up the connection and everything that waits for it.
    pub(crate) fn fail(&mut self, failure: Failure, now: Instant, failed: &mut Vec<(u32, Failure)>) {
        // Dropping the stream closes it, which also takes it out of the poll.
        self.link = Link::Down { redial_at: Some(now + REDIAL_AFTER) };
        failed.extend(self.pending.drain(..).map(|(token, _)| (token, failure)));
        self.out.clear();
        self.sent = 0;
        self.partial.clear();
        self.frame.reset();
    }
}
