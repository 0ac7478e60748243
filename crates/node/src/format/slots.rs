//! The slots that a shard owns, and which rows of its tree belong to them.
//!
//! A forked tree holds rows of slots that another shard owns, until they are purged: no command may see them.
//! Some rows belong to no slot: what is remembered of numbered requests is for both shards to know.
//!
//! As a record in the tree's meta space, so that it is exactly as of the tree's index:
//! ```text
//! u8 format (1), u8 flags (bit 0: rows of other slots may be in the tree), then ranges: u16 first, u16 last; little-endian
//! ```

use crate::format::keys::{self, Home};
use std::sync::Arc;
use storage::{Cursor, Error, HeldBlock, Keep, Look, Result, Short, Slice, Snapshot, Span};
use vocab::{Slot, slot_of};

const FORMAT: u8 = 1;
const FLAG_PARTIAL: u8 = 1;

/// Ranges of slots, rising, with a gap between one and the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    ranges: Vec<(u16, u16)>,
    /// Rows of other slots may be in the tree.
    partial: bool,
}

impl From<(u16, u16)> for Slots {
    fn from(range: (u16, u16)) -> Self {
        Self { ranges: vec![range], partial: false }
    }
}

impl From<Vec<(u16, u16)>> for Slots {
    fn from(ranges: Vec<(u16, u16)>) -> Self {
        Self { ranges, partial: false }
    }
}

impl Slots {
    /// The ranges: first and last, both included.
    #[must_use]
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }

    /// First and last slot; (0, 0) if there is none.
    #[must_use]
    pub fn span(&self) -> (u16, u16) {
        match (self.ranges.first(), self.ranges.last()) {
            (Some(first), Some(last)) => (first.0, last.1),
            _ => (0, 0),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.ranges.iter().flat_map(|&(first, last)| first..=last).map(Slot)
    }

    /// Whether `slot` is one of them.
    #[must_use]
    pub fn owns(&self, slot: Slot) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&slot.0))
    }

    /// Whether `other` could be given away: all of it is owned, and something is left.
    #[must_use]
    pub fn can_spare(&self, other: &Self) -> bool {
        let within = |&(first, last): &(u16, u16)| {
            first <= last && self.ranges.iter().any(|&(from, to)| from <= first && last <= to)
        };
        let rises = other.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        !other.ranges.is_empty() && rises && other.ranges.iter().all(within) && other.count() < self.count()
    }

    /// Whether none of `other` is owned.
    #[must_use]
    pub(crate) fn has_none_of(&self, other: &Self) -> bool {
        other.iter().all(|slot| !self.owns(slot))
    }

    /// What is left without `gone`, of a tree that still holds rows of it.
    #[must_use]
    pub(crate) fn without(&self, gone: &Self) -> Self {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in self.iter().filter(|slot| !gone.owns(*slot)) {
            match ranges.last_mut() {
                Some(last) if last.1 + 1 == slot.0 => last.1 = slot.0,
                _ => ranges.push((slot.0, slot.0)),
            }
        }
        Self { ranges, partial: true }
    }

    /// The same slots, of a tree that holds rows of others too.
    #[must_use]
    pub(crate) fn of_forked(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Where they fall into two parts whose weights are the most alike: the first slot of the upper part, and the weight of
    /// the heavier one, of a thousand. None if there is only one slot.
    #[must_use]
    pub(crate) fn halves(&self, weight: impl Fn(Slot) -> u64) -> Option<(Slot, u16)> {
        // Empty slots count a little, so that a shard without rows is halved by slots. Each is asked once: what is counted
        // meanwhile must not make a part weigh more than the whole.
        let weights: Vec<(Slot, u128)> = self.iter().map(|slot| (slot, 1024 * u128::from(weight(slot)) + 1)).collect();
        let total: u128 = weights.iter().map(|(_, weight)| weight).sum();
        let mut below = 0;
        let mut best: Option<(Slot, u128)> = None;
        for (&(_, before), &(slot, _)) in weights.iter().zip(weights.iter().skip(1)) {
            below += before;
            let heavier = below.max(total - below);
            if best.is_some_and(|(_, best)| best <= heavier) {
                // The lower part only grows from here on.
                break;
            }
            best = Some((slot, heavier));
        }
        best.map(|(slot, heavier)| (slot, (heavier * 1000 / total) as u16))
    }

    /// Whether the row of a tree key is one of these slots', or of none.
    fn keeps(&self, tree_key: &[u8]) -> bool {
        let timed = || keys::parse_expiry(tree_key).or_else(|| keys::parse_fields_due(tree_key));
        let of_timed = || timed().map(|(_, key)| key);
        let rows = keys::parse_staged(tree_key).map_or(tree_key, |(_, prefix)| prefix);
        let slot = match keys::parse_collection(rows).map(|collection| collection.home) {
            Some(Home::Id(slot, _)) => Some(slot),
            Some(Home::Key(key, _)) => Some(slot_of(key)),
            None => keys::key_of_record(tree_key).or_else(of_timed).map(slot_of),
        };
        slot.is_none_or(|slot| self.owns(slot))
    }

    /// For a tree of these slots.
    pub(crate) fn keep(self: &Arc<Self>) -> Keep {
        let slots = self.clone();
        Arc::new(move |tree_key| slots.keeps(tree_key))
    }

    /// Whether the tree may hold rows of other slots.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, if self.partial { FLAG_PARTIAL } else { 0 }];
        for (first, last) in &self.ranges {
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&last.to_le_bytes());
        }
        bytes
    }

    /// What `encode` wrote.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, &'static str> {
        let (&[format, flags], ranges) = bytes.split_first_chunk().ok_or("the record of the slots is cut short")?;
        let (ranges, rest) = ranges.as_chunks::<4>();
        if format != FORMAT || flags & !FLAG_PARTIAL != 0 || !rest.is_empty() {
            return Err("the record of the slots has an unknown format");
        }
        let range = |[a, b, c, d]: &[u8; 4]| (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        let ranges: Vec<(u16, u16)> = ranges.iter().map(range).collect();
        let rises = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        if !rises || ranges.iter().any(|&(first, last)| first > last || last >= vocab::SLOT_COUNT) {
            return Err("the record of the slots makes no sense");
        }
        Ok(Self { ranges, partial: flags & FLAG_PARTIAL != 0 })
    }
}

