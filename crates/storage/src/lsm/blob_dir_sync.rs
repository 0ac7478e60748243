//! The names of blob files. lsm-tree fsyncs the files and the folders of all others, but not this folder: after a crash
//! the manifest could name a file that has no name. So its folder is fsynced before a manifest may name new ones.
//!
//! A compaction cannot be told to end once all is written. So it opens the folder when it begins: then no lack of descriptors
//! comes between the files and their manifest.

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

    /// The folder, to be fsynced later.
    pub(super) fn open(&self) -> io::Result<File> {
        File::open(&self.folder)
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.open()?.sync_all()
    }

    /// The same by what `open` has given, where an error cannot be told: `check` tells it. By then a manifest may name the files:
    /// whatever the reason, what a start would find is in doubt.
    pub(super) fn sync_later_checked(&self, folder: &File) {
        if let Err(error) = folder.sync_all() {
            let in_doubt = io::Error::other(format!("its entries cannot be made durable: {error}"));
            *self.failed.lock().expect("nothing panics while it is held") = Some(in_doubt);
        }
    }

    /// What went wrong since the last check.
    pub(super) fn check(&self) -> io::Result<()> {
        self.failed.lock().expect("nothing panics while it is held").take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn what_was_opened_is_synced_though_it_could_not_be_opened_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobDirSync::new(folder.path());
        assert!(blobs.open().is_err());
        fs::create_dir(folder.path().join("blobs")).unwrap();
        let opened = blobs.open().unwrap();
        blobs.sync().unwrap();
        fs::rename(folder.path().join("blobs"), folder.path().join("elsewhere")).unwrap();
        assert!(blobs.sync().is_err());
        blobs.sync_later_checked(&opened);
        blobs.check().unwrap();
        // A pipe is nothing that can be fsynced: that leaves in doubt what a manifest names.
        let (reader, _writer) = std::io::pipe().unwrap();
        blobs.sync_later_checked(&File::from(std::os::fd::OwnedFd::from(reader)));
        assert!(!vocab::is_shortage(&blobs.check().unwrap_err()));
        blobs.check().unwrap();
    }
}
