//! The byte stream of a client or of another node.
//!
//! TCP stands behind it, plain or with TLS. Handles are cheap to copy, so that a helper thread can send while the event loop
//! receives.
//!
//! Invariants: one thread at a time sends; debug builds check it. Bytes that do not count as sent are given to `send` again,
//! as the beginning of what is sent next: TLS may have encrypted them already.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tls::Received;

/// A socket that is not waited for, however it is set.
struct Unwaited<'a>(&'a TcpStream);

impl Read for Unwaited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, buffer, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Unwaited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let (flags, mut none) = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL, SendAncillaryBuffer::default());
        Ok(sendmsg(self.0, parts, &mut none, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Inner {
    socket: TcpStream,
    /// TLS over the socket; none if it is plain. Held while bytes are decrypted or encrypted, and by streams that block while
    /// they wait.
    tls: Option<Box<Mutex<tls::Connection>>>,
    /// A thread is sending.
    #[cfg(debug_assertions)]
    sending: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.get_mut().close(&mut Unwaited(&self.socket));
        }
    }
}

/// The first byte of a TLS connection: its first record is of the handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// A handle of a byte stream.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Inner>);

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
            socket: stream,
            tls: None,
            #[cfg(debug_assertions)]
            sending: AtomicBool::new(false),
        }))
    }

    /// It has TLS from here on. An error if it has other handles, or has TLS already.
    pub(crate) fn encrypt(&mut self, connection: tls::Connection) -> io::Result<()> {
        match Arc::get_mut(&mut self.0) {
            Some(inner) if inner.tls.is_none() => {
                inner.tls = Some(Box::new(Mutex::new(connection)));
                Ok(())
            }
            _ => Err(io::Error::other("a stream cannot begin to be encrypted here")),
        }
    }

    /// Whether the other side begins with TLS, by its first byte, which stays unread. `None`: none has come. The stream must
    /// not block.
    pub(crate) fn begins_with_tls(&self) -> io::Result<Option<bool>> {
        let mut first = [0];
        match self.socket().peek(&mut first) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Some(first[0] == TLS_HANDSHAKE)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Goes on with the handshake of TLS, as far as the socket allows. Answers whether it is over; a plain stream has none.
    pub(crate) fn handshake(&self) -> io::Result<bool> {
        self.0.tls.as_ref().map_or(Ok(true), |tls| tls.lock().handshake(&mut &self.0.socket))
    }

    /// Whether it is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.0.tls.is_some()
    }

    /// The certificate that the other side has shown, which is of an authority that this side trusts.
    pub(crate) fn peer_certificate(&self) -> Option<tls::Certificate> {
        self.0.tls.as_ref()?.lock().peer_certificate()
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
        &self.0.socket
    }

    /// Reads into `buffer`, without waiting. A stream that is broken counts as closed.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Received {
        self.try_receive(buffer).unwrap_or(Received::Closed)
    }

    /// The same, and tells why a stream is broken.
    #[inline]
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(tls) = &self.0.tls {
            return tls.lock().receive(&mut Unwaited(&self.0.socket), buffer);
        }
        loop {
            // Not by the C library: its read is a cancellation point, which costs.
            return Ok(match recv(&self.0.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => Received::Closed,
                Ok((n, _)) if n < buffer.len() => Received::Drained(n),
                Ok((n, _)) => Received::More(n),
                Err(Errno::AGAIN) => Received::Drained(0),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            });
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
        let socket = &self.0.socket;
        let sent = match &self.0.tls {
            None => send_all(bytes, |bytes| send(socket, bytes, SendFlags::NOSIGNAL)),
            Some(tls) => {
                let mut connection = tls.lock();
                send_all(bytes, |bytes| connection.send(&mut Unwaited(socket), bytes).map_err(|e| errno_of(&e)))
            }
        };
        #[cfg(debug_assertions)]
        self.0.sending.store(false, Ordering::Release);
        sent
    }

    /// How many bytes behind those that count as sent the other side may have already: a part of what TLS encrypts at a time.
    pub(crate) fn owed(&self) -> usize {
        self.0.tls.as_ref().map_or(0, |tls| tls.lock().owed())
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
        if let Some(tls) = &self.0.tls {
            return tls.lock().has_input(&mut Unwaited(&self.0.socket));
        }
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
        // Where another thread waits for the socket, the end of the socket has to do.
        if let Some(tls) = &self.0.tls
            && how != Shutdown::Read
            && let Some(mut connection) = tls.try_lock()
        {
            connection.close(&mut Unwaited(&self.0.socket));
        }
        self.socket().shutdown(how)
    }
}

