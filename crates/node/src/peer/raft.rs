//! The one place that knows how a Raft message is laid out within a peer message.

use replica::{Message, wire};

/// Adds the message's bytes.
pub(super) fn put(message: &Message, bytes: &mut Vec<u8>) {
    wire::encode(message, bytes);
}

/// Reads a message that takes all of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<Message, &'static str> {
    wire::decode(bytes)
}
