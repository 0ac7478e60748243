//! What entries have changed, and what clients are told of it.

use super::tracker::Tracker;
use crate::subscriber::{Subscriber, workers_of};
use resp::{Proto, Reply};
use std::collections::HashMap;
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

/// A key that an item of an entry has read, whose client is to be told of changes behind that.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyRead {
    key: Vec<u8>,
    item: usize,
    /// How many of the entry's changes came before it.
    behind: usize,
}

impl KeyRead {
    /// What it takes of memory, about, in bytes.
    fn bytes(&self) -> usize {
        64 + self.key.len()
    }
}

/// The keys that one entry has changed, and those that tracked clients have read with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// These.
    Known(KnownChanges),
    /// No client was tracked when the entry was evaluated, or they are too many.
    #[default]
    Unknown,
}

/// Changes in their order, and reads in theirs. Invariant: they take at most [`ENTRY_TOLD_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownChanges {
    list: Vec<Change>,
    reads: Vec<KeyRead>,
    bytes: usize,
    /// Clients that are registered already for keys that the entry has changed before they have read them.
    behind: ReadsBehind,
    flush: Option<Flush>,
}

impl KnownChanges {
    /// Whether the last of them is that one, and nothing was read behind it.
    fn ends_with(&self, key: &[u8], item: Option<usize>) -> bool {
        let is_last = self.list.last().is_some_and(|last| last.item == item && last.key == key);
        is_last && self.reads.last().is_none_or(|read| read.behind < self.list.len())
    }
}

/// How many changes and reads are noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangesLen {
    changes: usize,
    reads: usize,
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
            && !changes.ends_with(key, item)
        {
            let change = Change { key: key.to_vec(), item };
            changes.bytes += change.bytes();
            changes.list.push(change);
            self.bound();
        }
    }

    /// An item is about to read a key, and its client is to be told of changes behind that.
    pub(crate) fn note_read(&mut self, key: &[u8], item: usize) {
        let Self::Known(changes) = self else { return };
        let behind = changes.list.len();
        match changes.reads.last_mut().filter(|last| last.item == item && last.key == key) {
            // The last read counts.
            Some(last) => last.behind = behind,
            None => {
                let read = KeyRead { key: key.to_vec(), item, behind };
                changes.bytes += read.bytes();
                changes.reads.push(read);
                self.bound();
            }
        }
    }

    fn bound(&mut self) {
        if let Self::Known(changes) = self
            && changes.bytes > ENTRY_TOLD_BYTES_MAX
        {
            *self = Self::Unknown;
        }
    }

    /// Registers the clients that have read keys, by `register`, which answers whether a client was not registered for that key
    /// before; `tracker` finds the client of an item.
    pub(crate) fn register(
        &mut self,
        tracker: impl Fn(usize) -> Option<Tracker>,
        mut register: impl FnMut(&[u8], Tracker) -> bool,
    ) {
        let Self::Known(changes) = self else { return };
        for KeyRead { key, item, behind } in std::mem::take(&mut changes.reads) {
            let Some(tracker) = tracker(item) else { continue };
            let is_new = register(&key, tracker);
            if behind > 0 {
                changes.behind.note(key, behind, tracker.client, is_new);
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

    /// Whether they are known.
    pub(crate) fn are_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// How many are noted.
    pub(crate) fn len(&self) -> ChangesLen {
        match self {
            Self::Known(changes) => ChangesLen { changes: changes.list.len(), reads: changes.reads.len() },
            Self::Unknown => ChangesLen::default(),
        }
    }

    /// Those behind the first `len` were not made.
    pub(crate) fn truncate(&mut self, len: ChangesLen) {
        let Self::Known(changes) = self else { return };
        if len.changes < changes.list.len() {
            changes.bytes -= changes.list.drain(len.changes..).map(|change| change.bytes()).sum::<usize>();
        }
        if len.reads < changes.reads.len() {
            changes.bytes -= changes.reads.drain(len.reads..).map(|read| read.bytes()).sum::<usize>();
        }
    }

    /// The changes with their clients, if they are known; `client` finds the client of an item.
    pub(crate) fn by_client(self, client: impl Fn(usize) -> Option<Subscriber>) -> Option<ChangedKeys> {
        let Self::Known(KnownChanges { list, bytes, behind, .. }) = self else { return None };
        let changed =
            |change: Change| ChangedKey { client: change.item.and_then(&client), key: change.key, stay: Vec::new() };
        Some(ChangedKeys {
            left: list.into_iter().map(changed).collect::<Vec<_>>().into_iter(),
            taken: 0,
            bytes,
            behind,
        })
    }
}

/// Who has read which keys behind changes of the same entry: such a client stays registered, for it has read the newer value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReadsBehind(HashMap<Vec<u8>, Vec<ReadBehind>>);

/// A client that has read a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReadBehind {
    /// How many of the entry's changes came before that.
    changes: usize,
    stays: Stays,
}

impl ReadsBehind {
    /// A client has read a key behind the first so many changes, and was registered for it before, or is new.
    fn note(&mut self, key: Vec<u8>, changes: usize, client: Subscriber, is_new: bool) {
        let readers = self.0.entry(key).or_default();
        match readers.iter_mut().find(|reader| reader.stays.client == client) {
            Some(reader) => reader.changes = reader.changes.max(changes),
            None => readers.push(ReadBehind { changes, stays: Stays { client, is_told: !is_new } }),
        }
    }

    /// The clients that have read a key behind change `n`, the next one that is told.
    fn of(&mut self, key: &[u8], n: usize) -> Vec<Stays> {
        let Some(readers) = self.0.get_mut(key) else { return Vec::new() };
        let stays = |reader: &mut ReadBehind| {
            let stays = reader.stays;
            // Once told, it would have been registered no longer.
            reader.stays.is_told = false;
            stays
        };
        readers.iter_mut().filter(|reader| reader.changes > n).map(stays).collect()
    }
}

/// A client that stays registered for a key that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays {
    /// The client.
    pub client: Subscriber,
    /// It is told all the same: it may have an older value.
    pub is_told: bool,
}

