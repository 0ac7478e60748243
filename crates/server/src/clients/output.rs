//! What a connection can be sent now, in its order: answers to a client, or requests to another node (`outgoing`).
//!
//! Short answers are put together in one buffer. A long one becomes a piece of its own, as it is: to copy it, or to move it where
//! something comes behind it, would keep the event loop. Nor does the loop free long pieces: their pages go back to the system.
//!
//! Invariants: the pieces in `ahead` come before `tail`, and none of them is empty. Of what comes first `sent` bytes are gone, and
//! that is not all of it.

use crate::net::{SendEnd, Sent, Stream};
use replica::Bytes;
use resp::Reply;
use std::borrow::Cow;
use std::collections::VecDeque;
use vocab::limits::{CLIENT_SEND_BYTES_SOFT, OUTPUT_BUFFER_BYTES_SOFT, READ_BUFFER_BYTES};

/// From so many bytes on an answer is a piece of its own.
pub(super) const PIECE_BYTES_MIN: usize = 64 * 1024;

/// Long pieces and buffers that are not wanted any more: another thread is to free them.
#[derive(Default)]
pub(super) struct Spent {
    pieces: Vec<Bytes>,
    buffers: Vec<Vec<u8>>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Output {
    ahead: VecDeque<Bytes>,
    /// Bytes of `ahead`.
    ahead_bytes: usize,
    /// What was put last.
    pub(super) tail: Reply,
    sent: usize,
    spent: Spent,
}

impl Output {
    /// Bytes that are not sent.
    pub(super) fn unsent(&self) -> usize {
        self.ahead_bytes + self.tail.buf.len() - self.sent
    }

    /// Whether there is nothing to send, and nothing to free.
    pub(super) fn is_clean(&self) -> bool {
        let holds_little = self.tail.buf.capacity() <= 4 * READ_BUFFER_BYTES;
        self.unsent() == 0 && holds_little && self.spent.pieces.is_empty() && self.spent.buffers.is_empty()
    }

    /// Bytes of memory that it takes.
    pub(super) fn capacity(&self) -> usize {
        self.ahead_bytes + self.tail.buf.capacity()
    }

    /// Frees the room that nothing takes.
    pub(super) fn give_room_back(&mut self) {
        self.ahead.shrink_to_fit();
        self.tail.buf.shrink_to_fit();
    }

    /// Puts an answer, or a part of one, behind what there is.
    pub(super) fn put(&mut self, reply: Cow<'_, [u8]>) {
        match reply {
            Cow::Owned(reply) if reply.len() >= PIECE_BYTES_MIN => self.put_piece(reply.into()),
            reply => self.tail.buf.extend_from_slice(&reply),
        }
    }

    /// The same of bytes that others may share.
    pub(super) fn put_piece(&mut self, piece: Bytes) {
        self.end_tail();
        self.ahead_bytes += piece.len();
        self.ahead.push_back(piece);
    }

    /// What is in the tail becomes a piece.
    fn end_tail(&mut self) {
        if !self.tail.buf.is_empty() {
            let piece: Bytes = std::mem::take(&mut self.tail.buf).into();
            self.ahead_bytes += piece.len();
            self.ahead.push_back(piece);
        }
    }

    /// Puts back what could not be sent: it comes first.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.end_tail();
        if let Some(first) = self.ahead.front_mut().filter(|_| self.sent > 0) {
            let _gone = first.split_to(self.sent);
            self.ahead_bytes -= std::mem::take(&mut self.sent);
        }
        if !bytes.is_empty() {
            self.ahead_bytes += bytes.len();
            self.ahead.push_front(Bytes::copy_from_slice(bytes));
        }
    }

    /// What is unsent of what comes first.
    fn first(&self) -> &[u8] {
        &self.ahead.front().map_or(&self.tail.buf[..], |piece| &piece[..])[self.sent..]
    }

    /// Sends what a stream takes, and about as much as a turn has for one client.
    pub(super) fn flush(&mut self, stream: &Stream) -> Sent {
        let mut flushed = Sent { bytes: 0, end: SendEnd::Done };
        while flushed.bytes < CLIENT_SEND_BYTES_SOFT && self.unsent() > 0 {
            let first = self.first();
            let end = first.len().min(CLIENT_SEND_BYTES_SOFT - flushed.bytes);
            let sent = stream.send(&first[..end]);
            flushed.bytes += sent.bytes;
            self.pass(sent.bytes);
            if sent.end != SendEnd::Done {
                flushed.end = sent.end;
                break;
            }
        }
        if self.unsent() == 0 {
            self.tidy_tail();
        }
        flushed
    }

    /// So many bytes of what comes first are sent.
    fn pass(&mut self, bytes: usize) {
        self.sent += bytes;
        match self.ahead.pop_front_if(|first| first.len() == self.sent) {
            Some(piece) => {
                self.ahead_bytes -= piece.len();
                self.sent = 0;
                if piece.len() >= OUTPUT_BUFFER_BYTES_SOFT {
                    self.spent.pieces.push(piece);
                }
            }
            None if self.ahead.is_empty() => self.tidy_tail(),
            None => {}
        }
    }

