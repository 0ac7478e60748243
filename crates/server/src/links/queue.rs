//! Bytes of one link on their way in and out.
//!
//! Invariants: what waits to go out is at most `PEER_QUEUE_BYTES_MAX`, and `PEER_CONTROL_BYTES_MAX` more for control
//! messages, unless a single message is larger. What came in takes at most twice what has really arrived.

use super::frame::{self, HEAD_BYTES, Packer, Worth};
use node::peer::PeerMessage;
use vocab::limits::{
    PEER_CONTROL_BYTES_MAX, PEER_FRAME_BYTES_MAX, PEER_FRAME_BYTES_SOFT, PEER_QUEUE_BYTES_MAX, READ_BUFFER_BYTES,
};

/// A buffer larger than this is given back when it is empty.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// What goes out: whole frames, and at the end one that may still grow.
#[derive(Default)]
pub(super) struct OutQueue {
    bytes: Vec<u8>,
    /// How many of them are gone.
    sent: usize,
    /// Where the frame begins that may still grow.
    open: Option<usize>,
    worth: Worth,
    /// Messages that found no room.
    pub(super) dropped: u64,
}

impl OutQueue {
    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// There is no network between the two.
    pub(super) fn near(&mut self) {
        self.worth.near();
    }

    /// Where parts of a handshake go.
    pub(super) fn plain(&mut self) -> &mut Vec<u8> {
        assert!(self.open.is_none(), "a handshake comes before all messages");
        &mut self.bytes
    }

    /// Adds a message, if there is room.
    pub(super) fn push(&mut self, message: &PeerMessage, packer: &mut Packer) -> bool {
        let room = if message.is_bulk() { PEER_QUEUE_BYTES_MAX } else { PEER_QUEUE_BYTES_MAX + PEER_CONTROL_BYTES_MAX };
        let waiting = self.waiting();
        if waiting >= room {
            self.dropped += 1;
            return false;
        }
        if self.open.is_some_and(|at| self.bytes.len() - at >= PEER_FRAME_BYTES_SOFT) {
            self.close(packer);
        }
        let before = (self.bytes.len(), self.open);
        if self.open.is_none() {
            self.begin();
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        message.encode(&mut self.bytes);
        let length = self.bytes.len() - at - 4;
        // One that is alone may be as large as a frame can be.
        if (waiting > 0 && self.waiting() > room) || length + 4 > PEER_FRAME_BYTES_MAX - PEER_FRAME_BYTES_SOFT {
            self.bytes.truncate(before.0);
            self.open = before.1;
            self.dropped += 1;
            return false;
        }
        self.bytes[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
        true
    }

    /// Adds a frame without messages: it says that we live.
    pub(super) fn push_empty(&mut self) {
        if self.open.is_none() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.open = Some(self.bytes.len());
        self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
    }

    fn close(&mut self, packer: &mut Packer) {
        if let Some(at) = self.open.take() {
            frame::close(&mut self.bytes, at, &mut self.worth, packer);
        }
    }

    /// All that waits, ready to be sent.
    pub(super) fn seal(&mut self, packer: &mut Packer) -> &[u8] {
        self.close(packer);
        &self.bytes[self.sent..]
    }

    /// The network took so many bytes.
    pub(super) fn advance(&mut self, n: usize) {
        self.sent += n;
        assert!(self.sent <= self.bytes.len(), "more sent than there was");
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        } else if self.sent > self.bytes.len() / 2 && self.sent > READ_BUFFER_BYTES {
            assert!(self.open.is_none(), "what is sent was sealed");
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// The network takes no more for now.
    pub(super) fn pushed_back(&mut self) {
        self.worth.slow();
    }
}

/// What comes in.
#[derive(Default)]
pub(super) struct InBuffer {
    /// Zeros after `end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl InBuffer {
    /// What has arrived and was not understood yet.
    pub(super) fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn consume(&mut self, n: usize) {
        self.start += n;
        assert!(self.start <= self.end, "more understood than there was");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Room for bytes of something that will take `wanted` bytes in all.
    pub(super) fn room(&mut self, wanted: usize) -> &mut [u8] {
        if self.start > 0 && self.bytes.len() - self.start < wanted.max(READ_BUFFER_BYTES) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            // Not as much as is announced before it comes.
            let length = (2 * self.bytes.len()).min(wanted).max(self.bytes.len() + 1).max(READ_BUFFER_BYTES);
            self.bytes.resize(length, 0);
        }
        &mut self.bytes[self.end..]
    }

    pub(super) fn filled(&mut self, n: usize) {
        self.end += n;
        assert!(self.end <= self.bytes.len(), "more read than there was room for");
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
