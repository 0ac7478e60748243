//! Scans of a table: its blocks, found and read without lsm-tree's iterator.
//!
//! A scan of a few rows over many trees is mostly seeks. lsm-tree's iterator searches a table's index as bytes: each step
//! misses the processor's caches twice. `Ends` keeps the first bytes of every block's last key side by side, so most steps
//! of the search touch one array. Where neighbouring blocks share these bytes it keeps their whole keys too.
//!
//! Invariant: a seek opens at most two blocks of a table, whatever prefix its keys share.
//!
//! `Ends` is read from the file at the table's first scan. Scans of tables with a partitioned index, which are large, are
//! left to lsm-tree; look-ups use the ends of their partitions.

use super::block::Rows;
use super::fault::translate;
use super::key_prefix::KeyPrefix;
use crate::direct::{Closing, FileKey};
use crate::{Result, Slice};
use lsm_tree::file_accessor::FileAccessor;
use lsm_tree::table::block::BlockType;
use lsm_tree::table::block::decoder::ParsedItem;
use lsm_tree::table::util::load_block;
use lsm_tree::table::{Block, BlockHandle, BlockOffset, IndexBlock, KeyedBlockHandle};
use lsm_tree::{CompressionType, DescriptorTable, GlobalTableId, InternalValue, Table};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// What is known of a table's blocks; each part is read when it is first needed.
#[derive(Default)]
pub(super) struct Blocks {
    /// If the table's index is one block: the ends of the blocks of rows.
    pub(super) ends: OnceLock<Ends>,
    /// If the table's index and filter are in parts: the ends of the parts.
    pub(super) index_parts: OnceLock<Ends>,
    pub(super) filter_parts: OnceLock<Ends>,
    /// The table's file, opened for reading past the page cache.
    pub(super) closing: Arc<Closing>,
    /// If the table's index is partitioned: the ends of the partitions, if a sample needed them.
    partitions: OnceLock<Ends>,
    /// The most blocks in a unit and the most rows in a block that samples have found.
    blocks_max: AtomicU64,
    rows_max: AtomicU64,
}

/// A row that a sample hit.
pub(super) struct SampledRow {
    pub(super) key: Slice,
    pub(super) is_removal: bool,
}

/// Each block's last key and its place in the file, in order.
pub(super) struct Ends {
    /// The prefix that all keys of the table share. What follows it is a key's *rest*.
    prefix: Slice,
    /// For each block, the head of its last key's rest.
    heads: Vec<KeyPrefix>,
    /// The whole rests of those last keys whose head a neighbour shares.
    rests: Rests,
    /// For each block, its offset and its length.
    places: Vec<(u64, u32)>,
}

/// Byte strings by block number, in one allocation; most are empty. Nothing is allocated if all are.
#[derive(Default)]
struct Rests {
    bytes: Vec<u8>,
    /// Where each begins, and where the last one ends.
    starts: Vec<usize>,
}

/// What is known of the files of a kind in a tree, by the file's number, as long as a view has the file.
#[derive(Default)]
pub(super) struct Known<T>(Mutex<HashMap<u64, Weak<T>>>);

/// What tables of a tree are read with.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// Its number in the block cache.
    pub(super) tree: u64,
    pub(super) descriptors: &'a Arc<DescriptorTable>,
}

impl<T: Default> Known<T> {
    pub(super) fn of(&self, file: u64) -> Arc<T> {
        let mut known = self.0.lock().expect("nothing panics while it is held");
        if let Some(found) = known.get(&file).and_then(Weak::upgrade) {
            return found;
        }
        known.retain(|_, one| one.strong_count() > 0);
        let fresh = Arc::default();
        known.insert(file, Arc::downgrade(&fresh));
        fresh
    }
}

impl Ends {
    fn read(table: &Table) -> lsm_tree::Result<Self> {
        let file = File::open(&*table.path)?;
        let block = Block::from_file(&file, table.regions.tli, table.metadata.index_block_compression)?;
        if block.header.block_type != BlockType::Index {
            return Err(lsm_tree::Error::InvalidHeader("index block"));
        }
        Ok(Self::of(table, &IndexBlock::new(block)))
    }

