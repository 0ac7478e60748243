//! The records of a log file, as far as damage is told from a torn end: docs/FORMATS.md has the layout.
//!
//! Records share an fsync, and until it is over a power loss may tear any of them. So each record has a mark: up to where its
//! file was fsynced before the record was written. Damage before a mark is of what was acknowledged, and refuses the log; from
//! there on it is a torn write, and is cut off with all behind it. A record without a mark, of an earlier release, stands for
//! everything before it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use vocab::Reader;

/// What a log file begins with.
const MAGIC: &[u8] = b"RAFT-LOG-FILE-HEADER-9986AB3E47F320B394C8E84916EB0ED5";
/// Of the longest head: magic, version and alignment.
pub(crate) const FILE_HEAD_BYTES: usize = MAGIC.len() + 8 + 8;
const RECORD_HEAD_BYTES: usize = 16;

/// The key of a mark, which is the first item of a record: a value of some group.
pub(crate) const KEY_SYNCED: &[u8] = b"synced";

/// The files that entries are appended to; others hold what was rewritten.
pub(crate) const APPENDED: &str = "raftlog";
pub(crate) const REWRITTEN: &str = "rewrite";

/// Room that was set aside. No head of a record lies within.
static ZEROS: [u8; 4096] = [0; 4096];

/// How a log file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileVersion {
    /// What raft-engine makes of a last file without a head: a head without alignment, and footers that are not signed.
    One,
    /// All others.
    Two,
}

impl FileVersion {
    /// That of a file that begins with `bytes`. `None`: it has no whole head.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        match (u64::from_be_bytes(*version), rest.len()) {
            (1, _) => Some(Self::One),
            (2, 8..) => Some(Self::Two),
            _ => None,
        }
    }

    /// The head of a file, as raft-engine writes it.
    pub(crate) fn head(self) -> Vec<u8> {
        match self {
            Self::One => [MAGIC, &1u64.to_be_bytes()[..]].concat(),
            Self::Two => [MAGIC, &2u64.to_be_bytes()[..], &0u64.to_be_bytes()[..]].concat(),
        }
    }

    /// The length of that.
    pub(crate) fn head_bytes(self) -> usize {
        match self {
            Self::One => MAGIC.len() + 8,
            Self::Two => FILE_HEAD_BYTES,
        }
    }

    /// What the checksums of footers are signed with in the file of that number.
    pub(crate) fn signature(self, number: u64) -> u32 {
        match self {
            Self::One => 0,
            Self::Two => number as u32,
        }
    }
}

/// Up to where a log file is fsynced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Synced {
    /// The file's number.
    pub(crate) file: u64,
    /// All bytes before this one are.
    pub(crate) to: u64,
}

impl Synced {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.file.to_le_bytes(), self.to.to_le_bytes()].concat()
    }

    /// The mark of a record with those items. `None`: an earlier release wrote it.
    fn of(items: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(items);
        let (_count, _group) = (reader.varint().ok()?, reader.varint().ok()?);
        let is_value = (reader.u8().ok()?, reader.u8().ok()?) == (3, 1);
        if !is_value || reader.bytes().ok()? != KEY_SYNCED {
            return None;
        }
        let mut value = Reader::new(reader.bytes().ok()?);
        Some(Self { file: value.u64_le().ok()?, to: value.u64_le().ok()? })
    }
}

/// Why a log file must not be cut off: what would go proves that what is damaged was fsynced.
pub(crate) struct Refusal {
    /// Where the damage is.
    pub(crate) damaged: usize,
    /// Where the record begins that proves it.
    pub(crate) found: usize,
}

impl Refusal {
    /// That of a cut at `offset`, if it is refused.
    pub(crate) fn of(path: &Path, offset: usize) -> io::Result<Option<Self>> {
        let file = LogBytes::read(path)?;
        let before = file.records().take_while(|record| record.at < offset);
        let kept = before.map(|record| file.proven_by(&record)).max().unwrap_or(0);
        // Also of damage before it: once the proof is gone, the next start takes that for a torn write.
        let torn = file.chain().find(|record| (kept..offset).contains(&record.at) && record.is_torn());
        let damaged = torn.map_or(offset, |record| record.at);
        let found = file.records().find(|record| file.proven_by(record) > damaged);
        Ok(found.map(|record| Self { damaged, found: record.at }))
    }
}

/// A log file in memory.
struct LogBytes {
    bytes: Vec<u8>,
    /// If its head is damaged, it may be either.
    version: Option<FileVersion>,
    /// The file's number.
    number: u64,
    /// Its records may have marks. Where values were rewritten, a mark is a copy that says nothing of its record.
    is_appended: bool,
}

