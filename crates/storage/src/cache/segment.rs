//! One part of the row cache: a table of rows, and the hand of its clock.
//!
//! Invariant: `bytes()` (rows, table and what the allocator adds) never exceeds `bytes_max` between two calls.

use super::long_rows::LongRows;
use crate::Slice;
use crate::allocation::heap_bytes;
use crate::cpu_prefetch::{Lines, Step};
use crate::folded_key::{FoldedKey, Tag};
use crate::hash_index::HashIndex;

/// A value longer than this part of a segment is not cached.
const SEGMENT_PART_MAX: usize = 32;
/// The doorkeeper remembers one refused row for this many bytes of rows.
const BYTES_PER_REFUSED: usize = 512;
/// Rows in one allocation, a power of two: by how large the segment is, for what lies idle in the last one is a part of it. The first
/// grows from the least: a small cache has as many segments as a large one.
const CHUNK_ROWS_MAX: usize = 512;
const CHUNK_ROWS_MIN: usize = 4;
const CHUNK_PART: usize = 64;

/// Figures of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found a row.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Rows evicted to make room.
    pub evictions: u64,
    /// Rows held.
    pub rows: u64,
    /// Bytes held, tables and allocations included.
    pub bytes: u64,
    /// The most bytes it may hold.
    pub bytes_max: u64,
}

pub(super) struct Segment {
    /// Of rows that are too long.
    pub(super) long: LongRows,
    places: HashIndex,
    /// The logarithm of the number of rows in a chunk.
    chunk_bits: u32,
    /// All chunks are full except the last; an empty chunk behind it may be kept for the next row.
    chunks: Vec<Vec<Row>>,
    count: usize,
    /// The doorkeeper: a part of the hash of each row that was refused recently, at a place that follows from the hash; 0: none.
    refused: Box<[u16]>,
    /// The bytes of the rows' own allocations.
    row_bytes: usize,
    bytes_max: usize,
    /// The hand of the clock: the row that is checked next when there is no room.
    hand: usize,
    hits: u64,
    misses: u64,
    evictions: u64,
}

/// A short key lies in the row, which is one line of memory. The value is shared with its writer, as a rule the tree's
/// memtable.
#[repr(align(64))]
pub(super) struct Row {
    /// The part of its key that `FoldedKey` has beside the tag.
    rest: Slice,
    value: Slice,
    hash: u32,
    shard: u32,
    epoch: u32,
    hit: bool,
    tag: Tag,
}

const _: () = assert!(size_of::<Row>() == 64);

impl Row {
    pub(super) fn value(&self) -> &Slice {
        &self.value
    }

    fn is(&self, shard: u32, key: FoldedKey<'_>) -> bool {
        self.shard == shard && self.tag == key.tag && self.rest == key.rest
    }

    fn cost(&self) -> usize {
        cost(&self.rest, &self.value)
    }
}

