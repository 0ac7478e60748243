//! Keys in the order in which they came first. A script may name one a million times.

use std::collections::HashSet;
use std::sync::Arc;

/// Keys, each once.
#[derive(Default)]
pub(super) struct KeysOnce {
    keys: Vec<Arc<[u8]>>,
    known: HashSet<Arc<[u8]>>,
}

impl KeysOnce {
    /// Adds a key, if it is none of them.
    pub(super) fn push(&mut self, key: &[u8]) {
        if !self.known.contains(key) {
            let key: Arc<[u8]> = key.into();
            self.known.insert(key.clone());
            self.keys.push(key);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Those behind the first `len` did not come.
    pub(super) fn truncate(&mut self, len: usize) {
        for key in self.keys.drain(len.min(self.keys.len())..) {
            self.known.remove(&key);
        }
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &key[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_there_once_and_can_be_taken_back() {
        let mut keys = KeysOnce::default();
        [b"a", b"b", b"a"].iter().for_each(|key| keys.push(*key));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"a", b"b"]);
        keys.truncate(1);
        [b"b", b"a", b"c"].iter().for_each(|key| keys.push(*key));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(keys.len(), 3);
    }
}
