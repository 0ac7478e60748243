//! The keys that a connection watches, and the versions that they had.

use crate::AbsentWatch;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use vocab::limits::{WATCHED_BYTES_MAX, WATCHED_KEYS_MAX};
use vocab::{SlotSpan, slot_of};

/// What a watched key and its version take in an entry beside the key's own bytes, at most.
const VERSION_BYTES_MAX: usize = 16;

const TOO_MANY: &str = "ERR the connection would watch too many keys: 100000 keys and 16 MiB are allowed";
const _: () = assert!(WATCHED_KEYS_MAX == 100_000 && WATCHED_BYTES_MAX == 16 << 20, "TOO_MANY says how many");

/// A set of watched keys, bounded in keys and bytes.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// The version of each key when it was watched first; 0 if it was absent.
    versions: BTreeMap<Vec<u8>, u64>,
    /// Watches on those of the keys that were absent.
    absent: Vec<AbsentWatch>,
    /// Bytes of all keys.
    key_bytes: usize,
    /// Where all keys are.
    span: Option<SlotSpan>,
}

impl Watches {
    /// Whether so many more keys may be watched. The error is the text of the reply.
    pub(super) fn check(&self, keys: &[&[u8]]) -> Result<(), &'static str> {
        let bytes: usize = keys.iter().map(|key| key.len()).sum();
        if self.versions.len() + keys.len() > WATCHED_KEYS_MAX || self.key_bytes + bytes > WATCHED_BYTES_MAX {
            return Err(TOO_MANY);
        }
        Ok(())
    }

    /// The key has this version now; 0 if it is absent.
    pub(super) fn add(&mut self, key: &[u8], version: u64) {
        // The first version counts: a key watched twice must not have been written in between either.
        if let Entry::Vacant(vacant) = self.versions.entry(key.to_vec()) {
            vacant.insert(version);
            self.key_bytes += key.len();
            let slot = slot_of(key);
            self.span = Some(self.span.map_or(slot.into(), |span| span.with(slot)));
        }
    }

    /// The key is absent, and has been watched since before that was found.
    pub(super) fn add_absent(&mut self, key: &[u8], watch: AbsentWatch) {
        if !self.versions.contains_key(key) {
            self.absent.push(watch);
            self.add(key, 0);
        }
    }

    /// Whether a key that was absent has been made since, if only for a moment: versions cannot tell.
    pub(super) fn any_made(&self) -> bool {
        self.absent.iter().any(AbsentWatch::was_made)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.versions.len()
    }

    /// Where all keys are, if there are any.
    pub(super) fn span(&self) -> Option<SlotSpan> {
        self.span
    }

    /// What the watches take in an entry, at most.
    pub(super) fn entry_bytes(&self) -> usize {
        self.key_bytes + self.versions.len() * VERSION_BYTES_MAX
    }

    /// The keys in their order, with their versions.
    pub(super) fn into_versions(self) -> Vec<(Vec<u8>, u64)> {
        self.versions.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_of_a_key_counts() {
        let mut watches = Watches::default();
        for (key, version) in [("{a}2", 5), ("{a}1", 7), ("{a}2", 6)] {
            watches.add(key.as_bytes(), version);
        }
        assert_eq!(watches.span(), Some(slot_of(b"a").into()));
        assert_eq!((watches.key_bytes, watches.entry_bytes()), (8, 8 + 2 * VERSION_BYTES_MAX));
        assert_eq!(watches.into_versions(), [(b"{a}1".to_vec(), 7), (b"{a}2".to_vec(), 5)]);
    }

    #[test]
    fn it_is_known_where_all_keys_are() {
        let mut watches = Watches::default();
        assert_eq!(watches.span(), None);
        watches.add(b"a", 1);
        watches.add(b"b", 1);
        assert_eq!(watches.span(), Some(SlotSpan::from(slot_of(b"a")).with(slot_of(b"b"))));
    }

    #[test]
    fn keys_and_bytes_are_bounded() {
        let mut watches = Watches::default();
        let long = vec![b'k'; WATCHED_BYTES_MAX / 2];
        assert_eq!(watches.check(&[&long, &long]), Ok(()));
        watches.add(&long, 1);
        assert!(watches.check(&[&long, b"k"]).is_err());
        assert_eq!(watches.check(&vec![&b""[..]; WATCHED_KEYS_MAX - 1]), Ok(()));
        assert!(watches.check(&vec![&b""[..]; WATCHED_KEYS_MAX]).is_err());
    }
}
