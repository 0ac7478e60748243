//! A message that a script publishes.

/// It leaves once its entry is applied, from the replica that has proposed the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptMessage {
    /// Whether the channel is a slot's.
    pub is_of_slot: bool,
    /// The channel.
    pub channel: Vec<u8>,
    /// The message.
    pub message: Vec<u8>,
}

impl ScriptMessage {
    /// What it takes of memory, about, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        64 + self.channel.len() + self.message.len()
    }
}
