//! Has the kernel read the block that a `get` will need, without waiting for it: so one thread waits for many at once.
//!
//! A hint. Nothing that is found here is answered to anybody, and what cannot be read is left to `get`, which tells
//! why. It waits only for blocks of an index or a filter that are not in the block cache: `get` would, too.

use super::view::View;
use lsm_tree::table::block::BlockType;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::{Block, BlockHandle, GlobalTableId, IndexBlock};
use lsm_tree::{AbstractTree, CompressionType, DescriptorTable, SeqNo, Table};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::num::NonZeroU64;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Where a table has a key, if it does.
enum Place {
    /// Not in this table.
    Absent,
    /// In a block that is in the block cache.
    Cached,
    /// In this block of the file.
    At(BlockHandle),
}

/// One table, for one look-up.
struct Lookup<'a> {
    table: &'a Table,
    id: GlobalTableId,
    descriptors: &'a DescriptorTable,
}

impl View {
    /// Has the block read in which `key` is, if it is in no memory.
    pub(super) fn prefetch(&self, key: &[u8]) {
        if self.is_unflushed(key) {
            return;
        }
        let (hash, tree) = (xxh3_64(key), self.generation.index().id());
        for table in self.tables_for(key) {
            let id = (tree, table.id()).into();
            let lookup = Lookup { table, id, descriptors: &self.generation.descriptors };
            match lookup.place(key, hash) {
                Ok(Place::Absent) => {}
                Ok(Place::At(block)) => return lookup.ask_for(block),
                Ok(Place::Cached) | Err(_) => return,
            }
        }
    }
}

impl Lookup<'_> {
    fn place(&self, key: &[u8], hash: u64) -> lsm_tree::Result<Place> {
        if !self.may_have(key, hash)? {
            return Ok(Place::Absent);
        }
        let regions = &self.table.regions;
        let mut found = self.entry_of(regions.tli, key)?;
        // The index is in parts, and what was looked into is the index of these.
        if regions.index.is_some()
            && let Some(part) = found
        {
            found = self.entry_of(part, key)?;
        }
        Ok(match found {
            None => Place::Absent,
            Some(block) if self.table.cache.get_block(self.id, block.offset()).is_some() => Place::Cached,
            Some(block) => Place::At(block),
        })
    }

    /// What the table's filter says.
    fn may_have(&self, key: &[u8], hash: u64) -> lsm_tree::Result<bool> {
        if let Some(filter) = &self.table.pinned_filter_block {
            return filter.maybe_contains_hash(hash);
        }
        let Some(parts) = self.table.regions.filter_tli else { return Ok(true) };
        match self.entry_of(parts, key)? {
            Some(part) => {
                FilterBlock::new(self.block(part, BlockType::Filter, CompressionType::None)?).maybe_contains_hash(hash)
            }
            None => Ok(true),
        }
    }

    /// The first block of an index that may have `key`.
    fn entry_of(&self, index: BlockHandle, key: &[u8]) -> lsm_tree::Result<Option<BlockHandle>> {
        let block = self.block(index, BlockType::Index, self.table.metadata.index_block_compression)?;
        let index = IndexBlock::new(block);
        let mut entries = index.iter();
        let found = if entries.seek(key, SeqNo::MAX) { entries.next() } else { None };
        Ok(found.map(|entry| BlockHandle::new(entry.offset, entry.size)))
    }

    /// A block of an index or a filter, from the block cache, or into it.
    fn block(&self, handle: BlockHandle, kind: BlockType, compression: CompressionType) -> lsm_tree::Result<Block> {
        if let Some(block) = self.table.cache.get_block(self.id, handle.offset()) {
            return Ok(block);
        }
        let block = Block::from_file(&*self.file()?, handle, compression)?;
        if block.header.block_type != kind {
            return Err(lsm_tree::Error::InvalidTag(("BlockType", block.header.block_type.into())));
        }
        self.table.cache.insert_block(self.id, handle.offset(), block.clone());
        Ok(block)
    }

    fn ask_for(&self, block: BlockHandle) {
        if let Ok(file) = self.file() {
            let bytes = NonZeroU64::new(block.size().into());
            // Refused, the block is read by whoever needs it.
            let _ = fadvise(&*file, *block.offset(), bytes, Advice::WillNeed);
        }
    }

    fn file(&self) -> std::io::Result<Arc<File>> {
        if let Some(file) = self.descriptors.access_for_table(&self.id) {
            return Ok(file);
        }
        let file = Arc::new(File::open(&*self.table.path)?);
        self.descriptors.insert_for_table(self.id, file.clone());
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Engine, LsmEngine, SharedResources, Slice, StorageOptions, WriteBatch};

    const ENTRIES: u64 = 12;
    const ROWS: u64 = 500;

    fn key(i: u64) -> Vec<u8> {
        format!("key{i:08}").into_bytes()
    }

    /// Each entry writes every twelfth key; the last ones stay in the first level and in memory.
    fn filled(folder: &std::path::Path) -> LsmEngine {
        let options = StorageOptions { table_bytes: 256 << 10, block_cache_bytes: 64 << 20, ..Default::default() };
        let engine = LsmEngine::open(folder, &SharedResources::new(options)).unwrap();
        for entry in 1..=ENTRIES {
            let rows = (0..ROWS).map(|row| key(row * ENTRIES + entry));
            let writes = rows.map(|key| (Slice::from(&key[..]), Some([&key[..], &[7; 500]].concat().into()))).collect();
            engine.apply(entry, WriteBatch { writes });
            if entry < ENTRIES {
                engine.seal(Vec::new());
                engine.flush().unwrap();
            }
            while entry < ENTRIES - 1 && engine.compact().unwrap() {}
        }
        engine
    }

    #[test]
    fn what_is_asked_for_is_the_block_that_a_get_reads() {
        let folder = tempfile::tempdir().unwrap();
        let engine = filled(folder.path());
        let view = engine.view.load_full();
        let tree = view.generation.index().id();
        let place = |key: &[u8]| {
            let hash = xxh3_64(key);
            let mut places = view.tables_for(key).map(|table| {
                let lookup = Lookup { table, id: (tree, table.id()).into(), descriptors: &view.generation.descriptors };
                lookup.place(key, hash).unwrap()
            });
            places.find(|place| !matches!(place, Place::Absent)).unwrap_or(Place::Absent)
        };
        let mut asked = 0;
        for i in ENTRIES + 1..ROWS * ENTRIES {
            let key = key(i);
            view.prefetch(&key);
            if view.is_unflushed(&key) {
                continue;
            }
            asked += u64::from(matches!(place(&key), Place::At(_)));
            assert_eq!(&engine.get(&key).unwrap().unwrap()[..key.len()], key);
            assert!(matches!(place(&key), Place::Cached), "{i} was in another block");
        }
        assert!(asked > ROWS / 2, "{asked} blocks were not in the cache");
        let absent = (0..ROWS).filter(|i| matches!(place(format!("key{i:08}x").as_bytes()), Place::Absent)).count();
        assert!(absent as u64 > ROWS * 9 / 10, "the filters know {absent} of {ROWS} absent keys");
    }
}
