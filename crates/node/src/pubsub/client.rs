//! What one connection has subscribed to.

use super::kind::{Name, SubscriptionKind};
use std::collections::BTreeSet;
use vocab::limits::{CHANNEL_BYTES_MAX, CLIENT_SUBSCRIPTION_BYTES_MAX, PATTERN_BYTES_MAX};

/// What a subscription takes beside its name, in bytes: its places in the tables of its client and of the node.
pub(super) const SUBSCRIPTION_COST: usize = 96;

/// Why a subscription is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The name of a channel is too long.
    Channel,
    /// A pattern is too long.
    Pattern,
    /// The client has subscribed to as much as it may.
    Client,
    /// The clients of the node have subscribed to as much as they may.
    Node,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Channel => write!(f, "ERR the name of a channel is too long ({CHANNEL_BYTES_MAX} bytes are allowed)"),
            Self::Pattern => write!(f, "ERR a pattern is too long ({PATTERN_BYTES_MAX} bytes are allowed)"),
            Self::Client => write!(
                f,
                "ERR too many subscriptions: those of one client may take {CLIENT_SUBSCRIPTION_BYTES_MAX} bytes"
            ),
            Self::Node => f.write_str("ERR too many subscriptions: the clients of this node have as many as they may"),
        }
    }
}

/// What one connection has subscribed to.
///
/// Invariant: `bytes` is the sum of what the subscriptions take, at most `CLIENT_SUBSCRIPTION_BYTES_MAX`.
#[derive(Debug, Default)]
pub struct ClientSubscriptions {
    /// The names, by kind.
    names: [BTreeSet<Name>; 4],
    bytes: usize,
}

impl ClientSubscriptions {
    /// Whether it has subscribed to a name.
    #[must_use]
    pub fn has(&self, kind: SubscriptionKind, name: &[u8]) -> bool {
        self.names[kind.index()].contains(name)
    }

    /// How many names of a kind it has subscribed to.
    #[must_use]
    pub fn count(&self, kind: SubscriptionKind) -> usize {
        self.names[kind.index()].len()
    }

    /// How many names it has subscribed to.
    #[must_use]
    pub fn all(&self) -> usize {
        self.names.iter().map(BTreeSet::len).sum()
    }

    /// The number that a confirmation tells: channels and patterns are counted together, channels of slots apart.
    #[must_use]
    pub fn told_count(&self, kind: SubscriptionKind) -> usize {
        match kind {
            SubscriptionKind::ShardChannel | SubscriptionKind::PlainShardChannel => self.count(kind),
            _ => self.count(SubscriptionKind::Channel) + self.count(SubscriptionKind::Pattern),
        }
    }

    /// Whether it has subscribed to nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// What they take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The names of a kind, in their order.
    #[must_use]
    pub fn names(&self, kind: SubscriptionKind) -> Vec<Name> {
        self.names[kind.index()].iter().cloned().collect()
    }

    /// Whether it may subscribe to all of these names.
    pub(super) fn check(&self, kind: SubscriptionKind, names: &[&[u8]]) -> Result<(), Refused> {
        if names.iter().any(|name| name.len() > kind.name_bytes_max()) {
            return Err(if kind == SubscriptionKind::Pattern { Refused::Pattern } else { Refused::Channel });
        }
        let new = names.iter().filter(|name| !self.has(kind, name));
        let bytes: usize = new.map(|name| name.len() + SUBSCRIPTION_COST).sum();
        if self.bytes + bytes > CLIENT_SUBSCRIPTION_BYTES_MAX { Err(Refused::Client) } else { Ok(()) }
    }

    /// Adds a name that it does not have.
    pub(super) fn add(&mut self, kind: SubscriptionKind, name: Name) {
        self.bytes += name.len() + SUBSCRIPTION_COST;
        let is_new = self.names[kind.index()].insert(name);
        debug_assert!(is_new, "only called with a name that it does not have");
    }

    /// Removes a name; false if it does not have it.
    pub fn remove(&mut self, kind: SubscriptionKind, name: &[u8]) -> bool {
        let had = self.names[kind.index()].remove(name);
        if had {
            self.bytes -= name.len() + SUBSCRIPTION_COST;
        }
        had
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SubscriptionKind::{Channel, Pattern, ShardChannel};

    #[test]
    fn names_are_counted_and_bounded() {
        let mut own = ClientSubscriptions::default();
        for (kind, name) in [(Channel, "a"), (Channel, "b"), (Pattern, "a"), (ShardChannel, "a")] {
            own.add(kind, name.as_bytes().into());
        }
        assert_eq!([Channel, Pattern, ShardChannel].map(|kind| own.told_count(kind)), [3, 3, 1]);
        assert!(own.has(Channel, b"b") && !own.has(Pattern, b"b"));
        assert!(own.remove(Channel, b"b") && !own.remove(Channel, b"b"));
        assert_eq!(own.bytes(), 3 * (1 + SUBSCRIPTION_COST));
        let long = |bytes: usize| vec![b'x'; bytes];
        for (kind, bytes, expected) in [
            (Channel, CHANNEL_BYTES_MAX, Ok(())),
            (ShardChannel, CHANNEL_BYTES_MAX + 1, Err(Refused::Channel)),
            (Pattern, PATTERN_BYTES_MAX, Ok(())),
            (Pattern, PATTERN_BYTES_MAX + 1, Err(Refused::Pattern)),
        ] {
            assert_eq!(own.check(kind, &[b"y", &long(bytes)]), expected, "{kind:?} of {bytes} bytes");
        }
        let many: Vec<Vec<u8>> = (0..CLIENT_SUBSCRIPTION_BYTES_MAX / CHANNEL_BYTES_MAX)
            .map(|i| [&long(CHANNEL_BYTES_MAX - 8)[..], &i.to_be_bytes()].concat())
            .collect();
        let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        assert_eq!(own.check(Channel, &many), Err(Refused::Client));
        own.names(Channel).iter().for_each(|name| _ = own.remove(Channel, name));
        assert!(!own.is_empty());
    }
}
