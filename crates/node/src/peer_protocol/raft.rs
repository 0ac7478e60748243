//! The one place that knows how a Raft message is laid out within a peer message.

use replica::{Bytes, Message, MessageType, wire};

/// Adds the message's bytes.
pub(super) fn put(message: &Message, bytes: &mut Vec<u8>) {
    wire::encode(message, bytes);
}

/// Reads a message that takes all of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<Message, &'static str> {
    wire::decode(bytes)
}

/// Its bytes after `head`, in parts; data of entries from `large` bytes on is a part of its own, which is shared.
pub(super) fn put_shared(message: &Message, head: Vec<u8>, large: usize) -> Vec<Bytes> {
    wire::encode_shared(message, head, large)
}

/// Reads a message that takes all of `bytes`, a part of `whole`, with which it shares data from `large` bytes on.
pub(super) fn read_shared(bytes: &[u8], whole: &Bytes, large: usize) -> Result<Message, &'static str> {
    wire::decode_shared(bytes, whole, large)
}

/// Whether it may overtake entries.
pub(super) fn is_urgent(message: &Message) -> bool {
    !matches!(message.get_msg_type(), MessageType::MsgAppend | MessageType::MsgSnapshot)
}
