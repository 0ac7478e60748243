//! The requests that a connection to another node has still to send, in their order.
//!
//! A long request is not copied: it shares its bytes with the request that waits for the answer. One pass sends a bounded number of
//! bytes, so that a long request does not keep the event loop.

use super::output::Output;
use crate::net::{SendEnd, Stream};
use replica::Bytes;

/// From this size on, in bytes, a request is not copied.
const SHARED_BYTES_MIN: usize = 16 * 1024;

/// How a send has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Socket {
    /// The socket has taken everything.
    HasAll,
    /// The socket takes more; other connections come first.
    TakesMore,
    /// The socket takes no more for now.
    Full,
    Broken,
}

/// Bytes that are to be sent.
#[derive(Default)]
pub(super) struct Outgoing {
    output: Output,
    /// Bytes that were ever sent.
    sent: u64,
    /// So many more may have come to the other side.
    owed: u64,
}

impl Outgoing {
    /// The number of bytes that were ever written.
    pub(super) fn written(&self) -> u64 {
        self.sent + self.output.unsent() as u64
    }

    /// Bytes that were ever sent.
    #[cfg(test)]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Up to where the other side may have what was written.
    pub(super) fn may_be_there(&self) -> u64 {
        self.sent + self.owed
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
        self.owed = if matches!(flushed.end, SendEnd::Done) { 0 } else { stream.owed() as u64 };
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