    fn tidy_tail(&mut self) {
        let buffer = &mut self.tail.buf;
        if self.sent == buffer.len() {
            self.sent = 0;
            // A large answer leaves no large buffer behind.
            if buffer.capacity() >= OUTPUT_BUFFER_BYTES_SOFT {
                self.spent.buffers.push(std::mem::take(buffer));
            } else if buffer.capacity() > 4 * READ_BUFFER_BYTES {
                *buffer = Vec::new();
            } else {
                buffer.clear();
            }
        } else if self.sent > OUTPUT_BUFFER_BYTES_SOFT && buffer.len() - self.sent <= OUTPUT_BUFFER_BYTES_SOFT {
            buffer.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// What is to be freed by another thread, if anything is.
    pub(super) fn take_spent(&mut self) -> Option<Spent> {
        let is_some = !self.spent.pieces.is_empty() || !self.spent.buffers.is_empty();
        is_some.then(|| std::mem::take(&mut self.spent))
    }

    /// Hands out all that is unsent, in its order; answers how many bytes that was.
    pub(super) fn take_unsent(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let bytes = self.unsent();
        while self.unsent() > 0 {
            let first = self.first();
            take(first);
            let bytes = first.len();
            self.pass(bytes);
        }
        bytes
    }

    /// Where the bytes of a piece are.
    #[cfg(test)]
    pub(super) fn place_of(&self, piece: usize) -> *const u8 {
        self.ahead[piece].as_ptr()
    }

    /// What is unsent.
    #[cfg(test)]
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.take_unsent(|bytes| all.extend_from_slice(bytes));
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    fn long(seed: u8, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|n| (n % 251) as u8 ^ seed).collect()
    }

    #[test]
    fn long_answers_are_neither_copied_nor_moved_and_all_keep_their_order() {
        let (first, second) = (long(1, 3 * CLIENT_SEND_BYTES_SOFT), long(2, PIECE_BYTES_MIN));
        let expected = [&b"before "[..], &first, b" between ", b"and ", &second, b" behind"].concat();
        let mut output = Output::default();
        let places = (first.as_ptr(), second.as_ptr());
        output.put(Cow::Borrowed(b"before "));
        output.put(Cow::Owned(first));
        output.put(Cow::Borrowed(b" between "));
        output.put(Cow::Owned(b"and ".to_vec()));
        output.put(Cow::Owned(second));
        output.put(Cow::Borrowed(b" behind"));
        assert_eq!((output.place_of(1), output.place_of(3)), places);
        assert_eq!(output.unsent(), expected.len());
        assert!(output.take_all() == expected && output.unsent() == 0 && output.capacity() < PIECE_BYTES_MIN);
        let spent: Vec<usize> = output.take_spent().unwrap().pieces.iter().map(Bytes::len).collect();
        assert_eq!(spent, [3 * CLIENT_SEND_BYTES_SOFT], "short ones are freed at once");
        assert!(output.take_spent().is_none());
    }

    #[test]
    fn a_long_buffer_is_left_behind_as_well() {
        let mut output = Output::default();
        output.put(Cow::Borrowed(&long(1, 3 * OUTPUT_BUFFER_BYTES_SOFT)));
        output.pass(2 * OUTPUT_BUFFER_BYTES_SOFT + 1);
        assert_eq!((output.sent, output.unsent()), (0, OUTPUT_BUFFER_BYTES_SOFT - 1), "what is left is moved");
        assert!(
            output.take_spent().is_none()
                && output.take_all() == long(1, 3 * OUTPUT_BUFFER_BYTES_SOFT)[2 * OUTPUT_BUFFER_BYTES_SOFT + 1..]
        );
        assert!(output.take_spent().unwrap().buffers[0].capacity() >= 3 * OUTPUT_BUFFER_BYTES_SOFT);
        assert_eq!(output.capacity(), 0);
    }

    #[test]
    fn what_was_not_sent_comes_first_again() {
        let cases: [(&[u8], usize, &[u8]); 3] = [(b"rest", 0, b"first"), (b"rest", 2, b""), (b"", 0, b"first")];
        for (tail, sent, back) in cases {
            for is_long in [false, true] {
                let mut output = Output::default();
                let before = if is_long { long(3, PIECE_BYTES_MIN) } else { Vec::new() };
                output.put(Cow::Owned(before.clone()));
                output.put(Cow::Borrowed(tail));
                output.pass(sent);
                output.put_back(back);
                let unsent = [&before, tail].concat();
                assert!(output.take_all() == [back, &unsent[sent..]].concat(), "{sent} {is_long}");
            }
        }
    }

    #[test]
    fn a_turn_sends_a_bounded_part() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mine = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        mine.set_nonblocking(true).unwrap();
        let (stream, mut client) = (Stream::plain(mine), listener.accept().unwrap().0);
        let parts = [long(1, 3 * CLIENT_SEND_BYTES_SOFT + 7), b"short".to_vec(), long(2, CLIENT_SEND_BYTES_SOFT)];
        let mut output = Output::default();
        parts.iter().for_each(|part| output.put(Cow::Owned(part.clone())));
        output.put(Cow::Borrowed(b"end"));
        let expected = [&parts.concat()[..], b"end"].concat();
        let length = expected.len();
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; length];
            client.read_exact(&mut got).unwrap();
            got
        });
        let mut sent = 0;
        while output.unsent() > 0 {
            let flushed = output.flush(&stream);
            assert!(flushed.bytes <= CLIENT_SEND_BYTES_SOFT && !matches!(flushed.end, SendEnd::Broken(_)));
            sent += flushed.bytes;
            assert_eq!(sent + output.unsent(), length);
            if flushed.end == SendEnd::Full {
                std::thread::yield_now();
            }
        }
        assert!(reader.join().unwrap() == expected);
    }
}
