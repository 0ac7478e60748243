//! The order of a memtable's rows, made when a scan asks for it: writers never pay for it.
//!
//! It is one list of places, in parts of bounded length. Rows that came since the last time are put into it: one by one
//! if they are few beside those that are there, else sorted with them. Rows that are gone are taken out of it, so that a scan
//! does not pass over what was removed; they come in again if they are written again. A place holds the beginning of its row's key, so
//! that a search seldom looks at a row: each look is a miss of the processor's caches.

use super::rows::Rows;
use crate::folded_key::FoldedKey;
use crate::lsm::key_prefix::{KEY_PREFIX_BYTES, KeyPrefix};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::mem;
use std::sync::{RwLock, RwLockReadGuard};

/// Most places in a part.
const PART_PLACES: usize = 128;
/// Places in each part of an order that is made anew: there is room for rows to come.
const PART_PLACES_NEW: usize = 96;
/// New rows are sorted with the others if there is more than one of them to so many.
const FEW: usize = 16;
/// Rows that are looked at while the writer waits: it takes about a tenth of a millisecond.
const LOCKED_ROWS_MAX: usize = 1024;

/// Up to this many places with one head are sorted by whole keys directly.
const FEW_EQUAL: usize = 8;
/// Heads of a key that are looked at before its rest is compared as a whole.
const HEADS_MAX: usize = 8;

/// A row's place.
#[derive(Clone, Copy)]
pub(super) struct Place {
    head: KeyPrefix,
    /// The row's number.
    pub(super) row: u32,
}

/// Neighbours; never empty.
struct Part {
    /// The first of them, too, so that a search among parts need not look into them.
    first: Place,
    places: Vec<Place>,
}

/// Between two places: before place `at` of a part, or behind all.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    part: usize,
    at: usize,
}

/// Invariant: the parts hold those of the rows `0..ordered` that were not gone when `take_in` was called last, each once.
#[derive(Default)]
pub(super) struct Order {
    parts: Vec<Part>,
    ordered: u32,
    /// How often it has changed: a `Spot` is of one version.
    version: u64,
}

impl Place {
    fn of(rows: &Rows, row: u32) -> Self {
        Self { head: head_of(rows.row(row).key(), 0), row }
    }

    /// Where it lies from a key, whose head is given.
    pub(super) fn compare(&self, rows: &Rows, head: KeyPrefix, key: FoldedKey<'_>) -> Ordering {
        self.head.cmp(&head).then_with(|| rows.row(self.row).key().cmp_tree_key(&key))
    }
}

impl Part {
    fn of(places: Vec<Place>) -> Self {
        Self { first: places[0], places }
    }
}

impl Order {
    /// How many rows it knows, gone ones included.
    pub(super) fn ordered(&self) -> u32 {
        self.ordered
    }

    /// Another number after each change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Takes in those of `rows`, whose order this is, that came since the last time, and takes out those that are gone.
    pub(super) fn take_in(&mut self, rows: &RwLock<Rows>) {
        let (count, changed) = {
            let mut rows = rows.write().expect("a panic while an entry is applied is not survived");
            (rows.len(), rows.take_changed())
        };
        if count == self.ordered && changed.is_empty() {
            return;
        }
        self.version += 1;
        let new = (count - self.ordered) as usize;
        if (new + changed.len()) * FEW > self.ordered as usize {
            return self.make_anew(rows, count, changed);
        }
        for row in (self.ordered..count).chain(changed) {
            // The writer does not wait for all of them.
            self.set_right(&read(rows), row);
        }
        self.ordered = count;
    }

    fn make_anew(&mut self, unsorted: &RwLock<Rows>, count: u32, changed: Vec<u32>) {
        let changed: HashSet<u32> = changed.into_iter().collect();
        let mut places: Vec<Place> = Vec::with_capacity(count as usize);
        let old = mem::take(&mut self.parts).into_iter().flat_map(|part| part.places);
        places.extend(old.filter(|place| !changed.contains(&place.row)));
        let sorted = places.len();
        let new = (self.ordered..count).filter(|row| !changed.contains(row));
        let unknown: Vec<u32> = changed.iter().copied().chain(new).collect();
        for some in unknown.chunks(LOCKED_ROWS_MAX) {
            // The writer does not wait for all of them.
            let rows = read(unsorted);
            let here = some.iter().filter(|row| !rows.row(**row).is_gone());
            places.extend(here.map(|row| Place::of(&rows, *row)));
        }
        places[sorted..].sort_unstable_by_key(|place| place.head);
        // Takes two sorted halves for what they are.
        places.sort_by_key(|place| place.head);
        for equal in places.chunk_by_mut(|a, b| a.head == b.head).filter(|equal| equal.len() > 1) {
            sort_equal(equal, unsorted, 1);
        }
        self.parts = places.chunks(PART_PLACES_NEW).map(|places| Part::of(places.to_vec())).collect();
        self.ordered = count;
    }

