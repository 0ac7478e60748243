//! Scans of a table: its blocks, found and read in our own way.
//!
//! A scan of a few rows over many trees is seeks above all. lsm-tree's iterator reads a table's index where it lies, as
//! bytes: each step of the search misses the processor's caches twice. Here the ends of all blocks lie side by
//! side, by the beginnings of their keys, and a block is read from the row that is sought.
//!
//! They are read from the file when the table is first scanned. Tables whose index is in parts, to be read when needed,
//! are large, and their scans are left to lsm-tree; but of them, too, the ends of the parts are kept, for look-ups. These
//! keep what they have read for themselves.

use super::block::Rows;
use super::direct::Closing;
use super::head::Head;
use crate::Slice;
use lsm_tree::file_accessor::FileAccessor;
use lsm_tree::table::block::BlockType;
use lsm_tree::table::block::decoder::ParsedItem;
use lsm_tree::table::util::load_block;
use lsm_tree::table::{Block, BlockHandle, BlockOffset, IndexBlock};
use lsm_tree::{DescriptorTable, GlobalTableId, InternalValue, Table};
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// What is known of a table's blocks, once it is needed.
#[derive(Default)]
pub(super) struct Blocks {
    /// Of a table whose index is one block: those of the blocks of rows.
    pub(super) ends: OnceLock<Ends>,
    /// Of a table whose index and filter are in parts: those of the parts.
    pub(super) index_parts: OnceLock<Ends>,
    pub(super) filter_parts: OnceLock<Ends>,
    /// Of its file for reading past the page cache.
    pub(super) closing: Closing,
}

/// Of each block in order, the last key's head, and where it is.
pub(super) struct Ends {
    /// What all keys of the table begin with. Heads are of what follows it, or they would tell few keys apart.
    prefix: Slice,
    heads: Vec<Head>,
    places: Vec<(u64, u32)>,
}

/// What is known of all files of a kind, of a tree, that somebody looks at, by the file's number.
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

    /// Those of an index of `table`.
    pub(super) fn of(table: &Table, index: &IndexBlock) -> Self {
        let (min, max) = (table.metadata.key_range.min(), table.metadata.key_range.max());
        let shared = min.iter().zip(max.iter()).take_while(|(a, b)| a == b).count();
        let mut ends = Self {
            prefix: Slice::from(&min[..shared]),
            heads: Vec::with_capacity(index.len()),
            places: Vec::with_capacity(index.len()),
        };
        for item in index.iter() {
            let handle = item.materialize(index.as_slice());
            ends.heads.push(Head::of(handle.end_key().get(shared..).unwrap_or_default()));
            ends.places.push((*handle.offset(), handle.size()));
        }
        ends
    }

    /// The first block that may hold a key that is not below `key`: it does, or the next one does.
    fn find(&self, key: &[u8]) -> usize {
        match self.head_of(key) {
            Some(head) => self.first_from(head),
            None if *key < self.prefix[..] => 0,
            None => self.heads.len(),
        }
    }

    /// The block that holds `key` if any does; `None` if heads do not tell.
    #[expect(clippy::option_option, reason = "not to be told is not the same as none")]
    pub(super) fn only(&self, key: &[u8]) -> Option<Option<BlockHandle>> {
        let head = self.head_of(key)?;
        let at = self.first_from(head);
        let Some(end) = self.heads.get(at) else { return Some(None) };
        let (offset, bytes) = self.places[at];
        (*end != head).then(|| Some(BlockHandle::new(BlockOffset(offset), bytes)))
    }

    /// That of a key which begins as all of the table do.
    fn head_of(&self, key: &[u8]) -> Option<Head> {
        key.strip_prefix(&self.prefix[..]).map(Head::of)
    }

    /// The first block whose end's head is not below `head`.
    fn first_from(&self, head: Head) -> usize {
        self.heads.partition_point(|end| *end < head)
    }
}

/// The rows of a table from a key on.
struct Walk<'a> {
    table: &'a Table,
    access: Access<'a>,
    ends: &'a Ends,
    /// Not below this key; empty once it was passed.
    start: Slice,
    next: usize,
    rows: Option<Rows>,
}

impl Blocks {
    /// The rows of `table`, whose blocks these are, from `start` on.
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

    /// None of a table that is left to lsm-tree.
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

impl Walk<'_> {
    /// Opens the next block; false if there is none.
    fn open(&mut self) -> lsm_tree::Result<bool> {
        let Some(&(offset, size)) = self.ends.places.get(self.next) else { return Ok(false) };
        self.next += 1;
        let (id, offset): (GlobalTableId, _) = ((self.access.tree, self.table.id()).into(), BlockOffset(offset));
        let block = match self.table.cache.get_block(id, offset) {
            Some(block) => block,
            None => load_block(
                id,
                &self.table.path,
                &FileAccessor::DescriptorTable(self.access.descriptors.clone()),
                &self.table.cache,
                &BlockHandle::new(offset, size),
                BlockType::Data,
                self.table.metadata.data_block_compression,
            )?,
        };
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
