//! What entries have changed, and what clients are told of it.

use crate::subscriber::{Subscriber, workers_of};
use resp::{Proto, Reply};
use vocab::limits::ENTRY_TOLD_BYTES_MAX;
use vocab::{Database, client_key};

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

impl Change {
    /// What it takes of memory, about, in bytes.
    fn bytes(&self) -> usize {
        64 + self.key.len()
    }
}

/// The keys that one entry has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// These.
    Known(KnownChanges),
    /// No client was tracked when the entry was evaluated, or they are too many.
    #[default]
    Unknown,
}

/// Changes in their order. Invariant: they take at most [`ENTRY_TOLD_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownChanges {
    list: Vec<Change>,
    bytes: usize,
    flush: Option<Flush>,
}

/// Databases were emptied: as in Redis, clients are told to forget all, rather than each key. Keys of databases that change behind that
/// in the entry are not among its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flush {
    /// A key of a database has changed since.
    pub(crate) has_changed: bool,
}

impl Changes {
    /// None yet, and they are noted from here on.
    pub(crate) fn noted() -> Self {
        Self::Known(KnownChanges::default())
    }

    /// A key is written or removed by an item, if that is wanted.
    #[inline]
    pub(crate) fn note(&mut self, key: &[u8], item: Option<usize>) {
        if let Self::Known(KnownChanges { flush: Some(flush), .. }) = self
            && Database::of_key(key).is_some()
        {
            flush.has_changed = true;
        } else if let Self::Known(changes) = self
            && changes.list.last().is_none_or(|last| last.item != item || last.key != key)
        {
            let change = Change { key: key.to_vec(), item };
            changes.bytes += change.bytes();
            changes.list.push(change);
            if changes.bytes > ENTRY_TOLD_BYTES_MAX {
                *self = Self::Unknown;
            }
        }
    }

    /// All keys of a database are about to be removed.
    pub(crate) fn note_emptied(&mut self) {
        if let Self::Known(changes) = self {
            changes.flush.get_or_insert_default();
        }
    }

    /// Whether databases were emptied.
    pub(crate) fn flush(&self) -> Option<Flush> {
        match self {
            Self::Known(changes) => changes.flush,
            Self::Unknown => None,
        }
    }

    /// How many are noted.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Known(changes) => changes.list.len(),
            Self::Unknown => 0,
        }
    }

    /// Those behind the first `len` were not made.
    pub(crate) fn truncate(&mut self, len: usize) {
        if let Self::Known(changes) = self
            && len < changes.list.len()
        {
            changes.bytes -= changes.list.drain(len..).map(|change| change.bytes()).sum::<usize>();
        }
    }

    /// The changes with their clients, if they are known; `client` finds the client of an item.
    pub(crate) fn by_client(self, client: impl Fn(usize) -> Option<Subscriber>) -> Option<ChangedKeys> {
        let Self::Known(KnownChanges { list, bytes, .. }) = self else { return None };
        let changed = |change: Change| ChangedKey { client: change.item.and_then(&client), key: change.key };
        Some(ChangedKeys { left: list.into_iter().map(changed).collect::<Vec<_>>().into_iter(), bytes })
    }
}

/// A key that an entry has changed, and the client that has done it; `None`: no client that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// The key.
    pub key: Vec<u8>,
    /// The client.
    pub client: Option<Subscriber>,
}

/// Keys that an entry has changed, of which clients are still to be told: some at a time.
#[derive(Debug)]
pub struct ChangedKeys {
    left: std::vec::IntoIter<ChangedKey>,
    /// What they took when there were all, in bytes.
    bytes: usize,
}

impl ChangedKeys {
    /// What they take of memory, about, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next ones out.
    pub fn take(&mut self, most: usize) -> Vec<ChangedKey> {
        self.left.by_ref().take(most).collect()
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::{ClusterDatabase, Namespace};

    #[test]
    fn what_is_flushed_is_not_told_key_by_key() {
        let of = |number: u64, name: &[u8]| Namespace::Database(Database::of_number(number).unwrap()).stored(name);
        let of_cluster = ClusterDatabase::of_number(1).map(Namespace::Cluster).unwrap().stored(b"c");
        let mut changes = Changes::noted();
        changes.note(&of(3, b"before"), None);
        assert_eq!(changes.flush(), None);
        changes.note_emptied();
        changes.note(b"plain", None);
        changes.note(&of_cluster, None);
        assert_eq!(changes.flush(), Some(Flush { has_changed: false }), "it had no keys");
        changes.note(&of(3, b"gone"), None);
        changes.note(&of(4, b"other"), None);
        assert_eq!(changes.flush(), Some(Flush { has_changed: true }));
        let keys: Vec<Vec<u8>> = changes.by_client(|_| None).unwrap().take(9).into_iter().map(|key| key.key).collect();
        assert_eq!(keys, [of(3, b"before"), b"plain".to_vec(), of_cluster]);
    }

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
        changes = Changes::noted();
        for (key, item) in [("a", Some(0)), ("a", Some(0)), ("a", Some(1)), ("b", None)] {
            changes.note(key.as_bytes(), item);
        }
        assert_eq!(changes.len(), 3);
        changes.truncate(1);
        let client = |item: usize| Some(Subscriber { connection: item as u32, ..Subscriber::default() });
        let mut changed = changes.clone().by_client(client).unwrap();
        assert_eq!((changed.len(), changed.bytes()), (1, 65));
        assert_eq!(changed.take(9), [ChangedKey { key: b"a".to_vec(), client: client(0) }]);
        assert!(changed.is_empty());
        let long = vec![b'k'; ENTRY_TOLD_BYTES_MAX / 2];
        changes.note(&long, Some(1));
        changes.note(&long, Some(2));
        assert_eq!(changes, Changes::Unknown, "too many");
    }
}
