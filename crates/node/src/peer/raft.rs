//! The one place that knows how a Raft message is laid out within a peer message.

use protobuf::Message as _;
use replica::Message;

/// Adds the message's bytes.
pub(super) fn put(message: &Message, bytes: &mut Vec<u8>) {
    message.write_to_vec(bytes).expect("a message in memory can be written to memory");
}

/// Reads a message that takes all of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<Message, &'static str> {
    Message::parse_from_bytes(bytes).map_err(|_| "a Raft message that makes no sense")
}
