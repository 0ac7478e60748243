//! The next log file, made ahead: filled with zeros, so that an fsync of what is written over them changes no metadata.
//! Filling it while it is appended to, a piece at a time, keeps writers waiting for each piece.

use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use storage::{UnitBuffer, open_direct_to_write};

/// Its name until it is taken: nothing that reads a log knows it.
const NAME: &str = "spare.zeros";
/// Bytes of one write of zeros: an fsync that comes between waits for at most one.
const PIECE: usize = 256 << 10;

/// Makes spare files in a folder. There is one at the most.
#[derive(Debug, Default)]
pub(crate) struct SpareFile {
    made: Mutex<Option<PathBuf>>,
}

impl SpareFile {
    /// Removes what an earlier process has left in `dir`: it may be half filled.
    pub(crate) fn clear(dir: &Path) -> io::Result<()> {
        match std::fs::remove_file(dir.join(NAME)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes a file of `bytes` in `dir` unless there is one. It pauses half of the time, for writers of the log.
    /// If there is no room, or the file system cannot write in this way, no file is made.
    pub(crate) fn make(&self, dir: &Path, bytes: u64, mut go_on: impl FnMut() -> bool) -> io::Result<()> {
        if self.made().is_some() {
            return Ok(());
        }
        let path = dir.join(NAME);
        let filled = fill(&path, bytes, &mut go_on);
        if matches!(filled, Ok(true)) {
            *self.made() = Some(path);
            return Ok(());
        }
        Self::clear(dir)?;
        filled.map(|_| ())
    }

    /// Gives it the name `path`, in the same folder; answers whether there was one.
    pub(crate) fn take(&self, path: &Path) -> io::Result<bool> {
        match self.made().take() {
            Some(spare) => std::fs::rename(spare, path).map(|()| true),
            None => Ok(false),
        }
    }

    fn made(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.made.lock()
    }
}

/// Whether the file was filled and is on the disk; false if filling was stopped.
fn fill(path: &Path, bytes: u64, go_on: &mut impl FnMut() -> bool) -> io::Result<bool> {
    File::create(path)?;
    let file = open_direct_to_write(path)?;
    let mut zeros = UnitBuffer::default();
    zeros.extend(&[0; PIECE]);
    let mut at = 0;
    while at < bytes {
        if !go_on() {
            return Ok(false);
        }
        let begun = Instant::now();
        file.write_all_at(zeros.units(), at)?;
        at += PIECE as u64;
        std::thread::sleep(begun.elapsed());
    }
    file.set_len(bytes)?;
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn there_is_one_at_the_most_it_is_all_zeros_and_half_a_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (path, spare) = (dir.path().join("1.raftlog"), SpareFile::default());
        let mut pieces = 0;
        let made = spare.make(dir.path(), 1_000_001, || {
            pieces += 1;
            pieces < 3
        });
        if made.is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput) {
            return;
        }
        assert!(!spare.take(&path).unwrap() && !dir.path().join(NAME).exists());
        spare.make(dir.path(), 1_000_001, || true).unwrap();
        spare.make(dir.path(), 5, || panic!("there is one")).unwrap();
        assert!(spare.take(&path).unwrap() && !spare.take(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; 1_000_001]);
        std::fs::write(dir.path().join(NAME), "left").unwrap();
        SpareFile::clear(dir.path()).unwrap();
        SpareFile::clear(dir.path()).unwrap();
        assert!(!dir.path().join(NAME).exists());
    }
}
