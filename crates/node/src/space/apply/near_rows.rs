//! Rows of the tree that the items of an entry read one after the other: the nodes above the leaves of a large collection.
//!
//! The tree does not change while an entry is evaluated, so what was read once holds to its end.

use storage::Slice;
use xxhash_rust::xxh3::xxh3_64;

/// Places, a power of two. A row takes the one that its key's hash says, whatever was there.
const PLACES: usize = 64;
/// The longest tree key that is kept, in bytes: nodes have short names, members mostly longer ones, which are read once.
const KEY_BYTES_MAX: usize = 20;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct NearRows {
    /// Tree keys and what the tree has there. Empty until it is used.
    places: Vec<Option<(Slice, Option<Slice>)>>,
    items: usize,
}

impl NearRows {
    /// The next item of the entry begins.
    pub(super) fn begin_item(&mut self) {
        self.items += 1;
    }

    /// Whether the row of a tree key is worth keeping: an entry of one item reads nothing again.
    pub(super) fn keeps(&self, tree_key: &[u8]) -> bool {
        self.items > 1 && tree_key.len() <= KEY_BYTES_MAX
    }

    /// What the tree has there, if it is known.
    pub(super) fn get(&self, tree_key: &[u8]) -> Option<Option<Slice>> {
        let (key, value) = self.places.get(place_of(tree_key))?.as_ref()?;
        (key[..] == *tree_key).then(|| value.clone())
    }

    /// The tree has that there.
    pub(super) fn keep(&mut self, tree_key: &[u8], value: Option<Slice>) {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        self.places[place_of(tree_key)] = Some((Slice::from(tree_key), value));
    }
}

fn place_of(tree_key: &[u8]) -> usize {
    xxh3_64(tree_key) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_read_of_that_key() {
        let mut near = NearRows::default();
        let key = |n: u32| n.to_be_bytes();
        near.begin_item();
        assert!(!near.keeps(&key(1)), "an entry of one item");
        near.begin_item();
        assert!(near.keeps(&key(1)) && !near.keeps(&[0; KEY_BYTES_MAX + 1]));
        for n in 0..1000 {
            assert_eq!(near.get(&key(n)), None);
            let value = (n % 3 > 0).then(|| Slice::from(&key(n)[..]));
            near.keep(&key(n), value.clone());
            assert_eq!(near.get(&key(n)), Some(value));
        }
        let kept = (0..1000).filter(|n| near.get(&key(*n)).is_some()).count();
        assert!((PLACES / 2..=PLACES).contains(&kept), "{kept}");
    }
}
