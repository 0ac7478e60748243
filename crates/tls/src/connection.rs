//! One side of a TLS connection, without its socket.
//!
//! Invariants: what is read and not yet taken is at most one read of the socket and one record. `owed` bytes have been
//! encrypted and are not all in the socket: the caller has not been told that they are sent, and gives them again.

use crate::Certificate;
use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};

/// Bytes that are read from a socket at once.
const READ_BYTES: usize = 32 * 1024;
/// Bytes that are encrypted at once: a few records, which leave in one call.
const WRITE_BYTES: usize = 64 * 1024;

thread_local! {
    /// What a thread reads from sockets, before it is decrypted.
    static ENCRYPTED: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// What came of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, and there are no more for now.
    Drained(usize),
    /// So many bytes, and there may be more.
    More(usize),
    /// The other side has closed the connection.
    Closed,
}

/// What one read of the socket has brought.
enum Filled {
    /// There may be more.
    More,
    /// There is no more for now.
    Drained,
    /// The other side has closed the connection.
    Closed,
}

/// One side of a TLS connection. Its methods read from and write to the socket that they are given, which may block or not.
#[derive(Debug)]
pub struct Connection {
    session: rustls::Connection,
    /// Decrypted bytes that did not fit where they were wanted, of which `taken` are gone.
    spare: Vec<u8>,
    taken: usize,
    /// Bytes that were given to `send` and are encrypted, but not all in the socket.
    owed: usize,
    /// The other side has said that nothing more comes, or its socket has.
    has_ended: bool,
}

impl Connection {
    pub(crate) fn new(session: rustls::Connection) -> Self {
        Self { session, spare: Vec::new(), taken: 0, owed: 0, has_ended: false }
    }

    /// Goes on with the handshake as far as the socket allows. Answers whether it is over.
    pub fn handshake<S: Read + Write>(&mut self, socket: &mut S) -> io::Result<bool> {
        loop {
            match self.push(socket) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                pushed => pushed?,
            }
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            match self.fill(socket, &mut [], &mut 0) {
                Ok(Filled::More | Filled::Drained) => {}
                Ok(Filled::Closed) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
    }

    /// The certificate that the other side has shown and proven to own. Trusted, unless this side trusts any.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<Certificate> {
        self.session.peer_certificates()?.first().and_then(Certificate::read)
    }