/// A snapshot of a tree without the rows of other slots.
pub(crate) struct OwnedRows {
    rows: Box<dyn Snapshot>,
    slots: Arc<Slots>,
}

impl OwnedRows {
    pub(crate) fn of(rows: Box<dyn Snapshot>, slots: Arc<Slots>) -> Self {
        Self { rows, slots }
    }
}

impl Snapshot for OwnedRows {
    fn index(&self) -> u64 {
        self.rows.index()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        if self.slots.keeps(key) { self.rows.get(key) } else { Ok(None) }
    }

    fn get_short(&self, key: &[u8], bytes_max: usize) -> Result<Short> {
        if self.slots.keeps(key) { self.rows.get_short(key, bytes_max) } else { Ok(Short::Found(None)) }
    }

    fn look(&self, key: &[u8], held: &[HeldBlock]) -> Look {
        if self.slots.keeps(key) { self.rows.look(key, held) } else { Look::Found(None) }
    }

    fn sample(&self, span: &Span, below: &mut dyn FnMut(u64) -> u64) -> Result<Option<Slice>> {
        for _ in 0..SAMPLES_MAX {
            let Some(key) = self.rows.sample(span, below)? else { break };
            if self.slots.keeps(&key) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn cursor(&self, span: Span, reverse: bool) -> Box<dyn Cursor + '_> {
        let rows = self.rows.cursor(span, reverse);
        Box::new(OwnedCursor { rows, slots: &self.slots, passed: 0, passed_max: u64::MAX })
    }
}

/// Rows of other slots that one sample may hit: after a split, half of the rows are, until they are purged.
const SAMPLES_MAX: usize = 64;

struct OwnedCursor<'a> {
    rows: Box<dyn Cursor + 'a>,
    slots: &'a Slots,
    /// Rows of other slots so far, and how many there may be. They cost a scan what removals do, and are removed in the background.
    passed: u64,
    passed_max: u64,
}

