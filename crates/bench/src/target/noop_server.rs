//! A server without a store: it answers every request with what one would answer, from memory. What a client reaches
//! against it is the client's own ceiling.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use resp::{Limits, ParseState, Parsed, Reply, parse_request};

use super::canned::{Canned, NoopShape};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const SCRATCH_BYTES: usize = 256 * 1024;
/// A connection that leaves so much unread is not read from.
const UNREAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A running no-op server. Dropping it stops it.
#[derive(Debug)]
pub struct NoopServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl NoopServer {
    /// Starts one on 127.0.0.1 and `port`; 0 takes any that is free.
    ///
    /// # Errors
    /// The port is taken.
    pub fn start(port: u16, shape: NoopShape) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
        let nodes = [listener.local_addr()?];
        Self::serve(listener, &nodes, shape)
    }

    /// Starts so many, as the nodes of one store: on `port` and those that follow, or on any that are free.
    ///
    /// # Errors
    /// A port is taken.
    pub fn start_nodes(port: u16, count: u16, shape: NoopShape) -> io::Result<Vec<Self>> {
        let place = |index: u16| SocketAddr::from(([127, 0, 0, 1], if port == 0 { 0 } else { port + index }));
        let listeners = (0..count).map(|index| TcpListener::bind(place(index))).collect::<io::Result<Vec<_>>>()?;
        let nodes = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        listeners.into_iter().map(|listener| Self::serve(listener, &nodes, shape)).collect()
    }

    fn serve(mut listener: TcpListener, nodes: &[SocketAddr], shape: NoopShape) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut server = Server {
            poll,
            listener,
            peers: Vec::new(),
            canned: Canned::new(shape, nodes),
            args: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("noop".to_owned()).spawn(move || server.run(&stopped))?;
        Ok(Self { address, stop, waker, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it has ended, which it does by itself only when it fails.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it, unless it has ended.
    ///
    /// # Errors
    /// Why it had ended.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake()?;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err(io::Error::other("the no-op server panicked")))
    }
}

impl Drop for NoopServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
            && let Ok(Err(error)) = thread.join()
        {
            log::error!("the no-op server failed: {error}");
        }
    }
}

struct Connected {
    stream: TcpStream,
    /// The beginning of a request whose end has not come.
    partial: Vec<u8>,
    state: ParseState,
    out: Reply,
    sent: usize,
}

struct Server {
    poll: Poll,
    listener: TcpListener,
    peers: Vec<Option<Connected>>,
    canned: Canned,
    args: Vec<Range<usize>>,
    scratch: Vec<u8>,
}

impl Server {
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    WAKER => {}
                    Token(place) => self.serve(place, event.is_read_closed()),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The peer has gone already, or there are too many: neither ends the server.
                Err(_) => return Ok(()),
            };
            let place = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
            stream.set_nodelay(true)?;
            self.poll.registry().register(&mut stream, Token(place), Interest::READABLE | Interest::WRITABLE)?;
            let peer =
                Connected { stream, partial: Vec::new(), state: ParseState::default(), out: Reply::default(), sent: 0 };
            if place == self.peers.len() {
                self.peers.push(Some(peer));
            } else {
                self.peers[place] = Some(peer);
            }
        }
    }

    fn serve(&mut self, place: usize, closing: bool) {
        let Self { peers, canned, args, scratch, .. } = self;
        let Some(peer) = peers.get_mut(place).and_then(Option::as_mut) else { return };
        if peer.serve(closing, canned, args, scratch).is_err() {
            peers[place] = None;
        }
    }
}

impl Connected {
    /// Reads, answers and writes until the socket has nothing more, or takes no more. An error ends the connection.
    fn serve(
        &mut self,
        closing: bool,
        canned: &mut Canned,
        args: &mut Vec<Range<usize>>,
        scratch: &mut [u8],
    ) -> io::Result<()> {
        self.write()?;
        while self.out.buf.len() - self.sent < UNREAD_BYTES_MAX {
            let read = match self.stream.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.answer(&scratch[..read], canned, args)?;
            self.write()?;
            if read < scratch.len() && !closing {
                break;
            }
        }
        Ok(())
    }

    fn answer(&mut self, arrived: &[u8], canned: &mut Canned, args: &mut Vec<Range<usize>>) -> io::Result<()> {
        let mut joined = std::mem::take(&mut self.partial);
        let bytes = if joined.is_empty() {
            arrived
        } else {
            joined.extend_from_slice(arrived);
            joined.as_slice()
        };
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let parsed = parse_request(rest, &Limits::default(), args, &mut self.state).map_err(io::Error::other)?;
            at += match parsed {
                Parsed::Incomplete => break,
                Parsed::Empty { consumed } => consumed,
                Parsed::Request { consumed } => {
                    canned.answer(rest, args, &mut self.out);
                    consumed
                }
                Parsed::Quoted { consumed } => {
                    canned.answer(self.state.quoted(), args, &mut self.out);
                    consumed
                }
            };
        }
        self.partial.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while self.sent < self.out.buf.len() {
            match self.stream.write(&self.out.buf[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.buf.clear();
        self.sent = 0;
        Ok(())
    }
}
