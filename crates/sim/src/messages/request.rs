//! What such a client asks of a node.

use node::pubsub::SubscriptionKind;
use std::fmt;

/// A connection of a client. None that was made later is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Party(pub u32);

/// A subscription that begins or ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listened {
    /// Whose.
    pub party: Party,
    /// To what.
    pub kind: SubscriptionKind,
    /// Its name.
    pub name: &'static str,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Published {
    /// Whose.
    pub party: Party,
    /// Its number among those of the connection, from 1 on.
    pub number: u64,
}

impl Published {
    /// What the message says.
    #[must_use]
    pub fn text(self) -> String {
        format!("{}:{}", self.party.0, self.number)
    }

    /// Which message says that.
    #[must_use]
    pub fn of_text(text: &[u8]) -> Option<Self> {
        let (party, number) = std::str::from_utf8(text).ok()?.split_once(':')?;
        Some(Self { party: Party(party.parse().ok()?), number: number.parse().ok()? })
    }
}

/// A request.
#[derive(Clone, Debug)]
pub enum MessageRequest {
    /// SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE.
    Subscribe(Listened),
    /// The end of a subscription.
    Unsubscribe(Listened),
    /// The connection ends.
    Leave(Party),
    /// PUBLISH or SPUBLISH.
    Publish(Published, SubscriptionKind, &'static str),
}

impl fmt::Display for MessageRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribe(Listened { party, kind, name }) => {
                write!(f, "client {} subscribes: {kind:?} {name}", party.0)
            }
            Self::Unsubscribe(Listened { party, kind, name }) => {
                write!(f, "client {} unsubscribes: {kind:?} {name}", party.0)
            }
            Self::Leave(party) => write!(f, "client {} leaves", party.0),
            Self::Publish(message, kind, channel) => write!(f, "publishes {} to {kind:?} {channel}", message.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_what_it_says() {
        let message = Published { party: Party(7), number: 12 };
        assert_eq!(Published::of_text(message.text().as_bytes()), Some(message));
        assert_eq!([&b"x"[..], b"1:", b"\xff:1"].map(Published::of_text), [None; 3]);
    }
}
