//! The order of a memtable's rows, made when a scan asks for it: writers never pay for it.
//!
//! It is one list of places, in parts of bounded length. Rows that came since the last time are put into it: one by one
//! if they are few beside those that are there, else sorted with them. A place holds the beginning of its row's key, so
//! that a search seldom looks at a row: each look is a miss of the processor's caches.
//!
//! Who walks along it takes a few rows at a time, and finds its place again if rows have come in between.

use super::Memtable;
use super::rows::Rows;
use crate::Slice;
use crate::lsm::key_prefix::KeyPrefix;
use crate::lsm::merge::Entries;
use lsm_tree::InternalValue;
use std::cmp::Ordering;
use std::mem;
use std::sync::{Arc, RwLockReadGuard};

/// Rows that a walk takes at once: at first, and at the most.
const TAKE_MIN: usize = 1;
const TAKE_MAX: usize = 256;
/// Most places in a part.
const PART_PLACES: usize = 128;
/// Places in each part of an order that is made anew: there is room for rows to come.
const PART_PLACES_NEW: usize = 96;
/// New rows are sorted with the others if there is more than one of them to so many.
const FEW: usize = 16;

const SURVIVED: &str = "a panic while sorting is not survived";

/// A row's place.
#[derive(Clone, Copy)]
struct Place {
    head: KeyPrefix,
    /// The row's number.
    row: u32,
}

/// Neighbours; never empty.
struct Part {
    /// The first of them, too, so that a search among parts need not look into them.
    first: Place,
    places: Vec<Place>,
}

/// Between two places: before place `at` of a part, or behind all.
#[derive(Clone, Copy)]
struct Spot {
    part: usize,
    at: usize,
}

/// Invariant: the parts hold the rows `0..ordered`, each once.
#[derive(Default)]
pub(super) struct Order {
    parts: Vec<Part>,
    ordered: u32,
}

impl Place {
    fn of(rows: &Rows, row: u32) -> Self {
        Self { head: KeyPrefix::of(&rows.row(row).key), row }
    }

    /// Where it lies from a key, whose head is given.
    fn compare(&self, rows: &Rows, head: KeyPrefix, key: &[u8]) -> Ordering {
        self.head.cmp(&head).then_with(|| rows.row(self.row).key[..].cmp(key))
    }
}

impl Part {
    fn of(places: Vec<Place>) -> Self {
        Self { first: places[0], places }
    }
}

impl Order {
    /// Takes in the rows of `memtable`, whose order this is, that came since the last time.
    fn take_in(&mut self, memtable: &Memtable) {
        let new = memtable.read().len() - self.ordered;
        if new as usize * FEW > self.ordered as usize {
            return self.make_anew(memtable, self.ordered + new);
        }
        for row in self.ordered..self.ordered + new {
            // The writer does not wait for all of them.
            let rows = memtable.read();
            self.insert(&rows, row);
        }
        self.ordered += new;
    }

    fn make_anew(&mut self, memtable: &Memtable, count: u32) {
        let mut places: Vec<Place> = Vec::with_capacity(count as usize);
        places.extend(mem::take(&mut self.parts).into_iter().flat_map(|part| part.places));
        {
            let rows = memtable.read();
            places.extend((self.ordered..count).map(|row| Place::of(&rows, row)));
        }
        let compare = |a: &Place, b: &Place| {
            // Not held while all are sorted: that takes milliseconds.
            a.head.cmp(&b.head).then_with(|| {
                let rows = memtable.read();
                rows.row(a.row).key.cmp(&rows.row(b.row).key)
            })
        };
        places[self.ordered as usize..].sort_unstable_by(compare);
        // Takes two sorted halves for what they are.
        places.sort_by(compare);
        self.parts = places.chunks(PART_PLACES_NEW).map(|places| Part::of(places.to_vec())).collect();
        self.ordered = count;
    }

    fn insert(&mut self, rows: &Rows, row: u32) {
        let place = Place::of(rows, row);
        let spot = self.find(rows, &rows.row(row).key);
        let Some(part) = self.parts.get_mut(spot.part) else { return self.parts.push(Part::of(vec![place])) };
        part.places.insert(spot.at, place);
        part.first = part.places[0];
        if part.places.len() > PART_PLACES {
            let upper = part.places.split_off(PART_PLACES / 2);
            self.parts.insert(spot.part + 1, Part::of(upper));
        }
    }

    /// Before the first row whose key is not below `key`.
    fn find(&self, rows: &Rows, key: &[u8]) -> Spot {
        let head = KeyPrefix::of(key);
        let before = |place: &Place| place.compare(rows, head, key).is_lt();
        let part = self.parts.partition_point(|part| before(&part.first)).saturating_sub(1);
        Spot { part, at: self.parts.get(part).map_or(0, |part| part.places.partition_point(before)) }
    }

