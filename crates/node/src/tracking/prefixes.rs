//! Clients that are told of all keys that begin with a prefix: BCAST.

use super::changes::{ChangedKey, Invalidation};
use super::tracker::Tracker;
use crate::subscriber::Subscriber;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use vocab::{client_key, limits::TRACKED_PREFIX_BYTES_MAX};

/// With what keys begin.
pub type Prefix = Arc<[u8]>;

/// The prefixes that clients have asked for.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    trackers: BTreeMap<Prefix, Vec<Tracker>>,
    /// What they take: each prefix once for each client that has asked for it.
    bytes: usize,
}

/// The keys that a prefix fits, and who has changed each last.
struct Fits<'a> {
    trackers: &'a [Tracker],
    keys: BTreeMap<&'a [u8], Option<Subscriber>>,
}

/// What a prefix takes of memory, about, in bytes.
fn bytes_of(prefix: &[u8]) -> usize {
    96 + prefix.len()
}

impl Prefixes {
    /// Whether there is room for more beside all of these.
    pub(super) fn have_room(all: &[&Self], more: &[Prefix]) -> bool {
        let bytes = all.iter().map(|prefixes| prefixes.bytes).sum::<usize>();
        bytes + more.iter().map(|prefix| bytes_of(prefix)).sum::<usize>() <= TRACKED_PREFIX_BYTES_MAX
    }

    pub(super) fn add(&mut self, prefix: &[u8], tracker: Tracker) {
        let trackers = self.trackers.entry(prefix.into()).or_default();
        match trackers.iter_mut().find(|other| other.client == tracker.client) {
            Some(other) => *other = tracker,
            None => {
                trackers.push(tracker);
                self.bytes += bytes_of(prefix);
            }
        }
    }

    pub(super) fn remove(&mut self, prefix: &[u8], client: Subscriber) {
        if let Some(trackers) = self.trackers.get_mut(prefix) {
            let before = trackers.len();
            trackers.retain(|tracker| tracker.client != client);
            self.bytes -= (before - trackers.len()) * bytes_of(prefix);
            if trackers.is_empty() {
                self.trackers.remove(prefix);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.trackers.len()
    }

    /// The clients of each.
    pub(super) fn clients(&self) -> impl Iterator<Item = Subscriber> {
        self.trackers.values().flatten().map(|tracker| tracker.client)
    }

    /// The prefixes that a key begins with, the longest first.
    fn of_key<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a Prefix, &'a Vec<Tracker>)> {
        // What is looked for begins with no more than this.
        let mut rest = Some(key);
        std::iter::from_fn(move || {
            loop {
                let within = rest?;
                let (prefix, trackers) =
                    self.trackers.range::<[u8], _>((Bound::Unbounded, Bound::Included(within))).next_back()?;
                if within.starts_with(prefix) {
                    rest = prefix.len().checked_sub(1).map(|shorter| &within[..shorter]);
                    return Some((prefix, trackers));
                }
                let common = within.iter().zip(prefix.iter()).take_while(|(a, b)| a == b).count();
                rest = Some(&within[..common]);
            }
        })
    }

    /// How many clients are told of a key, each as often as a prefix of its fits.
    pub(super) fn reach(&self, key: &[u8]) -> usize {
        self.of_key(client_key(key)).map(|(_, trackers)| trackers.len()).sum()
    }

    /// What is told of changes: for each prefix the keys that it fits, each once. A client that does not want its own changes is told
    /// of those of others.
    pub(super) fn invalidations<'c>(&self, changed: impl Iterator<Item = &'c ChangedKey>) -> Vec<Invalidation> {
        let mut by_prefix: BTreeMap<&Prefix, Fits<'_>> = BTreeMap::new();
        for ChangedKey { key, client, .. } in changed {
            for (prefix, trackers) in self.of_key(client_key(key)) {
                let fits = by_prefix.entry(prefix).or_insert_with(|| Fits { trackers, keys: BTreeMap::new() });
                fits.keys.insert(key, *client);
            }
        }
        let mut told = Vec::new();
        for Fits { trackers, keys: fits } in by_prefix.into_values() {
            let (alone, others): (Vec<&Tracker>, Vec<&Tracker>) = trackers
                .iter()
                .partition(|tracker| tracker.no_loop && fits.values().any(|writer| *writer == Some(tracker.client)));
            let mut tell = |keys: Vec<Vec<u8>>, clients: Vec<Subscriber>| {
                if !keys.is_empty() && !clients.is_empty() {
                    told.push(Invalidation { keys: Some(keys), is_broadcast: true, clients });
                }
            };
            tell(fits.keys().map(|key| key.to_vec()).collect(), others.iter().map(|tracker| tracker.client).collect());
            for tracker in alone {
                let of_others = fits.iter().filter(|(_, writer)| **writer != Some(tracker.client));
                tell(of_others.map(|(key, _)| key.to_vec()).collect(), vec![tracker.client]);
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    #[test]
    fn the_prefixes_of_a_key_are_found_as_by_looking_at_all() {
        let mut prng = Prng::new(7);
        let mut word = |most: u64| -> Vec<u8> { (0..prng.below(most)).map(|_| b'a' + prng.below(2) as u8).collect() };
        for _ in 0..300 {
            let mut prefixes = Prefixes::default();
            (0..20).for_each(|_| prefixes.add(&word(6), Tracker { client: Subscriber::default(), no_loop: false }));
            for _ in 0..20 {
                let key = word(9);
                let found: Vec<&[u8]> = prefixes.of_key(&key).map(|(prefix, _)| &prefix[..]).collect();
                let all = prefixes.trackers.keys().map(|prefix| &prefix[..]).filter(|prefix| key.starts_with(prefix));
                let mut all: Vec<&[u8]> = all.collect();
                all.reverse();
                assert_eq!(found, all, "{}", key.escape_ascii());
                assert_eq!(prefixes.reach(&key), all.len(), "one client has asked for each");
            }
        }
    }

    #[test]
    fn prefixes_of_a_node_are_bounded() {
        let mut prefixes = Prefixes::default();
        let long: Prefix = vec![b'p'; TRACKED_PREFIX_BYTES_MAX / 2].into();
        let tracker = Tracker { client: Subscriber::default(), no_loop: false };
        let has_room = |prefixes: &Prefixes| Prefixes::have_room(&[prefixes], std::slice::from_ref(&long));
        assert!(has_room(&prefixes));
        prefixes.add(&long, tracker);
        prefixes.add(&long, tracker);
        assert!(!has_room(&prefixes));
        prefixes.remove(&long, tracker.client);
        assert_eq!((prefixes.bytes, prefixes.len()), (0, 0));
    }
}
