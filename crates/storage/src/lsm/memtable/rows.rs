//! The rows of a memtable: found by hash, kept in the order in which their keys first came.
//!
//! A row keeps its newest version, and of older ones those that a live snapshot sees.

use crate::Slice;
use crate::allocation::heap_bytes;
use crate::cpu_prefetch::{Lines, Step};
use crate::dropped::DroppedPrefixes;
use crate::folded_key::{FoldedKey, NO_TAG, Tag};
use crate::hash_index::HashIndex;
use lsm_tree::{InternalValue, ValueType};
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a row takes beyond the heap of its key and value, in bytes: itself, its place in a table, its place in order.
const ROW_BYTES: i64 = 100;
/// What an older version takes beyond its value, in bytes.
const OLDER_BYTES: i64 = 64;
/// What a version that takes the place of another is counted with beyond its value, in bytes: its entry's part of the
/// log's index. So a few rows that are written again and again fill a memtable too, and the log can be cut.
const REPLACED_BYTES: i64 = 64;
/// Tables, a power of two: each grows by itself, so that no write waits for more than a part.
const TABLES: usize = 16;
/// Rows in one allocation, a power of two: they never move.
const CHUNK_ROWS: usize = 512;

/// What was written under a key at an index.
pub(super) struct Version {
    pub(super) index: u64,
    pub(super) kind: ValueType,
    pub(super) value: Slice,
}

impl Version {
    fn is_removal(&self) -> bool {
        matches!(self.kind, ValueType::Tombstone | ValueType::WeakTombstone)
    }
}

/// All that a memtable has under one key.
pub(super) struct Row {
    /// The part of its key that `FoldedKey` has beside the rest.
    first: u8,
    tag: Tag,
    rest: Slice,
    newest: Version,
    /// The newest version is a removal, no snapshot sees an older one, and nothing of the key lies below: no scan needs to
    /// pass this row.
    is_gone: bool,
    older: Option<Box<Older>>,
}

/// Newest first; never empty.
struct Older(Vec<Version>);

/// Rows by number and by hash.
pub(super) struct Rows {
    tables: Box<[HashIndex]>,
    chunks: Vec<Vec<Row>>,
    /// Rows that have gone or come back since the order was told, perhaps more than once.
    changed: Vec<u32>,
    /// Rows that are removals of something that may lie below.
    removals: u32,
    /// Rows that are gone: removals of nothing.
    gone: u32,
    /// Versions of later indexes are not seen yet: their entry is not all there.
    shown_until: u64,
    /// What its entries dropped, each with the entry's index.
    pub(super) dropped: DroppedPrefixes<u64>,
}

impl Row {
    /// Its tree key.
    pub(super) fn key(&self) -> FoldedKey<'_> {
        FoldedKey { first: self.first, tag: self.tag, rest: &self.rest }
    }

    /// The same, by itself.
    fn whole_key(&self) -> Slice {
        if self.tag == NO_TAG { self.rest.clone() } else { self.key().to_tree_key() }
    }

    /// Whether no scan needs to pass it.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The version that is seen as of `index`.
    pub(super) fn as_of(&self, index: u64) -> Option<InternalValue> {
        let seen = if self.newest.index <= index {
            &self.newest
        } else {
            self.older.as_ref()?.0.iter().find(|version| version.index <= index)?
        };
        let (key, value) = (self.whole_key(), seen.value.clone());
        Some(InternalValue::from_components(key, value, seen.index, seen.kind))
    }

    /// Puts `version` above the others, and drops those that none of the snapshots `live` sees; tells by how many
    /// bytes the row grew.
    fn replace(&mut self, version: Version, live: &[u64]) -> i64 {
        let added = bytes(&version) + REPLACED_BYTES;
        let replaced = mem::replace(&mut self.newest, version);
        assert!(replaced.index < self.newest.index, "a key written twice as of {}", replaced.index);
        let older = self.older.take();
        if live.is_empty() && older.is_none() {
            return added - bytes(&replaced);
        }
        let mut versions = vec![replaced];
        versions.extend(older.into_iter().flat_map(|older| older.0));
        let mut grown = added + OLDER_BYTES;
        let mut next = self.newest.index;
        versions.retain(|version| {
            let seen = live.iter().any(|snapshot| (version.index..next).contains(snapshot));
            next = version.index;
            if !seen {
                grown -= bytes(version) + OLDER_BYTES;
            }
            seen
        });
        self.older = (!versions.is_empty()).then(|| Box::new(Older(versions)));
        grown
    }
}

fn bytes(version: &Version) -> i64 {
    heap_bytes(version.value.len()) as i64
}

/// See `Engine::hash`. The seed is the process's, and is not known to clients: they cannot choose keys that meet.
pub(in crate::lsm) fn hash(key: &[u8]) -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    xxh3_64_with_seed(key, *SEED)
}

impl Rows {
    pub(super) fn new() -> Self {
        let tables = (0..TABLES).map(|_| HashIndex::default()).collect();
        Self {
            tables,
            chunks: Vec::new(),
            changed: Vec::new(),
            removals: 0,
            gone: 0,
            shown_until: u64::MAX,
            dropped: DroppedPrefixes::default(),
        }
    }