    fn end(&self) -> Spot {
        Spot { part: self.parts.len(), at: 0 }
    }

    fn next(&self, spot: &mut Spot) -> Option<Place> {
        loop {
            let part = self.parts.get(spot.part)?;
            if let Some(place) = part.places.get(spot.at) {
                spot.at += 1;
                return Some(*place);
            }
            *spot = Spot { part: spot.part + 1, at: 0 };
        }
    }

    fn previous(&self, spot: &mut Spot) -> Option<Place> {
        while spot.at == 0 {
            let part = spot.part.checked_sub(1)?;
            *spot = Spot { part, at: self.parts[part].places.len() };
        }
        spot.at -= 1;
        Some(self.parts[spot.part].places[spot.at])
    }
}

/// The rows between two keys as of an index, in order or in reverse order.
struct Walk {
    memtable: Arc<Memtable>,
    path: Path,
    /// The last one is the next.
    taken: Vec<InternalValue>,
}

/// Where a walk is.
struct Path {
    index: u64,
    reverse: bool,
    /// Where it ends: the first key behind (empty: there is none), in reverse order the last one.
    until: Slice,
    until_head: KeyPrefix,
    /// Where it goes on, in an order of so many rows.
    spot: Spot,
    ordered: u32,
    /// The row that it passed last.
    passed: Option<u32>,
    over: bool,
    /// How many rows it passes next.
    take: usize,
}

impl Memtable {
    /// The newest version as of `index` of each key from `start` to before `end` (empty: to the end), removals
    /// included, in order or in reverse order; none if there are no such rows. The index is that of a snapshot that is
    /// held, or the memtable is sealed and its last.
    pub(in crate::lsm) fn entries(
        self: &Arc<Self>,
        start: &Slice,
        end: &Slice,
        index: u64,
        reverse: bool,
    ) -> Option<Entries<'static>> {
        let order = self.in_order();
        let rows = self.read();
        let spot = match reverse {
            false => order.find(&rows, start),
            true if end.is_empty() => order.end(),
            true => order.find(&rows, end),
        };
        let until = if reverse { start } else { end };
        let mut path = Path {
            index,
            reverse,
            until: until.clone(),
            until_head: KeyPrefix::of(until),
            spot,
            ordered: order.ordered,
            passed: None,
            over: false,
            take: TAKE_MIN,
        };
        let mut taken = Vec::new();
        path.follow(&order, &rows, &mut taken);
        let is_empty = path.over && taken.is_empty();
        (!is_empty).then(|| Box::new(Walk { memtable: self.clone(), path, taken }.map(Ok)) as Entries<'static>)
    }

    /// The order of all rows that are here now, at least.
    fn in_order(&self) -> RwLockReadGuard<'_, Order> {
        let wanted = self.read().len();
        loop {
            let order = self.order.read().expect(SURVIVED);
            if order.ordered >= wanted {
                return order;
            }
            drop(order);
            let mut order = self.order.write().expect(SURVIVED);
            if order.ordered < wanted {
                order.take_in(self);
            }
        }
    }
}

impl Path {
    /// Passes some rows, and takes what is to be seen of them.
    fn follow(&mut self, order: &Order, rows: &Rows, taken: &mut Vec<InternalValue>) {
        if self.ordered != order.ordered {
            self.ordered = order.ordered;
            let passed = self.passed.expect("it took the first rows when it was made");
            self.spot = order.find(rows, &rows.row(passed).key);
            if !self.reverse {
                order.next(&mut self.spot);
            }
        }
        for _ in 0..self.take {
            let next = if self.reverse { order.previous(&mut self.spot) } else { order.next(&mut self.spot) };
            let Some(place) = next.filter(|place| self.includes(rows, place)) else {
                self.over = true;
                break;
            };
            self.passed = Some(place.row);
            taken.extend(rows.row(place.row).as_of(self.index));
        }
        self.take = (self.take * 2).min(TAKE_MAX);
        taken.reverse();
    }

    fn includes(&self, rows: &Rows, place: &Place) -> bool {
        let compare = || place.compare(rows, self.until_head, &self.until);
        if self.reverse { compare().is_ge() } else { self.until.is_empty() || compare().is_lt() }
    }
}

impl Iterator for Walk {
    type Item = InternalValue;

    fn next(&mut self) -> Option<InternalValue> {
        while self.taken.is_empty() && !self.path.over {
            let order = self.memtable.order.read().expect(SURVIVED);
            self.path.follow(&order, &self.memtable.read(), &mut self.taken);
        }
        self.taken.pop()
    }
}