/// A key that an entry has changed, and the client that has done it; `None`: no client that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// The key.
    pub key: Vec<u8>,
    /// The client.
    pub client: Option<Subscriber>,
    /// Those who have read it behind the change.
    pub stay: Vec<Stays>,
}

/// Keys that an entry has changed, of which clients are still to be told: some at a time.
#[derive(Debug)]
pub struct ChangedKeys {
    left: std::vec::IntoIter<ChangedKey>,
    /// How many were taken out.
    taken: usize,
    behind: ReadsBehind,
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

    /// Takes the next one out.
    pub fn take_one(&mut self) -> Option<ChangedKey> {
        let mut changed = self.left.next()?;
        if !self.behind.0.is_empty() {
            changed.stay = self.behind.of(&changed.key, self.taken);
        }
        self.taken += 1;
        Some(changed)
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

/// What a client is sent for a key, about, in bytes.
pub(super) fn sent_bytes(key: &[u8]) -> usize {
    8 + key.len()
}

impl Invalidation {
    /// What each of its clients is sent, about, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        32 + self.keys.iter().flatten().map(|key| sent_bytes(key)).sum::<usize>()
    }

    /// What all of its clients are sent, about, in bytes.
    #[must_use]
    pub fn bytes_of_all(&self) -> usize {
        self.bytes().saturating_mul(self.clients.len())
    }

    /// The invalidation, for that client alone.
    #[must_use]
    pub fn to(&self, client: Subscriber) -> Self {
        Self { keys: self.keys.clone(), is_broadcast: self.is_broadcast, clients: vec![client] }
    }

    /// Those clients are to forget all.
    #[must_use]
    pub fn forget_all(clients: Vec<Subscriber>) -> Self {
        Self { keys: None, is_broadcast: false, clients }
    }

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

    fn taken(changed: &mut ChangedKeys) -> Vec<ChangedKey> {
        std::iter::from_fn(|| changed.take_one()).collect()
    }

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
        let keys: Vec<Vec<u8>> =
            taken(&mut changes.by_client(|_| None).unwrap()).into_iter().map(|it| it.key).collect();
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
        assert_eq!(changes.len(), ChangesLen { changes: 3, reads: 0 });
        changes.truncate(ChangesLen { changes: 1, reads: 0 });
        let client = |item: usize| Some(Subscriber { connection: item as u32, ..Subscriber::default() });
        let mut changed = changes.clone().by_client(client).unwrap();
        assert_eq!((changed.len(), changed.bytes()), (1, 65));
        assert_eq!(taken(&mut changed), [ChangedKey { key: b"a".to_vec(), client: client(0), stay: Vec::new() }]);
        assert!(changed.is_empty());
        let long = vec![b'k'; ENTRY_TOLD_BYTES_MAX / 2];
        changes.note(&long, Some(1));
        changes.note(&long, Some(2));
        assert_eq!(changes, Changes::Unknown, "too many");
    }

