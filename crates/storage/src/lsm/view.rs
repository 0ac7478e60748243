//! A picture of one generation: its memtables and its tables, newest first. Only the newest memtable still changes.
//!
//! Why reads do not go through lsm-tree's own lock: it is held while a manifest is fsynced, and every read would wait
//! for that. Why lsm-tree needs no watermark: a reader loads the view first and the applied index second. All entries in
//! a view's tables were applied before the view was published; so whatever the reader's index is, it is not below
//! them, and the newest version of each key is the one it wants. A reader that wants more than the newest version of
//! one key holds its index in the active memtable. A view keeps the tables (and their files) that it was made of until
//! its last reader lets go.

use super::blob::Handle;
use super::fault::{translate, uninterrupted};
use super::garbage::Garbage;
use super::generation::Generation;
use super::lookup::Lookup;
use super::memtable::scan::entries;
use super::memtable::{Memtable, NEWEST};
use super::merge::{Direction, Entries, Merge};
use super::removed::Removed;
use super::table::{Access, Blocks};
use super::tree_files::{TreeFiles, ValueFile};
use crate::dropped::{DroppedPrefixes, prefix_end};
use crate::envelope::{unpack, unpack_head, unpacked_bytes};
use crate::files::verify_file;
use crate::{EngineStats, Error, Result, Short, Slice, VALUE_HEAD_BYTES};
use byteview::ByteView;
use lsm_tree::{AbstractTree, BlobFile, InternalValue, Table, ValueType};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// The record that says what the files hold.
pub(super) const APPLIED_KEY: &[u8] = b"\0applied";
const APPLIED_FORMAT: u8 = 1;
/// The prefix of the tree keys of meta records.
const META_PREFIX: &[u8] = b"\0meta\0";
/// The prefix of the tree keys of drop records, before the dropped prefix. A record stays until no file has rows of that prefix.
const DROP_PREFIX: &[u8] = b"\0drop\0";
const DROP_FORMAT: u8 = 1;

/// Views of this process so far.
static VIEWS: AtomicU64 = AtomicU64::new(0);

/// See the module's documentation for what a reader may rely on.
pub(super) struct View {
    /// Unique among all views of this process.
    pub(super) number: u64,
    pub(super) generation: Arc<Generation>,
    pub(super) active: Arc<Memtable>,
    /// Oldest first.
    pub(super) sealed: Vec<Sealed>,
    pub(super) files: Arc<TreeFiles>,
    /// The dropped prefixes of which its tables may still hold rows. Every reader's index ≥ the indexes kept here.
    pub(super) dropped: Arc<DroppedPrefixes<u64>>,
    /// The applied index when it was published: no reader may take it to be of an earlier one.
    pub(super) floor: u64,
}

/// A memtable that waits to be flushed.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) memtable: Arc<Memtable>,
    /// The applied index when it was sealed.
    pub(super) index: u64,
    pub(super) bytes: u64,
}

/// The newest version of each key in sealed memtables, in order, removals included.
pub(super) fn newest_of(sealed: &[Sealed]) -> Merge<'static> {
    let all = Slice::empty();
    let memtables = sealed.iter().rev().flat_map(|sealed| entries(&sealed.memtable, &all, &all, NEWEST, false));
    Merge::new(memtables, Direction::Rising { end: all.clone() }, NEWEST + 1)
}

/// What the entries in sealed memtables dropped.
pub(super) fn dropped_in(sealed: &[Sealed]) -> DroppedPrefixes<u64> {
    let mut all = DroppedPrefixes::default();
    let dropped = sealed.iter().flat_map(|sealed| sealed.memtable.dropped(&[], &[], NEWEST));
    dropped.for_each(|(prefix, index)| all.insert(prefix, index));
    all
}

