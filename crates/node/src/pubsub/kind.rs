//! What a subscription is to, and the words of its messages.

use std::borrow::Cow;
use std::sync::Arc;
use vocab::limits::{CHANNEL_BYTES_MAX, PATTERN_BYTES_MAX};

/// With what other nodes know the name of a plain channel of slots. No text begins so.
const MARK: &[u8] = b"\xff\0\xfes";

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
    /// What a client that does not know clusters subscribes to as to a channel of a slot: its Redis has no slots, so that it is one of the
    /// whole store.
    PlainShardChannel,
}

impl SubscriptionKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Channel, Self::Pattern, Self::ShardChannel, Self::PlainShardChannel];

    /// Its place in `ALL`.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Channel => 0,
            Self::Pattern => 1,
            Self::ShardChannel => 2,
            Self::PlainShardChannel => 3,
        }
    }

    /// How the confirmation of a subscription begins.
    #[must_use]
    pub fn subscribed(self) -> &'static [u8] {
        [&b"subscribe"[..], b"psubscribe", b"ssubscribe", b"ssubscribe"][self.index()]
    }

    /// How the confirmation of its end begins.
    #[must_use]
    pub fn unsubscribed(self) -> &'static [u8] {
        [&b"unsubscribe"[..], b"punsubscribe", b"sunsubscribe", b"sunsubscribe"][self.index()]
    }

    /// How long a name may be, in bytes.
    #[must_use]
    pub fn name_bytes_max(self) -> usize {
        match self {
            Self::Channel | Self::ShardChannel => CHANNEL_BYTES_MAX,
            Self::Pattern => PATTERN_BYTES_MAX,
            Self::PlainShardChannel => CHANNEL_BYTES_MAX - MARK.len(),
        }
    }

    /// Whether other nodes are told of its subscriptions.
    pub(super) fn is_of_store(self) -> bool {
        self != Self::ShardChannel
    }

    /// The name under which other nodes know a channel.
    #[must_use]
    pub fn known_name(self, name: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::PlainShardChannel { Cow::Owned([MARK, name].concat()) } else { Cow::Borrowed(name) }
    }

    /// What a name is to which another node has published.
    pub(super) fn of_known_name(name: &[u8]) -> (Self, &[u8]) {
        name.strip_prefix(MARK).map_or((Self::Channel, name), |name| (Self::PlainShardChannel, name))
    }
}
