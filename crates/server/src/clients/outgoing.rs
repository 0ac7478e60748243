//! What is to be sent over a connection to another node: requests, in their order.
//!
//! A long request is not copied: what waits for its answer shares its bytes. What a socket takes at once is bounded, so that to send
//! one keeps no event loop.

use crate::net::{SendEnd, Stream};
use replica::Bytes;
use std::collections::VecDeque;
use vocab::limits::CLIENT_SEND_BYTES_SOFT;

/// A request of more bytes is not copied.
const SHARED_BYTES_MIN: usize = 16 * 1024;

/// What is known of a socket once it was sent to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Socket {
    /// It has all.
    HasAll,
    /// It takes more, once others have had their turn.
    TakesMore,
    /// It takes no more for now.
    Full,
    Broken,
}

/// Bytes that are to be sent.
#[derive(Default)]
pub(super) struct Outgoing {
    /// Those before `tail`.
    pieces: VecDeque<Bytes>,
    /// The last of them.
    tail: Vec<u8>,
    /// Bytes of the first piece that are sent.
    sent: usize,
    /// Bytes that were ever sent, and written.
    all_sent: u64,
    all_written: u64,
}

impl Outgoing {
    /// Bytes that were ever written.
    pub(super) fn written(&self) -> u64 {
        self.all_written
    }

    /// Bytes that were ever sent.
    pub(super) fn sent(&self) -> u64 {
        self.all_sent
    }

    /// Adds what is written.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.all_written += (self.tail.len() - before) as u64;
    }

    /// Adds bytes, which may be shared.
    pub(super) fn add(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            return self.write(|tail| tail.extend_from_slice(bytes));
        }
        self.end_tail();
        self.pieces.push_back(bytes.clone());
        self.all_written += bytes.len() as u64;
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.tail).into());
        }
    }

    /// Sends what a stream takes, and about as much as a turn has for one client.
    pub(super) fn flush(&mut self, stream: &Stream) -> Socket {
        self.end_tail();
        let mut left = CLIENT_SEND_BYTES_SOFT;
        while let Some(piece) = self.pieces.front() {
            if left == 0 {
                return Socket::TakesMore;
            }
            let end = piece.len().min(self.sent + left);
            let outcome = stream.send(&piece[self.sent..end]);
            self.sent += outcome.bytes;
            self.all_sent += outcome.bytes as u64;
            left -= outcome.bytes;
            match outcome.end {
                SendEnd::Done => {}
                SendEnd::Full => return Socket::Full,
                SendEnd::Broken(_) => return Socket::Broken,
            }
            if self.sent == piece.len() {
                self.sent = 0;
                self.pieces.pop_front();
            }
        }
        Socket::HasAll
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn long_requests_are_shared_and_sent_in_their_order_a_part_at_a_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mine = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        mine.set_nonblocking(true).unwrap();
        let (stream, mut node) = (Stream::plain(mine), listener.accept().unwrap().0);
        let long: Bytes = (0..3 * CLIENT_SEND_BYTES_SOFT).map(|n| n as u8).collect::<Vec<_>>().into();
        let mut outgoing = Outgoing::default();
        outgoing.write(|tail| tail.extend_from_slice(b"before"));
        outgoing.add(&long);
        outgoing.add(&Bytes::from_static(b"short"));
        outgoing.write(|tail| tail.extend_from_slice(b"behind"));
        let expected = [b"before", &long[..], b"short", b"behind"].concat();
        assert_eq!(outgoing.written(), expected.len() as u64);
        assert_eq!(outgoing.pieces[1].as_ptr(), long.as_ptr(), "it is not copied");
        let length = expected.len();
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; length];
            node.read_exact(&mut got).unwrap();
            got
        });
        let mut flushes = 0;
        loop {
            let before = outgoing.sent();
            let socket = outgoing.flush(&stream);
            assert!(outgoing.sent() - before <= CLIENT_SEND_BYTES_SOFT as u64);
            flushes += 1;
            match socket {
                Socket::HasAll => break,
                Socket::TakesMore => {}
                Socket::Full => std::thread::yield_now(),
                Socket::Broken => panic!("the other end is there"),
            }
        }
        assert!(flushes > 3 && outgoing.sent() == outgoing.written());
        assert!(reader.join().unwrap() == expected);
    }
}
