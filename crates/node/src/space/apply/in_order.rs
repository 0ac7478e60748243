//! The numbers of rows in the order of their keys, in parts of bounded length: to put one in, or to take one out, moves few others, however
//! many there are.

use storage::Slice;

/// A tree key and what is written there; `None` removes it.
pub(super) type Row = (Slice, Option<Slice>);

/// Most numbers in a part.
const PART_MAX: usize = 512;

/// Invariant: it has the numbers `0..count`, each once, in the order of the rows' keys; no part is empty, or longer than `PART_MAX`.
#[derive(Default)]
pub(super) struct InOrder {
    parts: Vec<Vec<u32>>,
    count: usize,
}

/// Before a number: part, and place in it.
#[derive(Clone, Copy)]
struct Spot {
    part: usize,
    at: usize,
}

impl InOrder {
    /// Takes in the rows that came since the last time: one by one if they are few beside those that are there.
    pub(super) fn take_in(&mut self, rows: &[Row]) {
        let new = self.count as u32..rows.len() as u32;
        if new.len().saturating_mul(16) > rows.len() {
            let mut all: Vec<u32> = self.parts.drain(..).flatten().chain(new).collect();
            // Takes what is sorted for what it is.
            all.sort_by(|a, b| rows[*a as usize].0.cmp(&rows[*b as usize].0));
            // There is room for rows to come.
            self.parts = all.chunks(PART_MAX / 2).map(<[u32]>::to_vec).collect();
        } else {
            new.for_each(|number| self.insert(rows, number));
        }
        self.count = rows.len();
    }

    fn insert(&mut self, rows: &[Row], number: u32) {
        let Spot { part, at } = self.find(rows, &rows[number as usize].0);
        let Some(numbers) = self.parts.get_mut(part) else { return self.parts.push(vec![number]) };
        numbers.insert(at, number);
        if numbers.len() > PART_MAX {
            let upper = numbers.split_off(PART_MAX / 2);
            self.parts.insert(part + 1, upper);
        }
    }

    /// Takes out the row that came last, if it is known.
    pub(super) fn take_out_last(&mut self, rows: &[Row]) {
        let Some((key, _)) = rows.last().filter(|_| self.count == rows.len()) else { return };
        let Spot { mut part, mut at } = self.find(rows, key);
        if at == self.parts[part].len() {
            (part, at) = (part + 1, 0);
        }
        let taken = self.parts[part].remove(at);
        assert!(taken as usize + 1 == rows.len(), "each row is at its place");
        if self.parts[part].is_empty() {
            self.parts.remove(part);
        }
        self.count -= 1;
    }

    /// The numbers of the rows from the key `start` to before `end` (empty: to the end).
    pub(super) fn within(&self, rows: &[Row], start: &[u8], end: &[u8]) -> impl DoubleEndedIterator<Item = u32> {
        let behind = Spot { part: self.parts.len(), at: 0 };
        let first = self.find(rows, start);
        let end = if end.is_empty() { behind } else { self.find(rows, end) };
        let part = |number: usize| self.parts.get(number).map_or(&[][..], Vec::as_slice);
        let (head, middle, tail) = if first.part > end.part {
            (&[][..], &[][..], &[][..])
        } else if first.part == end.part {
            (part(first.part).get(first.at..end.at).unwrap_or_default(), &[][..], &[][..])
        } else {
            (&part(first.part)[first.at..], &self.parts[first.part + 1..end.part], &part(end.part)[..end.at])
        };
        head.iter().chain(middle.iter().flatten()).chain(tail).copied()
    }

    /// Before the first row whose key is not below `key`; it may be at the end of the part before.
    fn find(&self, rows: &[Row], key: &[u8]) -> Spot {
        let is_below = |number: u32| rows[number as usize].0[..] < *key;
        let part = self.parts.partition_point(|part| is_below(part[0])).saturating_sub(1);
        let at = self.parts.get(part).map_or(0, |part| part.partition_point(|number| is_below(*number)));
        Spot { part, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use vocab::Prng;

    fn key(n: u64) -> Vec<u8> {
        format!("key{n:06}").into_bytes()
    }

    fn check(order: &InOrder, rows: &[Row], map: &BTreeMap<Vec<u8>, u32>, (from, until): (u64, u64)) {
        let (start, end) = (key(from), if until == 0 { Vec::new() } else { key(until) });
        let in_span = |known: &&Vec<u8>| **known >= start && (end.is_empty() || **known < end);
        let wanted: Vec<u32> = map.iter().filter(|(known, _)| in_span(known)).map(|(_, number)| *number).collect();
        let mut found: Vec<u32> = order.within(rows, &start, &end).collect();
        assert_eq!(found, wanted);
        found.reverse();
        assert_eq!(order.within(rows, &start, &end).rev().collect::<Vec<_>>(), found);
        assert!(order.parts.iter().all(|part| (1..=PART_MAX).contains(&part.len())));
    }

    #[test]
    fn rows_that_come_and_go_are_in_order() {
        for seed in 0..8 {
            let mut prng = Prng::new(seed);
            let (mut order, mut rows, mut map) = (InOrder::default(), Vec::<Row>::new(), BTreeMap::new());
            for step in 0..600 {
                let most = if step % 50 == 0 { 2000 } else { 20 };
                for _ in 0..prng.below(most) {
                    let key = key(prng.below(100_000));
                    if !map.contains_key(&key) {
                        map.insert(key.clone(), rows.len() as u32);
                        rows.push((Slice::from(&key[..]), None));
                    }
                }
                if prng.below(3) > 0 {
                    order.take_in(&rows);
                    check(&order, &rows, &map, (prng.below(100_000), prng.below(100_000)));
                }
                let gone = if step % 90 == 60 { rows.len() as u64 } else { prng.below(20) };
                for _ in 0..gone.min(rows.len() as u64) {
                    order.take_out_last(&rows);
                    map.remove(&rows.pop().map(|(key, _)| key.to_vec()).unwrap_or_default());
                }
                assert!(order.count <= rows.len());
            }
            order.take_in(&rows);
            check(&order, &rows, &map, (0, 0));
        }
    }
}
