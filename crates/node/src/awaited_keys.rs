//! The keys of a shard for which clients wait, and what an entry has left of them.
//!
//! Entries of a shard without such keys pay one load of a counter.

use crate::request::KeyHash;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a blocking command waits for: a key that holds this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A list.
    List,
    /// A sorted set.
    SortedSet,
    /// A stream.
    Stream,
}

/// A key that an entry has written, and for which clients may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyKey {
    /// The key.
    pub key: Vec<u8>,
    /// What it holds after the entry; `None`: nothing that a client waits for.
    pub holds: Option<Holds>,
    /// It holds something else.
    pub is_other: bool,
}

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Elements of which type.
    pub what: Awaited,
    /// How many.
    pub elements: u64,
}

/// The keys of one shard for which clients wait.
#[derive(Debug, Default)]
pub struct AwaitedKeys {
    /// How many there are, so that entries need not take the lock when there are none.
    count: AtomicUsize,
    /// How many clients wait for each. No hash table: of very many keys, making it larger would keep the event loop.
    clients: Mutex<BTreeMap<KeyHash, usize>>,
}

impl AwaitedKeys {
    /// One more client waits for each of some keys.
    pub(crate) fn begin(&self, keys: impl Iterator<Item = KeyHash>) {
        let mut clients = self.clients.lock();
        keys.for_each(|key| *clients.entry(key).or_default() += 1);
        self.count.store(clients.len(), Ordering::SeqCst);
    }

    /// One client fewer waits for each of some keys.
    pub(crate) fn end(&self, keys: impl Iterator<Item = KeyHash>) {
        let mut clients = self.clients.lock();
        for key in keys {
            if let Entry::Occupied(mut left) = clients.entry(key) {
                *left.get_mut() -= 1;
                if *left.get() == 0 {
                    left.remove();
                }
            }
        }
        self.count.store(clients.len(), Ordering::SeqCst);
    }

    /// Whether a client waits for any key.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Whether a client waits for a key of this hash.
    pub(crate) fn has(&self, key: KeyHash) -> bool {
        self.clients.lock().contains_key(&key)
    }
}
