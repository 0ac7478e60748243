//! Bytes of one link on their way in and out.
//!
//! What goes out has three lanes: urgent messages (heartbeats, votes, hibernation, beats and their answers, orders), bulk (entries,
//! calls, maps), and large messages, which go in pieces, one a frame. Within a lane, messages keep their order. An urgent
//! message overtakes everything that is not in a frame yet. Bulk and pieces take turns, frame by frame, so that a large
//! entry of one shard does not hold up the others. What a shard sends behind a large message of its own stays behind it; so do messages for subscribers.
//! A frame of bulk is at most about `PEER_FRAME_BYTES_SOFT` long.
//!
//! Invariants: `bulk_bytes <= PEER_QUEUE_BYTES_MAX` and `large_bytes <= PEER_QUEUE_BYTES_MAX`, unless the lane holds a
//! single message; `urgent.len() <= PEER_CONTROL_BYTES_MAX`; one frame of each lane is on its way besides. What came in
//! takes at most twice what has really arrived.

use super::frame::{self, HEAD_BYTES, Packer, Worth};
use node::peer_protocol::{Encoded, PeerMessage, Series};
use std::collections::VecDeque;
use vocab::limits::{
    PEER_CONTROL_BYTES_MAX, PEER_FRAME_BYTES_MAX, PEER_FRAME_BYTES_SOFT, PEER_PIECE_BYTES, PEER_QUEUE_BYTES_MAX,
    READ_BUFFER_BYTES,
};

/// A buffer larger than this is given back when it is empty.
const KEPT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes before a message in a frame: its length.
const LENGTH_BYTES: usize = 4;

/// What goes out.
#[derive(Default)]
pub(super) struct OutQueue {
    /// Whole frames, or parts of a handshake.
    bytes: Vec<u8>,
    /// How many of these bytes are gone.
    sent: usize,
    /// The next frame of urgent messages, its head still empty. No bytes if there are no such messages.
    urgent: Vec<u8>,
    /// Frames of bulk, in order. Their heads are still empty.
    bulk: VecDeque<Vec<u8>>,
    /// Bytes of `bulk`.
    bulk_bytes: usize,
    /// Messages that go in pieces, in order.
    large: VecDeque<Large>,
    /// Bytes of `large` that are not sent.
    large_bytes: usize,
    /// Frames of bulk that have gone out.
    bulk_sent: u64,
    /// A piece had its turn, so the next frame is of bulk.
    sent_piece: bool,
    /// A frame is due, be it without messages.
    wants_frame: bool,
    /// The other side puts pieces together.
    takes_pieces: bool,
    /// Used again.
    spare: Vec<u8>,
    worth: Worth,
    /// Messages that found no room.
    pub(super) dropped: u64,
}

/// A message that goes in pieces.
struct Large {
    /// The series whose later messages stay behind it.
    series: Option<Series>,
    /// It goes once `bulk_sent` is as high: what its series has before it is out by then.
    behind: u64,
    message: Encoded,
    /// How many of its bytes are sent.
    at: usize,
}

