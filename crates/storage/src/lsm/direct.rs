//! Files that are read past the page cache (open(2), `O_DIRECT`): a read that is for the disk anyway takes a third of
//! the processor time, and puts nothing out that somebody else needs.

use crate::files::open_direct;
use lsm_tree::DescriptorTable;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The units in which files are read so, smallest first: a device has one of these.
const GRAINS: [u64; 2] = [512, 4096];
/// Files are not read so here.
const NEVER: u64 = 0;

/// A tree's number in the block cache, and a table's in the tree.
pub(super) type TableKey = (u64, u64);

/// The files of all trees that are open so. Bounded: what was not used for long is closed.
pub(crate) struct DirectFiles {
    open: DescriptorTable,
    grain: AtomicU64,
}

/// Closes a table's file with the last that knows of the table: else a file that is removed would keep its room.
pub(super) struct Closing {
    files: Arc<DirectFiles>,
    table: TableKey,
}

impl DirectFiles {
    pub(crate) fn new(open_max: usize) -> Arc<Self> {
        Arc::new(Self { open: DescriptorTable::new(open_max), grain: AtomicU64::new(GRAINS[0]) })
    }

    /// Offsets and lengths are multiples of this; none if files cannot be read so.
    pub(super) fn grain(&self) -> Option<u64> {
        Some(self.grain.load(Ordering::Relaxed)).filter(|grain| *grain != NEVER)
    }

    /// A read in units of `grain` was not taken: the next ones are of larger units, or not made so.
    pub(super) fn refused(&self, grain: u64) {
        let next = GRAINS.into_iter().find(|larger| *larger > grain).unwrap_or(NEVER);
        // Only once, however many reads were under way.
        let _ = self.grain.compare_exchange(grain, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The file of a table; whoever keeps what `closing` is given to lets go of it with the table.
    pub(super) fn open(
        self: &Arc<Self>,
        table: TableKey,
        path: &Path,
        closing: impl FnOnce(Closing),
    ) -> Option<Arc<File>> {
        if let Some(file) = self.open.access_for_table(&table.into()) {
            return Some(file);
        }
        match open_direct(path) {
            Ok(file) => {
                let file = Arc::new(file);
                closing(Closing { files: self.clone(), table });
                self.open.insert_for_table(table.into(), file.clone());
                Some(file)
            }
            Err(error) => {
                // The file system does not know this way of reading. Anything else is for a plain read to tell.
                if error.kind() == std::io::ErrorKind::InvalidInput {
                    self.grain.store(NEVER, Ordering::Relaxed);
                }
                None
            }
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.files.open.remove_for_table(&self.table.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_grow_once_for_all_reads_that_were_refused_until_there_are_none() {
        let files = DirectFiles::new(4);
        assert_eq!(files.grain(), Some(512));
        files.refused(512);
        files.refused(512);
        assert_eq!(files.grain(), Some(4096));
        files.refused(4096);
        files.refused(512);
        assert_eq!(files.grain(), None);
    }
}
