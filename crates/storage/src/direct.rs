//! Files that are read past the page cache (open(2), `O_DIRECT`): a read that is for the disk anyway takes a third of
//! the processor time, and pushes nothing out of the page cache.

use crate::files::open_direct;
use lsm_tree::DescriptorTable;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The units in which files are read so, smallest first: a device has one of these.
const GRAINS: [u64; 2] = [512, 4096];
/// The system reads so many bytes ahead: a table that is no longer is read block by block.
const SMALL_TABLE_BYTES: u64 = 128 * 1024;
/// Files are not read so here.
const NEVER: u64 = 0;

/// A tree's number in the block cache, and a file's in the tree.
pub(crate) type Place = (u64, u64);

/// Which file it is: tables and value files are numbered apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKey {
    Table(Place),
    Values(Place),
}

impl FileKey {
    /// The file at `path`, which this is, as `descriptors` has it, or opened for it.
    pub(crate) fn open(self, path: &Path, descriptors: &DescriptorTable) -> std::io::Result<Arc<File>> {
        self.open_with(descriptors, || {
            let file = File::open(path)?;
            if matches!(self, Self::Values(_)) || file.metadata()?.len() <= SMALL_TABLE_BYTES {
                // Heads of values are read, and values as a whole: nothing around them. Of a small table the system would read
                // all at the first block. It costs no more where this is refused.
                let _ = fadvise(&file, 0, None, Advice::Random);
            }
            Ok(file)
        })
    }

    fn open_with(
        self,
        descriptors: &DescriptorTable,
        open: impl FnOnce() -> std::io::Result<File>,
    ) -> std::io::Result<Arc<File>> {
        let known = match self {
            Self::Table(place) => descriptors.access_for_table(&place.into()),
            Self::Values(place) => descriptors.access_for_blob_file(&place.into()),
        };
        if let Some(file) = known {
            return Ok(file);
        }
        let file = Arc::new(open()?);
        match self {
            Self::Table(place) => descriptors.insert_for_table(place.into(), file.clone()),
            Self::Values(place) => descriptors.insert_for_blob_file(place.into(), file.clone()),
        }
        Ok(file)
    }

    /// Closes it, if it is open.
    pub(crate) fn close(self, descriptors: &DescriptorTable) {
        match self {
            Self::Table(place) => descriptors.remove_for_table(&place.into()),
            Self::Values(place) => descriptors.remove_for_blob_file(&place.into()),
        }
    }
}

/// The files of all trees that are open so. Bounded: what was not used for long is closed.
pub(crate) struct DirectFiles {
    open: DescriptorTable,
    grain: AtomicU64,
}

/// Of one file, kept by each view that has it: with the last of them it is closed. Else a file that is removed would keep its
/// room.
#[derive(Default)]
pub(crate) struct Closing(OnceLock<(Arc<DirectFiles>, FileKey)>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some((files, file)) = self.0.take() {
            file.close(&files.open);
        }
    }
}

impl DirectFiles {
    pub(crate) fn new(open_max: usize) -> Arc<Self> {
        Arc::new(Self { open: DescriptorTable::new(open_max), grain: AtomicU64::new(GRAINS[0]) })
    }

    /// Offsets and lengths are multiples of this; none if files cannot be read so.
    pub(crate) fn grain(&self) -> Option<u64> {
        Some(self.grain.load(Ordering::Relaxed)).filter(|grain| *grain != NEVER)
    }

    /// A read in units of `grain` was not taken: the next ones are of larger units, or not made so.
    pub(crate) fn refused(&self, grain: u64) {
        let next = GRAINS.into_iter().find(|larger| *larger > grain).unwrap_or(NEVER);
        // Only once, however many reads were under way.
        let _ = self.grain.compare_exchange(grain, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The file at `path`, which is `key`; closed with `closing`.
    pub(crate) fn open(self: &Arc<Self>, key: FileKey, path: &Path, closing: &Closing) -> Option<Arc<File>> {
        let opened = key.open_with(&self.open, || {
            let file = open_direct(path)?;
            // If it is known already, it is the same.
            closing.0.get_or_init(|| (self.clone(), key));
            Ok(file)
        });
        // The file system may not know this way of reading. Anything else is for a plain read to tell.
        if opened.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidInput) {
            self.grain.store(NEVER, Ordering::Relaxed);
        }
        opened.ok()
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