impl Segment {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            long: LongRows::default(),
            places: HashIndex::default(),
            chunk_bits: chunk_bits_for(bytes_max),
            chunks: Vec::new(),
            count: 0,
            refused: refused_for(bytes_max),
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
        let found = self.at(hash, shard, key).filter(|at| self.row(*at).epoch == epoch);
        let Some(at) = found else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let row = self.row_mut(at);
        row.hit = true;
        Some(row)
    }

    pub(super) fn contains(&self, hash: u64, shard: u32, epoch: u32, key: &[u8]) -> bool {
        self.at(hash, shard, key).is_some_and(|at| self.row(at).epoch == epoch)
    }

    /// Notes what is looked at for that hash.
    pub(super) fn note(&self, hash: u64, step: Step, lines: &mut Lines) {
        let row = || self.places.find(low(hash), |_| true).map(|at| self.row(at));
        match step {
            Step::Place => self.places.note(low(hash), lines),
            Step::Row => row().into_iter().for_each(|row| lines.add(row)),
            Step::Value => row().into_iter().for_each(|row| lines.add_first(&row.value)),
        }
    }

    pub(super) fn remove(&mut self, hash: u64, shard: u32, key: &[u8]) {
        if let Some(at) = self.at(hash, shard, key) {
            self.take(at);
        }
    }

    /// Whether a row of so many bytes is not too large.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max / SEGMENT_PART_MAX
    }

    /// Puts a row in, in place of its older version or of rows without a hit; false if it is too large.
    pub(super) fn insert(&mut self, hash: u64, shard: u32, epoch: u32, key: &[u8], value: Slice) -> bool {
        if !self.takes(key.len() + value.len()) {
            self.remove(hash, shard, key);
            return false;
        }
        if let Some(at) = self.at(hash, shard, key) {
            let row = self.row_mut(at);
            let (before, after) = (heap_bytes(row.value.len()), heap_bytes(value.len()));
            row.value = value;
            row.epoch = epoch;
            self.row_bytes = self.row_bytes - before + after;
            while self.bytes() > self.bytes_max && self.evict() {}
            return true;
        }
        let FoldedKey { tag, rest, .. } = FoldedKey::of_name(key);
        let new = Row { hash: low(hash), rest: Slice::from(rest), value, shard, epoch, hit: false, tag };
        let added = new.cost();
        while !self.has_room(added) && self.evict() {}
        if !self.has_room(added) {
            return false;
        }
        self.push(new);
        self.row_bytes += added;
        true
    }

    /// Whether a row may come in: there is room for it, or it was refused a short while ago.
    pub(super) fn admits(&mut self, hash: u64, key: &[u8], value: &[u8]) -> bool {
        if self.has_room(cost(FoldedKey::of_name(key).rest, value)) || self.refused.is_empty() {
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
        self.refused = refused_for(bytes_max);
        self.rebuild();
        while self.bytes() > bytes_max {
            let keep = self.count / 4 * 3;
            while self.count > keep && self.evict() {}
            self.rebuild();
        }
    }

    /// Has so many bytes from now on. Tables stay as they are: it is told often.
    pub(super) fn leave_room(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes() > bytes_max && self.evict() {}
    }

    /// What `find` has missed is a long row that is kept.
    pub(super) fn found_long(&mut self) {
        self.misses -= 1;
        self.hits += 1;
    }

    pub(super) fn add_to(&self, sum: &mut CacheStats) {
        sum.hits += self.hits;
        sum.misses += self.misses;
        sum.evictions += self.evictions;
        sum.rows += self.count as u64;
        sum.bytes += self.bytes() as u64;
        sum.bytes_max += self.bytes_max as u64;
    }

    pub(super) fn bytes(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * self.chunk_rows();
        let chunks = self.chunks.first().map_or(0, Vec::capacity).min(self.chunk_rows());
        self.row_bytes + self.places.bytes() + (full + chunks) * size_of::<Row>() + size_of_val(&*self.refused)
    }

    fn has_room(&self, added: usize) -> bool {
        let has_place = self.count < self.chunks.len() * self.chunk_rows();
        let chunk = match self.chunks.first() {
            None => CHUNK_ROWS_MIN,
            Some(first) if first.capacity() < self.chunk_rows() => {
                first.capacity() * usize::from(first.len() == first.capacity())
            }
            Some(_) => self.chunk_rows() * usize::from(!has_place),
        };
        self.bytes() + added + self.places.growth() + chunk * size_of::<Row>() <= self.bytes_max
    }

    fn at(&self, hash: u64, shard: u32, key: &[u8]) -> Option<u32> {
        let key = FoldedKey::of_name(key);
        self.places.find(low(hash), |at| self.row(at).is(shard, key))
    }

    fn chunk_rows(&self) -> usize {
        1 << self.chunk_bits
    }

    /// The chunk of a row, and where it is there.
    fn spot(&self, at: usize) -> (usize, usize) {
        (at >> self.chunk_bits, at & (self.chunk_rows() - 1))
    }

    fn row(&self, at: u32) -> &Row {
        let (chunk, within) = self.spot(at as usize);
        &self.chunks[chunk][within]
    }

    fn row_mut(&mut self, at: u32) -> &mut Row {
        let (chunk, within) = self.spot(at as usize);
        &mut self.chunks[chunk][within]
    }

    fn push(&mut self, row: Row) {
        let (chunk, within) = self.spot(self.count);
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(if chunk == 0 { CHUNK_ROWS_MIN } else { self.chunk_rows() }));
        }
        let rows = &mut self.chunks[chunk];
        if within == rows.capacity() {
            rows.reserve_exact(within);
        }
        self.places.insert(row.hash, self.count as u32);
        rows.push(row);
        self.count += 1;
    }

    /// Removes a row; the last one takes its place.
    fn take(&mut self, at: u32) {
        self.count -= 1;
        let (chunk, last) = (self.spot(self.count).0, self.count as u32);
        let moved = self.chunks[chunk].pop().expect("as many rows as are counted");
        let keep = if self.chunks[chunk].is_empty() { chunk + 1 } else { chunk + 2 };
        self.chunks.truncate(keep);
        // What takes another's number has it only when that has none.
        let taken = if at == last { moved } else { std::mem::replace(self.row_mut(at), moved) };
        self.places.remove(taken.hash, at);
        if at != last {
            let hash = self.row(at).hash;
            self.places.renumber(hash, last, at);
        }
        self.row_bytes -= taken.cost();
    }

    /// Gives back what the table and the rows do not need.
    fn rebuild(&mut self) {
        self.chunk_bits = chunk_bits_for(self.bytes_max);
        self.places = HashIndex::default();
        let rows = std::mem::take(&mut self.chunks).into_iter().flatten();
        self.count = 0;
        rows.for_each(|row| self.push(row));
    }

    /// Removes the next row that was not hit since the hand last passed; false if there is none at all.
    fn evict(&mut self) -> bool {
        if self.count == 0 {
            return false;
        }
        loop {
            self.hand = (self.hand + 1) % self.count;
            let at = self.hand as u32;
            if std::mem::take(&mut self.row_mut(at).hit) {
                continue;
            }
            self.take(at);
            self.evictions += 1;
            return true;
        }
    }
}

/// A table's part of a hash.
fn low(hash: u64) -> u32 {
    hash as u32
}

fn chunk_bits_for(bytes_max: usize) -> u32 {
    let rows = bytes_max / CHUNK_PART / size_of::<Row>();
    rows.next_power_of_two().clamp(CHUNK_ROWS_MIN, CHUNK_ROWS_MAX).ilog2()
}

fn refused_for(bytes_max: usize) -> Box<[u16]> {
    vec![0; bytes_max / BYTES_PER_REFUSED].into()
}

/// Bytes of a row's own allocations.
fn cost(key: &[u8], value: &[u8]) -> usize {
    heap_bytes(key.len()) + heap_bytes(value.len())
}
