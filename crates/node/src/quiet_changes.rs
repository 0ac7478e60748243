//! Changes of keys that WATCH does not see: those of the groups of a stream, as in Redis.
//!
//! An entry gives each record that it writes its version, whatever it changes: readers go by that. EXEC compares versions.
//! So each replica remembers which versions differ by quiet changes alone, and the leader has EXEC compare
//! the newest of them. What is forgotten counts as a change that WATCH sees.
//!
//! Invariant: of each change, `from < to`, and entry `to` has written the key in quiet changes alone.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::limits::{QUIET_CHANGES_BYTES_MAX, QUIET_CHANGES_MAX};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct QuietChange {
    key: Box<[u8]>,
    from: u64,
    to: u64,
}

/// The newest of one shard, in the order of their entries.
#[derive(Debug, Default)]
pub(crate) struct QuietChanges {
    /// Whether there are any: most shards have none, and need no lock.
    any: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    changes: VecDeque<QuietChange>,
    /// Bytes of their keys.
    bytes: usize,
}

impl QuietChanges {
    /// Entry `to` has changed these keys so, which had these versions. Before its clients are answered.
    pub(crate) fn note(&self, of_entry: QuietKeys, to: u64) {
        let QuietKeys(keys) = of_entry;
        if keys.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        for (key, from) in keys {
            assert!(from < to, "version {from} is older than entry {to}");
            kept.bytes += key.len();
            kept.changes.push_back(QuietChange { key, from, to });
        }
        while (kept.changes.len() > QUIET_CHANGES_MAX || kept.bytes > QUIET_CHANGES_BYTES_MAX)
            && let Some(oldest) = kept.changes.pop_front()
        {
            kept.bytes -= oldest.key.len();
        }
        self.any.store(true, Ordering::Release);
    }

    /// Watched keys, each with the newest version that differs from the watched one by quiet changes alone.
    pub(crate) fn follow(&self, watches: &mut [(Vec<u8>, u64)]) {
        if !self.any.load(Ordering::Acquire) || watches.is_empty() {
            return;
        }
        let kept = self.kept.lock();
        for (key, version) in watches {
            for change in kept.changes.iter().filter(|change| *change.key == **key) {
                if change.from == *version {
                    *version = change.to;
                }
            }
        }
    }
}

/// The keys that one entry has changed quietly so far, each with the version that it had before the entry.
#[derive(Debug, Default)]
pub(crate) struct QuietKeys(Vec<(Box<[u8]>, u64)>);

impl QuietKeys {
    /// The entry has changed a key in a way that WATCH sees.
    pub(crate) fn changed(&mut self, key: &[u8]) -> Option<u64> {
        let at = self.0.iter().position(|(quiet, _)| **quiet == *key)?;
        Some(self.0.swap_remove(at).1)
    }

    /// The entry has changed a key, which had that version before, quietly alone.
    pub(crate) fn push(&mut self, key: &[u8], from: u64) {
        self.0.push((key.into(), from));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn followed(changes: &QuietChanges, key: &str, version: u64) -> u64 {
        let mut watches = [(key.as_bytes().to_vec(), version)];
        changes.follow(&mut watches);
        watches[0].1
    }

    fn note(changes: &QuietChanges, key: &str, from: u64, to: u64) {
        let mut keys = QuietKeys::default();
        keys.push(key.as_bytes(), from);
        changes.note(keys, to);
    }

    #[test]
    fn a_version_leads_to_the_newest_that_quiet_changes_alone_have_made() {
        let changes = QuietChanges::default();
        assert_eq!(followed(&changes, "a", 5), 5);
        note(&changes, "a", 5, 7);
        note(&changes, "b", 5, 8);
        note(&changes, "a", 7, 9);
        // Version 11 was made by another change.
        note(&changes, "a", 11, 12);
        for (key, version, newest) in [("a", 5, 9), ("a", 7, 9), ("a", 9, 9), ("b", 5, 8), ("a", 11, 12), ("c", 5, 5)] {
            assert_eq!(followed(&changes, key, version), newest, "{key} {version}");
        }
    }

    #[test]
    fn a_key_that_was_changed_otherwise_in_the_same_entry_is_none_of_them() {
        let (changes, mut keys) = (QuietChanges::default(), QuietKeys::default());
        keys.push(b"a", 5);
        keys.push(b"b", 6);
        assert_eq!((keys.changed(b"a"), keys.changed(b"a")), (Some(5), None));
        changes.note(keys, 9);
        assert_eq!((followed(&changes, "a", 5), followed(&changes, "b", 6)), (5, 9));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let changes = QuietChanges::default();
        for n in 0..=QUIET_CHANGES_MAX as u64 {
            note(&changes, "a", 2 * n, 2 * n + 1);
        }
        assert_eq!((followed(&changes, "a", 0), followed(&changes, "a", 2)), (0, 3));
        let long = "k".repeat(QUIET_CHANGES_BYTES_MAX / 2);
        note(&changes, &long, 1, 90_001);
        note(&changes, &long, 90_001, 90_002);
        assert_eq!((followed(&changes, "a", 2), followed(&changes, &long, 1)), (2, 90_002));
    }
}
