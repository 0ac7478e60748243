//! A log file that is written past the page cache (open(2), `O_DIRECT`): an fsync then has only the device's own cache
//! to wait for, and a write costs a third of the processor time that it takes through pages.
//!
//! Only over what the file has already: such a write changes neither its length nor where it lies.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Files are written so in units of this many bytes: of as many as any device asks for.
const UNIT: usize = 4096;
/// Most bytes of one write.
const WRITE_MAX: usize = 1 << 20;

/// The file, open so.
pub(crate) struct DirectFile {
    file: File,
    /// Where the next write goes.
    at: u64,
    /// What the file has of the unit that `at` is in: it is written again with what follows.
    tail: Vec<u8>,
    buffer: UnitBuffer,
}

impl DirectFile {
    /// Opens the file at `path`, whose next write goes to `at`. No write may end in a unit that is not there. Fails with `InvalidInput` where the file system knows no
    /// such way.
    pub(crate) fn open(path: &Path, at: u64) -> io::Result<Self> {
        let file = open(path)?;
        let mut buffer = UnitBuffer::default();
        let filled = at as usize % UNIT;
        let unit = buffer.take(UNIT);
        if filled > 0 {
            file.read_exact_at(unit, at - filled as u64)?;
        }
        let tail = unit[..filled].to_vec();
        Ok(Self { file, at, tail, buffer })
    }

    /// Where the next write goes.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Writes `bytes`, or the first part of them; answers how many. After them, up to the end of the unit, are zeros.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_MAX)];
        let filled = self.tail.len() + bytes.len();
        let whole = self.buffer.take(filled.next_multiple_of(UNIT));
        whole[..self.tail.len()].copy_from_slice(&self.tail);
        whole[self.tail.len()..filled].copy_from_slice(bytes);
        whole[filled..].fill(0);
        self.file.write_all_at(whole, self.at - self.tail.len() as u64)?;
        self.at += bytes.len() as u64;
        self.tail.clear();
        self.tail.extend_from_slice(&whole[filled - filled % UNIT..filled]);
        Ok(bytes.len())
    }
}

/// Where the unit ends that the byte before `at` is in.
pub(crate) fn unit_end(at: u64) -> u64 {
    at.next_multiple_of(UNIT as u64)
}

/// Opens a file to be written past the page cache.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Bytes in memory that begin where the device wants them to.
#[derive(Default)]
pub(crate) struct UnitBuffer(Vec<u8>);

impl UnitBuffer {
    /// So many of them, with anything in them.
    pub(crate) fn take(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes + UNIT {
            self.0.resize(bytes + UNIT, 0);
        }
        let start = self.0.as_ptr().align_offset(UNIT);
        &mut self.0[start..start + bytes]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Writes of many lengths, at first after something that was written otherwise, against a plain copy.
    #[test]
    fn what_was_written_before_is_kept_and_what_follows_is_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut expected = vec![7_u8; 5000];
        let mut bytes = expected.clone();
        bytes.resize(8 << 20, 0);
        std::fs::write(&path, &bytes).unwrap();
        let mut file = match DirectFile::open(&path, 5000) {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => return,
            opened => opened.unwrap(),
        };
        for (n, length) in [1, 100, 3186, 5, 4096, 4095, 70_000, 2_500_000, 1, 8192].into_iter().enumerate() {
            let mut left = &vec![n as u8 + 10; length][..];
            expected.extend_from_slice(left);
            while !left.is_empty() {
                left = &left[file.write(left).unwrap()..];
            }
            assert_eq!(file.at(), expected.len() as u64);
            let found = std::fs::read(&path).unwrap();
            assert!(found[..expected.len()] == expected, "after {length}");
            assert!(found[expected.len()..].iter().all(|&byte| byte == 0) && found.len() == 8 << 20, "after {length}");
        }
    }
}
