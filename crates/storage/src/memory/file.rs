//! Snapshot files: the whole map as of an index.
//!
//! ```text
//! head     "BASALTMS", format (u32, now 1), index (u64), crc32 of what precedes (u32)
//! chunk    length (u32), crc32 of the payload (u32), payload: items
//! item     kind (u8): 1 = row, 2 = meta record, 3 = end
//! 1 and 2  key length (u32), value length (u32), key, value; rows in rising order of keys
//! 3        number of rows (u64); the last item of the file
//! ```
//! All numbers are little-endian. Written under another name, then renamed to `snapshot-<index, 20 digits>`.

use crate::files::{put_in_place, system_error};
use crate::{Error, Result, Slice};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"BASALTMS";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 24;
const CHUNK_BYTES: usize = 256 * 1024;
/// One item may exceed the chunk; nothing exceeds this.
const CHUNK_BYTES_MAX: usize = CHUNK_BYTES + vocab::limits::STORED_BYTES_MAX + 2 * vocab::limits::KEY_BYTES_MAX;
const ROW: u8 = 1;
const META: u8 = 2;
const END: u8 = 3;
/// The name under which a flush writes.
pub(super) const TEMPORARY: &str = "snapshot.new";
/// The name under which a clear writes, which may come while a flush is under way.
const TEMPORARY_EMPTY: &str = "snapshot.empty";
const PREFIX: &str = "snapshot-";

/// What a file holds.
pub(super) struct Content {
    pub(super) index: u64,
    pub(super) rows: Vec<(Slice, Slice)>,
    pub(super) meta: BTreeMap<Slice, Slice>,
}

/// A file being written. Dropped before `publish`, it leaves only a file that the next one overwrites.
pub(super) struct Writer {
    folder: PathBuf,
    path: PathBuf,
    file: BufWriter<File>,
    chunk: Vec<u8>,
    index: u64,
    rows: u64,
}

impl Writer {
    pub(super) fn create(folder: &Path, index: u64) -> Result<Self> {
        Self::create_as(folder, TEMPORARY, index)
    }

    pub(super) fn create_as(folder: &Path, name: &str, index: u64) -> Result<Self> {
        let path = folder.join(name);
        let file = File::create(&path).map_err(|error| system_error(&path, error))?;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&FORMAT.to_le_bytes());
        head.extend_from_slice(&index.to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
        let (folder, file) = (folder.to_path_buf(), BufWriter::new(file));
        let mut writer = Self { folder, path, file, chunk: Vec::new(), index, rows: 0 };
        writer.write(&head)?;
        Ok(writer)
    }

    pub(super) fn meta(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.item(META, key, value)
    }

    pub(super) fn row(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.rows += 1;
        self.item(ROW, key, value)
    }

    /// Makes the content durable. It is not the shard's snapshot yet.
    pub(super) fn finish(mut self) -> Result<Finished> {
        self.chunk.push(END);
        self.chunk.extend_from_slice(&self.rows.to_le_bytes());
        self.end_chunk()?;
        let sync = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        sync.map_err(|error| system_error(&self.path, error))?;
        Ok(Finished { folder: self.folder, path: self.path, index: self.index })
    }

    fn item(&mut self, kind: u8, key: &[u8], value: &[u8]) -> Result<()> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("bounded by vocab::limits").to_le_bytes();
        self.chunk.push(kind);
        self.chunk.extend_from_slice(&length(key));
        self.chunk.extend_from_slice(&length(value));
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(value);
        if self.chunk.len() < CHUNK_BYTES { Ok(()) } else { self.end_chunk() }
    }

    fn end_chunk(&mut self) -> Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        let length = u32::try_from(chunk.len()).expect("a chunk and one item");
        self.write(&length.to_le_bytes())?;
        self.write(&crc32fast::hash(&chunk).to_le_bytes())?;
        self.write(&chunk)?;
        self.chunk = chunk;
        self.chunk.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| system_error(&self.path, error))
    }
}

/// A complete, durable file that is not the shard's snapshot yet.
pub(super) struct Finished {
    folder: PathBuf,
    path: PathBuf,
    index: u64,
}

impl Finished {
    /// Makes it the shard's snapshot, and removes the older ones. After a passing error it may be called again.
    pub(super) fn publish(&self) -> Result<()> {
        put_in_place(&self.path, &self.folder, &name_of(self.index))?;
        // If there are several the newest counts: the others only take room.
        let older = || -> Result<()> {
            for (_, path) in list(&self.folder)?.into_iter().filter(|(index, _)| *index < self.index) {
                fs::remove_file(&path).map_err(|error| system_error(&path, error))?;
            }
            Ok(())
        };
        older().unwrap_or_else(|error| log::warn!("a snapshot file that was replaced stays for now: {error}"));
        Ok(())
    }
}

/// Makes the map of `index` that is empty but for `meta` and `rows` the shard's.
pub(super) fn write_beginning(
    folder: &Path,
    index: u64,
    meta: &BTreeMap<Slice, Slice>,
    rows: &BTreeMap<Slice, Slice>,
) -> Result<()> {
    let mut writer = Writer::create_as(folder, TEMPORARY_EMPTY, index)?;
    for (key, value) in meta {
        writer.meta(key, value)?;
    }
    for (key, value) in rows {
        writer.row(key, value)?;
    }
    writer.finish()?.publish()
}

