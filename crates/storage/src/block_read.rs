//! What a look-up that does not wait needs from the disk, and what was read for it.
//!
//! Rows that are read so are not put into the block cache: the row cache holds those that are asked for, and what the
//! block cache has room for is filters and indexes first, without which a row costs several reads.

use crate::direct::{Closing, DirectFiles, FileKey};
use crate::value_record::value_in;
use crate::{Extent, Slice};
use lsm_tree::table::block::BlockType;
use lsm_tree::table::{Block, BlockOffset};
use lsm_tree::{BlobFile, CompressionType, DescriptorTable, Table};
use rustix::fs::{Advice, fadvise};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The key that a block of rows was wanted for, and how far the look-up had come: no newer table of its view has the key.
/// The next look-up with that block begins there.
#[derive(Clone)]
pub(crate) struct Sought {
    pub(crate) key: Slice,
    /// The view's number.
    pub(crate) view: u64,
    pub(crate) run: usize,
}

/// A block that is to be read, or a value that is kept out of the levels.
pub struct BlockRead {
    pub(crate) file: FileKey,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) wanted: Wanted,
    pub(crate) descriptors: Arc<DescriptorTable>,
    pub(crate) direct: Arc<DirectFiles>,
}

/// What is in the file there. `closing` is of the file for reading past the page cache.
pub(crate) enum Wanted {
    Block { table: Table, kind: BlockType, compression: CompressionType, closing: Arc<Closing>, sought: Sought },
    Value { key: Slice, values: BlobFile, closing: Arc<Closing> },
}

/// What was read, for those look-ups that wanted it.
pub struct HeldBlock {
    file: FileKey,
    offset: u64,
    content: Content,
}

enum Content {
    Rows(Block, Sought),
    /// An index, or a part of an index or a filter; what a look-up that waits has read.
    Shared(Block),
    /// As it is stored.
    Value(Slice),
}

/// How a look-up that does not wait came out.
pub enum Look {
    /// What `get` answers.
    Found(Option<Slice>),
    /// It needs this block. With that held, it may need another one.
    Missing(BlockRead),
    /// What it needs cannot be told.
    Unknown,
}

impl HeldBlock {
    /// What a look-up that waits has read there.
    pub(crate) fn read(file: FileKey, offset: u64, block: Block) -> Self {
        Self { file, offset, content: Content::Shared(block) }
    }

    /// The block, or the part of an index or a filter, that lies there in that file.
    pub(crate) fn block_at(&self, file: FileKey, offset: u64) -> Option<&Block> {
        match &self.content {
            Content::Rows(block, _) | Content::Shared(block) if self.is_at(file, offset) => Some(block),
            _ => None,
        }
    }

    /// The stored form of the value that lies there in that file.
    pub(crate) fn value_at(&self, file: FileKey, offset: u64) -> Option<&Slice> {
        match &self.content {
            Content::Value(stored) if self.is_at(file, offset) => Some(stored),
            _ => None,
        }
    }

    fn is_at(&self, file: FileKey, offset: u64) -> bool {
        self.file == file && self.offset == offset
    }

    /// The rows that were wanted for `key` by a look-up in the view of that number, and the run of their table.
    pub(crate) fn rows_for(&self, key: &[u8], view: u64) -> Option<(&Block, usize)> {
        match &self.content {
            Content::Rows(block, sought) if sought.view == view && sought.key == key => Some((block, sought.run)),
            _ => None,
        }
    }
}

impl BlockRead {
    fn path(&self) -> &Path {
        match &self.wanted {
            Wanted::Block { table, .. } => &table.path,
            Wanted::Value { values, .. } => values.path(),
        }
    }

    /// Its bytes and those around them, to be read past the page cache, if that can be done here.
    #[must_use]
    pub fn direct(&self) -> Option<Extent> {
        let grain = self.direct.grain()?;
        let (Wanted::Block { closing, .. } | Wanted::Value { closing, .. }) = &self.wanted;
        let file = self.direct.open(self.file, self.path(), closing)?;
        let (offset, end) = (self.offset / grain * grain, self.offset + self.bytes as u64);
        Some(Extent { file, offset, bytes: (end.next_multiple_of(grain) - offset) as usize, grain })
    }

    /// Its bytes, to be read through the page cache.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn cached(&self) -> std::io::Result<Extent> {
        let file = self.file.open(self.path(), &self.descriptors)?;
        Ok(Extent { file, offset: self.offset, bytes: self.bytes, grain: 1 })
    }

    /// `direct` was not taken by the file's system: it tells another one from now on, or none.
    pub fn refused(&self, extent: &Extent) {
        self.direct.refused(extent.grain);
    }

    /// What was read from `offset` on, if that has the whole of it and its checksum holds. Parts of filters and indexes
    /// are put into the block cache besides.
    #[must_use]
    pub fn accept(&self, offset: u64, bytes: &[u8]) -> Option<HeldBlock> {
        let start = (self.offset - offset) as usize;
        let mut bytes = bytes.get(start..start + self.bytes)?;
        let content = match &self.wanted {
            Wanted::Block { table, kind, compression, sought, .. } => {
                let block = Block::from_reader(&mut bytes, *compression).ok()?;
                if block.header.block_type != *kind {
                    return None;
                }
                match self.file {
                    FileKey::Table(place) if *kind != BlockType::Data => {
                        table.cache.insert_block(place.into(), BlockOffset(self.offset), block.clone());
                        Content::Shared(block)
                    }
                    _ => Content::Rows(block, sought.clone()),
                }
            }
            Wanted::Value { key, .. } => Content::Value(Slice::from(value_in(bytes, key).ok()?)),
        };
        Some(HeldBlock { file: self.file, offset: self.offset, content })
    }

    /// Whether it holds rows or a value, rather than a part of an index or a filter, which many keys want.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        !matches!(&self.wanted, Wanted::Block { kind, .. } if *kind != BlockType::Data)
    }

    /// Has the disk begin to read it, if it has rows; reads any other now. False if more may be wanted for the same key.
    pub(crate) fn ask_for(&self) -> bool {
        let Ok(extent) = self.cached() else { return true };
        if self.has_rows() {
            // Refused, the reader that needs the block reads it.
            let _ = fadvise(&*extent.file, extent.offset, NonZeroU64::new(extent.bytes as u64), Advice::WillNeed);
            return true;
        }
        let mut bytes = vec![0; extent.bytes];
        extent.file.read_exact_at(&mut bytes, extent.offset).is_err() || self.accept(extent.offset, &bytes).is_none()
    }
}
