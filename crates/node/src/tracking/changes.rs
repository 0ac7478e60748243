//! What entries have changed, and what clients are told of it.

use crate::subscriber::{Subscriber, workers_of};
use resp::{Proto, Reply};
use vocab::client_key;

/// The channel on which a client of RESP2 is told of invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A key that an entry has written or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// The item of the entry that did it; `None`: no client's.
    pub item: Option<usize>,
}

/// The keys that one entry has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// These, in the order of the changes.
    Known(Vec<Change>),
    /// No client was tracked when the entry was evaluated.
    #[default]
    Unknown,
}

impl Changes {
    /// A key is written or removed by an item, if that is wanted.
    #[inline]
    pub(crate) fn note(&mut self, key: &[u8], item: Option<usize>) {
        if let Self::Known(changes) = self
            && changes.last().is_none_or(|last| last.item != item || last.key != key)
        {
            changes.push(Change { key: key.to_vec(), item });
        }
    }

    /// How many are noted.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Known(changes) => changes.len(),
            Self::Unknown => 0,
        }
    }

    /// Those behind the first `len` were not made.
    pub(crate) fn truncate(&mut self, len: usize) {
        if let Self::Known(changes) = self {
            changes.truncate(len);
        }
    }
}

/// What clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The keys that have changed; `None`: they are to forget all.
    pub keys: Option<Vec<Vec<u8>>>,
    /// They are told because they have asked for prefixes, rather than because they have read the keys.
    pub is_broadcast: bool,
    /// Who they are.
    pub clients: Vec<Subscriber>,
}

impl Invalidation {
    /// The workers that have some of the clients.
    #[must_use]
    pub fn workers(&self) -> Vec<u32> {
        workers_of(&self.clients)
    }

    /// Appends what a client of that protocol is told: of RESP2, as a message of a channel.
    pub fn write(&self, proto: Proto, output: &mut Vec<u8>) {
        let mut reply = Reply::with_buffer(std::mem::take(output), proto);
        match proto {
            Proto::Resp3 => {
                reply.push(2);
                reply.bulk(b"invalidate");
            }
            Proto::Resp2 => {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
            }
        }
        match &self.keys {
            Some(keys) => {
                reply.array(keys.len());
                keys.iter().for_each(|key| reply.bulk(client_key(key)));
            }
            None => reply.null(),
        }
        *output = reply.buf;
    }
}

/// Appends that the client which was told instead is gone: for RESP3.
pub fn write_broken_redirect(client: u64, output: &mut Vec<u8>) {
    let mut reply = Reply::with_buffer(std::mem::take(output), Proto::Resp3);
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.int(client as i64);
    *output = reply.buf;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_a_push_or_a_message() {
        let shown = |keys: Option<&[&str]>, proto| {
            let keys = keys.map(|keys| keys.iter().map(|key| key.as_bytes().to_vec()).collect());
            let mut output = b"x".to_vec();
            Invalidation { keys, is_broadcast: false, clients: Vec::new() }.write(proto, &mut output);
            String::from_utf8_lossy(&output).replace("\r\n", " ")
        };
        for (keys, proto, expected) in [
            (Some(&["a", "b"][..]), Proto::Resp3, "x>2 $10 invalidate *2 $1 a $1 b "),
            (None, Proto::Resp3, "x>2 $10 invalidate _ "),
            (Some(&["a"][..]), Proto::Resp2, "x*3 $7 message $20 __redis__:invalidate *1 $1 a "),
            (None, Proto::Resp2, "x*3 $7 message $20 __redis__:invalidate $-1 "),
        ] {
            assert_eq!(shown(keys, proto), expected);
        }
    }

    #[test]
    fn changes_are_noted_where_they_are_wanted() {
        let mut changes = Changes::Unknown;
        changes.note(b"a", Some(0));
        assert_eq!(changes, Changes::Unknown);
        changes = Changes::Known(Vec::new());
        for (key, item) in [("a", Some(0)), ("a", Some(0)), ("a", Some(1)), ("b", None)] {
            changes.note(key.as_bytes(), item);
        }
        assert_eq!(changes.len(), 3);
        changes.truncate(1);
        assert_eq!(changes, Changes::Known(vec![Change { key: b"a".to_vec(), item: Some(0) }]));
    }
}
