//! The records of a log file, as far as damage is told from a torn end: docs/FORMATS.md has the layout.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Magic, version and alignment.
const FILE_HEAD_BYTES: usize = 53 + 8 + 8;
const RECORD_HEAD_BYTES: usize = 16;

/// The first record whose entries do not match their checksum: its file and place.
pub(crate) fn damaged_record(dir: &Path) -> Option<(PathBuf, usize)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    files.into_iter().find_map(|path| {
        let bytes = std::fs::read(&path).ok()?;
        let mut at = FILE_HEAD_BYTES;
        while at + RECORD_HEAD_BYTES + 4 <= bytes.len() && is_record(&bytes[at..], signature_of(&path)) {
            let record = &bytes[at..];
            let (length, footer) = lengths(record);
            if footer > RECORD_HEAD_BYTES + 4 {
                let (entries, check) = record[RECORD_HEAD_BYTES..footer].split_at(footer - RECORD_HEAD_BYTES - 4);
                if crc32fast::hash(entries).to_le_bytes() != check {
                    return Some((path, at));
                }
            }
            at += length;
        }
        None
    })
}

fn signature_of(path: &Path) -> u32 {
    let sequence = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
    sequence.map_or(0, |n| n as u32)
}

/// A record's length, and where in it the footer begins.
fn lengths(record: &[u8]) -> (usize, usize) {
    let word = |at: usize| u64::from_be_bytes(record[at..at + 8].try_into().expect("8 bytes"));
    ((word(0) >> 8) as usize, word(8) as usize)
}

/// Where after `offset` a whole record of this file begins, if one does.
pub(crate) fn record_after(path: &Path, offset: usize) -> io::Result<Option<usize>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.read_to_end(&mut bytes)?;
    let signature = signature_of(path);
    let mut at = offset + 1;
    while at + RECORD_HEAD_BYTES + 4 <= bytes.len() {
        if bytes[at] == 0 && bytes[at..].iter().take(4096).all(|&b| b == 0) {
            at += 4096;
            continue;
        }
        if is_record(&bytes[at..], signature) {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

/// A record: u56 length and u8 compression, u64 footer offset, entries, footer, CRC32 of the footer signed by the file.
fn is_record(bytes: &[u8], signature: u32) -> bool {
    let (length, footer) = lengths(bytes);
    if footer < RECORD_HEAD_BYTES || length > bytes.len() || footer + 4 > length || bytes[7] & 0xFE != 0 {
        return false;
    }
    let stored = u32::from_le_bytes(bytes[length - 4..length].try_into().expect("4 bytes"));
    let check = crc32fast::hash(&bytes[footer..length - 4]);
    stored == check ^ signature
}
