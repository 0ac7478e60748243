//! The map, and what open snapshots need of its past.
//!
//! Every open snapshot has a shadow: the values, as of its index, of the keys that were written while it was the
//! newest snapshot. A snapshot's view of a key is in its own shadow, else in the next newer one that has the key, else
//! in the map. So a write costs at most one more insertion, however many snapshots are open, and an overwritten value
//! lives on only where a snapshot can see it.

use crate::dropped::{DroppedPrefixes, prefix_end};
use crate::{Slice, WriteBatch};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a row costs beyond its key and value, in bytes.
const ROW_OVERHEAD_BYTES: u64 = 72;

/// Number of an open snapshot; a newer one has a higher number.
pub(super) type SnapshotId = u64;
type Shadow = BTreeMap<Slice, Option<Slice>>;
/// Bounds of a range of keys.
pub(super) type Bounds = (Bound<Slice>, Bound<Slice>);

/// The map, its snapshots' shadows and its meta records.
#[derive(Default)]
pub(super) struct MemoryState {
    map: BTreeMap<Slice, Slice>,
    shadows: BTreeMap<SnapshotId, Shadow>,
    snapshots_ever: SnapshotId,
    /// Prefixes whose rows may still be in the map; only snapshots up to the number kept here see them.
    dropped: DroppedPrefixes<SnapshotId>,
    /// Records of the layers above, as of the last seal.
    pub(super) meta: BTreeMap<Slice, Slice>,
    bytes: u64,
}

/// The map from one clear or install to the next; snapshots keep theirs.
pub(super) struct Generation(RwLock<MemoryState>);

