//! What a subscription is to, and the words of its messages.

use std::sync::Arc;

/// The name of a channel, or a pattern.
pub type Name = Arc<[u8]>;

/// What a subscription is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubscriptionKind {
    /// A channel of the whole store.
    Channel,
    /// All channels of the store whose names match a pattern.
    Pattern,
    /// A channel of one slot, at the node that leads the slot's shard.
    ShardChannel,
}

impl SubscriptionKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];

    /// Its place in `ALL`.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Channel => 0,
            Self::Pattern => 1,
            Self::ShardChannel => 2,
        }
    }

    /// How the confirmation of a subscription begins.
    #[must_use]
    pub fn subscribed(self) -> &'static [u8] {
        [&b"subscribe"[..], b"psubscribe", b"ssubscribe"][self.index()]
    }

    /// How the confirmation of its end begins.
    #[must_use]
    pub fn unsubscribed(self) -> &'static [u8] {
        [&b"unsubscribe"[..], b"punsubscribe", b"sunsubscribe"][self.index()]
    }
}
