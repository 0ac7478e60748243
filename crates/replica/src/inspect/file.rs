//! One file of the log, record by record.
//!
//! ```text
//! file    magic (53 bytes), version (u64, 2), alignment (u64, 0), records; or version 1 without alignment
//! record  length (u56), compression (u8, 0), length of head and block (u64), block, footer
//! block   entries, one after the other, and the CRC32 of that; nothing if there is none
//! footer  items, and the CRC32 of that, in version 2 xor the low half of the file's number
//! ```
//! Numbers are big-endian, checksums little-endian.

use super::item::{Item, parse};
use crate::records::{FILE_HEAD_BYTES, FileVersion};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const RECORD_HEAD_BYTES: u64 = 16;
const CHECKSUM_BYTES: usize = 4;

/// Where the entries of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) at: u64,
    pub(super) length: u64,
}

/// One record, without its entries.
pub(super) struct Record {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) block: Block,
    pub(super) items: Vec<Item>,
}

/// Why reading stopped before the end of the file.
pub(super) enum Stop {
    /// What is there is not a record.
    Malformed(&'static str),
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A log file, open for reading.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) length: u64,
    file: File,
    /// None if it has no whole head, or one of a kind that no release has written.
    version: Option<FileVersion>,
    signature: u32,
}

impl LogFile {
    /// Opens the file of that number.
    pub(super) fn open(path: &Path, number: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut head = vec![0; length.min(FILE_HEAD_BYTES as u64) as usize];
        file.read_exact_at(&mut head, 0)?;
        let version = FileVersion::of(&head).filter(|version| head.starts_with(&version.head()));
        let signature = version.map_or(0, |version| version.signature(number));
        Ok(Self { path: path.to_owned(), length, file, version, signature })
    }

    /// Checks the head; answers where the first record begins.
    pub(super) fn head(&self) -> Result<u64, Stop> {
        let version = self.version.ok_or(Stop::Malformed("not the head of a log file of version 1 or 2"))?;
        Ok(version.head_bytes() as u64)
    }

    /// The record at `at`; `None` at the end of the file.
    pub(super) fn record(&self, at: u64) -> Result<Option<Record>, Stop> {
        let left = self.length - at;
        if left == 0 {
            return Ok(None);
        }
        if left < RECORD_HEAD_BYTES {
            return Err(Stop::Malformed("a record shorter than its head"));
        }
        let head = self.read(at, RECORD_HEAD_BYTES)?;
        let (word, footer_at) = (number(&head[..8]), number(&head[8..]));
        let (length, compression) = (word >> 8, word & 0xFF);
        if footer_at < RECORD_HEAD_BYTES || footer_at + CHECKSUM_BYTES as u64 >= length || length > left {
            return Err(Stop::Malformed("a record of an impossible length"));
        }
        if compression != 0 {
            return Err(Stop::Malformed("a compressed record"));
        }
        let footer = self.read(at + footer_at, length - footer_at)?;
        let items = checked(&footer, self.signature).and_then(parse);
        let items = items.ok_or(Stop::Malformed("a record whose checksum does not match"))?;
        let block = Block { at: at + RECORD_HEAD_BYTES, length: footer_at - RECORD_HEAD_BYTES };
        Ok(Some(Record { at, end: at + length, block, items }))
    }

    /// The entries of a record, checked.
    pub(super) fn block(&self, block: Block) -> Result<Vec<u8>, Stop> {
        let mut bytes = self.read(block.at, block.length)?;
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let length = checked(&bytes, 0).ok_or(Stop::Malformed("entries whose checksum does not match"))?.len();
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Whether there are only zeros from `at` on: room that was set aside.
    pub(super) fn is_blank(&self, mut at: u64) -> io::Result<bool> {
        while at < self.length {
            let piece = self.read(at, (self.length - at).min(1 << 20))?;
            if piece.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += piece.len() as u64;
        }
        Ok(true)
    }

    fn read(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

/// The bytes before a checksum, if it is theirs.
fn checked(bytes: &[u8], signature: u32) -> Option<&[u8]> {
    let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (u32::from_le_bytes(*sum) ^ signature == crc32fast::hash(content)).then_some(content)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("8 bytes"))
}