impl Generation {
    pub(super) fn new(state: MemoryState) -> Arc<Self> {
        Arc::new(Self(RwLock::new(state)))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, MemoryState> {
        self.0.read().expect("a panic in the map is not survived")
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, MemoryState> {
        self.0.write().expect("a panic in the map is not survived")
    }
}

impl MemoryState {
    pub(super) fn new(rows: Vec<(Slice, Slice)>, meta: BTreeMap<Slice, Slice>) -> Self {
        let bytes = rows.iter().map(|(key, value)| row_bytes(key, value)).sum();
        Self { map: rows.into_iter().collect(), meta, bytes, ..Self::default() }
    }

    /// Writes one entry; tells how many bytes it was.
    pub(super) fn apply(&mut self, batch: WriteBatch) -> u64 {
        let mut newest = self.shadows.values_mut().next_back();
        let mut written = 0;
        for (key, value) in batch.writes {
            written += row_bytes(&key, value.as_deref().unwrap_or_default());
            let old = match value {
                Some(value) => {
                    self.bytes += row_bytes(&key, &value);
                    self.map.insert(key.clone(), value)
                }
                None => self.map.remove(&key),
            };
            self.bytes -= old.as_ref().map_or(0, |old| row_bytes(&key, old));
            if let Some(shadow) = &mut newest {
                shadow.entry(key).or_insert(old);
            }
        }
        for prefix in batch.drops {
            written += row_bytes(&prefix, &[]);
            self.dropped.insert(prefix, self.snapshots_ever);
        }
        written
    }

    /// Removes up to `limit` rows of a dropped prefix from the map; true if there may be more. Snapshots keep theirs.
    pub(super) fn collect(&mut self, limit: usize) -> bool {
        let Some((prefix, &last)) = self.dropped.iter().next() else { return false };
        let prefix = prefix.clone();
        let rows = self.map.range::<Slice, _>((Bound::Included(&prefix), Bound::Unbounded));
        let rows = rows.take_while(|(key, _)| key.starts_with(&prefix)).take(limit);
        let keys: Vec<Slice> = rows.map(|(key, _)| key.clone()).collect();
        if keys.len() < limit {
            self.dropped.remove(&prefix);
        }
        let mut seen_by = self.shadows.range_mut(..=last).next_back();
        for key in keys {
            let old = self.map.remove(&key);
            self.bytes -= old.as_ref().map_or(0, |old| row_bytes(&key, old));
            if let Some((_, shadow)) = &mut seen_by {
                shadow.entry(key).or_insert(old);
            }
        }
        !self.dropped.is_empty()
    }

    /// The dropped prefix that hides `key` from a snapshot.
    fn hides(&self, id: SnapshotId, key: &[u8]) -> Option<&Slice> {
        self.dropped.covering(key, |last| id > *last).map(|(prefix, _)| prefix)
    }

    /// Looks at up to `limit` rows from `from` on, and removes those that `keep` does not want. Answers the last one, if
    /// there may be more. Snapshots keep theirs.
    pub(super) fn purge(&mut self, from: Bound<Slice>, limit: usize, keep: &crate::Keep) -> Option<Slice> {
        let rows = self.map.range::<Slice, _>((from, Bound::Unbounded)).take(limit);
        let keys: Vec<Slice> = rows.map(|(key, _)| key.clone()).collect();
        let last = keys.last().filter(|_| keys.len() == limit).cloned();
        // Those below a dropped prefix are `collect`'s: other snapshots see them.
        let unwanted = keys.into_iter().filter(|key| !keep(key) && !self.dropped.covers(key));
        let writes = unwanted.map(|key| (key, None)).collect();
        self.apply(WriteBatch { writes, ..WriteBatch::default() });
        last
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Slice> {
        if self.dropped.covers(key) { None } else { self.map.get(key).cloned() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn open_snapshot(&mut self) -> SnapshotId {
        self.snapshots_ever += 1;
        self.shadows.insert(self.snapshots_ever, Shadow::new());
        self.snapshots_ever
    }

    /// What the snapshot had kept goes to the next older one, which may need it.
    pub(super) fn close_snapshot(&mut self, id: SnapshotId) {
        let shadow = self.shadows.remove(&id).expect("an open snapshot is closed once");
        if let Some((_, older)) = self.shadows.range_mut(..id).next_back() {
            for (key, value) in shadow {
                older.entry(key).or_insert(value);
            }
        }
    }

    pub(super) fn get_at(&self, id: SnapshotId, key: &[u8]) -> Option<Slice> {
        if self.hides(id, key).is_some() {
            return None;
        }
        let kept = self.shadows.range(id..).find_map(|(_, shadow)| shadow.get(key));
        kept.cloned().unwrap_or_else(|| self.map.get(key).cloned())
    }

    /// Up to about `limit` rows of a snapshot at one end of `bounds`, in the order asked for, and the bounds of what is
    /// left, if anything is.
    pub(super) fn rows_at(
        &self,
        id: SnapshotId,
        bounds: Bounds,
        reverse: bool,
        limit: usize,
    ) -> (Vec<(Slice, Slice)>, Option<Bounds>) {
        let mut horizon: Option<Slice> = None;
        let mut found: BTreeMap<Slice, Option<Slice>> = BTreeMap::new();
        let mut note = |rows: Vec<(Slice, Option<Slice>)>| {
            if rows.len() == limit {
                let last = rows.last().expect("the limit is not 0").0.clone();
                let nearer = horizon.as_ref().is_none_or(|at| if reverse { last > *at } else { last < *at });
                if nearer {
                    horizon = Some(last);
                }
            }
            for (key, value) in rows {
                found.entry(key).or_insert(value);
            }
        };
        for (_, shadow) in self.shadows.range(id..) {
            note(self.first(id, shadow, &bounds, reverse, limit));
        }
        let rows = self.first(id, &self.map, &bounds, reverse, limit);
        note(rows.into_iter().map(|(key, value)| (key, Some(value))).collect());
        // Beyond the horizon some source was not asked to its end.
        let within = |key: &Slice| horizon.as_ref().is_none_or(|at| if reverse { key >= at } else { key <= at });
        let rows = found.into_iter().filter(|(key, _)| within(key)).filter_map(|(key, value)| Some((key, value?)));
        let rows: Vec<_> = if reverse { rows.rev().collect() } else { rows.collect() };
        let left = horizon.map(|at| match reverse {
            false => (Bound::Excluded(at), bounds.1),
            true => (bounds.0, Bound::Excluded(at)),
        });
        (rows, left.filter(|bounds| !is_empty(bounds)))
    }

    /// Up to `limit` rows of `map` at one end of `bounds` that a snapshot sees.
    fn first<V: Clone>(
        &self,
        id: SnapshotId,
        map: &BTreeMap<Slice, V>,
        bounds: &Bounds,
        reverse: bool,
        limit: usize,
    ) -> Vec<(Slice, V)> {
        let mut bounds = bounds.clone();
        let mut found = Vec::new();
        while !is_empty(&bounds) {
            let mut rows = map.range::<Slice, _>(bounds.clone());
            let next = || if reverse { rows.next_back() } else { rows.next() };
            let mut hidden = None;
            for (key, value) in std::iter::from_fn(next).take(limit - found.len()) {
                hidden = self.hides(id, key);
                if hidden.is_some() {
                    break;
                }
                found.push((key.clone(), value.clone()));
            }
            // On, behind all rows of the same prefix.
            let Some(prefix) = hidden else { break };
            let end = prefix_end(prefix);
            bounds = match reverse {
                true => (bounds.0, Bound::Excluded(prefix.clone())),
                false if end.is_empty() => break,
                false => (Bound::Included(end), bounds.1),
            };
        }
        found
    }
}

/// Whether no key can lie between: such bounds make a map panic.
fn is_empty((low, high): &Bounds) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
    }
}

fn row_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES
}
