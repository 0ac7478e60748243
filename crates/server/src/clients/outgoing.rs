//! What is to be sent over a connection to another node: requests, in their order.
//!
//! A long request is not copied: what waits for its answer shares its bytes. What a socket takes at once is bounded, so that to send
//! one keeps no event loop.

use super::output::Output;
use crate::net::{SendEnd, Stream};
use replica::Bytes;

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
    output: Output,
    /// Bytes that were ever sent.
    sent: u64,
}

impl Outgoing {
    /// Bytes that were ever written.
    pub(super) fn written(&self) -> u64 {
        self.sent + self.output.unsent() as u64
    }

    /// Bytes that were ever sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Adds what is written.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.output.tail.buf);
    }

    /// Adds bytes, which may be shared.
    pub(super) fn add(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            return self.write(|tail| tail.extend_from_slice(bytes));
        }
        self.output.put_piece(bytes.clone());
    }

    /// Sends what a stream takes, and about as much as a turn has for one client.
    pub(super) fn flush(&mut self, stream: &Stream) -> Socket {
        let flushed = self.output.flush(stream);
        self.sent += flushed.bytes as u64;
        // What waits for the answers has long requests, too: nothing is freed.
        drop(self.output.take_spent());
        match flushed.end {
            SendEnd::Done if self.output.unsent() > 0 => Socket::TakesMore,
            SendEnd::Done => Socket::HasAll,
            SendEnd::Full => Socket::Full,
            SendEnd::Broken(_) => Socket::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use vocab::limits::CLIENT_SEND_BYTES_SOFT;

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
        assert_eq!(outgoing.output.place_of(1), long.as_ptr(), "it is not copied");
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
