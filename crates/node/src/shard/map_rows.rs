//! The map in the metadata group's tree: a row with a whole map, and a row for each change since.
//!
//! The same on every replica, since it follows from the entries alone: a row of a change is written for its entry; the whole
//! map is written anew once the changes take as much as it does. Rows that this makes useless are passed over, and removed a
//! few at a time by the entries that follow.

use crate::format::keys;
use crate::shard_handle::ShardHandle;
use cluster::{Change, MadeChange, Map};
use storage::{Slice, Span};
use vocab::Epoch;

/// The changes of a small map take so much at least before the map is written whole, in bytes.
const CHANGES_BYTES_MIN: u64 = 64 * 1024;
/// Useless rows that one entry removes: more than one entry adds.
const REMOVED_AT_ONCE: usize = 4;

/// What is written to the tree, or removed from it.
type Writes = Vec<(Slice, Option<Slice>)>;

/// Which rows there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MapRows {
    /// The epoch of the whole map.
    whole: Epoch,
    /// Its length in bytes.
    whole_bytes: u64,
    /// Bytes of the changes since.
    change_bytes: u64,
    /// The epoch of the oldest change that has a row. Those up to `whole` are useless.
    first: Epoch,
}

impl MapRows {
    /// The map that a tree holds, as of its applied index; none before the first entry.
    pub(super) fn load(handle: &ShardHandle) -> storage::Result<Option<(Map, Self)>> {
        let snapshot = handle.engine().snapshot();
        let span = Span { start: keys::MAP.to_vec(), end: keys::map_end() };
        let mut cursor = snapshot.cursor(span, false);
        let Some(key) = cursor.advance()? else { return Ok(None) };
        if &key[..] != keys::MAP {
            return Err(handle.corrupt("changes of a map that is not there"));
        }
        let bytes = cursor.value()?;
        let mut map = Map::decode(&bytes).map_err(|e| handle.corrupt(&format!("the map: {e}")))?;
        let mut rows = Self { whole: map.epoch, whole_bytes: bytes.len() as u64, change_bytes: 0, first: Epoch(0) };
        while let Some(key) = cursor.advance()? {
            let epoch = keys::epoch_of_change(&key).map(Epoch);
            let epoch = epoch.ok_or_else(|| handle.corrupt("a change of the map without an epoch"))?;
            if rows.first == Epoch(0) {
                rows.first = epoch;
            }
            if epoch <= rows.whole {
                continue;
            }
            let bytes = cursor.value()?;
            let fail = |why: &dyn std::fmt::Display| handle.corrupt(&format!("change {epoch} of the map: {why}"));
            let change = Change::decode(&bytes).map_err(|e| fail(&e))?;
            cluster::apply(&mut map, &change).map_err(|e| fail(&e))?;
            if map.epoch != epoch {
                return Err(fail(&format!("it makes map {}", map.epoch)));
            }
            rows.change_bytes += bytes.len() as u64;
        }
        if rows.first == Epoch(0) {
            rows.first = Epoch(map.epoch.0 + 1);
        }
        Ok(Some((map, rows)))
    }

    /// The rows of a tree that has this map whole and nothing else, and the write that makes them so.
    pub(super) fn begin(map: &Map) -> (Self, Writes) {
        let mut rows = Self { first: Epoch(map.epoch.0 + 1), ..Self::default() };
        let mut writes = Vec::new();
        rows.keep_whole(map, &mut writes);
        (rows, writes)
    }

    /// What keeping the newest map writes; `change` made it, if it is to be kept as such.
    pub(super) fn keep(&mut self, map: &Map, change: Option<&MadeChange>) -> Writes {
        let mut writes = Vec::new();
        match change {
            Some(change)
                if self.change_bytes + change.bytes.len() as u64 <= self.whole_bytes.max(CHANGES_BYTES_MIN) =>
            {
                writes.push((Slice::from(keys::map_change(change.epoch.0)), Some(Slice::from(&change.bytes[..]))));
                self.change_bytes += change.bytes.len() as u64;
            }
            _ => self.keep_whole(map, &mut writes),
        }
        // Not every epoch has a row: removing one that is not there is harmless.
        for _ in 0..REMOVED_AT_ONCE {
            if self.first <= self.whole {
                writes.push((Slice::from(keys::map_change(self.first.0)), None));
                self.first.0 += 1;
            }
        }
        writes
    }

    fn keep_whole(&mut self, map: &Map, writes: &mut Writes) {
        let bytes = map.encode();
        (self.whole, self.whole_bytes, self.change_bytes) = (map.epoch, bytes.len() as u64, 0);
        writes.push((Slice::from(keys::MAP), Some(Slice::from(bytes))));
    }
}
