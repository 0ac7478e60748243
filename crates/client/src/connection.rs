//! One non-blocking connection: requests out, replies in, matched by their order.
//!
//! Invariants: `pending` holds one entry for every request whose reply has not been seen, oldest first; what `out`
//! holds from `sent` on has not reached the socket. A connection that is down keeps what is asked of it until it is
//! flushed, and one that connects until that has failed: then everything pending fails at once. A connection's first
//! requests are its greetings.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use resp::{Frame, FrameState, Nesting, Value, decode};

use tls::ClientSide;

use crate::stream::Stream;
use crate::{Access, Failure, Request};

/// Between the second failure in a row and the next attempt to connect; it doubles with every failure in a row…
const REDIAL_AFTER: Duration = Duration::from_millis(50);
/// …up to this.
const REDIAL_AFTER_MAX: Duration = Duration::from_millis(400);

/// Tokens that are not a caller's: the answer to a greeting…
const GREETING: u32 = u32::MAX;
/// …to a question about the map…
pub(crate) const SURVEY: u32 = u32::MAX - 1;
/// …and one whose caller is gone.
const FORGOTTEN: u32 = u32::MAX - 2;

/// A request that every new connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
    /// Whether an error in reply ends it all; otherwise it does not matter.
    pub must: bool,
}

#[derive(Debug)]
enum Link {
    Down {
        redial_at: Option<Instant>,
    },
    /// `connecting` until the first event on the socket, or with TLS until the end of the handshake.
    Up {
        stream: Stream<TcpStream>,
        connecting: bool,
    },
}

#[derive(Debug)]
struct Pending {
    token: u32,
    access: Access,
    /// Where it begins in the stream of all bytes of this connection.
    begins: u64,
    since: Instant,
}

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) token: u32,
    pub(crate) failure: Failure,
    /// It was not done, or does no harm twice.
    pub(crate) again: bool,
}

/// Takes a reply: its request's token and what that did, what was answered, and when.
pub(crate) type Each<'e> = dyn FnMut((u32, Access), Frame<'_>, Instant) + 'e;

/// One connection of a pool.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    /// With TLS: how, and the name of the host.
    secure: Option<(ClientSide, Arc<str>)>,
    /// Of which node.
    pub(crate) node: usize,
    token: Token,
    greetings: Arc<[Greeting]>,
    /// Greetings that have been answered.
    greeted: usize,
    link: Link,
    /// Failures since the last reply.
    failures: u32,
    out: Vec<u8>,
    sent: usize,
    /// Where `out` begins in the stream.
    out_begins: u64,
    /// The beginning of a reply whose end has not come.
    partial: Vec<u8>,
    /// How far that reply has been looked through.
    frame: FrameState,
    pending: VecDeque<Pending>,
    /// Waits in the pool's list of connections to flush.
    pub(crate) dirty: bool,
    /// Has been silent for too long.
    pub(crate) stalled: bool,
    /// No answer has come since it was made: what had waited for it says nothing of the distance.
    new: bool,
}

/// The buffer that all connections of a pool read into, and how to report.
pub(crate) struct Reading<'a> {
    pub(crate) scratch: &'a mut [u8],
    pub(crate) losses: &'a mut Vec<Loss>,
    /// The answer to a question about the map.
    pub(crate) survey: &'a mut Option<Value>,
    /// What a greeting was refused with.
    pub(crate) refused: &'a mut Option<String>,
}

impl Connection {
    pub(crate) fn new(node: usize, address: SocketAddr, token: Token, greetings: Arc<[Greeting]>) -> Self {
        Self {
            address,
            secure: None,
            node,
            token,
            greetings,
            greeted: 0,
            link: Link::Down { redial_at: None },
            failures: 0,
            out: Vec::new(),
            sent: 0,
            out_begins: 0,
            partial: Vec::new(),
            frame: FrameState::default(),
            pending: VecDeque::new(),
            dirty: false,
            stalled: false,
            new: true,
        }
    }

    /// The same with TLS, to a host of that name.
    pub(crate) fn with_tls(self, side: ClientSide, host: &str) -> Self {
        Self { secure: Some((side, host.into())), ..self }
    }