/// One record: its footer is whole, its entries may not be.
struct Record<'a> {
    at: usize,
    length: usize,
    /// Its entries and their checksum; empty if it has none.
    block: &'a [u8],
    /// Its footer without the checksum.
    items: &'a [u8],
}

impl LogBytes {
    fn read(path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let version = FileVersion::of(&bytes);
        Ok(Self { bytes, version, number: number_of(path), is_appended: is_appended(path) })
    }

    /// Where the first record begins, or may begin.
    fn first(&self) -> usize {
        self.version.unwrap_or(FileVersion::One).head_bytes()
    }

    fn is_signature(&self, signature: u32) -> bool {
        let is_of = |version: FileVersion| version.signature(self.number) == signature;
        self.version.map_or(is_of(FileVersion::One) || is_of(FileVersion::Two), is_of)
    }

    /// The records from the first on, each right behind the one before.
    fn chain(&self) -> impl Iterator<Item = Record<'_>> {
        let mut next = self.first();
        std::iter::from_fn(move || {
            let record = self.record(next)?;
            next += record.length;
            Some(record)
        })
    }

    /// All records, also those behind damage.
    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut next = self.first();
        std::iter::from_fn(move || {
            while next < self.bytes.len() {
                if let Some(record) = self.record(next) {
                    next += record.length;
                    return Some(record);
                }
                // A head may begin with zeros, but does not consist of them.
                let is_blank = self.bytes[next..].starts_with(&ZEROS);
                next += if is_blank { ZEROS.len() - RECORD_HEAD_BYTES } else { 1 };
            }
            None
        })
    }

    /// The record at `at`: u56 length and u8 compression, u64 where its footer begins, entries, footer, CRC32 of the footer,
    /// which version 2 signs.
    fn record(&self, at: usize) -> Option<Record<'_>> {
        let left = self.bytes.get(at..)?;
        let (word, rest) = left.split_first_chunk::<8>()?;
        let (word, footer) = (u64::from_be_bytes(*word), u64::from_be_bytes(*rest.first_chunk::<8>()?) as usize);
        let (length, compression) = ((word >> 8) as usize, word & 0xFF);
        if compression > 1 || footer < RECORD_HEAD_BYTES {
            return None;
        }
        let (items, check) = left.get(..length)?.get(footer..)?.split_last_chunk::<4>()?;
        let is_whole = !items.is_empty() && self.is_signature(u32::from_le_bytes(*check) ^ crc32fast::hash(items));
        is_whole.then(|| Record { at, length, block: &left[RECORD_HEAD_BYTES..footer], items })
    }

    /// Up to where `record` proves that this file was fsynced before it was written.
    fn proven_by(&self, record: &Record<'_>) -> usize {
        match Synced::of(record.items).filter(|_| self.is_appended) {
            None => record.at,
            Some(mark) if mark.file == self.number => record.at.min(mark.to as usize),
            Some(_) => 0,
        }
    }
}

impl Record<'_> {
    /// Whether its entries do not match their checksum.
    fn is_torn(&self) -> bool {
        let is_whole = |(entries, check): (&[u8], &[u8; 4])| crc32fast::hash(entries).to_le_bytes() == *check;
        !self.block.is_empty() && !self.block.split_last_chunk::<4>().is_some_and(is_whole)
    }
}

/// The first record whose entries do not match their checksum: its file and place.
pub(crate) fn damaged_record(dir: &Path) -> Option<(PathBuf, usize)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    files.into_iter().find_map(|path| {
        let file = LogBytes::read(&path).ok()?;
        let at = file.chain().find(Record::is_torn)?.at;
        Some((path, at))
    })
}

/// The first record of the last log file whose entries a crash tore before they were fsynced, though its footer is whole.
pub(crate) fn torn_entries(path: &Path) -> io::Result<Option<usize>> {
    if !is_appended(path) {
        return Ok(None);
    }
    let file = LogBytes::read(path)?;
    let torn: Vec<usize> = file.chain().filter(Record::is_torn).map(|record| record.at).collect();
    if torn.is_empty() {
        return Ok(None);
    }
    let proven = file.records().map(|record| file.proven_by(&record)).max().unwrap_or(0);
    Ok(torn.into_iter().find(|at| *at >= proven))
}

