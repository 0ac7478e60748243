//! Keys that are watched while they are absent.
//!
//! A record has a version, an absent key has none: that it was made and removed again cannot be seen from what is left.
//! So a connection that watches an absent key registers it here before it looks.
//! Entries that make such a key count it. A change of leader needs no more: the new leader is another node,
//! to which EXEC is redirected, or the same node, which has applied every entry in between.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The absent keys of one shard that are watched.
#[derive(Debug, Default)]
pub(crate) struct AbsentKeys {
    /// How many there are, so that entries need not take the lock when there are none.
    count: AtomicUsize,
    keys: Mutex<HashMap<Vec<u8>, Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    watchers: usize,
    made: u64,
}

impl AbsentKeys {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Watched>> {
        self.keys.lock()
    }

    /// Begins to watch. To be asked for before the key is looked at.
    pub(crate) fn watch(self: &Arc<Self>, key: &[u8]) -> AbsentWatch {
        let mut keys = self.lock();
        let watched = keys.entry(key.to_vec()).or_default();
        watched.watchers += 1;
        let seen = watched.made;
        self.count.store(keys.len(), Ordering::SeqCst);
        AbsentWatch { keys: self.clone(), key: key.to_vec(), seen }
    }

    /// Whether any key is watched.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// The key was not there and is now, or was for a moment. Before the entry can be seen.
    pub(crate) fn made(&self, key: &[u8]) {
        if let Some(watched) = self.lock().get_mut(key) {
            watched.made += 1;
        }
    }

    /// The history of the keys is unknown.
    pub(crate) fn made_all(&self) {
        self.lock().values_mut().for_each(|watched| watched.made += 1);
    }
}

/// What a key has when a connection begins to watch it.
#[derive(Debug)]
pub enum WatchedVersion {
    /// This version.
    Present(u64),
    /// None: it is absent, and has been watched since before that was found.
    Absent(AbsentWatch),
}

/// A key that was absent when it was watched. Dropping it ends the watch.
pub struct AbsentWatch {
    keys: Arc<AbsentKeys>,
    key: Vec<u8>,
    seen: u64,
}

impl AbsentWatch {
    /// Whether the key has been there since.
    #[must_use]
    pub fn was_made(&self) -> bool {
        self.keys.lock().get(&self.key).is_none_or(|watched| watched.made != self.seen)
    }
}

impl Drop for AbsentWatch {
    fn drop(&mut self) {
        let mut keys = self.keys.lock();
        if let Some(watched) = keys.get_mut(&self.key) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                keys.remove(&self.key);
            }
        }
        self.keys.count.store(keys.len(), Ordering::SeqCst);
    }
}

impl fmt::Debug for AbsentWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AbsentWatch({})", self.key.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_made_has_changed_for_those_who_watched_it_before() {
        let keys = Arc::new(AbsentKeys::default());
        assert!(!keys.any());
        let (before, other) = (keys.watch(b"a"), keys.watch(b"b"));
        assert!(keys.any() && !before.was_made());
        keys.made(b"a");
        let after = keys.watch(b"a");
        assert!(before.was_made() && !after.was_made() && !other.was_made());
        drop(before);
        assert!(!after.was_made());
        keys.made_all();
        assert!(after.was_made() && other.was_made());
        drop((after, other));
        keys.made(b"a");
        assert!(!keys.any() && keys.lock().is_empty());
    }
}