    /// Begins a request whose answer will bear `token`.
    #[inline]
    pub(crate) fn request(&mut self, token: u32, access: Access, arguments: usize, now: Instant) -> Request<'_> {
        if self.pending.is_empty() && self.is_down() {
            self.greet(now);
        }
        self.expect(token, access, now);
        Request::new(&mut self.out, arguments)
    }

    fn expect(&mut self, token: u32, access: Access, since: Instant) {
        let begins = self.out_begins + self.out.len() as u64;
        self.pending.push_back(Pending { token, access, begins, since });
    }

    fn greet(&mut self, now: Instant) {
        self.greeted = 0;
        for greeting in Arc::clone(&self.greetings).iter() {
            self.expect(GREETING, Access::Read, now);
            let mut request = Request::new(&mut self.out, greeting.args.len());
            greeting.args.iter().for_each(|arg| _ = request.arg(arg));
        }
    }

    /// When the oldest request without a reply was made.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.pending.front().map(|pending| pending.since)
    }

    /// Whether the time that the oldest request has waited is the node's.
    fn tells_distance(&self) -> bool {
        !self.new && self.pending.front().is_some_and(|pending| pending.token != FORGOTTEN)
    }

    /// Not connected, and not about to be.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.link, Link::Down { .. })
    }

    /// Not connected, and not to be tried before some later time.
    pub(crate) fn is_waiting(&self, now: Instant) -> bool {
        matches!(self.link, Link::Down { redial_at: Some(at) } if at > now)
    }

    /// Sends what there is to send, as far as the socket takes it; connects first where it must. What is asked too soon
    /// after a failure fails at once: the caller knows better what to do meanwhile.
    pub(crate) fn flush(&mut self, registry: &Registry, now: Instant, losses: &mut Vec<Loss>) {
        if self.is_waiting(now) {
            return self.lose_all(Failure::Unreachable, losses);
        }
        if self.is_down()
            && !self.pending.is_empty()
            && let Err(failure) = self.dial(registry)
        {
            return self.fail(failure, now, losses);
        }
        if let Err(failure) = self.write() {
            self.fail(failure, now, losses);
        }
    }

    fn dial(&mut self, registry: &Registry) -> Result<(), Failure> {
        let attempt = || -> io::Result<Stream<TcpStream>> {
            let mut socket = TcpStream::connect(self.address)?;
            socket.set_nodelay(true)?;
            registry.register(&mut socket, self.token, Interest::READABLE | Interest::WRITABLE)?;
            let tls = self.secure.as_ref().map(|(side, host)| side.connect(host)).transpose();
            Ok(Stream::new(socket, tls.map_err(io::Error::other)?))
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
        self.out_begins += self.out.len() as u64;
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// The socket can be written to: it may have connected, or have room again.
    pub(crate) fn on_writable(&mut self, now: Instant, losses: &mut Vec<Loss>) {
        if self.is_connecting() && !self.go_on_connecting(now, losses) {
            return;
        }
        if self.sent < self.out.len()
            && let Err(failure) = self.write()
        {
            self.fail(failure, now, losses);
        }
    }

    /// Something has happened on a socket that connects. Answers whether it is connected now.
    #[cold]
    fn go_on_connecting(&mut self, now: Instant, losses: &mut Vec<Loss>) -> bool {
        let Link::Up { stream, connecting } = &mut self.link else { return false };
        let socket = stream.socket();
        if !matches!(socket.take_error(), Ok(None)) || socket.peer_addr().is_err() {
            self.fail(Failure::Unreachable, now, losses);
            return false;
        }
        match stream.handshake() {
            Ok(is_over) => {
                *connecting = !is_over;
                is_over
            }
            Err(_) => {
                self.fail(Failure::Unreachable, now, losses);
                false
            }
        }
    }

    /// Reads until the socket is empty, and hands every whole reply to `each` with its request's token. Answers since
    /// when the first that was answered had waited.
    pub(crate) fn on_readable(
        &mut self,
        closing: bool,
        reading: &mut Reading<'_>,
        each: &mut Each<'_>,
    ) -> Option<(Instant, Instant)> {
        if self.is_connecting() {
            let now = Instant::now();
            if self.secure.is_none() || !self.go_on_connecting(now, reading.losses) {
                return None;
            }
            if let Err(failure) = self.write() {
                self.fail(failure, now, reading.losses);
            }
        }
        let mut answered = None;
        loop {
            let Link::Up { stream, .. } = &mut self.link else { return answered };
            let (read, drained) = match stream.receive(reading.scratch) {
                Ok((0, _)) => (Err(Failure::Disconnected), true),
                Ok((read, drained)) => (Ok(read), drained),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return answered,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => (Err(Failure::Disconnected), true),
            };
            let now = Instant::now();
            let (oldest, counts) = (self.oldest(), self.tells_distance());
            let outcome = read.and_then(|read| {
                self.take_replies(read, now, reading, each)?;
                // A short read has emptied the socket, unless its end waits behind the data.
                Ok(drained && !closing)
            });
            if outcome.is_ok() && oldest != self.oldest() {
                answered = answered.or(oldest.filter(|_| counts).map(|since| (since, now)));
                (self.stalled, self.new, self.failures) = (false, false, 0);
            }
            match outcome {
                Ok(true) => return answered,
                Ok(false) => {}
                Err(failure) => {
                    self.fail(failure, now, reading.losses);
                    return answered;
                }
            }
        }
    }

    fn take_replies(
        &mut self,
        read: usize,
        now: Instant,
        reading: &mut Reading<'_>,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        let mut joined = std::mem::take(&mut self.partial);
        let bytes = if joined.is_empty() {
            &reading.scratch[..read]
        } else {
            joined.extend_from_slice(&reading.scratch[..read]);
            joined.as_slice()
        };
        let mut at = 0;
        while at < bytes.len() {
            let found = Frame::read(&bytes[at..], &mut self.frame).map_err(|_| Failure::Protocol)?;
            let Some((frame, length)) = found else { break };
            let whole = &bytes[at..at + length];
            at += length;
            if matches!(frame, Frame::Nested(Nesting::Push, _)) {
                continue; // It answers no request.
            }
            let Pending { token, access, .. } = self.pending.pop_front().ok_or(Failure::Protocol)?;
            match token {
                FORGOTTEN => {}
                GREETING => self.greeted(&frame, reading.refused)?,
                SURVEY => *reading.survey = decode(whole).ok().flatten().map(|(value, _)| value),
                token => each((token, access), frame, now),
            }
        }
        if joined.is_empty() {
            self.partial.extend_from_slice(&bytes[at..]);
        } else {
            joined.drain(..at);
            self.partial = joined;
        }
        Ok(())
    }

    #[cold]
    fn greeted(&mut self, reply: &Frame<'_>, refused: &mut Option<String>) -> Result<(), Failure> {
        let greeting = &self.greetings[self.greeted];
        self.greeted += 1;
        let Frame::Error(line) = reply else { return Ok(()) };
        if let Some(failure) = Failure::of_refusal(line) {
            return Err(failure);
        }
        if greeting.must {
            let name = greeting.args.first().map_or("".into(), |name| String::from_utf8_lossy(name));
            *refused = Some(format!("{}: {name} is answered with {}", self.address, String::from_utf8_lossy(line)));
        }
        Ok(())
    }

    /// Gives up the connection and everything that waits for it.
    pub(crate) fn fail(&mut self, failure: Failure, now: Instant, losses: &mut Vec<Loss>) {
        // One that had worked may work again at once.
        let wait = self.failures.checked_sub(1).map(|more| (REDIAL_AFTER * (1 << more.min(8))).min(REDIAL_AFTER_MAX));
        self.failures += 1;
        // Dropping the stream closes it, which also takes it out of the poll.
        self.link = Link::Down { redial_at: wait.map(|wait| now + wait) };
        self.lose_all(failure, losses);
        self.partial.clear();
        self.frame.reset();
        (self.stalled, self.new) = (false, true);
    }

    fn lose_all(&mut self, failure: Failure, losses: &mut Vec<Loss>) {
        // A request of which not every byte has left cannot have been done.
        let sent = self.out_begins + self.sent as u64;
        let mut end = self.out_begins + self.out.len() as u64;
        let first = losses.len();
        for pending in self.pending.drain(..).rev() {
            let again = pending.access != Access::Write || end > sent;
            end = pending.begins;
            if !matches!(pending.token, GREETING | FORGOTTEN) {
                losses.push(Loss { token: pending.token, failure, again });
            }
        }
        losses[first..].reverse();
        (self.out_begins, self.sent) = (0, 0);
        self.out.clear();
    }

    /// Gives up waiting for the answers to reads; they may still come.
    pub(crate) fn abandon_reads(&mut self, failure: Failure, losses: &mut Vec<Loss>) {
        for pending in &mut self.pending {
            let is_callers = !matches!(pending.token, GREETING | FORGOTTEN | SURVEY);
            if is_callers && matches!(pending.access, Access::Read | Access::LeaderRead) {
                losses.push(Loss { token: pending.token, failure, again: true });
                pending.token = FORGOTTEN;
            }
        }
    }

    /// Tries to connect, and nothing has left yet.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.link, Link::Up { connecting: true, .. })
    }

    /// The answer about the map is not wanted any more.
    pub(crate) fn forget_survey(&mut self) {
        for pending in self.pending.iter_mut().filter(|pending| pending.token == SURVEY) {
            pending.token = FORGOTTEN;
        }
    }
}