    /// A row that is gone is not in the order, and any other is.
    fn set_right(&mut self, rows: &Rows, row: u32) {
        let spot = self.find(rows, rows.row(row).key());
        match (self.is_at(spot, row), rows.row(row).is_gone()) {
            (true, true) => self.remove_next(spot),
            (false, false) => self.insert(spot, Place::of(rows, row)),
            _ => {}
        }
    }

    /// Removes the place that comes next, which may be the first one of the part behind.
    fn remove_next(&mut self, spot: Spot) {
        let is_behind = spot.at == self.parts[spot.part].places.len();
        let Spot { part: number, at } = if is_behind { Spot { part: spot.part + 1, at: 0 } } else { spot };
        let part = &mut self.parts[number];
        part.places.remove(at);
        match part.places.first() {
            Some(first) => part.first = *first,
            None => _ = self.parts.remove(number),
        }
    }

    fn insert(&mut self, spot: Spot, place: Place) {
        let Some(part) = self.parts.get_mut(spot.part) else { return self.parts.push(Part::of(vec![place])) };
        part.places.insert(spot.at, place);
        part.first = part.places[0];
        if part.places.len() > PART_PLACES {
            let upper = part.places.split_off(PART_PLACES / 2);
            self.parts.insert(spot.part + 1, Part::of(upper));
        }
    }

    /// Before the first row whose key is not below `key`.
    pub(super) fn find(&self, rows: &Rows, key: FoldedKey<'_>) -> Spot {
        let head = head_of(key, 0);
        let before = |place: &Place| place.compare(rows, head, key).is_lt();
        let part = self.parts.partition_point(|part| before(&part.first)).saturating_sub(1);
        Spot { part, at: self.parts.get(part).map_or(0, |part| part.places.partition_point(before)) }
    }

    /// Whether that row comes next.
    pub(super) fn is_at(&self, spot: Spot, row: u32) -> bool {
        let mut next = spot;
        self.next(&mut next).is_some_and(|place| place.row == row)
    }

    pub(super) fn end(&self) -> Spot {
        Spot { part: self.parts.len(), at: 0 }
    }

    pub(super) fn next(&self, spot: &mut Spot) -> Option<Place> {
        loop {
            let part = self.parts.get(spot.part)?;
            if let Some(place) = part.places.get(spot.at) {
                spot.at += 1;
                return Some(*place);
            }
            *spot = Spot { part: spot.part + 1, at: 0 };
        }
    }

    pub(super) fn previous(&self, spot: &mut Spot) -> Option<Place> {
        while spot.at == 0 {
            let part = spot.part.checked_sub(1)?;
            *spot = Spot { part, at: self.parts[part].places.len() };
        }
        spot.at -= 1;
        Some(self.parts[spot.part].places[spot.at])
    }
}

/// Head number `nth` of a key: what follows on those before.
fn head_of(key: FoldedKey<'_>, nth: usize) -> KeyPrefix {
    KeyPrefix::of_bytes(key.window(nth * KEY_PREFIX_BYTES))
}

/// Sorts places whose first `nth` heads are equal, by the next ones: keys that begin alike are not compared whole, each time with
/// two looks at rows.
fn sort_equal(places: &mut [Place], unsorted: &RwLock<Rows>, nth: usize) {
    // The rows are not held while all are sorted: that takes milliseconds.
    if places.len() <= FEW_EQUAL || nth == HEADS_MAX {
        return places.sort_unstable_by(|a, b| {
            let rows = read(unsorted);
            rows.row(a.row).key().cmp_tree_key(&rows.row(b.row).key())
        });
    }
    let mut next: Vec<(KeyPrefix, Place)> = Vec::with_capacity(places.len());
    for some in places.chunks(LOCKED_ROWS_MAX) {
        let rows = read(unsorted);
        next.extend(some.iter().map(|place| (head_of(rows.row(place.row).key(), nth), *place)));
    }
    next.sort_unstable_by_key(|(head, _)| *head);
    for (place, (_, sorted)) in places.iter_mut().zip(&next) {
        *place = *sorted;
    }
    let mut start = 0;
    for equal in next.chunk_by(|a, b| a.0 == b.0) {
        let end = start + equal.len();
        if equal.len() > 1 {
            sort_equal(&mut places[start..end], unsorted, nth + 1);
        }
        start = end;
    }
}

fn read(rows: &RwLock<Rows>) -> RwLockReadGuard<'_, Rows> {
    rows.read().expect("a panic while an entry is applied is not survived")
}