/// Whether a log file has no whole head, nor anything that proves that it had one: raft-engine would begin it anew.
pub(crate) fn lacks_head(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(FILE_HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(FileVersion::of(&head).is_none() && Refusal::of(path, 0)?.is_none())
}

/// The last of the files of that kind in `dir`.
pub(crate) fn last_file(dir: &Path, kind: &str) -> io::Result<Option<PathBuf>> {
    let files = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        files => files?,
    };
    let paths = files.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| is_of(path, kind)).max_by_key(|path| number_of(path)))
}

pub(crate) fn is_appended(path: &Path) -> bool {
    is_of(path, APPENDED)
}

fn is_of(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}

/// A log file's number, from its name.
pub(crate) fn number_of(path: &Path) -> u64 {
    path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::disk_log::{Log, LogOptions};
    use crate::inspect::{LogEnd, LogInspection};
    use crate::log_store::LogStore;
    use crate::log_write::LogWrite;
    use raft::eraftpb::Entry;
    use raft_engine::{Config, Engine, LogBatch};
    use std::sync::Arc;
    use vocab::{ReplicaId, ShardId};

    const FILE: &str = "0000000000000001.raftlog";
    const SHARD: ShardId = ShardId(0);

    /// Of one record: its first bytes did not reach the disk, or some within its entries did not.
    #[derive(Clone, Copy, Debug)]
    enum Damage {
        Head(usize),
        Entries(usize),
    }
    use Damage::{Entries, Head};

    fn open(dir: &Path) -> crate::Result<Log> {
        Log::open(dir, &LogOptions::default(), Arc::default())
    }

    /// A log of a group and of entries, a record each. `syncs`: which of them are fsynced at once.
    fn write(dir: &Path, syncs: &[bool]) -> Log {
        let log = open(dir).unwrap();
        let mut group = LogWrite::default();
        group.begin(SHARD, ReplicaId(1), &[ReplicaId(1)], &[]);
        log.write(group, true).unwrap();
        for (index, sync) in (1u64..).zip(syncs) {
            let data = vec![index as u8; 300].into();
            let mut write = LogWrite::default();
            write.entries(SHARD, vec![Entry { index, term: 1, data, ..Entry::default() }]);
            log.write(write, *sync).unwrap();
        }
        log
    }

    /// The log's file as a crash finds it.
    fn file_of(dir: &Path) -> LogBytes {
        LogBytes::read(&dir.join(FILE)).unwrap()
    }

    /// A log of that file alone, with such damage.
    fn damaged(file: &LogBytes, damage: &[Damage]) -> tempfile::TempDir {
        let places: Vec<usize> = file.chain().map(|record| record.at).collect();
        let mut bytes = file.bytes.clone();
        for part in damage {
            let (at, length) = match *part {
                Head(record) => (places[record], RECORD_HEAD_BYTES),
                Entries(record) => (places[record] + RECORD_HEAD_BYTES + 100, 10),
            };
            bytes[at..at + length].fill(0);
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), &bytes).unwrap();
        dir
    }

    #[test]
    fn what_no_fsync_covers_is_cut_off_whichever_part_is_torn_and_what_one_covers_is_refused() {
        check_cuts(FileVersion::Two);
    }

    #[test]
    fn it_is_the_same_with_a_file_of_version_1() {
        check_cuts(FileVersion::One);
    }

    /// Records 2, 3 and 4 share an fsync that did not end, after one of records 0 and 1. Record N holds entry N.
    fn check_cuts(version: FileVersion) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), version.head()).unwrap();
        let _log = write(dir.path(), &[true, false, false, false]);
        let file = file_of(dir.path());
        assert_eq!(file.version, Some(version));
        let places: Vec<usize> = file.chain().map(|record| record.at).collect();
        let proven: Vec<usize> = file.chain().map(|record| file.proven_by(&record)).collect();
        assert_eq!(proven, [0, places[1], places[2], places[2], places[2]]);
        let cases: [(&[Damage], Option<u64>); 12] = [
            (&[], Some(4)),
            (&[Head(2)], Some(1)),
            (&[Entries(2)], Some(1)),
            (&[Entries(3)], Some(2)),
            (&[Entries(2), Head(4)], Some(1)),
            (&[Entries(3), Entries(4)], Some(2)),
            (&[Head(0)], None),
            (&[Head(1)], None),
            (&[Entries(1), Head(2)], None),
            (&[Entries(1), Entries(2)], None),
            // Record 2 stays, and proves that entry 1 is no torn write.
            (&[Entries(1), Head(3)], Some(2)),
            (&[Entries(1)], Some(4)),
        ];
        for (damage, last) in cases {
            let dir = damaged(&file, damage);
            let inspection = LogInspection::open(dir.path()).unwrap();
            let is_refused = inspection.files().any(|file| matches!(file.end, LogEnd::Damaged { .. }));
            assert_eq!(is_refused, last.is_none(), "{damage:?}");
            let last_of = |state: Option<crate::GroupState>| state.map(|state| state.bounds.1);
            match open(dir.path()) {
                Ok(log) => {
                    assert_eq!(last_of(log.state(SHARD).unwrap()), last, "{damage:?}");
                    assert_eq!(last_of(inspection.state(SHARD).unwrap()), last, "{damage:?}");
                    let is_read = log.fetch(SHARD, 1, last.unwrap() + 1, u64::MAX).is_ok();
                    assert_eq!(is_read, !matches!(damage, [Entries(1), ..]), "{damage:?}");
                }
                Err(e) => {
                    assert!(last.is_none() && e.to_string().contains("a whole record follows"), "{damage:?}: {e}")
                }
            }
        }
    }

    /// As a process that dies while it begins a file leaves it: raft-engine would go on with version 1.
    #[test]
    fn a_file_without_a_head_is_given_one() {
        let (fresh, head) = (tempfile::tempdir().unwrap(), FileVersion::Two.head());
        let _log = write(fresh.path(), &[]);
        assert_eq!(file_of(fresh.path()).bytes[..head.len()], head, "that of raft-engine");
        for left in [Vec::new(), vec![0; 100_000], head[..60].to_vec(), vec![7; 500]] {
            let dir = tempfile::tempdir().unwrap();
            for name in [FILE, "0000000000000001.rewrite"] {
                std::fs::write(dir.path().join(name), &left).unwrap();
            }
            let _log = write(dir.path(), &[true, true]);
            let rewritten = std::fs::read(dir.path().join("0000000000000001.rewrite")).unwrap();
            assert_eq!(rewritten, head);
            let file = file_of(dir.path());
            assert_eq!((&file.bytes[..head.len()], file.chain().count()), (&head[..], 3));
            assert!(open(damaged(&file, &[Head(1)]).path()).is_err());
            assert!(open(damaged(&file, &[Head(2)]).path()).is_ok());
        }
    }

    #[test]
    fn a_damaged_head_before_what_was_fsynced_is_refused() {
        for version in [FileVersion::One, FileVersion::Two] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(FILE), version.head()).unwrap();
            let _log = write(dir.path(), &[true, true]);
            let mut file = file_of(dir.path());
            file.bytes[3] ^= 1;
            let damaged = tempfile::tempdir().unwrap();
            let path = damaged.path().join(FILE);
            std::fs::write(&path, &file.bytes).unwrap();
            assert!(open(damaged.path()).is_err(), "{version:?}");
            assert!(std::fs::read(&path).unwrap() == file.bytes, "{version:?}: it is left as it is");
        }
    }

    /// An fsync counts from the first record that was written after it.
    #[test]
    fn what_shared_an_fsync_is_refused_once_a_record_follows_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = write(dir.path(), &[false, false]);
        let before = file_of(dir.path());
        assert!(open(damaged(&before, &[Head(1)]).path()).is_ok());
        log.sync().unwrap();
        let mut next = LogWrite::default();
        next.entries(SHARD, vec![Entry { index: 3, term: 1, ..Entry::default() }]);
        log.write(next, false).unwrap();
        let after = file_of(dir.path());
        for damage in [Head(1), Head(2)] {
            assert!(open(damaged(&after, &[damage]).path()).is_err(), "{damage:?}");
        }
    }

    #[test]
    fn a_log_that_was_closed_knows_that_all_of_it_was_fsynced() {
        let dir = tempfile::tempdir().unwrap();
        drop(write(dir.path(), &[false, false]));
        let file = file_of(dir.path());
        for damage in [Head(1), Head(2)] {
            assert!(open(damaged(&file, &[damage]).path()).is_err(), "{damage:?}");
        }
        assert!(open(damaged(&file, &[Head(3)]).path()).is_ok(), "the record that says so");
    }

    /// As releases wrote them before there were marks.
    #[test]
    fn records_without_a_mark_stand_for_all_before_them() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { dir: dir.path().display().to_string(), ..Config::default() };
        let engine = Engine::open(config).unwrap();
        for n in 0..4 {
            let mut batch = LogBatch::default();
            batch.put(1, b"hard".to_vec(), vec![n; 100]).unwrap();
            engine.write(&mut batch, false).unwrap();
        }
        let file = file_of(dir.path());
        for (record, opens) in [(0, false), (1, false), (2, false), (3, true)] {
            assert_eq!(open(damaged(&file, &[Head(record)]).path()).is_ok(), opens, "record {record}");
        }
    }
}
