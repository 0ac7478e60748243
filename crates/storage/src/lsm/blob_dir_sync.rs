//! The names of blob files. lsm-tree fsyncs the files and the folders of all others, but not this folder: after a crash
//! the manifest could name a file that has no name. So its folder is fsynced before a manifest may name new ones.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Fsyncs the folder of a tree's blob files.
pub(super) struct BlobDirSync {
    folder: PathBuf,
    failed: Mutex<Option<io::Error>>,
}

impl BlobDirSync {
    /// For the tree in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.join("blobs"), failed: Mutex::new(None) }
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.folder).and_then(|folder| folder.sync_all())
    }

    /// The same where an error cannot be told: `check` tells it.
    pub(super) fn sync_later_checked(&self) {
        if let Err(error) = self.sync() {
            *self.failed.lock().expect("nothing panics while it is held") = Some(error);
        }
    }

    /// What went wrong since the last check.
    pub(super) fn check(&self) -> io::Result<()> {
        self.failed.lock().expect("nothing panics while it is held").take().map_or(Ok(()), Err)
    }
}