    /// From now on versions up to `index` are seen.
    pub(super) fn show_until(&mut self, index: u64) {
        self.shown_until = index;
    }

    pub(super) fn len(&self) -> u32 {
        let whole = self.chunks.len().saturating_sub(1) * CHUNK_ROWS;
        (whole + self.chunks.last().map_or(0, Vec::len)) as u32
    }

    pub(super) fn row(&self, at: u32) -> &Row {
        let at = at as usize;
        &self.chunks[at / CHUNK_ROWS][at % CHUNK_ROWS]
    }

    /// How many times a row has gone or come back since the order was told.
    pub(super) fn changed(&self) -> u32 {
        self.changed.len() as u32
    }

    /// How many rows are removals of something that may lie below.
    pub(super) fn removals(&self) -> u32 {
        self.removals
    }

    /// How many rows are removals of nothing.
    pub(super) fn gone(&self) -> u32 {
        self.gone
    }

    /// About how many bytes of the rows are of removals: at least so many.
    pub(super) fn removed_bytes(&self) -> u64 {
        let gone = i64::from(self.gone) * (ROW_BYTES + REPLACED_BYTES);
        (gone + i64::from(self.removals) * ROW_BYTES).unsigned_abs()
    }

    /// The rows that have gone or come back since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        mem::take(&mut self.changed)
    }

    /// What is under `key` as of `index`: a removal if its prefix was dropped by then.
    pub(super) fn as_of(&self, key: &[u8], index: u64) -> Option<InternalValue> {
        if !self.dropped.is_empty()
            && let Some((_, at)) = self.dropped.covering(key, |at| *at <= index)
        {
            return Some(InternalValue::from_components(key, Slice::empty(), *at, ValueType::Tombstone));
        }
        self.find(key)?.as_of(index.min(self.shown_until))
    }

    fn find(&self, key: &[u8]) -> Option<&Row> {
        let (table, hash) = place_of(hash(key));
        self.at(table, hash, key).map(|at| self.row(at))
    }

    fn at(&self, table: usize, hash: u32, key: &[u8]) -> Option<u32> {
        let key = FoldedKey::of_tree_key(key);
        self.tables[table].find(hash, |at| self.row(at).key() == key)
    }

    /// See `Engine::note`.
    pub(super) fn note(&self, hash: u64, step: Step, lines: &mut Lines) {
        let (table, hash) = place_of(hash);
        let table = &self.tables[table];
        // Which of the rows with that hash it is, the key itself must tell; as a rule there is one.
        let row = || table.find(hash, |_| true).map(|at| self.row(at));
        match step {
            Step::Place => table.note(hash, lines),
            Step::Row => row().into_iter().for_each(|row| lines.add(row)),
            Step::Value => row().into_iter().for_each(|row| lines.add_first(&row.newest.value)),
        }
    }

    /// Writes `version` of `key`, which is newer than all that is here; tells by how many bytes the rows grew. `live`
    /// are the indexes of the snapshots that may look at older versions; `lies_below` tells whether something of a key may
    /// lie below this memtable.
    pub(super) fn put(
        &mut self,
        key: Slice,
        version: Version,
        live: &[u64],
        lies_below: &impl Fn(&[u8]) -> bool,
    ) -> i64 {
        let (table, hash) = place_of(hash(&key));
        if let Some(number) = self.at(table, hash, &key) {
            let at = number as usize;
            let row = &mut self.chunks[at / CHUNK_ROWS][at % CHUNK_ROWS];
            let (was_gone, was_removal, is_removal) = (row.is_gone, row.newest.is_removal(), version.is_removal());
            let grown = row.replace(version, live);
            // A removal that stays a removal had something below it before.
            let has_nothing_below = || was_gone || !was_removal && !lies_below(&key);
            row.is_gone = is_removal && row.older.is_none() && has_nothing_below();
            if row.is_gone != was_gone {
                self.changed.push(number);
            }
            self.gone = self.gone + u32::from(row.is_gone) - u32::from(was_gone);
            let (hid, hides) = (was_removal && !was_gone, is_removal && !row.is_gone);
            self.removals = self.removals + u32::from(hides) - u32::from(hid);
            return grown;
        }
        self.tables[table].insert(hash, self.len());
        let FoldedKey { first, tag, rest } = FoldedKey::of_tree_key(&key);
        let rest = if tag == NO_TAG { key.clone() } else { Slice::from(rest) };
        let grown = heap_bytes(rest.len()) as i64 + bytes(&version) + ROW_BYTES;
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ROWS) {
            // The first grows: most trees of a node with many are small.
            let capacity = if self.chunks.is_empty() { 0 } else { CHUNK_ROWS };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        self.removals += u32::from(version.is_removal());
        let chunk = self.chunks.last_mut().expect("one was pushed if there was none");
        chunk.push(Row { first, tag, rest, newest: version, is_gone: false, older: None });
        grown
    }
}

/// The table of a key of that hash, and its hash there.
fn place_of(hash: u64) -> (usize, u32) {
    ((hash >> 32) as usize % TABLES, hash as u32)
}