    /// The ends in an index of `table`.
    pub(super) fn of(table: &Table, index: &IndexBlock) -> Self {
        let (min, max) = (table.metadata.key_range.min(), table.metadata.key_range.max());
        let shared = min.iter().zip(max.iter()).take_while(|(a, b)| a == b).count();
        let mut places = Vec::with_capacity(index.len());
        let mut keys = Vec::with_capacity(index.len());
        for item in index.iter() {
            let handle = item.materialize(index.as_slice());
            places.push((*handle.offset(), handle.size()));
            keys.push(handle.end_key().clone());
        }
        let rests: Vec<&[u8]> = keys.iter().map(|key| key.get(shared..).unwrap_or_default()).collect();
        let heads: Vec<KeyPrefix> = rests.iter().map(|rest| KeyPrefix::of(rest)).collect();
        let rests = Rests::of_equals(&heads, &rests);
        Self { prefix: Slice::from(&min[..shared]), heads, rests, places }
    }

    /// The first block that may hold a key ≥ `key`: this block or the next one holds the first such key.
    fn find(&self, key: &[u8]) -> usize {
        match key.strip_prefix(&self.prefix[..]) {
            Some(rest) => self.first_from(KeyPrefix::of(rest), rest),
            None if *key < self.prefix[..] => 0,
            None => self.heads.len(),
        }
    }

    /// The only block that may hold `key`; `None` if the ends do not tell.
    #[expect(clippy::option_option, reason = "not to be told is not the same as none")]
    pub(super) fn only(&self, key: &[u8]) -> Option<Option<BlockHandle>> {
        let rest = key.strip_prefix(&self.prefix[..])?;
        let head = KeyPrefix::of(rest);
        let at = self.first_from(head, rest);
        let Some(end) = self.heads.get(at) else { return Some(None) };
        let (offset, bytes) = self.places[at];
        let is_certain = *end != head || !self.rests.of(at).is_empty();
        is_certain.then(|| Some(BlockHandle::new(BlockOffset(offset), bytes)))
    }

    fn handle(&self, at: usize) -> Option<BlockHandle> {
        self.places.get(at).map(|&(offset, bytes)| BlockHandle::new(BlockOffset(offset), bytes))
    }

    /// The first block whose end ≥ `rest`. If exactly one end has the head of `rest`, that block, even if its end is below.
    fn first_from(&self, head: KeyPrefix, rest: &[u8]) -> usize {
        let mut low = self.heads.partition_point(|end| *end < head);
        if self.rests.of(low).is_empty() || self.heads[low] != head {
            return low;
        }
        let mut high = low + self.heads[low..].partition_point(|end| *end == head);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.rests.of(middle) < rest { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl Rests {
    /// Keeps the rests whose head equals a neighbour's; the others stay empty.
    fn of_equals(heads: &[KeyPrefix], rests: &[&[u8]]) -> Self {
        let is_shared = |i: usize| i > 0 && heads[i - 1] == heads[i] || heads.get(i + 1) == Some(&heads[i]);
        if !(0..heads.len()).any(is_shared) {
            return Self::default();
        }
        let mut kept = Self { bytes: Vec::new(), starts: vec![0] };
        for (i, rest) in rests.iter().enumerate() {
            if is_shared(i) {
                kept.bytes.extend_from_slice(rest);
            }
            kept.starts.push(kept.bytes.len());
        }
        kept.bytes.shrink_to_fit();
        kept
    }

    fn of(&self, block: usize) -> &[u8] {
        match self.starts.get(block..block + 2) {
            Some(&[start, end]) => &self.bytes[start..end],
            _ => &[],
        }
    }
}

/// The rows of a table from a key on.
struct Walk<'a> {
    table: &'a Table,
    access: Access<'a>,
    ends: &'a Ends,
    /// Rows ≥ this key; empty once the scan has passed it.
    start: Slice,
    next: usize,
    rows: Option<Rows>,
}

impl Blocks {
    /// The rows of `table` from `start` on; these are its blocks.
    pub(super) fn rows_from<'a>(
        &'a self,
        table: &'a Table,
        access: Access<'a>,
        start: &Slice,
    ) -> Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>> + 'a> {
        match self.ends(table) {
            Some(ends) => {
                let next = ends.find(start);
                Box::new(Walk { table, access, ends, start: start.clone(), next, rows: None })
            }
            None => Box::new(table.range(start.clone()..)),
        }
    }

    /// About how many bytes of `table` are between two keys (`end` empty: to the end of the table).
    pub(super) fn bytes_between(&self, table: &Table, start: &[u8], end: &[u8]) -> u64 {
        // If the index is partitioned, the ends of the partitions suffice: large ranges span many of them.
        let read;
        let ends = match self.ends(table) {
            Some(ends) => ends,
            None => match Ends::read(table) {
                Ok(ends) => {
                    read = ends;
                    &read
                }
                Err(_) => return table.metadata.file_size,
            },
        };
        let behind = if end.is_empty() { ends.heads.len() } else { ends.find(end) };
        let blocks = behind.saturating_sub(ends.find(start)) as u64;
        table.metadata.file_size * blocks / (ends.heads.len() as u64).max(1)
    }