impl View {
    /// A picture of what the files of `generation` hold, with an empty memtable.
    pub(super) fn of_files(generation: Arc<Generation>, floor: u64) -> Self {
        let files = Arc::new(TreeFiles::of(&generation));
        Self::new(generation, files, Memtable::new(), Vec::new(), floor)
    }

    /// A picture of `generation` with the files and the memtables that its caller knows of.
    pub(super) fn new(
        generation: Arc<Generation>,
        files: Arc<TreeFiles>,
        active: Arc<Memtable>,
        sealed: Vec<Sealed>,
        floor: u64,
    ) -> Self {
        let number = VIEWS.fetch_add(1, Ordering::Relaxed);
        let dropped = generation.dropped.load_full();
        Self { number, generation, active, sealed, files, dropped, floor }
    }

    /// The value of `key` as of `index`: one that is held and was the applied index after this view was loaded, or
    /// `NEWEST`.
    pub(super) fn get(&self, key: &[u8], index: u64) -> Result<Option<Slice>> {
        uninterrupted(|| match self.entry(key, index)? {
            Some(entry) => self.value_of(&entry),
            None => Ok(None),
        })
    }

    /// See `Snapshot::get_short`.
    pub(super) fn get_short(&self, key: &[u8], index: u64, bytes_max: usize) -> Result<Short> {
        uninterrupted(|| self.short_of(key, index, bytes_max))
    }

    fn short_of(&self, key: &[u8], index: u64, bytes_max: usize) -> Result<Short> {
        let Some(entry) = self.entry(key, index)? else { return Ok(Short::Found(None)) };
        if entry.key.value_type == ValueType::Indirection && self.place_of(&entry)?.0.stored_bytes() > bytes_max {
            return Ok(Short::Long);
        }
        let Some(stored) = self.stored_of(&entry)? else { return Ok(Short::Found(None)) };
        // It may be short only because it is compressed.
        if unpacked_bytes(&stored) > bytes_max {
            return Ok(Short::Long);
        }
        let value = unpack(stored).map_err(|detail| self.misread(&entry.key.user_key, detail))?;
        Ok(Short::Found(Some(value)))
    }

