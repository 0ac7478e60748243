//! Where rows are: a table from a row's hash to its number, for what finds its rows by hash (memtables, the row cache, the
//! writes of an entry).
//!
//! Open addressing with linear probing (Knuth, vol. 3, 6.4, algorithms L and R): a place takes eight bytes and lies where
//! its hash says or soon behind, so a look-up is one line of memory as a rule, and it is known before anything is read
//! which one. That is what it exists for: a caller with many look-ups to make has all their lines fetched side by side
//! (`note`, see `cpu_prefetch.rs`), where a table that must be read to know what to read next makes each wait for the one before.

use crate::cpu_prefetch::Lines;

/// No row.
const NONE: u32 = u32::MAX;
/// The smallest table.
const LEAST: usize = 8;

#[derive(Clone, Copy)]
struct RowPlace {
    hash: u32,
    row: u32,
}

const FREE: RowPlace = RowPlace { hash: 0, row: NONE };

/// A table from hashes to row numbers. Numbers are below `u32::MAX`; hashes should differ in their lowest bits.
#[derive(Default)]
pub struct HashIndex {
    /// Of a power of two, at most three quarters of them taken; or none at all.
    places: Box<[RowPlace]>,
    taken: usize,
}

impl HashIndex {
    /// The row of that hash that `is` the one.
    #[inline]
    pub fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let place = self.places[at];
            if place.row == NONE {
                return None;
            }
            if place.hash == hash && is(place.row) {
                return Some(place.row);
            }
            at = self.next(at);
        }
    }

    /// Adds a row that is not there.
    ///
    /// # Panics
    /// There are more rows than can be numbered.
    pub fn insert(&mut self, hash: u32, row: u32) {
        assert!(row < NONE, "more rows than can be numbered");
        if self.growth() > 0 {
            self.grow();
        }
        self.put(RowPlace { hash, row });
        self.taken += 1;
    }

    /// Removes a row that is there.
    ///
    /// # Panics
    /// It is not there.
    pub fn remove(&mut self, hash: u32, row: u32) {
        let mut hole = self.place_of(hash, row);
        let mut at = self.next(hole);
        while self.places[at].row != NONE {
            // One that lies behind the hole on the way from where its hash says may fill it.
            let behind = |place: usize| at.wrapping_sub(place) & self.mask();
            if behind(self.home(self.places[at].hash)) >= behind(hole) {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.places[hole] = FREE;
        self.taken -= 1;
    }

    /// A row that is there has another number from now on.
    pub(crate) fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        let at = self.place_of(hash, from);
        self.places[at].row = to;
    }

    /// Notes what `find` will read, if it finds the row where its hash says.
    pub(crate) fn note(&self, hash: u32, lines: &mut Lines) {
        if !self.places.is_empty() {
            lines.add(&self.places[self.home(hash)]);
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// By how many bytes one more row makes it grow.
    pub(crate) fn growth(&self) -> usize {
        if (self.taken + 1) * 4 <= self.places.len() * 3 {
            0
        } else {
            self.places.len().max(LEAST) * size_of::<RowPlace>()
        }
    }

    fn grow(&mut self) {
        let larger = vec![FREE; (self.places.len() * 2).max(LEAST)].into();
        let old = std::mem::replace(&mut self.places, larger);
        old.iter().filter(|place| place.row != NONE).for_each(|place| self.put(*place));
    }

    fn put(&mut self, place: RowPlace) {
        let mut at = self.home(place.hash);
        while self.places[at].row != NONE {
            at = self.next(at);
        }
        self.places[at] = place;
    }

    fn place_of(&self, hash: u32, row: u32) -> usize {
        let mut at = self.home(hash);
        while self.places[at].row != row {
            assert!(self.places[at].row != NONE, "a row that has no place");
            at = self.next(at);
        }
        at
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & self.mask()
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & self.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use vocab::Prng;

    #[test]
    fn it_is_a_map_whatever_the_hashes() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            // Few hashes, so that many meet, and all of them near the end, so that they go round it.
            let (hashes, first) = (1 + prng.below(60), prng.below(2) * u64::from(u32::MAX - 90));
            let mut places = HashIndex::default();
            let mut model = BTreeMap::<u32, u32>::new();
            for round in 0..3000u32 {
                let hash = (first + prng.below(hashes)) as u32;
                let known: Vec<u32> = model.iter().filter(|(_, of)| **of == hash).map(|(row, _)| *row).collect();
                match prng.below(if round % 1000 < 600 { 3 } else { 7 }) {
                    0 | 1 => {
                        let before = places.bytes() + places.growth();
                        places.insert(hash, round);
                        assert_eq!(places.bytes(), before);
                        model.insert(round, hash);
                    }
                    2 if !known.is_empty() => {
                        let (from, to) = (known[0], 10_000 + round);
                        places.renumber(hash, from, to);
                        model.remove(&from);
                        model.insert(to, hash);
                    }
                    _ if !known.is_empty() => {
                        let row = known[prng.below(known.len() as u64) as usize];
                        places.remove(hash, row);
                        model.remove(&row);
                        assert_eq!(places.find(hash, |other| other == row), None);
                    }
                    _ => {
                        places.note(hash, &mut Lines::default());
                        assert_eq!(places.find(hash, |_| true), None);
                    }
                }
                assert_eq!(places.taken, model.len());
            }
            for (row, hash) in &model {
                assert_eq!(places.find(*hash, |other| other == *row), Some(*row));
            }
        }
    }
}