    #[test]
    fn who_has_read_a_key_stays_registered_for_it_behind_changes_before() {
        let client = |item: usize| Subscriber { connection: item as u32, ..Subscriber::default() };
        // Writes and reads of the key by items; an item of 9 is no tracked client's, and 5 is registered already.
        // Behind each change, who stays, with ! where it is told.
        for (deeds, expected) in [
            ("w1 r1", "1"),
            ("r1 w1", ""),
            ("w1 r1 w1", "1,"),
            ("w1 r1 w1 r1", "1,1"),
            ("w1 r5 w2 r5 w3", "5!,5,"),
            ("w1 r9 w2", ","),
            ("w1 r1 r2 w3 r2", "1+2,2"),
        ] {
            let mut changes = Changes::noted();
            for deed in deeds.split(' ') {
                let (deed, item) = deed.split_at(1);
                let item = item.parse().unwrap();
                if deed == "r" { changes.note_read(b"k", item) } else { changes.note(b"k", Some(item)) }
            }
            let mut registered = vec![client(5)];
            let tracker = |item: usize| (item < 9).then(|| Tracker { client: client(item), no_loop: false });
            changes.register(tracker, |key, tracker| {
                assert_eq!(key, b"k");
                let is_new = !registered.contains(&tracker.client);
                registered.push(tracker.client);
                is_new
            });
            let mut changed = changes.by_client(|item| Some(client(item))).unwrap();
            let shown = |stays: &Stays| format!("{}{}", stays.client.connection, if stays.is_told { "!" } else { "" });
            let behind: Vec<String> = std::iter::from_fn(|| changed.take_one())
                .map(|key| key.stay.iter().map(shown).collect::<Vec<_>>().join("+"))
                .collect();
            assert_eq!(behind.join(","), expected, "{deeds}");
        }
    }

    #[test]
    fn reads_that_are_taken_back_or_too_many_are_not_registered() {
        let registered = |changes: &mut Changes| {
            let mut keys = Vec::new();
            let tracker = |item: usize| {
                Some(Tracker {
                    client: Subscriber { connection: item as u32, ..Subscriber::default() },
                    no_loop: false,
                })
            };
            changes.register(tracker, |key, tracker| {
                keys.push(format!("{}{}", String::from_utf8_lossy(key), tracker.client.connection));
                true
            });
            keys.join(" ")
        };
        let mut changes = Changes::noted();
        changes.note_read(b"a", 1);
        let before = changes.len();
        ["b", "b", "c"].iter().for_each(|key| changes.note_read(key.as_bytes(), 2));
        changes.note(b"w", Some(2));
        changes.truncate(before);
        changes.note_read(b"d", 3);
        assert_eq!(registered(&mut changes), "a1 d3");
        assert_eq!(registered(&mut changes), "", "once");
        let long = vec![b'k'; ENTRY_TOLD_BYTES_MAX / 2];
        changes.note_read(&long, 1);
        changes.note_read(&long, 2);
        assert_eq!(changes, Changes::Unknown);
        assert_eq!(registered(&mut changes), "");
    }
}