    /// The units (blocks of rows or, with a partitioned index, partitions of them) that may hold keys from `start` to
    /// before `end` (empty: to the end). None if they cannot be read now.
    pub(super) fn units_between(&self, table: &Table, start: &[u8], end: &[u8]) -> Range<usize> {
        let (min, max) = (table.metadata.key_range.min(), table.metadata.key_range.max());
        let is_apart = &max[..] < start || !end.is_empty() && &min[..] >= end;
        let Some(units) = self.units(table).filter(|_| !is_apart) else { return 0..0 };
        let behind = if end.is_empty() { units.heads.len() } else { (units.find(end) + 1).min(units.heads.len()) };
        units.find(start).min(behind)..behind
    }

    /// The row at a number within the block at a number within a unit; `None` if there are fewer.
    pub(super) fn row_at(
        &self,
        table: &Table,
        access: Access<'_>,
        unit: usize,
        block: u64,
        row: u64,
    ) -> Result<Option<SampledRow>> {
        let read = || -> lsm_tree::Result<Option<SampledRow>> {
            let Some(handle) = self.units(table).and_then(|units| units.handle(unit)) else { return Ok(None) };
            let handles = rows_blocks(table, access, handle)?;
            self.blocks_max.fetch_max(handles.len() as u64, Ordering::Relaxed);
            let Some(handle) = handles.get(block as usize) else { return Ok(None) };
            let block = load(table, access, handle, BlockType::Data, table.metadata.data_block_compression)?;
            let (mut rows, mut found, mut count) = (Rows::new(block.data)?, None, 0);
            while let Some(next) = rows.next()? {
                if count == row {
                    found = Some(SampledRow { is_removal: next.key.is_tombstone(), key: next.key.user_key });
                }
                count += 1;
            }
            self.rows_max.fetch_max(count, Ordering::Relaxed);
            Ok(found)
        };
        read().map_err(|error| translate(&table.path, error))
    }

    /// The most blocks of a unit and the most rows of a block, as far as is known.
    pub(super) fn fullest(&self) -> (u64, u64) {
        (self.blocks_max.load(Ordering::Relaxed).max(1), self.rows_max.load(Ordering::Relaxed).max(1))
    }

    fn units(&self, table: &Table) -> Option<&Ends> {
        if table.regions.index.is_none() {
            return self.ends(table);
        }
        if let Some(partitions) = self.partitions.get() {
            return Some(partitions);
        }
        let partitions = Ends::read(table).ok()?;
        Some(self.partitions.get_or_init(|| partitions))
    }

    /// None if the table is left to lsm-tree.
    fn ends(&self, table: &Table) -> Option<&Ends> {
        if table.regions.index.is_some() {
            return None;
        }
        if let Some(ends) = self.ends.get() {
            return Some(ends);
        }
        // What cannot be read now is left to lsm-tree, which says what is wrong.
        let ends = Ends::read(table).ok()?;
        Some(self.ends.get_or_init(|| ends))
    }
}

/// A block of `table`, from the block cache or its file.
pub(super) fn load(
    table: &Table,
    access: Access<'_>,
    handle: &BlockHandle,
    kind: BlockType,
    compression: CompressionType,
) -> lsm_tree::Result<Block> {
    let id: GlobalTableId = (access.tree, table.id()).into();
    match table.cache.get_block(id, handle.offset()) {
        Some(block) => Ok(block),
        None => {
            // The file is opened here, because lsm-tree would not tell the system how it is read.
            FileKey::Table((access.tree, table.id())).open(&table.path, access.descriptors)?;
            let file = FileAccessor::DescriptorTable(access.descriptors.clone());
            load_block(id, &table.path, &file, &table.cache, handle, kind, compression)
        }
    }
}

/// The blocks of rows of a unit: itself, or those that an index partition names.
fn rows_blocks(table: &Table, access: Access<'_>, unit: BlockHandle) -> lsm_tree::Result<Vec<BlockHandle>> {
    if table.regions.index.is_none() {
        return Ok(vec![unit]);
    }
    let partition = load(table, access, &unit, BlockType::Index, table.metadata.index_block_compression)?;
    let index = IndexBlock::new(partition);
    let handle = |item: &KeyedBlockHandle| BlockHandle::new(item.offset(), item.size());
    Ok(index.iter().map(|item| handle(&item.materialize(index.as_slice()))).collect())
}

