//! What the log holds about one group, as replaying its items gives it.

use super::item::What;
use std::collections::{BTreeMap, VecDeque};

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryPlace {
    pub(super) file: u32,
    pub(super) block_at: u64,
    pub(super) block_length: u64,
    pub(super) at: u32,
    pub(super) length: u32,
}

/// One group's part of the log. Invariant: `places` are those of the entries `first`, `first + 1` and so on.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) first: u64,
    pub(super) places: VecDeque<EntryPlace>,
    pub(super) values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Group {
    /// Takes over one item, as opening the log does; `place` makes the place of an entry of its span.
    pub(super) fn replay(&mut self, what: What, place: impl Fn((u32, u32)) -> EntryPlace) {
        match what {
            What::Entries { spans, .. } if spans.is_empty() => {}
            What::Entries { first, spans } => {
                self.make_room(first);
                self.places.extend(spans.into_iter().map(place));
            }
            What::Clean => *self = Self::default(),
            What::Compact(index) => {
                let gone = index.saturating_sub(self.first).min(self.places.len() as u64);
                self.places.drain(..gone as usize);
                self.first = self.first.max(index);
            }
            What::Put(key, value) => drop(self.values.insert(key, value)),
            What::Delete(key) => drop(self.values.remove(&key)),
        }
    }

    /// Makes `first` the next index: what it overwrites goes, and everything if there would be a hole.
    fn make_room(&mut self, first: u64) {
        let kept = first.checked_sub(self.first).filter(|&kept| kept <= self.places.len() as u64);
        match kept {
            Some(kept) if !self.places.is_empty() => self.places.truncate(kept as usize),
            _ => {
                self.places.clear();
                self.first = first;
            }
        }
    }

    /// Index of the last entry, if there is one.
    pub(super) fn last(&self) -> Option<u64> {
        (!self.places.is_empty()).then(|| self.first + self.places.len() as u64 - 1)
    }

    /// Where entry `index` is.
    pub(super) fn place(&self, index: u64) -> Option<EntryPlace> {
        self.places.get(usize::try_from(index.checked_sub(self.first)?).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(group: &mut Group, first: u64, count: u32, file: u32) {
        let what = What::Entries { first, spans: (0..count).map(|i| (i, 1)).collect() };
        group.replay(what, |(at, length)| EntryPlace { file, block_at: 0, block_length: 0, at, length });
    }

    fn shape(group: &Group) -> (u64, Vec<u32>) {
        (group.first, group.places.iter().map(|place| place.file).collect())
    }

    #[test]
    fn later_entries_replace_and_holes_forget() {
        let mut group = Group::default();
        entries(&mut group, 1, 4, 1);
        entries(&mut group, 3, 3, 2);
        assert_eq!(shape(&group), (1, vec![1, 1, 2, 2, 2]));
        group.replay(What::Compact(3), |_| unreachable!());
        assert_eq!((shape(&group), group.last()), ((3, vec![2, 2, 2]), Some(5)));
        group.replay(What::Compact(9), |_| unreachable!());
        assert_eq!((group.last(), group.place(5)), (None, None));
        entries(&mut group, 9, 1, 3);
        entries(&mut group, 12, 2, 4);
        assert_eq!(shape(&group), (12, vec![4, 4]));
        entries(&mut group, 10, 1, 5);
        assert_eq!(shape(&group), (10, vec![5]));
    }
}
