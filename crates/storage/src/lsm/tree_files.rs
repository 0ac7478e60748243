//! The files of a tree at one moment, as readers use them.

use super::generation::Generation;
use super::merge::Entries;
use super::removed::Removed;
use super::table::{Access, Blocks};
use crate::Slice;
use crate::direct::{Closing, FileKey};
use lsm_tree::{AbstractTree, BlobFile, Table, Tree};
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

type Scan = dyn Fn(Bound<Slice>, Bound<Slice>, u64) -> Entries<'static> + Send + Sync;

/// What a version of the tree consists of. To make one takes lsm-tree's lock, which is held while a manifest is fsynced: threads that
/// others wait for share one that there is.
pub(super) struct TreeFiles {
    /// Newest first; within a run no two tables overlap, and they are in order.
    pub(super) runs: Vec<Run>,
    pub(super) blobs: HashMap<u64, ValueFile>,
    /// Scans them: each key between two bounds with its newest version below a seqno, in falling order, without removals.
    pub(super) falling: Box<Scan>,
    pub(super) l0_runs: usize,
    /// How many tables each level has.
    pub(super) level_tables: Vec<usize>,
    /// Their bytes, with those of values that are kept out of the levels.
    pub(super) disk_bytes: u64,
    /// Bytes of such values alone.
    pub(super) value_bytes: u64,
    /// Bytes of such values that nothing points to any more.
    pub(super) stale_bytes: u64,
    /// What they have of removals.
    pub(super) removed: Removed,
    /// About how many entries they have.
    pub(super) entries: usize,
}

impl TreeFiles {
    /// The files that `generation` has now.
    pub(super) fn of(generation: &Generation) -> Self {
        let tree = generation.index();
        let version = tree.current_version();
        let run = |tables: &[Table]| Run {
            tables: tables.to_vec(),
            blocks: tables.iter().map(|table| generation.blocks.of(table.id())).collect(),
        };
        let runs = version.iter_levels().flat_map(|level| level.iter()).map(|tables| run(tables)).collect();
        let values = |file: &BlobFile| {
            let closing = generation.values.of(file.id());
            if Arc::strong_count(&closing) == 1 {
                // No view has had the file. What wrote it has left it open in such a way that the kernel reads ahead of it.
                FileKey::Values((tree.id(), file.id())).close(&generation.descriptors);
            }
            ValueFile { file: file.clone(), closing }
        };
        let blobs = version.blob_files.iter().map(|file| (file.id(), values(file))).collect();
        let l0_runs = version.l0().run_count();
        let (mut removed, last) = (Removed::default(), version.level_count() - 1);
        for (number, level) in version.iter_levels().enumerate() {
            for table in level.iter().flat_map(|run| run.iter()) {
                let removals = table.tombstone_count();
                removed.rows += table.metadata.item_count.saturating_sub(removals);
                removed.flushed += if number < last { removals } else { 0 };
            }
        }
        let super_version = tree.get_version_history_lock().latest_version();
        let falling = Box::new(move |low, high, seqno| -> Entries<'static> {
            Box::new(Tree::create_internal_range(super_version.clone(), &(low, high), seqno, None).rev())
        });
        Self {
            runs,
            blobs,
            falling,
            l0_runs,
            level_tables: version.iter_levels().map(|level| level.table_count()).collect(),
            disk_bytes: generation.tree().disk_space(),
            value_bytes: generation.value_bytes(),
            stale_bytes: generation.tree().stale_blob_bytes(),
            removed,
            entries: generation.tree().approximate_len(),
        }
    }
}

/// A file of values that are kept out of the levels.
#[derive(Clone)]
pub(super) struct ValueFile {
    pub(super) file: BlobFile,
    /// The same file, opened for reading past the page cache.
    pub(super) closing: Arc<Closing>,
}

/// Tables that do not overlap, in their order.
pub(super) struct Run {
    pub(super) tables: Vec<Table>,
    /// What is known of the blocks of each of them.
    pub(super) blocks: Vec<Arc<Blocks>>,
}

impl Run {
    pub(super) fn table_for(&self, key: &[u8]) -> Option<(&Table, &Arc<Blocks>)> {
        let at = self.tables.partition_point(|table| &table.metadata.key_range.max()[..] < key);
        let table = self.tables.get(at).filter(|table| &table.metadata.key_range.min()[..] <= key)?;
        Some((table, &self.blocks[at]))
    }

    /// Its entries from `start` on; `None` if it has none before `end`.
    pub(super) fn entries_from<'a>(&'a self, access: Access<'a>, start: &Slice, end: &Slice) -> Option<Entries<'a>> {
        let at = self.tables.partition_point(|table| table.metadata.key_range.max() < start);
        let first = self.tables.get(at)?;
        if !end.is_empty() && first.metadata.key_range.min() >= end {
            return None;
        }
        let entries = self.blocks[at].rows_from(first, access, start);
        let others = self.tables.iter().zip(&self.blocks).skip(at + 1);
        Some(if at + 1 == self.tables.len() {
            entries
        } else {
            let all = Slice::empty();
            Box::new(entries.chain(others.flat_map(move |(table, blocks)| blocks.rows_from(table, access, &all))))
        })
    }
}