impl Cursor for OwnedCursor<'_> {
    fn advance(&mut self) -> Result<Option<Slice>> {
        while let Some(key) = self.rows.advance()? {
            if self.slots.keeps(&key) {
                return Ok(Some(key));
            }
            self.passed += 1;
            if self.passed > self.passed_max {
                return Err(Error::ManyRemovals);
            }
        }
        Ok(None)
    }

    fn pass_at_most(&mut self, removals: u64) {
        self.passed_max = self.passed.saturating_add(removals);
        self.rows.pass_at_most(removals);
    }

    fn value(&mut self) -> Result<Slice> {
        self.rows.value()
    }

    fn value_head(&mut self) -> Result<Slice> {
        self.rows.value_head()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn slots_are_given_away() {
        let all = Slots::from((10, 29));
        for (gone, left) in [
            (vec![(20, 29)], vec![(10, 19)]),
            (vec![(10, 10)], vec![(11, 29)]),
            (vec![(12, 13), (20, 20)], vec![(10, 11), (14, 19), (21, 29)]),
        ] {
            let gone = Slots::from(gone);
            assert!(all.can_spare(&gone));
            let rest = all.without(&gone);
            assert_eq!((rest.ranges(), rest.is_partial()), (&left[..], true));
            assert_eq!(rest.count() + gone.count(), all.count());
            assert!(!rest.can_spare(&gone), "twice");
            assert!(rest.has_none_of(&gone) && !all.has_none_of(&gone));
            assert_eq!(Slots::from(left).without(&gone), rest, "known to be gone, their rows are not yet hidden");
            assert_eq!(Slots::decode(&rest.encode()), Ok(rest));
        }
        for not in [vec![], vec![(10, 29)], vec![(9, 12)], vec![(15, 14)], vec![(12, 13), (11, 11)], vec![(28, 30)]] {
            assert!(!all.can_spare(&Slots::from(not)));
        }
        for bad in [&b"\x01"[..], b"\x02\0", b"\x01\x02", b"\x01\0\x01", b"\x01\0\x05\0\x04\0", b"\x01\0\0\0\0\x40"] {
            assert!(Slots::decode(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn halves_weigh_the_same() {
        let slots = Slots::from(vec![(0, 3), (8, 11)]);
        assert_eq!(slots.halves(|_| 0), Some((Slot(8), 500)), "by slots where there is nothing");
        assert_eq!(slots.halves(|slot| u64::from(slot.0 == 0) * 100), Some((Slot(1), 999)));
        assert_eq!(slots.halves(|slot| u64::from(slot.0 == 11) * 100), Some((Slot(11), 999)));
        assert_eq!(slots.halves(|slot| u64::from(slot.0)), Some((Slot(10), 522)));
        // The heaviest goes to where it makes the parts more alike.
        let weights = [35, 0, 0, 40, 25, 0, 0, 0];
        let heavy = |slot: Slot| slots.iter().zip(weights).find(|(of, _)| *of == slot).map_or(0, |(_, weight)| weight);
        assert_eq!(slots.halves(heavy), Some((Slot(3), 649)));
        assert_eq!(Slots::from((5, 5)).halves(|_| 7), None);
        // Operations are counted while they are looked at.
        let asked = std::cell::Cell::new(0);
        let counted = |_| {
            asked.set(asked.get() + 1);
            asked.get() * asked.get()
        };
        assert!(slots.halves(counted).is_some_and(|(_, heavier)| heavier <= 1000));
    }

    #[test]
    fn rows_of_other_slots_are_passed_over_up_to_a_bound_and_looked_for_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let resources = storage::SharedResources::new(storage::StorageOptions::default());
        let engine = storage::open_engine(storage::EngineKind::Lsm, folder.path(), &resources).unwrap();
        let names: Vec<Vec<u8>> = (0..100).map(|i| format!("key{i:02}").into_bytes()).collect();
        let writes = names.iter().map(|name| (keys::record(name).into(), Some(Slice::from(b"v")))).collect();
        engine.apply(1, storage::WriteBatch { writes, ..storage::WriteBatch::default() });
        let slot = slot_of(&names[99]).0;
        let rows = OwnedRows::of(engine.snapshot(), Arc::new(Slots::from((slot, slot))));
        let all = Span { start: Vec::new(), end: Vec::new() };
        let found = |passed: Option<u64>| {
            let mut cursor = rows.cursor(all.clone(), false);
            passed.iter().for_each(|passed| cursor.pass_at_most(*passed));
            cursor.advance().map(|key| key.map(|key| key.to_vec()))
        };
        let last = Some(keys::record(&names[99]).to_vec());
        assert!(matches!(found(None), Ok(key) if key == last) && matches!(found(Some(99)), Ok(key) if key == last));
        assert!(matches!(found(Some(98)), Err(Error::ManyRemovals)));
        let look = |name: &[u8]| rows.look(&keys::record(name), &[]);
        assert!(matches!(look(&names[99]), Look::Found(Some(_))) && matches!(look(&names[0]), Look::Found(None)));
    }

    #[test]
    fn rows_go_with_their_key() {
        let slots = Arc::new(Slots::from((0, 8191)));
        let keep = slots.keep();
        for i in 0..200 {
            let key = format!("key{i}").into_bytes();
            let owned = slot_of(&key).0 < 8192;
            let rows = [
                keys::record(&key),
                keys::expiry(7, &key),
                keys::garbage(&keys::keyed_rows(&key, 1)),
                keys::element(&keys::rows(slot_of(&key), 1), b"f"),
                keys::staged(7, &keys::rows(slot_of(&key), 1)),
            ];
            assert!(rows.iter().all(|row| keep(row) == owned));
        }
        assert!(keep(&keys::requests(b"client")) && keep(&keys::forgetting(3, b"client")) && keep(keys::MAP));
    }
}
