//! A map by keys that grows and goes in steps: an event loop that adds a key to a million others moves a few thousand of them at most, where a
//! table in one piece would move all.
//!
//! Linear hashing (Litwin, 1980): it consists of parts, each a table of its own. As keys come, one part after the other is split in two, always
//! the next one in order, so that a key's part follows from its hash and from how many parts there are.

use std::collections::HashMap;
use std::collections::hash_map::{self, RandomState};
use std::hash::BuildHasher;
use std::vec;

/// Keys for each part, on average.
const KEYS_PER_PART: usize = 2048;

/// See the module's documentation. Invariant: a key is in the part that `part_of` says, and `len` is the sum over all parts.
#[derive(Debug)]
pub(super) struct StepMap<V> {
    /// None until the first key comes.
    parts: Vec<HashMap<Box<[u8]>, V>>,
    len: usize,
    /// Says in which part a key is; within it another one tells keys apart.
    hasher: RandomState,
}

impl<V> Default for StepMap<V> {
    fn default() -> Self {
        Self { parts: Vec::new(), len: 0, hasher: RandomState::new() }
    }
}

/// The part of a hash, of so many.
fn part_of(hash: u64, parts: usize) -> usize {
    let level = parts.next_power_of_two();
    let at = hash as usize & (level - 1);
    if at < parts { at } else { at & (level / 2 - 1) }
}

impl<V: Default> StepMap<V> {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What is at a key.
    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        let at = self.place_of(key)?;
        self.parts[at].get_mut(key)
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, key: &[u8]) -> &mut V {
        if self.len >= self.parts.len() * KEYS_PER_PART {
            self.split();
        }
        self.len += 1;
        let at = part_of(self.hasher.hash_one(key), self.parts.len());
        self.parts[at].entry(key.into()).or_default()
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let at = self.place_of(key)?;
        let removed = self.parts[at].remove(key)?;
        self.len -= 1;
        if self.parts[at].is_empty() {
            // A search for keys does not go through empty places.
            self.parts[at] = HashMap::new();
        }
        Some(removed)
    }

    /// Some of the keys: at most so many, and no more once they have that many bytes.
    pub(super) fn some_keys(&self, most: usize, mut bytes: usize) -> Vec<Box<[u8]>> {
        let keys = self.parts.iter().flat_map(HashMap::keys).take(most).take_while(|key| {
            let has_room = bytes > 0;
            bytes = bytes.saturating_sub(key.len());
            has_room
        });
        keys.cloned().collect()
    }

    fn place_of(&self, key: &[u8]) -> Option<usize> {
        (!self.parts.is_empty()).then(|| part_of(self.hasher.hash_one(key), self.parts.len()))
    }

    /// One part more: the next one in order gives it its share.
    fn split(&mut self) {
        let last = self.parts.len();
        self.parts.push(HashMap::new());
        if last > 0 {
            let next = part_of(last as u64, last);
            for (key, value) in std::mem::take(&mut self.parts[next]) {
                let at = part_of(self.hasher.hash_one(&key), last + 1);
                self.parts[at].insert(key, value);
            }
        }
    }
}

impl<V> IntoIterator for StepMap<V> {
    type Item = (Box<[u8]>, V);
    type IntoIter = Entries<V>;

    fn into_iter(self) -> Entries<V> {
        Entries { parts: self.parts.into_iter(), part: HashMap::new().into_iter() }
    }
}

/// The keys of a map, each with what is there: what they take goes part by part.
#[derive(Debug)]
pub(super) struct Entries<V> {
    parts: vec::IntoIter<HashMap<Box<[u8]>, V>>,
    part: hash_map::IntoIter<Box<[u8]>, V>,
}

impl<V> Iterator for Entries<V> {
    type Item = (Box<[u8]>, V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.part.next() {
                Some(entry) => return Some(entry),
                None => self.part = self.parts.next()?.into_iter(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;
    use vocab::Prng;

    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let (mut map, mut plain) = (StepMap::<u64>::default(), BTreeMap::<Vec<u8>, u64>::new());
        let mut prng = Prng::new(1);
        for round in 0..60_000_u64 {
            // First it grows, then it shrinks.
            let key = (prng.next_u64() % 20_000).to_le_bytes();
            if prng.next_u64() % 100 < if round < 40_000 { 80 } else { 20 } {
                match map.get_mut(&key) {
                    Some(value) => *value = round,
                    None => *map.insert(&key) = round,
                }
                plain.insert(key.to_vec(), round);
            } else {
                assert_eq!(map.remove(&key), plain.remove(&key[..]));
            }
            assert_eq!(map.len(), plain.len());
        }
        assert!(map.parts.len() > 4, "{} parts", map.parts.len());
        assert!(map.some_keys(99, usize::MAX).iter().all(|key| plain.contains_key(&key[..])));
        assert_eq!(map.some_keys(usize::MAX, usize::MAX).len(), plain.len());
        assert_eq!((map.some_keys(99, 17).len(), map.some_keys(2, 17).len()), (3, 2), "keys of 8 bytes");
        let held: BTreeMap<Vec<u8>, u64> = map.into_iter().map(|(key, value)| (key.into_vec(), value)).collect();
        assert_eq!(held, plain);
    }

    #[test]
    fn no_part_becomes_large() {
        let mut map = StepMap::<()>::default();
        (0..200_000_u32).for_each(|key| _ = map.insert(&key.to_le_bytes()));
        let largest = map.parts.iter().map(HashMap::len).max().unwrap();
        assert!(map.parts.len() == 98 && largest < 4 * KEYS_PER_PART, "{largest}");
    }
}