fn name_of(index: u64) -> String {
    format!("{PREFIX}{index:020}")
}

/// The files of a folder whose names begin so.
pub(super) fn with_prefix(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| system_error(folder, error))? {
        let entry = entry.map_err(|error| system_error(folder, error))?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Whether a shard's folder has a snapshot file.
pub(crate) fn is_in(folder: &Path) -> Result<bool> {
    match list(folder) {
        Ok(files) => Ok(!files.is_empty()),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Bytes of a folder's snapshot files.
pub(super) fn bytes_in(folder: &Path) -> u64 {
    let files = list(folder).unwrap_or_default();
    files.iter().filter_map(|(_, path)| fs::metadata(path).ok()).map(|file| file.len()).sum()
}

/// The snapshot files of a folder by index, newest first.
pub(super) fn list(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let index_of = |path: &Path| path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok();
    let files = with_prefix(folder, PREFIX)?;
    let mut files: Vec<_> = files.into_iter().filter_map(|path| Some((index_of(&path)?, path))).collect();
    files.sort_by(|a: &(u64, PathBuf), b| b.cmp(a));
    Ok(files)
}

/// Reads a file whole, and checks all of it.
pub(super) fn read(path: &Path) -> Result<Content> {
    let corrupt = |detail: &str| Error::Corrupt { path: path.to_path_buf(), detail: detail.into() };
    let mut file = BufReader::new(File::open(path).map_err(|error| system_error(path, error))?);
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => corrupt("cut short"),
        _ => system_error(path, error),
    };
    let mut fill = |bytes: &mut [u8]| file.read_exact(bytes).map_err(failed);
    let mut head = [0; HEAD_BYTES];
    fill(&mut head)?;
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    if &head[..8] != MAGIC || crc32fast::hash(&head[..20]) != number(&head[20..]) {
        return Err(corrupt("not a snapshot file, or a damaged one"));
    }
    if number(&head[8..12]) != FORMAT {
        return Err(corrupt("a format that this version does not know"));
    }
    let index = u64::from_le_bytes(head[12..20].try_into().expect("8 bytes"));
    let mut content = Content { index, rows: Vec::new(), meta: BTreeMap::new() };
    let mut ended = false;
    while !ended {
        let mut frame = [0; 8];
        fill(&mut frame)?;
        let length = number(&frame[..4]) as usize;
        if length > CHUNK_BYTES_MAX {
            return Err(corrupt("a chunk of an impossible length"));
        }
        let mut chunk = vec![0; length];
        fill(&mut chunk)?;
        if crc32fast::hash(&chunk) != number(&frame[4..]) {
            return Err(corrupt("checksum mismatch"));
        }
        ended = parse(&chunk, &mut content).ok_or_else(|| corrupt("a malformed chunk"))?;
    }
    match file.read(&mut [0]) {
        Ok(0) => Ok(content),
        Ok(_) => Err(corrupt("more bytes than it should have")),
        Err(error) => Err(system_error(path, error)),
    }
}

/// Adds the items of a chunk; true if the last one ends the file.
fn parse(mut chunk: &[u8], content: &mut Content) -> Option<bool> {
    let mut take = |length: usize| {
        let (taken, rest) = chunk.split_at_checked(length)?;
        chunk = rest;
        Some(taken)
    };
    while let Some(kind) = take(1) {
        if kind == [END] {
            let rows = u64::from_le_bytes(take(8)?.try_into().ok()?);
            return (rows == content.rows.len() as u64 && take(1).is_none()).then_some(true);
        }
        let lengths = take(8)?;
        let key_length = u32::from_le_bytes(lengths[..4].try_into().ok()?) as usize;
        let value_length = u32::from_le_bytes(lengths[4..].try_into().ok()?) as usize;
        let (key, value) = (Slice::from(take(key_length)?), Slice::from(take(value_length)?));
        match kind {
            [ROW] if content.rows.last().is_none_or(|(last, _)| *last < key) => content.rows.push((key, value)),
            [META] => drop(content.meta.insert(key, value)),
            _ => return None,
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// What version 1 wrote: every later version must read it.
    #[test]
    fn the_format_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), 7).unwrap();
        writer.meta(b"m", b"1").unwrap();
        writer.row(b"key", b"value").unwrap();
        writer.finish().unwrap().publish().unwrap();
        let path = folder.path().join("snapshot-00000000000000000007");
        let bytes = fs::read(&path).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "424153414c544d53010000000700000000000000ca439b90\
             2500000023fb704c\
             0201000000010000006d31\
             0103000000050000006b657976616c7565\
             030100000000000000"
        );
        let content = read(&path).unwrap();
        assert_eq!((content.index, content.rows.len(), content.meta.len()), (7, 1, 1));
        assert_eq!(content.rows[0].1, b"value");
    }

    #[test]
    fn every_flip_and_every_cut_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), 7).unwrap();
        writer.row(b"a", b"1").unwrap();
        writer.row(b"b", b"2").unwrap();
        writer.finish().unwrap().publish().unwrap();
        let path = folder.path().join(name_of(7));
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            for damaged in [&flipped[..], &bytes[..at]] {
                fs::write(&path, damaged).unwrap();
                assert!(matches!(read(&path), Err(Error::Corrupt { .. })), "byte {at}");
            }
        }
        fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
        assert!(matches!(read(&path), Err(Error::Corrupt { .. })));
    }
}
