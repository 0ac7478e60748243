//! Counts against a map of the standard library.
#![allow(clippy::unwrap_used)]

use super::{Counted, Cursor};
use crate::command::testspace::TestSpace;
use crate::{Rows, WriteSpace};
use std::collections::BTreeMap;
use vocab::Prng;

/// A tree, and what it should hold.
struct Model {
    space: TestSpace,
    tree: Counted,
    counts: BTreeMap<Vec<u8>, u64>,
    prng: Prng,
    /// How long keys are at most.
    key_bytes_max: u64,
}

impl Model {
    fn new(seed: u64, key_bytes_max: u64) -> Self {
        let mut space = TestSpace::new();
        let rows: Rows = space.new_rows(b"k").unwrap();
        Self { space, tree: Counted::new(rows), counts: BTreeMap::new(), prng: Prng::new(seed), key_bytes_max }
    }

    fn key(&mut self) -> Vec<u8> {
        let mut key = vec![b'x'; self.prng.below(self.key_bytes_max) as usize];
        key.extend_from_slice(&(self.prng.below(1 << 20) as u32).to_be_bytes());
        key
    }

    /// What the map says of the last key that is not above `key`, or of the first one.
    fn floor(&self, key: &[u8]) -> Option<(Vec<u8>, u64)> {
        let found = self.counts.range(..=key.to_vec()).next_back().or(self.counts.iter().next());
        found.map(|(key, count)| (key.clone(), *count))
    }

    fn insert(&mut self, key: Vec<u8>) {
        if !self.counts.contains_key(&key) {
            let count = 1 + self.prng.below(200);
            self.tree.insert(&mut self.space, &key, count).unwrap();
            self.counts.insert(key, count);
        }
    }

    fn step(&mut self, grows: bool) {
        let key = self.key();
        match self.prng.below(4) {
            0 | 1 if grows => self.insert(key),
            0 | 1 => {
                let Some((key, _)) = self.floor(&key) else { return };
                let cursor = self.tree.find(&mut self.space, &key).unwrap().unwrap();
                self.tree.remove(&mut self.space, &cursor).unwrap();
                self.counts.remove(&key);
            }
            2 => {
                let Some((key, count)) = self.floor(&key) else { return };
                let cursor = self.tree.find(&mut self.space, &key).unwrap().unwrap();
                let by = self.prng.below(2 * count + 1) as i64 - count as i64;
                self.tree.add(&mut self.space, &cursor, by).unwrap();
                self.counts.insert(key, count.checked_add_signed(by).unwrap());
            }
            _ => self.check_one(&key),
        }
    }

    fn check_one(&mut self, key: &[u8]) {
        let found = self.tree.find(&mut self.space, key).unwrap();
        assert_eq!(found.as_ref().map(|cursor| (cursor.key().to_vec(), cursor.count())), self.floor(key));
        let Some(cursor) = found else { return };
        let before: u64 = self.counts.range(..cursor.key().to_vec()).map(|(_, count)| count).sum();
        assert_eq!(cursor.before(), before);
        if cursor.count() > 0 {
            let n = before + self.prng.below(cursor.count());
            let nth = self.tree.nth(&mut self.space, n).unwrap().unwrap();
            assert_eq!((nth.key(), nth.before()), (cursor.key(), before));
        }
    }

    /// Walks all entries in both directions.
    fn check(&mut self) {
        let total: u64 = self.counts.values().sum();
        assert!(self.tree.nth(&mut self.space, total).unwrap().is_none());
        let Some(mut cursor) = self.tree.find(&mut self.space, b"").unwrap() else {
            assert!(self.counts.is_empty());
            return;
        };
        let mut found = vec![of(&cursor)];
        while self.tree.next(&mut self.space, &mut cursor).unwrap() {
            found.push(of(&cursor));
        }
        let mut before = 0;
        for (at, (key, count)) in self.counts.iter().enumerate() {
            assert_eq!(found[at], (key.clone(), before, *count));
            before += count;
        }
        assert_eq!(found.len(), self.counts.len());
        let mut back = vec![of(&cursor)];
        while self.tree.previous(&mut self.space, &mut cursor).unwrap() {
            back.push(of(&cursor));
        }
        back.reverse();
        assert_eq!(back, found);
    }
}

fn of(cursor: &Cursor) -> (Vec<u8>, u64, u64) {
    (cursor.key().to_vec(), cursor.before(), cursor.count())
}

#[test]
fn agrees_with_a_map_while_it_grows_and_shrinks() {
    for (seed, key_bytes_max, steps) in [(1, 1, 5_000), (2, 40, 3_000), (3, 4_000, 1_000)] {
        let mut model = Model::new(seed, key_bytes_max);
        for phase in 0..6 {
            for _ in 0..steps {
                model.step(phase % 2 == 0);
            }
            model.check();
        }
    }
}

#[test]
fn rising_and_falling_keys_fill_their_nodes() {
    for rises in [true, false] {
        let mut model = Model::new(4, 1);
        let count = 129 * 128u32;
        for n in 0..count {
            let n = if rises { n } else { count - n };
            let key = n.to_be_bytes().to_vec();
            model.tree.insert(&mut model.space, &key, 1).unwrap();
            model.counts.insert(key, 1);
        }
        model.check();
        // Two rows a node: three levels of full nodes.
        assert!(model.space.row_count() <= 2 * (130 + 3 + 1), "{}", model.space.row_count());
    }
}

#[test]
fn with_room_rising_and_falling_keys_fill_three_quarters_of_their_nodes() {
    for rises in [true, false] {
        let mut model = Model::new(4, 1);
        model.space.leaves_room = true;
        let count = 97 * 97u32;
        let key = |n: u32| if rises { n } else { 2 * count - n };
        for n in 0..count {
            model.tree.insert(&mut model.space, &(2 * key(n)).to_be_bytes(), 1).unwrap();
            model.counts.insert((2 * key(n)).to_be_bytes().to_vec(), 1);
        }
        model.check();
        let rows = model.space.row_count();
        assert!((2 * 95..=2 * 100).contains(&rows), "{rows}");
        // One more in the middle divides no node.
        for n in [count / 3, count / 2, count * 2 / 3] {
            let between = (2 * key(n) + 1).to_be_bytes().to_vec();
            model.tree.insert(&mut model.space, &between, 1).unwrap();
            model.counts.insert(between, 1);
        }
        model.check();
        assert_eq!(model.space.row_count(), rows);
    }
}

#[test]
fn what_is_emptied_leaves_its_root_alone() {
    let mut model = Model::new(5, 1);
    for n in 0..2_000u32 {
        model.insert(n.to_be_bytes().to_vec());
    }
    while !model.counts.is_empty() {
        let key = model.key();
        let (key, _) = model.floor(&key).unwrap();
        let cursor = model.tree.find(&mut model.space, &key).unwrap().unwrap();
        model.tree.remove(&mut model.space, &cursor).unwrap();
        model.counts.remove(&key);
    }
    model.check();
    assert_eq!(model.space.row_count(), 2);
    model.insert(b"again".to_vec());
    model.check();
}

#[test]
fn one_more_element_writes_a_row_a_level_and_reads_none() {
    let Model { mut space, tree, .. } = Model::new(1, 1);
    for leaf in 0..20_000_u32 {
        tree.insert(&mut space, &leaf.to_be_bytes(), 20).unwrap();
    }
    let last = tree.find(&mut space, &u32::MAX.to_be_bytes()).unwrap().unwrap();
    (space.reads, space.writes) = (0, 0);
    tree.add(&mut space, &last, 1).unwrap();
    assert_eq!((space.reads, space.writes), (0, 3));
}
