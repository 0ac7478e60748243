//! One part of the row cache: a table of rows, and the hand of its clock.
//!
//! Invariant: `bytes()` (rows, table and what the allocator adds) never exceeds `bytes_max` between two calls.

use super::{CacheStats, SEGMENT_PART_MAX};
use crate::Slice;
use crate::allocation::heap_bytes;
use hashbrown::HashTable;

/// For so many bytes of rows, one that was refused is remembered.
const BYTES_PER_REFUSED: usize = 512;
/// The smallest table, in bytes.
const TABLE_BYTES_MIN: usize = 512;

pub(super) struct Segment {
    rows: HashTable<Row>,
    /// Of rows that were refused of late, a part of the hash, at a place that the hash says; 0: none.
    refused: Box<[u16]>,
    /// From so many rows on, the table has no place for more unless others go.
    places: usize,
    /// Of the rows' own allocations.
    row_bytes: usize,
    bytes_max: usize,
    /// The bucket that is looked at next when there is no room.
    hand: usize,
    hits: u64,
    misses: u64,
    evictions: u64,
}

/// A short key lies in the table. The value is shared with whoever wrote it, as a rule the tree's memtable.
pub(super) struct Row {
    hash: u64,
    key: Slice,
    value: Slice,
    shard: u32,
    epoch: u32,
    hit: bool,
}

impl Row {
    pub(super) fn value(&self) -> &Slice {
        &self.value
    }

    fn is(&self, hash: u64, shard: u32, key: &[u8]) -> bool {
        self.hash == hash && self.shard == shard && self.key == key
    }

    fn cost(&self) -> usize {
        cost(&self.key, &self.value)
    }
}

impl Segment {
    pub(super) fn new(bytes_max: usize) -> Self {
        let refused = refused_for(bytes_max);
        Self {
            rows: HashTable::new(),
            refused,
            places: usize::MAX,
            row_bytes: 0,
            bytes_max,
            hand: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
        }
    }

    /// The row, marked as hit.
    pub(super) fn find(&mut self, hash: u64, shard: u32, epoch: u32, key: &[u8]) -> Option<&Row> {
        let found = self.rows.find_mut(hash, |row| row.is(hash, shard, key) && row.epoch == epoch);
        match found {
            Some(row) => {
                self.hits += 1;
                row.hit = true;
                Some(row)
            }
            None => {
                self.misses += 1;
                None
            }
        }
    }

    pub(super) fn contains(&self, hash: u64, shard: u32, epoch: u32, key: &[u8]) -> bool {
        self.rows.find(hash, |row| row.is(hash, shard, key) && row.epoch == epoch).is_some()
    }

    pub(super) fn remove(&mut self, hash: u64, shard: u32, key: &[u8]) {
        if let Ok(entry) = self.rows.find_entry(hash, |row| row.is(hash, shard, key)) {
            self.row_bytes -= entry.remove().0.cost();
        }
    }

    /// Puts a row in the place of an older one, or of those that were not hit; false if it is too large.
    pub(super) fn insert(&mut self, hash: u64, shard: u32, epoch: u32, key: &[u8], value: Slice) -> bool {
        if key.len() + value.len() > self.bytes_max / SEGMENT_PART_MAX {
            self.remove(hash, shard, key);
            return false;
        }
        if let Some(row) = self.rows.find_mut(hash, |row| row.is(hash, shard, key)) {
            self.row_bytes = self.row_bytes - heap_bytes(row.value.len()) + heap_bytes(value.len());
            row.value = value;
            row.epoch = epoch;
            self.make_room(0);
            return true;
        }
        let new = Row { hash, key: Slice::from(key), value, shard, epoch, hit: false };
        let added = new.cost();
        self.make_room(added);
        if !self.has_place() {
            return false;
        }
        self.rows.insert_unique(hash, new, |row| row.hash);
        self.row_bytes += added;
        true
    }

    /// Whether a row may come in: there is room for it, or it was refused before, not long ago.
    pub(super) fn admits(&mut self, hash: u64, key: &[u8], value: &[u8]) -> bool {
        let added = cost(key, value);
        let has_room = self.bytes() + added <= self.bytes_max && self.rows.len() < self.places;
        if has_room || self.refused.is_empty() {
            return true;
        }
        // Segments and stripes are by higher bits, places in the table by lower ones.
        let (place, tag) = ((hash >> 8) as usize % self.refused.len(), (hash >> 24) as u16 | 1);
        let known = self.refused[place] == tag;
        self.refused[place] = if known { 0 } else { tag };
        known
    }

    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        (self.refused, self.places) = (refused_for(bytes_max), usize::MAX);
        while self.bytes() > bytes_max {
            let keep = self.rows.len() / 4 * 3;
            while self.rows.len() > keep && self.evict() {}
            self.rows.shrink_to(0, |row| row.hash);
        }
    }

    pub(super) fn add_to(&self, sum: &mut CacheStats) {
        sum.hits += self.hits;
        sum.misses += self.misses;
        sum.evictions += self.evictions;
        sum.rows += self.rows.len() as u64;
        sum.bytes += self.bytes() as u64;
        sum.bytes_max += self.bytes_max as u64;
    }

    fn bytes(&self) -> usize {
        self.row_bytes + self.rows.allocation_size() + size_of_val(&*self.refused)
    }

    /// Evicts until `added` bytes fit.
    fn make_room(&mut self, added: usize) {
        while self.bytes() + added > self.bytes_max && self.evict() {}
    }

    /// Makes a place in the table for one more row; false if there is no memory for a table at all.
    ///
    /// A table fills up with the places of rows that are gone. Left to itself it would then double; here it is built
    /// anew, and grows only if it is full of rows and a larger one fits. (For a moment both exist: that is a
    /// thousandth of the cache.)
    fn has_place(&mut self) -> bool {
        if self.rows.len() < self.rows.capacity() {
            return true;
        }
        let buckets = self.rows.num_buckets();
        let full = self.rows.len() >= buckets / 4 * 3;
        if full && self.row_bytes + (self.rows.allocation_size() * 2).max(TABLE_BYTES_MIN) <= self.bytes_max {
            self.places = usize::MAX;
            return true;
        }
        let kept = buckets / 8 * 5;
        if full {
            self.places = kept;
        }
        while self.rows.len() > kept && self.evict() {}
        if self.rows.capacity() == 0 {
            return false;
        }
        self.rebuild(buckets / 8 * 7);
        self.rows.len() < self.rows.capacity()
    }

    fn rebuild(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.rows, HashTable::with_capacity(capacity));
        for row in old {
            self.rows.insert_unique(row.hash, row, |row| row.hash);
        }
    }

    /// Removes the next row that was not hit since the hand last passed; false if there is none at all.
    fn evict(&mut self) -> bool {
        if self.rows.is_empty() {
            return false;
        }
        loop {
            self.hand = (self.hand + 1) % self.rows.num_buckets();
            let Ok(mut entry) = self.rows.get_bucket_entry(self.hand) else { continue };
            if std::mem::take(&mut entry.get_mut().hit) {
                continue;
            }
            self.row_bytes -= entry.remove().0.cost();
            self.evictions += 1;
            return true;
        }
    }
}

fn refused_for(bytes_max: usize) -> Box<[u16]> {
    vec![0; bytes_max / BYTES_PER_REFUSED].into()
}

/// Bytes of a row's own allocations.
fn cost(key: &[u8], value: &[u8]) -> usize {
    heap_bytes(key.len()) + heap_bytes(value.len())
}
