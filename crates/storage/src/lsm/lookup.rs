//! A look-up in one table, from memory: from blocks that were read for it, and from the block cache. What is in neither it may
//! read, and goes on.
//!
//! It searches the index of the table by the heads of its keys (`Ends`), where lsm-tree's own look-up searches it as bytes and
//! misses the processor's caches at each step.

use super::block::Rows;
use super::table::{Access, Blocks, Ends, load};
use crate::block_read::HeldBlock;
use crate::direct::{FileKey, Place};
use lsm_tree::table::block::BlockType;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::{Block, BlockHandle, IndexBlock};
use lsm_tree::{CompressionType, InternalValue, SeqNo, Table};
use std::sync::OnceLock;

/// Blocks that are read for one key at most: parts of filter and index, and rows, and as many again that have left the block
/// cache meanwhile.
const BLOCKS_MAX: usize = 8;

/// Why a look-up goes no further.
pub(super) enum Stop {
    /// A block is in no memory.
    Missing(BlockAt),
    /// What was read makes no sense.
    Malformed,
}

impl From<lsm_tree::Error> for Stop {
    fn from(_: lsm_tree::Error) -> Self {
        Self::Malformed
    }
}

pub(super) type Looked<T> = std::result::Result<T, Stop>;

/// Where a block is and what it is.
#[derive(Clone, Copy)]
pub(super) struct BlockAt {
    pub(super) handle: BlockHandle,
    pub(super) kind: BlockType,
    pub(super) compression: CompressionType,
}

/// One table, for one look-up.
pub(super) struct Lookup<'a> {
    pub(super) table: &'a Table,
    pub(super) blocks: &'a Blocks,
    pub(super) place: Place,
    /// Blocks that were read for it.
    pub(super) held: &'a [HeldBlock],
}

impl Lookup<'_> {
    /// The table's newest version of `key`.
    pub(super) fn find(&self, key: &[u8], hash: u64) -> Looked<Option<InternalValue>> {
        if !self.may_have(key, hash)? {
            return Ok(None);
        }
        let regions = &self.table.regions;
        let found = match regions.index {
            // The index is in parts, and what is looked into first is the index of these.
            Some(_) => match self.part_of(&self.blocks.index_parts, regions.tli, key)? {
                Some(part) => self.entry_of(part, key)?,
                None => None,
            },
            None => self.part_of(&self.blocks.ends, regions.tli, key)?,
        };
        let Some(handle) = found else { return Ok(None) };
        let block = self.block(handle, BlockType::Data, self.table.metadata.data_block_compression)?;
        Ok(Rows::new(block.data)?.get(key)?)
    }

    /// The same, and reads blocks that are in no memory. An error: the table itself says what is wrong.
    pub(super) fn find_and_wait(&self, access: Access<'_>, key: &[u8], hash: u64) -> Looked<Option<InternalValue>> {
        // The block cache need not keep what is read: an index may be too long for it.
        let mut read = Vec::new();
        for _ in 0..BLOCKS_MAX {
            let Self { table, blocks, place, .. } = *self;
            match (Lookup { table, blocks, place, held: &read }).find(key, hash) {
                Err(Stop::Missing(BlockAt { handle, kind, compression })) => {
                    let block = load(table, access, &handle, kind, compression)?;
                    read.push(HeldBlock::read(FileKey::Table(place), *handle.offset(), block));
                }
                looked => return looked,
            }
        }
        Err(Stop::Malformed)
    }

    /// What the table's filter says.
    pub(super) fn may_have(&self, key: &[u8], hash: u64) -> Looked<bool> {
        if let Some(filter) = &self.table.pinned_filter_block {
            return Ok(filter.maybe_contains_hash(hash)?);
        }
        let Some(parts) = self.table.regions.filter_tli else { return Ok(true) };
        let Some(part) = self.part_of(&self.blocks.filter_parts, parts, key)? else { return Ok(true) };
        let filter = FilterBlock::new(self.block(part, BlockType::Filter, CompressionType::None)?);
        Ok(filter.maybe_contains_hash(hash)?)
    }

    /// The part, or block of rows, that may have `key`: by the heads of the parts' ends, which are kept from the first look
    /// on, or if these do not say by `index`, the index of the parts. A search in that is a dozen waits for memory.
    fn part_of(&self, heads: &OnceLock<Ends>, index: BlockHandle, key: &[u8]) -> Looked<Option<BlockHandle>> {
        let ends = match heads.get() {
            Some(ends) => ends,
            None => {
                let block = self.block(index, BlockType::Index, self.table.metadata.index_block_compression)?;
                heads.get_or_init(|| Ends::of(self.table, &IndexBlock::new(block)))
            }
        };
        ends.only(key).map_or_else(|| self.entry_of(index, key), Ok)
    }

    /// The first block of an index that may have `key`.
    fn entry_of(&self, index: BlockHandle, key: &[u8]) -> Looked<Option<BlockHandle>> {
        let block = self.block(index, BlockType::Index, self.table.metadata.index_block_compression)?;
        let index = IndexBlock::new(block);
        let mut entries = index.iter();
        let found = if entries.seek(key, SeqNo::MAX) { entries.next() } else { None };
        Ok(found.map(|entry| BlockHandle::new(entry.offset, entry.size)))
    }

    /// A block that is held, or in the block cache.
    fn block(&self, handle: BlockHandle, kind: BlockType, compression: CompressionType) -> Looked<Block> {
        let file = FileKey::Table(self.place);
        let held = self.held.iter().find_map(|held| held.block_at(file, *handle.offset())).cloned();
        let block = held.or_else(|| self.table.cache.get_block(self.place.into(), handle.offset()));
        block.ok_or(Stop::Missing(BlockAt { handle, kind, compression }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Engine, LsmEngine, SharedResources, Slice, StorageOptions, WriteBatch};

    #[test]
    fn an_index_that_the_block_cache_does_not_keep_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let options = StorageOptions { block_cache_bytes: 0, ..StorageOptions::default() };
        let engine = LsmEngine::open(folder.path(), &SharedResources::new(options)).unwrap();
        let name = |n: u64| format!("key{n:08}");
        let writes = (0..20_000).map(|n| (Slice::from(name(n)), Some(Slice::from(name(n))))).collect();
        engine.apply(1, WriteBatch { writes, ..WriteBatch::default() });
        engine.seal(Vec::new());
        engine.flush().unwrap();
        let view = engine.view.load();
        let knows_ends = || {
            view.tables_for(b"key00000007", 0).all(|(_, table, blocks)| {
                assert!(table.regions.index.is_none(), "it is in one block");
                blocks.ends.get().is_some()
            })
        };
        assert!(!knows_ends());
        for n in [7, 19_999, 1_234] {
            assert_eq!(engine.get(name(n).as_bytes()).unwrap().as_deref(), Some(name(n).as_bytes()));
            assert!(knows_ends(), "the next look-up needs no index");
        }
        assert_eq!(engine.get(b"key00000007x").unwrap(), None);
    }
}
