//! A server without a store: it answers every request with what one would answer, from memory. What a client reaches
//! against it is the client's own ceiling.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use client::Address;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use resp::{Limits, ParseState, Parsed, Reply, parse_request};

use super::session::{RecordSession, Session};
use super::socket::SocketTransport;
use super::{Lanes, Target, TargetFacts, TargetUsage};
use crate::workload::Workload;

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const SCRATCH_BYTES: usize = 256 * 1024;
/// A connection that leaves so much unread is not read from.
const UNREAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the canned answers look like.
#[derive(Clone, Copy, Debug)]
pub struct NoopShape {
    /// Fields of a record.
    pub fields: u32,
    /// Bytes of a field.
    pub field_bytes: usize,
    /// Bytes of a string.
    pub value_bytes: usize,
}

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
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut server = Server {
            poll,
            listener,
            peers: Vec::new(),
            canned: Canned::new(shape),
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

    /// Waits until it ends, which it does only when it fails.
    ///
    /// # Errors
    /// Why it ended.
    pub fn join(mut self) -> io::Result<()> {
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

struct Peer {
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
    peers: Vec<Option<Peer>>,
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
                Peer { stream, partial: Vec::new(), state: ParseState::default(), out: Reply::default(), sent: 0 };
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

impl Peer {
    /// Reads, answers and writes until the socket has nothing more, or takes no more. An error ends the connection.
    fn serve(
        &mut self,
        closing: bool,
        canned: &Canned,
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

    fn answer(&mut self, arrived: &[u8], canned: &Canned, args: &mut Vec<Range<usize>>) -> io::Result<()> {
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

/// Ready-made answers.
struct Canned {
    /// HGETALL's.
    record: Vec<u8>,
    /// One field's value.
    field: Vec<u8>,
    /// GET's.
    value: Vec<u8>,
}

impl Canned {
    fn new(shape: NoopShape) -> Self {
        let bulk = |length: usize| {
            let mut reply = Reply::default();
            reply.bulk(&vec![b'x'; length]);
            reply.buf
        };
        let mut record = Reply::default();
        record.array(2 * shape.fields as usize);
        for field in 0..shape.fields {
            record.bulk(format!("field{field}").as_bytes());
            record.bulk(&vec![b'x'; shape.field_bytes]);
        }
        Self { record: record.buf, field: bulk(shape.field_bytes), value: bulk(shape.value_bytes) }
    }

    /// Appends the answer to the request whose arguments lie at `args` in `bytes`.
    fn answer(&self, bytes: &[u8], args: &[Range<usize>], out: &mut Reply) {
        let mut name = [0u8; 16];
        let given = &bytes[args[0].clone()];
        let length = given.len().min(name.len());
        name[..length].copy_from_slice(&given[..length]);
        name.make_ascii_uppercase();
        match &name[..length] {
            b"GET" | b"LPOP" | b"RPOP" | b"SPOP" | b"GETSET" => out.buf.extend_from_slice(&self.value),
            b"SET" | b"MSET" | b"HMSET" | b"SELECT" | b"CLIENT" | b"FLUSHALL" => out.ok(),
            b"HGETALL" => out.buf.extend_from_slice(&self.record),
            b"HMGET" => self.fields(args.len() - 2.min(args.len()), out),
            b"HSET" => out.int(((args.len() as i64 - 2) / 2).max(0)),
            b"KV.GET" => {
                out.array(2);
                out.buf.extend_from_slice(&self.value);
                out.int(1);
            }
            b"KV.RANGE" => self.rows(bytes, args, out),
            b"DEL" | b"KV.DEL" | b"KV.PUT" | b"INCR" | b"LPUSH" | b"RPUSH" | b"SADD" | b"ZADD" => out.int(1),
            b"PING" => out.simple("PONG"),
            b"CONFIG" => {
                out.array(2);
                out.bulk(args.get(2).map_or(b"", |name| &bytes[name.clone()]));
                out.bulk(b"");
            }
            b"LRANGE" => self.fields(limit(bytes, args, 3) + 1, out),
            b"INFO" => out.bulk(b"# Server\r\nredis_version:0.0.0\r\n"),
            b"COMMAND" | b"ZPOPMIN" => out.array(0),
            _ => out.error("ERR the no-op server has no answer to this"),
        }
    }

    fn fields(&self, count: usize, out: &mut Reply) {
        out.array(count);
        for _ in 0..count {
            out.buf.extend_from_slice(&self.field);
        }
    }

    /// As many rows as were asked for, all with the same key.
    fn rows(&self, bytes: &[u8], args: &[Range<usize>], out: &mut Reply) {
        let rows = limit(bytes, args, 4);
        out.array(2);
        out.null();
        out.array(rows);
        for _ in 0..rows {
            out.array(2);
            out.bulk(b"user0000000000000000000");
            out.buf.extend_from_slice(&self.record);
        }
    }
}

/// The number at an argument, within bounds.
fn limit(bytes: &[u8], args: &[Range<usize>], place: usize) -> usize {
    const ROWS_MAX: i64 = 10_000;
    let number = args.get(place).and_then(|argument| resp::parse_integer(&bytes[argument.clone()]));
    number.unwrap_or(0).clamp(0, ROWS_MAX) as usize
}

/// A no-op server as a target.
pub struct NoopTarget {
    /// When it runs in this process.
    server: Option<NoopServer>,
    address: Address,
    timeout: Duration,
}

impl NoopTarget {
    /// Starts a server in this process, with records of the workload's shape.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(fields: u32, field_bytes: usize, timeout: Duration) -> io::Result<Self> {
        let shape = NoopShape { fields, field_bytes, value_bytes: fields as usize * (field_bytes + 12) };
        let server = NoopServer::start(0, shape)?;
        let address = Address { host: server.address().ip().to_string(), port: server.address().port() };
        Ok(Self { server: Some(server), address, timeout })
    }

    /// The server that runs at `address`.
    #[must_use]
    pub fn at(address: Address, timeout: Duration) -> Self {
        Self { server: None, address, timeout }
    }
}

impl Target for NoopTarget {
    fn name(&self) -> String {
        if self.server.is_some() { "noop://".to_owned() } else { format!("noop://{}", self.address) }
    }

    fn in_process(&self) -> bool {
        self.server.is_some()
    }

    fn verifies(&self) -> bool {
        false
    }

    fn facts(&self) -> TargetFacts {
        let none = || "n/a".to_owned();
        TargetFacts {
            system: "no-op server".to_owned(),
            durability: none(),
            replication: none(),
            consistency: none(),
            compression: none(),
            engine: none(),
            memory_budget_bytes: None,
        }
    }

    fn usage(&self) -> TargetUsage {
        TargetUsage::default()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        let transport = SocketTransport::open(&self.address, lanes, self.timeout)?;
        Ok(Box::new(RecordSession::new(transport, Arc::clone(workload), lanes.count(), false)))
    }
}