/// Sends until nothing is left, or the stream takes no more.
fn send_all(bytes: &[u8], mut send: impl FnMut(&[u8]) -> Result<usize, Errno>) -> Sent {
    let mut sent = 0;
    let end = loop {
        if sent == bytes.len() {
            break SendEnd::Done;
        }
        match send(&bytes[sent..]) {
            Ok(0) => break SendEnd::Broken(Errno::PIPE),
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break SendEnd::Full,
            Err(e) => break SendEnd::Broken(e),
        }
    };
    Sent { bytes: sent, end }
}

/// What the system calls an error; what is no error of the system is one of the protocol.
fn errno_of(error: &io::Error) -> Errno {
    let would_block = error.kind() == ErrorKind::WouldBlock;
    if would_block { Errno::AGAIN } else { Errno::from_io_error(error).unwrap_or(Errno::PROTO) }
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
        let mut socket = &self.0.socket;
        match &self.0.tls {
            None => socket.read(buffer),
            Some(tls) => tls.lock().read(&mut socket, buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = &self.0.socket;
        match &self.0.tls {
            None => socket.write(bytes),
            Some(tls) => tls.lock().send(&mut socket, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

    /// Both ends of a connection with TLS, whose handshake is to come. Neither blocks.
    fn encrypted_pair() -> (Stream, Stream) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("crt"), folder.path().join("key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let credentials = tls::Credentials::load(&certificate, &key, b"").unwrap();
        let protocols = tls::Protocols::default();
        let server = tls::ServerSide::new(&credentials, &tls::ClientCertificates::No, protocols, 0).unwrap();
        let client = tls::ClientSide::new(&tls::Trust::Any, None, protocols).unwrap();
        let (mut mine, theirs) = pair();
        let mut theirs = Stream::plain(theirs);
        theirs.set_nonblocking(true).unwrap();
        mine.encrypt(server.accept().unwrap()).unwrap();
        theirs.encrypt(client.connect("localhost").unwrap()).unwrap();
        (mine, theirs)
    }

    #[test]
    fn encrypted_streams_are_as_plain_ones() {
        let (mine, theirs) = encrypted_pair();
        while !(theirs.handshake().unwrap() & mine.handshake().unwrap()) {}
        assert!(mine.is_encrypted() && theirs.is_encrypted());
        let large: Vec<u8> = (0..32 << 20_u32).map(|n| (n % 251) as u8).collect();
        let (mut sent, mut received, mut buffer) = (0, Vec::new(), vec![0; 70_000]);
        let mut was_full = false;
        while received.len() < large.len() {
            let outcome = mine.send(&large[sent..]);
            sent += outcome.bytes;
            was_full |= outcome.end == SendEnd::Full;
            assert!(!matches!(outcome.end, SendEnd::Broken(_)), "{outcome:?}");
            match theirs.receive(&mut buffer) {
                Received::Drained(n) | Received::More(n) => received.extend_from_slice(&buffer[..n]),
                Received::Closed => panic!("it is open"),
            }
        }
        assert!(was_full && received == large, "the socket is smaller than that");
        let done = mine.send(&large[sent..]);
        assert_eq!((sent + done.bytes, done.end), (large.len(), SendEnd::Done));
        assert!(!theirs.has_input().unwrap());
        drop(mine);
        while !theirs.has_input().unwrap() {}
        assert_eq!(theirs.receive(&mut buffer), Received::Closed);
    }
}
