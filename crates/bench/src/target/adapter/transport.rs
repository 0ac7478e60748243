//! Requests to an adapter, over its Unix socket.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Access, Answer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::transport::{About, Transport};
use super::program::Program;
use super::wire::{self, HEAD_BYTES, RequestWriter, damaged};

/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;
/// A library that gives up after its own timeout has this much longer to say so.
const GRACE: Duration = Duration::from_secs(10);
/// How often waiting requests are looked at.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
struct Pending {
    access: Access,
    since: Instant,
}

/// One thread's connection to an adapter.
pub(super) struct AdapterTransport {
    stream: UnixStream,
    /// Whose last words explain an end; none where there is no process.
    program: Option<Arc<Program>>,
    /// By lane.
    pending: Vec<Option<Pending>>,
    out: Vec<u8>,
    /// So much of `out` has left.
    sent: usize,
    /// Where the request being written begins.
    begun: usize,
    input: Vec<u8>,
    /// So much of `input` has been read.
    held: usize,
    /// An answer that takes longer than this never comes.
    patience: Duration,
    looked: Instant,
}

impl AdapterTransport {
    /// Over a connection whose greetings are done.
    pub(super) fn new(
        stream: UnixStream,
        program: Option<Arc<Program>>,
        lanes: usize,
        timeout: Duration,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            program,
            pending: vec![None; lanes],
            out: Vec::new(),
            sent: 0,
            begun: 0,
            input: vec![0; READ_BYTES],
            held: 0,
            patience: timeout + GRACE,
            looked: Instant::now(),
        })
    }

    /// Sends what the socket takes.
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(self.ended()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.ended()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Waits for something to read, or to write while something is left to.
    fn sleep(&self, until: Option<Instant>) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        if self.sent < self.out.len() {
            flags |= PollFlags::OUT;
        }
        let span = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
        let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.stream, flags)], Some(&span)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over what has come.
    fn receive(&mut self, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        loop {
            match self.stream.read(&mut self.input[self.held..]) {
                Ok(0) => return Err(self.ended()),
                Ok(count) => self.held += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(self.ended()),
            }
            let full = self.held == self.input.len();
            self.dispatch(each)?;
            if !full {
                return Ok(());
            }
        }
    }

    fn dispatch(&mut self, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        let at = Instant::now();
        let mut start = 0;
        while let Some(body) = wire::take_frame(&self.input[start..self.held])? {
            start += HEAD_BYTES + body.len();
            let (token, outcome) = wire::read_token(body)?;
            let pending = self.pending.get_mut(token as usize).and_then(Option::take);
            let pending = pending.ok_or_else(|| damaged("an answer to no request"))?;
            each(token, outcome.read(pending.access)?, at);
        }
        self.input.copy_within(start..self.held, 0);
        self.held -= start;
        // A frame that fills the buffer needs a larger one; `take_frame` has checked its length.
        if self.held == self.input.len() {
            self.input.resize(2 * self.input.len(), 0);
        }
        Ok(())
    }

    /// An adapter must answer each request, if only that the store did not.
    fn look(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK {
            return Ok(());
        }
        self.looked = now;
        let patience = self.patience;
        let lost = self.pending.iter().flatten().any(|pending| now.duration_since(pending.since) > patience);
        if !lost {
            return Ok(());
        }
        let text = format!("the adapter has not answered a request for {} s", patience.as_secs());
        Err(io::Error::new(ErrorKind::TimedOut, self.explained(&text)))
    }

    fn ended(&self) -> io::Error {
        io::Error::new(ErrorKind::UnexpectedEof, self.explained("the adapter has ended"))
    }

    fn explained(&self, what: &str) -> String {
        self.program.as_ref().map_or_else(|| what.to_owned(), |program| program.explained(what))
    }
}

impl Transport for AdapterTransport {
    type Request<'a> = RequestWriter<'a>;

    fn request(&mut self, about: About<'_>) -> RequestWriter<'_> {
        let place = &mut self.pending[about.lane as usize];
        assert!(place.is_none(), "a lane has one request at a time");
        *place = Some(Pending { access: about.access, since: Instant::now() });
        self.begun = wire::begin_request(&mut self.out, about.lane, about.access, about.arguments);
        RequestWriter(&mut self.out)
    }

    fn finish(&mut self) {
        wire::end_frame(&mut self.out, self.begun);
    }

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        self.flush()?;
        self.sleep(until)?;
        if self.sent < self.out.len() {
            self.flush()?;
        }
        self.receive(each)?;
        self.look()
    }
}