    /// The newest entry of `key` as of `index`; it may be a removal.
    fn entry(&self, key: &[u8], index: u64) -> Result<Option<InternalValue>> {
        if let Some(entry) = self.unflushed(key, index) {
            return Ok(Some(entry));
        }
        if self.dropped.covers(key) {
            return Ok(None);
        }
        let (seqno, hash) = (index + 1, xxh3_64(key));
        let access = Access { tree: self.generation.index().id(), descriptors: &self.generation.descriptors };
        for (_, table, blocks) in self.tables_for(key, 0) {
            let lookup = Lookup { table, blocks, place: (access.tree, table.id()), held: &[] };
            let found = match lookup.find_and_wait(access, key, hash) {
                Ok(found) => found,
                // The table says what is wrong with it.
                Err(_) => table.get(key, seqno, hash).map_err(|error| translate(&table.path, error))?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The tables that may have `key`, newest first, each with the number of its run, which is at least `first`.
    pub(super) fn tables_for<'a>(
        &'a self,
        key: &'a [u8],
        first: usize,
    ) -> impl Iterator<Item = (usize, &'a Table, &'a Arc<Blocks>)> {
        let runs = self.files.runs.iter().enumerate().skip(first);
        runs.filter_map(move |(at, run)| run.table_for(key).map(|(table, blocks)| (at, table, blocks)))
    }

    /// The newest entry of `key` in memtables as of `index`.
    pub(super) fn unflushed(&self, key: &[u8], index: u64) -> Option<InternalValue> {
        self.memtables().find_map(|memtable| memtable.get(key, index))
    }

    /// The value that an entry stands for.
    pub(super) fn value_of(&self, entry: &InternalValue) -> Result<Option<Slice>> {
        let Some(stored) = self.stored_of(entry)? else { return Ok(None) };
        unpack(stored).map(Some).map_err(|detail| self.misread(&entry.key.user_key, detail))
    }

    /// The stored form of the value that an entry stands for.
    fn stored_of(&self, entry: &InternalValue) -> Result<Option<Slice>> {
        Ok(match entry.key.value_type {
            ValueType::Value => Some(entry.value.clone()),
            ValueType::Tombstone | ValueType::WeakTombstone => None,
            ValueType::Indirection => Some(self.fetch(entry)?),
        })
    }

    /// Reads a value that is kept out of the levels.
    fn fetch(&self, entry: &InternalValue) -> Result<Slice> {
        let (handle, values) = self.place_of(entry)?;
        handle.read(&entry.key.user_key, &values.file, self.generation.index().id(), &self.generation.descriptors)
    }

    /// The first bytes of a value that is kept out of the levels; `None` if they cannot be read without the rest, or if the
    /// value is in a level.
    pub(super) fn value_head_of(&self, entry: &InternalValue) -> Result<Option<Slice>> {
        if entry.key.value_type != ValueType::Indirection {
            return Ok(None);
        }
        let (handle, values) = self.place_of(entry)?;
        let (tree, descriptors) = (self.generation.index().id(), &self.generation.descriptors);
        let stored = handle.read_head(&entry.key.user_key, &values.file, tree, descriptors)?;
        Ok(unpack_head(&stored, VALUE_HEAD_BYTES))
    }

    /// The place of a value that is kept out of the levels.
    pub(super) fn place_of(&self, entry: &InternalValue) -> Result<(Handle, &ValueFile)> {
        let misread = |detail| self.misread(&entry.key.user_key, detail);
        let handle = Handle::decode(&entry.value).map_err(|_| misread("a malformed value handle"))?;
        let values = self.files.blobs.get(&handle.file).ok_or_else(|| misread("a value handle to a file not known"))?;
        Ok((handle, values))
    }

    /// The value of a meta record.
    pub(super) fn meta(&self, key: &[u8], index: u64) -> Result<Option<Slice>> {
        self.get(&meta_key(key), index)
    }

    /// Figures of the tree.
    pub(super) fn stats(&self) -> EngineStats {
        let TreeFiles { disk_bytes, stale_bytes, .. } = *self.files;
        // Less of them stays where it is.
        let stale_to_go = if self.generation.stale_level().is_some() { stale_bytes } else { 0 };
        let gives_back = self.generation.gives_back();
        // What is sealed is as good as in files.
        let sealed_bytes: u64 = self.sealed.iter().map(|sealed| sealed.bytes).sum();
        let of_rows = || self.removed().bytes(disk_bytes.saturating_sub(stale_bytes) + sealed_bytes);
        EngineStats {
            disk_bytes,
            removed_bytes: if gives_back { of_rows() + stale_to_go } else { 0 },
            removed_memory_bytes: self.memtables().map(|memtable| memtable.removed_bytes()).sum(),
            keeps_removed: !gives_back,
            unwanted_bytes: self.generation.unwanted_bytes() + self.generation.collector.bytes(),
            is_halved: self.generation.unwanted().is_some(),
            memtable_bytes: self.generation.usage.bytes(),
            level_tables: self.files.level_tables.clone(),
            blob_files: self.files.blobs.len(),
            blob_stale_bytes: stale_bytes,
            l0_runs: self.files.l0_runs,
            entries_approx: (self.files.entries + self.memtables().map(|one| one.len()).sum::<usize>()) as u64,
        }
    }

    /// What it has of removals.
    pub(super) fn removed(&self) -> Removed {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.memtable.kept_rows()).sum();
        Removed {
            rows: self.files.removed.rows + sealed,
            unflushed: self.memtables().map(|memtable| memtable.removals()).sum(),
            ..self.files.removed
        }
    }

    /// The garbage among values that are kept out of the levels; `removed` tells how many rows removals hide.
    pub(super) fn garbage(&self, removed: Removed) -> Garbage {
        let TreeFiles { value_bytes, stale_bytes, .. } = *self.files;
        let removed_bytes = removed.bytes(value_bytes.saturating_sub(stale_bytes));
        Garbage { value_bytes, stale_bytes, removed_bytes, removals: removed.flushed + removed.unflushed }
    }

    /// Whether removals that are neither in files nor sealed for them hide much of what is kept out of the levels, as far as is known.
    /// Cheap.
    pub(super) fn hides_values(&self) -> bool {
        let Generation { stale_left, removals_min, .. } = &*self.generation;
        let garbage = || self.garbage(self.removed()).unless_few(removals_min.load(Ordering::Relaxed));
        self.sealed.is_empty()
            && self.files.value_bytes > 0
            && self.removed().wants_seal()
            && garbage().is_much(stale_left.load(Ordering::Relaxed))
            && self.generation.gives_back()
    }

    /// The newest entry of each key from `start` to before `end` (empty: to the end) as of `index`, in order; values
    /// are not yet resolved, and removals are among them.
    pub(super) fn rising<'a>(&'a self, start: &Slice, end: &Slice, index: u64) -> Entries<'a> {
        let memtables = self.memtables().flat_map(|memtable| entries(memtable, start, end, index, false));
        let access = Access { tree: self.generation.index().id(), descriptors: &self.generation.descriptors };
        let runs = self.files.runs.iter().filter_map(move |run| run.entries_from(access, start, end));
        Box::new(Merge::new(memtables.chain(runs), Direction::Rising { end: end.clone() }, index + 1))
    }

    /// The same in falling order.
    pub(super) fn falling(&self, start: &Slice, end: &Slice, index: u64) -> Entries<'static> {
        let high = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.clone()) };
        let files = (self.files.falling)(Bound::Included(start.clone()), high, index + 1);
        let memtables = self.memtables().flat_map(|memtable| entries(memtable, start, end, index, true));
        Box::new(Merge::new(memtables.chain([files]), Direction::Falling { start: start.clone() }, index + 1))
    }

    /// What was dropped as of `index` that covers rows from `start` to before `end` (empty: to the end).
    pub(super) fn dropped_within(&self, start: &[u8], end: &[u8], index: u64) -> DroppedPrefixes<u64> {
        let mut all = DroppedPrefixes::default();
        self.dropped.within(start, end).for_each(|(prefix, at)| all.insert(prefix.clone(), *at));
        let newer = self.memtables().flat_map(|memtable| memtable.dropped(start, end, index));
        newer.for_each(|(prefix, at)| all.insert(prefix, at));
        all
    }

    /// Newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev().map(|sealed| &sealed.memtable))
    }

    /// Reads every file whole and compares it with the checksum that the manifest has of it.
    pub(super) fn verify(&self) -> Result<()> {
        for table in self.tables() {
            verify_file(&table.path, table.checksum().into_u128())?;
        }
        self.blob_files().try_for_each(|file| verify_file(file.path(), file.checksum().into_u128()))
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.files.runs.iter().flat_map(|run| run.tables.iter())
    }

    pub(super) fn tables_with_blocks(&self) -> impl Iterator<Item = (&Table, &Blocks)> {
        self.files.runs.iter().flat_map(|run| run.tables.iter().zip(run.blocks.iter().map(|blocks| &**blocks)))
    }

    /// All tables, each with the number of its run.
    pub(super) fn runs_of_tables(&self) -> impl Iterator<Item = (usize, &Table, &Blocks)> {
        let runs = self.files.runs.iter().enumerate();
        runs.flat_map(|(at, run)| run.tables.iter().zip(&run.blocks).map(move |(table, blocks)| (at, table, &**blocks)))
    }

    /// Whether a table of a run before number `run` has something of `key`, a removal perhaps.
    pub(super) fn is_in_newer(&self, key: &[u8], run: usize) -> Result<bool> {
        let hash = xxh3_64(key);
        for (_, table, _) in self.tables_for(key, 0).take_while(|(at, _, _)| *at < run) {
            let found = table.get(key, NEWEST + 1, hash).map_err(|error| translate(&table.path, error))?;
            if found.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn blob_files(&self) -> impl Iterator<Item = &BlobFile> {
        self.files.blobs.values().map(|values| &values.file)
    }

    /// Checksums hold but the content makes no sense: names the first table that has the key.
    fn misread(&self, key: &[u8], detail: &str) -> Error {
        let table = self.files.runs.iter().find_map(|run| run.table_for(key));
        let path: &Path = table.map_or(&self.generation.folder, |(table, _)| &table.path);
        Error::Corrupt { path: path.to_path_buf(), detail: detail.into() }
    }

    /// After a failed scan: the first table between the bounds that cannot be read, else the tree's folder.
    pub(super) fn blame(&self, low: &Bound<Slice>, high: &Bound<Slice>, error: lsm_tree::Error) -> Error {
        for table in self.tables() {
            let failed = table.range((low.clone(), high.clone())).find_map(std::result::Result::err);
            if let Some(error) = failed {
                return translate(&table.path, error);
            }
        }
        translate(&self.generation.folder, error)
    }
}

/// The record of the applied index: a format byte (which keeps it from looking like an envelope), the index.
pub(super) fn applied_record(index: u64) -> Slice {
    Slice::from(ByteView::fused(&[APPLIED_FORMAT], &index.to_le_bytes()))
}

/// The index that the files of a view hold; 0 if nothing was ever flushed.
pub(super) fn read_applied(view: &View) -> Result<u64> {
    let Some(record) = view.get(APPLIED_KEY, NEWEST)? else { return Ok(0) };
    let index = record.strip_prefix(&[APPLIED_FORMAT]).and_then(|bytes| bytes.try_into().ok());
    index.map(u64::from_le_bytes).ok_or_else(|| Error::Corrupt {
        path: view.generation.folder.clone(),
        detail: "the record of the applied index is malformed".into(),
    })
}

/// The record that entry `index` dropped a prefix, and its tree key.
pub(super) fn drop_record(prefix: &[u8], index: u64) -> (Slice, Slice) {
    (drop_key(prefix), Slice::from(ByteView::fused(&[DROP_FORMAT], &index.to_le_bytes())))
}

/// The tree key of the record that a prefix was dropped.
pub(super) fn drop_key(prefix: &[u8]) -> Slice {
    Slice::from(ByteView::fused(DROP_PREFIX, prefix))
}

/// What was dropped, by the records in the files of a view.
pub(super) fn read_dropped(view: &View) -> Result<DroppedPrefixes<u64>> {
    let malformed = || Error::Corrupt {
        path: view.generation.folder.clone(),
        detail: "the record of a dropped prefix is malformed".into(),
    };
    let mut dropped = DroppedPrefixes::default();
    let (start, end) = (Slice::from(DROP_PREFIX), prefix_end(DROP_PREFIX));
    for entry in view.rising(&start, &end, NEWEST) {
        let blame = |error| view.blame(&Bound::Included(start.clone()), &Bound::Excluded(end.clone()), error);
        let entry = entry.map_err(blame)?;
        let Some(record) = view.value_of(&entry)? else { continue };
        let index = record.strip_prefix(&[DROP_FORMAT]).and_then(|bytes| bytes.try_into().ok());
        let prefix = ByteView::from(entry.key.user_key).slice(DROP_PREFIX.len()..);
        dropped.insert(Slice::from(prefix), u64::from_le_bytes(index.ok_or_else(malformed)?));
    }
    Ok(dropped)
}

/// The tree key of a meta record.
pub(super) fn meta_key(key: &[u8]) -> Slice {
    Slice::from(ByteView::fused(META_PREFIX, key))
}
