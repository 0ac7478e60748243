//! The byte stream of a client or of another node.
//!
//! TCP stands behind it today; another transport, such as TLS, becomes a variant of `Transport`. Handles are cheap to
//! copy, so that a helper thread can send while the event loop receives.
//!
//! Invariant: one thread at a time sends. A transport with a state of its own may rely on that; debug builds check it.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What carries the bytes.
#[derive(Debug)]
enum Transport {
    /// TCP without encryption.
    Plain(TcpStream),
}

#[derive(Debug)]
struct Inner {
    transport: Transport,
    /// A thread is sending.
    #[cfg(debug_assertions)]
    sending: AtomicBool,
}

/// A handle of a byte stream.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Inner>);

/// What came of reading a stream that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, and there are no more for now.
    Drained(usize),
    /// So many bytes, and there may be more.
    More(usize),
    /// The other side has closed the stream, or it is broken.
    Closed,
}

/// What came of sending on a stream that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: usize,
    pub(crate) end: SendEnd,
}

/// Why a send has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendEnd {
    /// Everything is sent.
    Done,
    /// The stream takes no more for now.
    Full,
    /// The stream is broken.
    Broken(Errno),
}

impl Stream {
    /// A stream over a TCP connection.
    #[must_use]
    pub fn plain(stream: TcpStream) -> Self {
        Self(Arc::new(Inner {
            transport: Transport::Plain(stream),
            #[cfg(debug_assertions)]
            sending: AtomicBool::new(false),
        }))
    }

    /// Connects to an address, within a time. The stream blocks.
    pub(crate) fn connect(address: &SocketAddr, within: Duration) -> io::Result<Self> {
        TcpStream::connect_timeout(address, within).map(Self::plain)
    }

    /// Begins to connect to an address. The stream does not block; `is_connected` says when it is connected.
    pub(crate) fn begin_connect(address: SocketAddr) -> io::Result<Self> {
        mio::net::TcpStream::connect(address).map(|stream| Self::plain(stream.into()))
    }

    /// Whether a connection that was begun is made; an error if it failed.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        if let Some(e) = self.take_error()? {
            return Err(e);
        }
        match self.peer_addr() {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The error that the system has noted for this stream.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket().take_error()
    }

    fn socket(&self) -> &TcpStream {
        let Transport::Plain(socket) = &self.0.transport;
        socket
    }

    /// Reads once into `buffer`, without waiting.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Received {
        loop {
            // Not by the C library: its read is a cancellation point, which costs.
            return match recv(self.socket(), &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => Received::Closed,
                Ok((n, _)) if n < buffer.len() => Received::Drained(n),
                Ok((n, _)) => Received::More(n),
                Err(Errno::AGAIN) => Received::Drained(0),
                Err(Errno::INTR) => continue,
                Err(_) => Received::Closed,
            };
        }
    }

    /// Sends what the stream takes without waiting.
    pub(crate) fn send(&self, bytes: &[u8]) -> Sent {
        // Another thread may be sending to a client that has nothing new to be sent.
        if bytes.is_empty() {
            return Sent { bytes: 0, end: SendEnd::Done };
        }
        #[cfg(debug_assertions)]
        assert!(!self.0.sending.swap(true, Ordering::AcqRel), "two threads send on one stream");
        let mut sent = 0;
        let end = loop {
            if sent == bytes.len() {
                break SendEnd::Done;
            }
            match send(self.socket(), &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(0) => break SendEnd::Broken(Errno::PIPE),
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break SendEnd::Full,
                Err(e) => break SendEnd::Broken(e),
            }
        };
        #[cfg(debug_assertions)]
        self.0.sending.store(false, Ordering::Release);
        Sent { bytes: sent, end }
    }

    /// Has an event loop hear of this stream.
    pub(crate) fn register(&self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.as_raw_fd()), token, interest)
    }

    /// Has an event loop hear of it no more.
    pub(crate) fn deregister(&self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut SourceFd(&self.as_raw_fd()))
    }

    /// Whether reading and writing return at once.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket().set_nonblocking(nonblocking)
    }

    /// Sends small pieces at once rather than wait for more.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.socket().set_nodelay(true)
    }

    /// For how long a blocking read or write waits at most.
    pub(crate) fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(timeout)?;
        self.socket().set_write_timeout(Some(timeout))
    }

    /// For how long a blocking read waits at most.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_read_timeout(Some(timeout))
    }

    /// After so long without traffic the system asks whether the other side is still there.
    pub(crate) fn set_keepalive(&self, idle: Duration) -> io::Result<()> {
        SockRef::from(self.socket()).set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))
    }

    /// The other side's address.
    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket().peer_addr()
    }

    /// This side's address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    /// Whether a blocking read would return at once: with bytes, or with the end.
    pub(crate) fn has_input(&self) -> io::Result<bool> {
        self.set_nonblocking(true)?;
        let peeked = self.socket().peek(&mut [0]);
        self.set_nonblocking(false)?;
        match peeked {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Closes one direction, or both.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket().shutdown(how)
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket().read(buffer)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket().flush()
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = Stream::plain(listener.accept().unwrap().0);
        stream.set_nonblocking(true).unwrap();
        (stream, client)
    }

    #[test]
    fn what_is_read_is_told_apart() {
        let (stream, mut client) = pair();
        let mut buffer = [0; 4];
        assert_eq!(stream.receive(&mut buffer), Received::Drained(0));
        client.write_all(b"sixbit").unwrap();
        while !stream.has_input().unwrap() {}
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.receive(&mut buffer), Received::More(4));
        assert_eq!(stream.receive(&mut buffer), Received::Drained(2));
        drop(client);
        while !stream.has_input().unwrap() {}
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.receive(&mut buffer), Received::Closed);
    }

    #[test]
    fn a_full_stream_is_not_a_broken_one() {
        let (stream, client) = pair();
        assert_eq!(stream.send(b"hello"), Sent { bytes: 5, end: SendEnd::Done });
        let large = vec![0; 64 << 20];
        let sent = stream.send(&large);
        assert!(sent.bytes < large.len());
        assert_eq!(sent.end, SendEnd::Full);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.send(b"more"), Sent { bytes: 0, end: SendEnd::Broken(Errno::PIPE) });
        drop(client);
    }
}
