//! Prefixes whose rows were dropped as a whole.
//!
//! A row is covered if its key begins with one of the prefixes. Prefixes may nest; sets of prefixes that do not nest, the
//! usual case, answer with one search.

use crate::Slice;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A set of prefixes, each with what its owner keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct DroppedPrefixes<T> {
    prefixes: BTreeMap<Slice, T>,
    /// No prefix has fewer bytes.
    bytes_min: usize,
}

impl<T> Default for DroppedPrefixes<T> {
    fn default() -> Self {
        Self { prefixes: BTreeMap::new(), bytes_min: usize::MAX }
    }
}

impl<T> DroppedPrefixes<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Adds a prefix. One that is there keeps what is kept of it: its rows were dropped when it came.
    pub(crate) fn insert(&mut self, prefix: Slice, about: T) {
        self.bytes_min = self.bytes_min.min(prefix.len());
        self.prefixes.entry(prefix).or_insert(about);
    }

    pub(crate) fn remove(&mut self, prefix: &[u8]) {
        self.prefixes.remove(prefix);
        if self.prefixes.is_empty() {
            self.bytes_min = usize::MAX;
        }
    }

    pub(crate) fn contains(&self, prefix: &[u8]) -> bool {
        self.prefixes.contains_key(prefix)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Slice, &T)> {
        self.prefixes.iter()
    }

    /// The longest prefix of `key` in the set that `is_seen` accepts.
    pub(crate) fn covering(&self, key: &[u8], is_seen: impl Fn(&T) -> bool) -> Option<(&Slice, &T)> {
        // Whatever begins `key` and is not above `upper` also begins `upper`.
        let mut upper = Bound::Included(key);
        while let Bound::Included(end) | Bound::Excluded(end) = upper
            && end.len() >= self.bytes_min
        {
            let (prefix, about) = self.prefixes.range::<[u8], _>((Bound::Unbounded, upper)).next_back()?;
            let shared = end.iter().zip(prefix.iter()).take_while(|(a, b)| a == b).count();
            upper = if shared < prefix.len() {
                Bound::Included(&key[..shared])
            } else if is_seen(about) {
                return Some((prefix, about));
            } else {
                Bound::Excluded(&key[..shared])
            };
        }
        None
    }

    /// Whether a row of `key` is covered.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.covering(key, |_| true).is_some()
    }

    /// The prefixes that cover rows from `start` to before `end` (empty: to the end).
    pub(crate) fn within<'a>(&'a self, start: &'a [u8], end: &'a [u8]) -> impl Iterator<Item = (&'a Slice, &'a T)> {
        let is_below_end = move |prefix: &Slice| end.is_empty() || prefix[..] < *end;
        // Those that begin `start` are below it.
        let around = (self.bytes_min..start.len()).filter_map(|length| self.prefixes.get_key_value(&start[..length]));
        let inside = self.prefixes.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
        around.chain(inside.take_while(move |(prefix, _)| is_below_end(prefix)))
    }
}

/// The first key behind all that begin with `prefix`; empty: there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Slice {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    let mut end = prefix[..kept].to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    Slice::from(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    #[test]
    fn what_covers_a_key_is_what_a_look_at_all_prefixes_finds() {
        let mut prng = Prng::new(1);
        let word = |prng: &mut Prng, bytes_min: u64| -> Vec<u8> {
            (0..bytes_min + prng.below(6)).map(|_| b'a' + prng.below(3) as u8).collect()
        };
        for _ in 0..300 {
            let mut set = DroppedPrefixes::default();
            let mut all: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            for index in 0..prng.below(12) {
                let prefix = word(&mut prng, 1);
                set.insert(Slice::from(&prefix[..]), index);
                all.entry(prefix).or_insert(index);
            }
            for _ in 0..50 {
                let (key, index) = (word(&mut prng, 0), prng.below(12));
                let wanted = all.iter().rfind(|(prefix, at)| key.starts_with(prefix) && **at <= index);
                let found = set.covering(&key, |at| *at <= index).map(|(prefix, at)| (prefix.to_vec(), *at));
                assert_eq!(found, wanted.map(|(prefix, at)| (prefix.clone(), *at)), "{key:?}");
                let end = word(&mut prng, 0);
                let overlaps = |prefix: &Vec<u8>| {
                    let behind = prefix_end(prefix);
                    (end.is_empty() || *prefix < end) && (behind.is_empty() || behind[..] > key[..])
                };
                if end.is_empty() || key < end {
                    let wanted: Vec<_> = all.keys().filter(|prefix| overlaps(prefix)).cloned().collect();
                    let found: Vec<_> = set.within(&key, &end).map(|(prefix, _)| prefix.to_vec()).collect();
                    assert_eq!(found, wanted, "{key:?} to {end:?}");
                }
            }
            let some: Vec<_> = all.keys().cloned().collect();
            some.iter().for_each(|prefix| set.remove(prefix));
            assert!(set.is_empty() && !set.covers(b"abc"));
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_above_all_that_begins_with_it() {
        for (prefix, end) in [(&b"a"[..], &b"b"[..]), (b"a\xFF\xFF", b"b"), (b"\xFF", b""), (b"", b"")] {
            assert_eq!(prefix_end(prefix), end);
        }
    }
}
