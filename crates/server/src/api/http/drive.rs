//! One HTTP connection on one thread: hyper asks for bytes, and between its questions the thread waits for the socket.

use crate::net::Stream;
use hyper::rt::{Read, ReadBufCursor, Write};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_BYTES: usize = 8 * 1024;

/// What hyper waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Wants {
    read: bool,
    write: bool,
}

/// A socket that does not block, for hyper.
pub(super) struct Socket {
    stream: Stream,
    wants: Rc<Cell<Wants>>,
}

/// A connection's clock and its socket, for the thread that drives it.
pub(super) struct Driver {
    stream: Stream,
    wants: Rc<Cell<Wants>>,
    /// When the last answer was ready, or the connection began.
    since: Rc<Cell<Instant>>,
    within: Duration,
}

/// Splits a connection into what hyper reads and writes, and what waits for it. From one answer to the next request's
/// end it may take `within`.
pub(super) fn split(stream: Stream, within: Duration) -> io::Result<(Socket, Driver)> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay()?;
    let wants = Rc::new(Cell::new(Wants::default()));
    let since = Rc::new(Cell::new(Instant::now()));
    let socket = Socket { stream: stream.clone(), wants: wants.clone() };
    Ok((socket, Driver { stream, wants, since, within }))
}

impl Socket {
    fn outcome<T>(&self, done: io::Result<T>, wants: Wants) -> Poll<io::Result<T>> {
        match done {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let now = self.wants.get();
                self.wants.set(Wants { read: now.read || wants.read, write: now.write || wants.write });
                Poll::Pending
            }
            done => Poll::Ready(done),
        }
    }
}

fn repeat<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Read for Socket {
    fn poll_read(self: Pin<&mut Self>, _cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BYTES];
        let room = buffer.remaining().min(READ_BYTES);
        let read = repeat(|| io::Read::read(&mut &self.stream, &mut bytes[..room]));
        let read = read.map(|count| buffer.put_slice(&bytes[..count]));
        self.outcome(read, Wants { read: true, write: false })
    }
}

impl Write for Socket {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = repeat(|| io::Write::write(&mut &self.stream, bytes));
        self.outcome(written, Wants { read: false, write: true })
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

/// Hyper has something to do without the socket.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Driver {
    /// To be set when an answer is ready: the time for the next request begins.
    pub(super) fn clock(&self) -> Rc<Cell<Instant>> {
        self.since.clone()
    }

    /// Runs a connection to its end; an error if the client is too slow, or if it is to stop.
    pub(super) fn run<T>(&self, connection: impl Future<Output = T>, is_over: &dyn Fn() -> bool) -> io::Result<T> {
        let mut connection = pin!(connection);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            self.wants.set(Wants::default());
            if let Poll::Ready(done) = connection.as_mut().poll(&mut context) {
                return Ok(done);
            }
            if !woken.0.swap(false, Ordering::AcqRel) {
                self.wait(is_over)?;
            }
        }
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let wants = self.wants.get();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, wants.read || !wants.write);
        flags.set(PollFlags::OUT, wants.write);
        loop {
            let left = self.within.saturating_sub(self.since.get().elapsed());
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the client is too slow"));
            }
            if is_over() {
                return Err(io::Error::other("the node stops"));
            }
            if ready(&self.stream, flags, left.min(Duration::from_millis(250)))? {
                return Ok(());
            }
        }
    }
}

/// Whether something of that kind is possible within the time.
pub(super) fn ready(file: &impl std::os::fd::AsFd, flags: PollFlags, within: Duration) -> io::Result<bool> {
    let mut watched = [PollFd::new(file, flags)];
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut watched, Some(&within)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