impl Walk<'_> {
    /// Opens the next block; false if there is none.
    fn open(&mut self) -> lsm_tree::Result<bool> {
        let Some(&(offset, size)) = self.ends.places.get(self.next) else { return Ok(false) };
        #[cfg(test)]
        tests::OPENED.with(|opened| opened.set(opened.get() + 1));
        self.next += 1;
        let handle = BlockHandle::new(BlockOffset(offset), size);
        let compression = self.table.metadata.data_block_compression;
        let block = load(self.table, self.access, &handle, BlockType::Data, compression)?;
        let mut rows = Rows::new(block.data)?;
        if !self.start.is_empty() {
            rows.seek(&self.start)?;
        }
        self.rows = Some(rows);
        Ok(true)
    }

    fn try_next(&mut self) -> lsm_tree::Result<Option<InternalValue>> {
        loop {
            if let Some(rows) = &mut self.rows
                && let Some(mut entry) = rows.next()?
            {
                self.start = Slice::empty();
                entry.key.seqno += self.table.global_seqno();
                return Ok(Some(entry));
            }
            if !self.open()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = lsm_tree::Result<InternalValue>;

    fn next(&mut self) -> Option<Self::Item> {
        self.try_next().inspect_err(|_| self.next = self.ends.places.len()).transpose()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Engine, LsmEngine, SharedResources, Span, StorageOptions, WriteBatch};
    use lsm_tree::AbstractTree;
    use std::cell::Cell;

    thread_local! {
        /// Blocks that scans of this thread have opened.
        pub(super) static OPENED: Cell<u64> = const { Cell::new(0) };
    }

    const ROWS: u64 = 30_000;

    /// The kinds of keys that a table has side by side: of `prefix`, and one before and one after them.
    fn filled(folder: &std::path::Path, prefix: &str) -> LsmEngine {
        let shared = SharedResources::new(StorageOptions { table_bytes: 64 << 20, ..Default::default() });
        let engine = LsmEngine::open(folder, &shared).unwrap();
        let names = (0..ROWS).map(|i| format!("r{prefix}{i:09}")).chain(["e".to_owned(), "x".to_owned()]);
        let writes = names.map(|name| (name.as_bytes().into(), Some("value".into()))).collect();
        engine.apply(1, WriteBatch { writes, ..WriteBatch::default() });
        engine.seal(Vec::new());
        engine.flush().unwrap();
        engine
    }

    #[test]
    fn a_seek_opens_two_blocks_at_most_whatever_its_keys_share() {
        let long = "application:production:session:";
        for prefix in ["", long, &long.repeat(30)] {
            let folder = tempfile::tempdir().unwrap();
            let engine = filled(folder.path(), prefix);
            let snapshot = engine.snapshot();
            for i in (0..ROWS).step_by(997) {
                // A key that there is, one behind it, and one behind all that begin as it does.
                for (name, found) in [(format!("r{prefix}{i:09}"), i), (format!("r{prefix}{i:09}~"), i + 1)] {
                    OPENED.set(0);
                    let mut cursor = snapshot.cursor(Span { start: name.into_bytes(), end: Vec::new() }, false);
                    let wanted = if found < ROWS { format!("r{prefix}{found:09}") } else { "x".to_owned() };
                    assert_eq!(cursor.advance().unwrap().unwrap(), wanted.as_bytes());
                    assert!(OPENED.get() <= 2, "{} blocks were opened for {wanted}", OPENED.get());
                }
            }
        }
    }

    #[test]
    fn ends_tell_the_block_that_a_search_of_the_whole_keys_does() {
        let folder = tempfile::tempdir().unwrap();
        let engine = filled(folder.path(), "application:production:session:");
        let tree = engine.view.load().generation.index().clone();
        let table = tree.current_version().iter_tables().next().unwrap().clone();
        let ends = Ends::read(&table).unwrap();
        let file = File::open(&*table.path).unwrap();
        let index = Block::from_file(&file, table.regions.tli, table.metadata.index_block_compression).unwrap();
        let index = IndexBlock::new(index);
        let keys: Vec<Slice> = index.iter().map(|item| item.materialize(index.as_slice()).end_key().clone()).collect();
        for i in (0..ROWS).step_by(101) {
            let name = format!("rapplication:production:session:{i:09}");
            let wanted = keys.partition_point(|end| end[..] < *name.as_bytes());
            assert_eq!(ends.find(name.as_bytes()), wanted, "{name}");
            let told = ends.only(name.as_bytes()).expect("the whole keys of its neighbours are kept");
            assert_eq!(told.map(|handle| *handle.offset()), ends.places.get(wanted).map(|place| place.0));
        }
    }
}
