//! What an entry has written: one value for each tree key, found by hash, and put in order where a scan asks for that.
//!
//! Rows stay in the order in which their keys first came. It depends on nothing but the entry, so an entry has the same effects
//! each time it is evaluated.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use storage::{HashIndex, Slice, Span};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// So many rows are looked through one by one: most entries have no more.
const FEW: usize = 4;

/// A tree key and what is written there; `None` removes it.
pub(super) type Row = (Slice, Option<Slice>);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Overlay {
    rows: Vec<Row>,
    /// The numbers of the rows, once they are more than `FEW`.
    index: HashIndex,
    /// The numbers of the first rows, by their keys: of as many as there were when a scan asked last.
    sorted: Vec<u32>,
}

impl Overlay {
    /// What is written at a tree key.
    pub(super) fn get(&self, tree_key: &[u8]) -> Option<&Option<Slice>> {
        self.place_of(tree_key).map(|at| &self.rows[at].1)
    }

    /// Writes at a tree key; answers what was written there before.
    pub(super) fn put(&mut self, tree_key: &[u8], value: Option<Slice>) -> Option<Option<Slice>> {
        let number = self.rows.len();
        if number <= FEW {
            if let Some(at) = self.place_of(tree_key) {
                return Some(std::mem::replace(&mut self.rows[at].1, value));
            }
            self.rows.push((Slice::from(tree_key), value));
            if number == FEW {
                for (at, (key, _)) in self.rows.iter().enumerate() {
                    self.index.insert(hash(key), at as u32);
                }
            }
            return None;
        }
        let hash = hash(tree_key);
        if let Some(at) = self.indexed(hash, tree_key) {
            return Some(std::mem::replace(&mut self.rows[at].1, value));
        }
        self.rows.push((Slice::from(tree_key), value));
        self.index.insert(hash, number as u32);
        None
    }

    /// Takes back the first write at a tree key, which was the last one that brought a new key.
    pub(super) fn take_back(&mut self, tree_key: &[u8]) {
        let last = self.rows.pop().expect("what is taken back was written");
        assert!(last.0[..] == *tree_key, "writes are taken back in reverse order");
        let number = self.rows.len();
        if number > FEW {
            self.index.remove(hash(tree_key), number as u32);
        } else {
            self.index = HashIndex::default();
        }
        if self.sorted.len() > number {
            self.sorted.retain(|other| (*other as usize) < number);
        }
    }

    /// The rows in the order in which their keys first came.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The same, to be kept.
    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// The rows of a span, removals included, in the order of their keys.
    pub(super) fn within(&mut self, span: &Span) -> impl DoubleEndedIterator<Item = (&Slice, &Option<Slice>)> {
        self.sort();
        let rows = &self.rows;
        let first = self.sorted.partition_point(|at| rows[*at as usize].0[..] < span.start[..]);
        let end = self.sorted.partition_point(|at| span.end.is_empty() || rows[*at as usize].0[..] < span.end[..]);
        let found = self.sorted.get(first..end).unwrap_or_default();
        found.iter().map(|at| (&rows[*at as usize].0, &rows[*at as usize].1))
    }

    fn sort(&mut self) {
        let (sorted, count) = (self.sorted.len(), self.rows.len());
        let rows = &self.rows;
        let key = |at: u32| &rows[at as usize].0;
        if (count - sorted).saturating_mul(16) > count {
            self.sorted.extend(sorted as u32..count as u32);
            self.sorted.sort_unstable_by(|a, b| key(*a).cmp(key(*b)));
            return;
        }
        for new in sorted as u32..count as u32 {
            let at = self.sorted.partition_point(|other| key(*other) < key(new));
            self.sorted.insert(at, new);
        }
    }

    fn place_of(&self, tree_key: &[u8]) -> Option<usize> {
        if self.rows.len() <= FEW {
            return self.rows.iter().position(|(key, _)| key[..] == *tree_key);
        }
        self.indexed(hash(tree_key), tree_key)
    }

    /// Likewise, of more than `FEW`.
    fn indexed(&self, hash: u32, tree_key: &[u8]) -> Option<usize> {
        let found = self.index.find(hash, |at| self.rows[at as usize].0[..] == *tree_key);
        found.map(|at| at as usize)
    }
}

/// Clients cannot choose keys that meet.
fn hash(tree_key: &[u8]) -> u32 {
    static SEED: OnceLock<u64> = OnceLock::new();
    xxh3_64_with_seed(tree_key, *SEED.get_or_init(|| RandomState::new().hash_one(0))) as u32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;
    use vocab::Prng;

    #[test]
    fn it_is_a_map_of_which_the_last_writes_can_be_taken_back() {
        for seed in 0..40 {
            let mut prng = Prng::new(seed);
            let (mut overlay, mut model) = (Overlay::default(), BTreeMap::<Vec<u8>, Option<Vec<u8>>>::new());
            let keys = 1 + prng.below(60);
            for _ in 0..30 {
                let mut undo = Vec::new();
                let before = model.clone();
                for _ in 0..prng.below(12) {
                    let key = prng.below(keys).to_be_bytes()[6..].to_vec();
                    let value = (prng.below(3) > 0).then(|| vec![prng.next_u64() as u8]);
                    let old = overlay.put(&key, value.clone().map(Slice::from));
                    assert_eq!(old.as_ref().map(|old| old.as_ref().map(|old| old.to_vec())), model.get(&key).cloned());
                    undo.push((key.clone(), old));
                    model.insert(key, value);
                }
                check(&mut overlay, &model, &mut prng);
                if prng.below(3) == 0 {
                    for (key, old) in undo.into_iter().rev() {
                        match old {
                            Some(old) => drop(overlay.put(&key, old)),
                            None => overlay.take_back(&key),
                        }
                    }
                    model = before;
                    check(&mut overlay, &model, &mut prng);
                }
            }
        }
    }

    fn check(overlay: &mut Overlay, model: &BTreeMap<Vec<u8>, Option<Vec<u8>>>, prng: &mut Prng) {
        assert_eq!(overlay.rows().len(), model.len());
        let plain = |value: &Option<Slice>| value.as_ref().map(|value| value.to_vec());
        for key in 0..61u64 {
            let key = &key.to_be_bytes()[6..];
            assert_eq!(overlay.get(key).map(plain), model.get(key).cloned());
        }
        let (a, b) = (prng.below(61).to_be_bytes()[6..].to_vec(), prng.below(61).to_be_bytes()[6..].to_vec());
        for span in [Span { start: a.clone(), end: b }, Span { start: a, end: Vec::new() }] {
            let is_within = |key: &[u8]| *key >= *span.start && (span.end.is_empty() || *key < *span.end);
            let expected: Vec<_> = model.iter().filter(|(key, _)| is_within(key)).collect();
            let found: Vec<_> = overlay.within(&span).map(|(key, value)| (key.to_vec(), plain(value))).collect();
            let reversed = overlay.within(&span).rev().count();
            assert_eq!(found.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>(), expected);
            assert_eq!(reversed, expected.len());
        }
    }
}
