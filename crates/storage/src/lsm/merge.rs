//! The newest visible version of each key of several sources, in rising or in falling order of the keys.
//!
//! Why not lsm-tree's own range: it seeks the end of the range in every table as well as its beginning, and it reads
//! ahead. Most scans take few rows of many trees, so that seeks are what they cost. Here each source is sought once,
//! and moves on only when a further row is asked for.
//!
//! Invariant: no head is of the key given last, but for that of the source that it was taken from.

use crate::Slice;
use lsm_tree::InternalValue;
use std::cmp::Ordering;

/// The entries of one source, in order of key and falling seqno.
pub(super) type Entries<'a> = Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>> + 'a>;

/// Which way the keys go, and up to where.
pub(super) enum Direction {
    /// To before `end`; empty: to the end.
    Rising { end: Slice },
    /// To `start`.
    Falling { start: Slice },
}

struct Source<'a> {
    entries: Entries<'a>,
    head: Option<InternalValue>,
}

/// The merged entries. Removals are among the entries.
pub(super) struct Merge<'a> {
    sources: Vec<Source<'a>>,
    /// Those that have a head, in falling order of these: the next entry is the last one's. Where one source has most of the rows,
    /// a row costs one comparison.
    order: Vec<usize>,
    /// Entries from this seqno on are not visible.
    seqno: u64,
    direction: Direction,
    /// The key given last, and the source that it came from, which is to move on.
    last: Option<(Slice, usize)>,
    begun: bool,
}

impl Direction {
    fn includes(&self, key: &Slice) -> bool {
        match self {
            Self::Rising { end } => end.is_empty() || key < end,
            Self::Falling { start } => key >= start,
        }
    }

    /// Which of two keys comes first.
    fn compare(&self, a: &Slice, b: &Slice) -> Ordering {
        match self {
            Self::Rising { .. } => a.cmp(b),
            Self::Falling { .. } => b.cmp(a),
        }
    }
}

impl<'a> Merge<'a> {
    /// Merges sources that begin with the first key of the range in this direction.
    pub(super) fn new(sources: impl Iterator<Item = Entries<'a>>, direction: Direction, seqno: u64) -> Self {
        let sources = sources.map(|entries| Source { entries, head: None }).collect();
        Self { sources, order: Vec::new(), seqno, direction, last: None, begun: false }
    }

    /// Fills the heads that the last entry has used up.
    fn refill(&mut self) -> lsm_tree::Result<()> {
        if !self.begun {
            self.begun = true;
            return (0..self.sources.len()).try_for_each(|source| self.advance(source, None));
        }
        let Some((last, taken)) = self.last.take() else { return Ok(()) };
        self.advance(taken, Some(&last))?;
        // Other heads of that key are the next ones, for no head lies before it.
        while let Some(next) = self.order.pop_if(|next| self.sources[*next].has(&last)) {
            self.advance(next, Some(&last))?;
        }
        Ok(())
    }

    /// Moves a source that is not in the order to its next entry that is not of the key `last`, and puts it in.
    fn advance(&mut self, source: usize, last: Option<&Slice>) -> lsm_tree::Result<()> {
        self.sources[source].advance(self.seqno, &self.direction, last)?;
        let Some(new) = &self.sources[source].head else { return Ok(()) };
        let mut at = self.order.len();
        while let Some(other) = at.checked_sub(1).map(|before| self.order[before])
            && let Some(head) = &self.sources[other].head
        {
            let keys = self.direction.compare(&head.key.user_key, &new.key.user_key);
            // Among entries of one key, the newest comes first.
            let order = keys.then(new.key.seqno.cmp(&head.key.seqno)).then(other.cmp(&source));
            if order.is_gt() {
                break;
            }
            at -= 1;
        }
        self.order.insert(at, source);
        Ok(())
    }
}

impl Source<'_> {
    /// Whether its head is of that key.
    fn has(&self, key: &Slice) -> bool {
        self.head.as_ref().is_some_and(|head| head.key.user_key == *key)
    }

    /// Moves to the next visible entry within the range that is not of the key `last`.
    fn advance(&mut self, seqno: u64, direction: &Direction, last: Option<&Slice>) -> lsm_tree::Result<()> {
        self.head = None;
        for entry in self.entries.by_ref() {
            let entry = entry?;
            if entry.key.seqno < seqno && Some(&entry.key.user_key) != last {
                self.head = direction.includes(&entry.key.user_key).then_some(entry);
                break;
            }
        }
        Ok(())
    }
}

impl Iterator for Merge<'_> {
    type Item = lsm_tree::Result<InternalValue>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.refill() {
            return Some(Err(error));
        }
        let first = self.order.pop()?;
        let entry = self.sources[first].head.take()?;
        self.last = Some((entry.key.user_key.clone(), first));
        Some(Ok(entry))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use lsm_tree::ValueType;
    use std::collections::BTreeMap;
    use vocab::Prng;

    fn entries(rows: &[(Slice, u64)]) -> Entries<'_> {
        let entry = |(key, seqno): (Slice, u64)| {
            Ok(InternalValue::from_components(key, Slice::from(seqno.to_le_bytes()), seqno, ValueType::Value))
        };
        Box::new(rows.iter().cloned().map(entry))
    }

    #[test]
    fn it_gives_the_newest_visible_version_of_each_key_in_order() {
        for seed in 0..300 {
            let mut prng = Prng::new(seed);
            let (sources, keys) = (prng.below(7), 1 + prng.below(40));
            let (visible, bound) = (prng.below(120), Slice::from(prng.below(40).to_be_bytes()));
            let mut seqno = 0;
            let mut all: Vec<Vec<(Slice, u64)>> = (0..sources).map(|_| Vec::new()).collect();
            for _ in 0..prng.below(150) * sources.min(1) {
                seqno += 1;
                let key = Slice::from(prng.below(keys).to_be_bytes());
                all[prng.below(sources) as usize].push((key, seqno));
            }
            for falls in [false, true] {
                let is_within = |key: &Slice| if falls { *key >= bound } else { *key < bound };
                let mut model = BTreeMap::<Slice, u64>::new();
                for (key, seqno) in all.iter().flatten().filter(|(key, seqno)| *seqno < visible && is_within(key)) {
                    let newest = model.entry(key.clone()).or_default();
                    *newest = (*newest).max(*seqno);
                }
                let mut expected: Vec<(Slice, u64)> = model.into_iter().collect();
                let direction = if falls {
                    expected.reverse();
                    Direction::Falling { start: bound.clone() }
                } else {
                    Direction::Rising { end: bound.clone() }
                };
                for rows in &mut all {
                    rows.sort_by(|a, b| direction.compare(&a.0, &b.0).then(b.1.cmp(&a.1)));
                }
                let mut merge = Merge::new(all.iter().map(|rows| entries(rows)), direction, visible);
                let mut found = Vec::new();
                for entry in merge.by_ref() {
                    let entry = entry.unwrap();
                    found.push((entry.key.user_key, entry.key.seqno));
                }
                assert_eq!(found, expected, "seed {seed}, {}", if falls { "falling" } else { "rising" });
                assert!(merge.next().is_none());
            }
        }
    }
}