    /// Reads until `buffer` is full or the socket is empty. For sockets that do not block.
    pub fn receive<S: Read + Write>(&mut self, socket: &mut S, buffer: &mut [u8]) -> io::Result<Received> {
        let mut filled = self.take(buffer);
        loop {
            if filled == buffer.len() {
                return Ok(Received::More(filled));
            }
            match self.fill(socket, buffer, &mut filled) {
                Ok(Filled::More) => {}
                Ok(Filled::Drained) if self.has_plain() => return Ok(Received::More(filled)),
                Ok(Filled::Drained) => return Ok(Received::Drained(filled)),
                // What came before the end goes first.
                Ok(Filled::Closed) if filled > 0 => return Ok(Received::More(filled)),
                Ok(Filled::Closed) => return Ok(Received::Closed),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Received::Drained(filled)),
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads what there is, or waits for some, as `Read::read` does. An end without a farewell is an end like any other: what
    /// comes over these connections says by itself whether it is whole.
    pub fn read<S: Read + Write>(&mut self, socket: &mut S, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take(buffer);
        while filled == 0 && !buffer.is_empty() {
            if matches!(self.fill(socket, buffer, &mut filled)?, Filled::Closed) {
                break;
            }
        }
        Ok(filled)
    }

    /// Whether `read` would not wait. The socket must not block.
    pub fn has_input<S: Read + Write>(&mut self, socket: &mut S) -> io::Result<bool> {
        while !self.has_plain() {
            match self.fill(socket, &mut [], &mut 0) {
                Ok(Filled::Closed) => return Ok(true),
                Ok(Filled::More | Filled::Drained) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Sends, as `Write::write` does. Bytes count once they are all in the socket: those that do not count are to be given
    /// again, as the beginning of what is sent next.
    pub fn send<S: Write>(&mut self, socket: &mut S, bytes: &[u8]) -> io::Result<usize> {
        let mut gone = 0;
        loop {
            match self.push(socket) {
                // What the socket has of it counts first; the next call finds the error again.
                Err(_) if gone > 0 => return Ok(gone),
                pushed => pushed?,
            }
            gone += std::mem::take(&mut self.owed);
            assert!(gone <= bytes.len(), "what is not sent is given again");
            if gone == bytes.len() {
                return Ok(gone);
            }
            let end = bytes.len().min(gone + WRITE_BYTES);
            self.owed = self.session.writer().write(&bytes[gone..end])?;
            if self.owed == 0 {
                // During the handshake a little is kept.
                return if gone > 0 { Ok(gone) } else { Err(ErrorKind::WouldBlock.into()) };
            }
        }
    }

    /// How many bytes the last `send` has encrypted that do not count yet: the peer may have some of them.
    #[must_use]
    pub fn owed(&self) -> usize {
        self.owed
    }

    /// Says that nothing more is sent, as far as the socket takes it.
    pub fn close<S: Write>(&mut self, socket: &mut S) {
        self.session.send_close_notify();
        // It may be gone already.
        let _ = self.push(socket);
    }

    /// Whether decrypted bytes wait to be read.
    fn has_plain(&self) -> bool {
        self.taken < self.spare.len()
    }

    /// Takes from what was decrypted before.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let left = &self.spare[self.taken..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.spare.len() && self.taken > 0 {
            // No connection keeps a buffer for what is rare.
            (self.spare, self.taken) = (Vec::new(), 0);
        }
        count
    }

    /// Puts everything that is encrypted into the socket.
    fn push<S: Write>(&mut self, socket: &mut S) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads once from the socket, and puts what is decrypted behind the `filled` bytes of `buffer`, or in `spare`.
    fn fill<S: Read + Write>(&mut self, socket: &mut S, buffer: &mut [u8], filled: &mut usize) -> io::Result<Filled> {
        if self.has_ended {
            return Ok(Filled::Closed);
        }
        ENCRYPTED.with_borrow_mut(|encrypted| {
            let length = loop {
                match socket.read(encrypted) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            self.has_ended = length == 0;
            let mut left = &encrypted[..length];
            while !left.is_empty() && !self.has_ended {
                self.session.read_tls(&mut left)?;
                let state = match self.session.process_new_packets() {
                    Ok(state) => state,
                    Err(e) => {
                        // The other side is told what is wrong.
                        let _ = self.push(socket);
                        return Err(failed(e));
                    }
                };
                self.has_ended = state.peer_has_closed();
                self.decrypted(state.plaintext_bytes_to_read(), buffer, filled)?;
            }
            if self.has_ended {
                return Ok(Filled::Closed);
            }
            // Answers of the handshake; if the socket is full, they go with what is sent next.
            match self.push(socket) {
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
            Ok(if length < READ_BYTES { Filled::Drained } else { Filled::More })
        })
    }

    /// Takes so many decrypted bytes out of the session.
    fn decrypted(&mut self, mut count: usize, buffer: &mut [u8], filled: &mut usize) -> io::Result<()> {
        while count > 0 {
            let room = &mut buffer[*filled..];
            let taken = if room.is_empty() {
                let before = self.spare.len();
                self.spare.resize(before + count, 0);
                let taken = self.session.reader().read(&mut self.spare[before..])?;
                self.spare.truncate(before + taken);
                taken
            } else {
                let taken = self.session.reader().read(room)?;
                *filled += taken;
                taken
            };
            if taken == 0 {
                return Ok(());
            }
            count -= taken;
        }
        Ok(())
    }
}

/// The error of a session. What is no record of TLS at all has a text of its own: the ports were mixed up.
fn failed(error: rustls::Error) -> io::Error {
    match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            io::Error::new(ErrorKind::InvalidData, "the other side does not speak TLS: is it the port without it?")
        }
        error => io::Error::new(ErrorKind::InvalidData, error),
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