impl OutQueue {
    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        let waiting = self.urgent.len() + self.bulk_bytes + self.large_bytes + usize::from(self.wants_frame);
        self.bytes.len() - self.sent + waiting
    }

    /// There is no network between the two.
    pub(super) fn near(&mut self) {
        self.worth.near();
    }

    /// The other side puts pieces together.
    pub(super) fn take_pieces(&mut self) {
        self.takes_pieces = true;
    }

    /// Where parts of a handshake go.
    pub(super) fn plain(&mut self) -> &mut Vec<u8> {
        assert!(
            self.urgent.is_empty() && self.bulk.is_empty() && self.large.is_empty(),
            "a handshake comes before all messages"
        );
        &mut self.bytes
    }

    /// Adds a message, if there is room.
    pub(super) fn push(&mut self, message: &PeerMessage) -> bool {
        let is_taken = if message.is_urgent() { self.push_urgent(message) } else { self.push_bulk(message) };
        self.dropped += u64::from(!is_taken);
        is_taken
    }

    fn push_urgent(&mut self, message: &PeerMessage) -> bool {
        let before = self.urgent.len();
        begin(&mut self.urgent, &mut self.spare);
        add(&mut self.urgent, message);
        let is_taken = self.urgent.len() <= PEER_CONTROL_BYTES_MAX;
        if !is_taken {
            self.urgent.truncate(before);
        }
        is_taken
    }

    fn push_bulk(&mut self, message: &PeerMessage) -> bool {
        if self.takes_pieces {
            let series = message.series();
            let is_behind = |large: &Large| series.is_some() && large.series == series;
            if message.is_large() || self.large.iter().any(is_behind) {
                return self.push_large(message.series(), message.encode_shared());
            }
        }
        if self.bulk_bytes >= PEER_QUEUE_BYTES_MAX {
            return false;
        }
        if self.bulk.back().is_none_or(|frame| frame.len() >= PEER_FRAME_BYTES_SOFT) {
            self.bulk.push_back(Vec::new());
        }
        let Some(frame) = self.bulk.back_mut() else { return false };
        let before = frame.len();
        begin(frame, &mut self.spare);
        let at = frame.len();
        add(frame, message);
        let (added, length) = (frame.len() - before, frame.len() - at - LENGTH_BYTES);
        if self.takes_pieces && length > PEER_PIECE_BYTES {
            let encoded = Encoded::from(frame.split_off(at + LENGTH_BYTES));
            frame.truncate(before);
            self.drop_empty();
            return self.push_large(message.series(), encoded);
        }
        // A message that is alone may be as large as a frame.
        let is_alone = self.bulk_bytes == 0;
        let is_too_much = !is_alone && self.bulk_bytes + added > PEER_QUEUE_BYTES_MAX;
        if is_too_much || length > MESSAGE_BYTES_MAX {
            frame.truncate(before);
            self.drop_empty();
            return false;
        }
        self.bulk_bytes += added;
        true
    }

    fn push_large(&mut self, series: Option<Series>, message: Encoded) -> bool {
        let bytes = message.len();
        if bytes > MESSAGE_BYTES_MAX || (self.large_bytes > 0 && self.large_bytes + bytes > PEER_QUEUE_BYTES_MAX) {
            return false;
        }
        self.large_bytes += bytes;
        let behind = self.bulk_sent + self.bulk.len() as u64;
        self.large.push_back(Large { series, behind, message, at: 0 });
        true
    }

    /// A frame that a message was taken out of again may be left without any.
    fn drop_empty(&mut self) {
        self.bulk.pop_back_if(|frame| frame.len() <= HEAD_BYTES);
    }

    /// Adds a frame without messages: it says that we live.
    pub(super) fn push_empty(&mut self) {
        self.wants_frame = true;
    }

    /// What is to be sent next. There may be more when that is gone.
    pub(super) fn seal(&mut self, packer: &mut Packer) -> &[u8] {
        if self.sent == self.bytes.len() {
            self.fill(packer);
        }
        &self.bytes[self.sent..]
    }

    /// Puts frames together: all urgent messages, then one frame of bulk or one piece.
    fn fill(&mut self, packer: &mut Packer) {
        self.sent = 0;
        self.give_back();
        if !self.urgent.is_empty() {
            std::mem::swap(&mut self.bytes, &mut self.urgent);
            frame::close(&mut self.bytes, 0, 0, &mut self.worth, packer);
        }
        let is_due = self.large.front().is_some_and(|large| large.behind <= self.bulk_sent);
        if !is_due || (self.sent_piece && !self.bulk.is_empty()) {
            self.sent_piece = false;
            if let Some(frame) = self.bulk.pop_front() {
                self.bulk_bytes -= frame.len();
                self.bulk_sent += 1;
                self.append_frame(frame, packer);
            }
        } else {
            self.sent_piece = true;
            self.append_piece(packer);
        }
        if self.bytes.is_empty() && self.wants_frame {
            self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
            frame::close(&mut self.bytes, 0, 0, &mut self.worth, packer);
        }
        self.wants_frame = false;
    }

    fn append_piece(&mut self, packer: &mut Packer) {
        let Some(Large { message, at, .. }) = self.large.front_mut() else { return };
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
        let taken = message.piece(*at, PEER_PIECE_BYTES, &mut self.bytes);
        *at += taken;
        self.large_bytes -= taken;
        if *at == message.len() {
            self.large.pop_front();
        }
        frame::close(&mut self.bytes, begin, frame::PIECE, &mut self.worth, packer);
    }

    fn append_frame(&mut self, frame: Vec<u8>, packer: &mut Packer) {
        let at = self.bytes.len();
        if at == 0 {
            self.spare = std::mem::replace(&mut self.bytes, frame);
        } else {
            self.bytes.extend_from_slice(&frame);
        }
        frame::close(&mut self.bytes, at, 0, &mut self.worth, packer);
    }

    /// All of `bytes` is gone: the buffer is used again, if it is not a large one.
    fn give_back(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
        self.spare.clear();
        if self.spare.capacity() > KEPT_BYTES_MAX {
            self.spare = Vec::new();
        }
    }

    /// The network took so many bytes.
    pub(super) fn advance(&mut self, n: usize) {
        self.sent += n;
        assert!(self.sent <= self.bytes.len(), "more sent than there was");
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.give_back();
        }
    }

    /// The network takes no more for now.
    pub(super) fn pushed_back(&mut self) {
        self.worth.slow();
    }
}

/// The longest message that a frame, or pieces, may carry.
const MESSAGE_BYTES_MAX: usize = PEER_FRAME_BYTES_MAX - PEER_FRAME_BYTES_SOFT - LENGTH_BYTES;

/// Begins a frame, if `frame` is none yet.
fn begin(frame: &mut Vec<u8>, spare: &mut Vec<u8>) {
    if frame.is_empty() {
        if frame.capacity() == 0 {
            std::mem::swap(frame, spare);
            frame.clear();
        }
        frame.extend_from_slice(&[0; HEAD_BYTES]);
    }
}

/// Adds a message and its length.
fn add(frame: &mut Vec<u8>, message: &PeerMessage) {
    let at = frame.len();
    frame.extend_from_slice(&[0; LENGTH_BYTES]);
    message.encode(frame);
    let length = frame.len() - at - LENGTH_BYTES;
    frame[at..at + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
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
