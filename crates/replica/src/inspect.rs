//! A look at the log that never writes to it, for `basalt inspect`. docs/FORMATS.md has the layout.
//!
//! Opening the log locks it, removes files and cuts torn writes off. This reads the files by itself, and comes to what
//! opening would.

mod file;
mod group;
mod item;
#[cfg(test)]
mod tests;

use crate::disk_log::{decode_state, region};
use crate::error::{Error, Result};
use crate::log_store::GroupState;
use crate::records::{Refusal, torn_entries};
use file::{Block, LogFile, Record, Stop};
use group::{EntryPlace, Group};
use item::{Item, What};
use protobuf::Message;
use raft::eraftpb::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use vocab::ShardId;

/// Marks the parts of a rewrite that counts as a whole only when its last part is there.
const PART_KEY: &[u8] = b"__\x01";
const PART_FIRST: u8 = 0;
const PART_LAST: u8 = 2;

/// How a log file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// After its last record, but for room that was set aside.
    Whole,
    /// With bytes that are no record: a write that a crash tore, or what an earlier use of the file left. A start
    /// cuts them off.
    Torn {
        /// Why reading ended there.
        detail: String,
    },
    /// Before records that prove that it was fsynced, or in a file that is not the last: a start refuses it.
    Damaged {
        /// What was found.
        detail: String,
    },
    /// It is not read: kept to be used again, or left from before a gap.
    Unused,
}

/// One file of the log.
#[derive(Clone, Debug)]
pub struct LogFileInfo {
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Bytes up to the end of its last record.
    pub written: u64,
    /// Records in it.
    pub records: u64,
    /// What comes after them.
    pub end: LogEnd,
}

/// The log as its files have it: what a start would begin with.
pub struct LogInspection {
    files: Vec<(LogFileInfo, Option<LogFile>)>,
    groups: BTreeMap<u64, Group>,
}

/// A log file's kind and number, from its name: rewritten files first, as they are older.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FileId {
    Rewritten(u64),
    Appended(u64),
    Spare(u64),
}

impl FileId {
    fn parse(name: &str) -> Option<Self> {
        let (number, suffix) = name.split_once('.')?;
        let number = number.parse().ok().filter(|_| number.len() == 16)?;
        Some(match suffix {
            "rewrite" => Self::Rewritten(number),
            "raftlog" => Self::Appended(number),
            "raftlog.reserved" => Self::Spare(number),
            _ => return None,
        })
    }

    /// Whether `next` is the file after this one.
    fn precedes(self, next: Self) -> bool {
        match (self, next) {
            (Self::Rewritten(a), Self::Rewritten(b)) | (Self::Appended(a), Self::Appended(b)) => a + 1 == b,
            _ => false,
        }
    }

    fn is_same_queue(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl LogInspection {
    /// Reads the heads and footers of all records in `dir`. Damage is not an error: it is told file by file.
    pub fn open(dir: &Path) -> Result<Self> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(dir).map_err(|e| io_error(dir, &e))? {
            let entry = entry.map_err(|e| io_error(dir, &e))?;
            let id = entry.file_name().to_str().and_then(FileId::parse);
            ids.extend(id.map(|id| (id, entry.path())));
        }
        ids.sort();
        let mut inspection = Self { files: Vec::new(), groups: BTreeMap::new() };
        let mut parts = Parts::default();
        for (i, (id, path)) in ids.iter().enumerate() {
            let same = |(other, _): &&(FileId, PathBuf)| id.is_same_queue(*other);
            let is_last = !ids.get(i + 1).as_ref().is_some_and(same);
            // Opening the log passes over what lies before a gap in the numbers.
            let gap_follows = ids[i..].windows(2).any(|pair| same(&&pair[1]) && !pair[0].0.precedes(pair[1].0));
            match *id {
                FileId::Spare(_) => inspection.pass_over(path)?,
                FileId::Rewritten(_) | FileId::Appended(_) if gap_follows => inspection.pass_over(path)?,
                FileId::Rewritten(number) | FileId::Appended(number) => {
                    inspection.read_file(path, number, is_last, &mut parts)?;
                }
            }
        }
        Ok(inspection)
    }

    /// The files, oldest first.
    pub fn files(&self) -> impl Iterator<Item = &LogFileInfo> {
        self.files.iter().map(|(info, _)| info)
    }

    /// What the log holds about a group; `None` for a group that it has never seen.
    pub fn state(&self, shard: ShardId) -> Result<Option<GroupState>> {
        let Some(group) = self.groups.get(&region(shard)) else { return Ok(None) };
        let first = group.last().map(|_| group.first);
        decode_state(shard, |key| group.values.get(key).cloned(), first, group.last())
    }

    /// Entries `from..=to` of a group that are there, in order, each read and checked.
    pub fn entries(&self, shard: ShardId, from: u64, to: u64) -> impl Iterator<Item = Result<Entry>> + '_ {
        let group = self.groups.get(&region(shard));
        let (first, last) = group.map_or((1, 0), |group| (group.first, group.last().unwrap_or(0)));
        let mut block: Option<(EntryPlace, Vec<u8>)> = None;
        (from.max(first)..=to.min(last)).filter_map(move |index| {
            let place = group?.place(index)?;
            Some(self.entry(place, &mut block).and_then(|entry| {
                let found = entry.index;
                if found == index {
                    return Ok(entry);
                }
                Err(self.damage(place, &format!("entry {found} stands where entry {index} of shard {shard} should")))
            }))
        })
    }

    /// Reads every record and compares every checksum; answers how many records and bytes that was, and the damage.
    #[must_use]
    pub fn verify(&self) -> (u64, u64, Vec<Error>) {
        let (mut records, mut bytes, mut damage) = (0, 0, Vec::new());
        for (info, file) in &self.files {
            let path = info.path.display();
            if let LogEnd::Damaged { detail } = &info.end {
                damage.push(Error::Corrupt(format!("{path}: {detail}")));
            }
            let Some(file) = file else { continue };
            let mut next = file.head().ok().filter(|&at| at < info.written);
            while let Some(at) = next {
                let Ok(Some(record)) = file.record(at) else {
                    damage.push(Error::Corrupt(format!("{path}: the record at byte {at} has changed")));
                    break;
                };
                if let Err(stop) = file.block(record.block) {
                    damage.push(Error::Corrupt(format!("{path}: {}", place_of(at, &stop))));
                }
                records += 1;
                bytes += record.end - record.at;
                next = Some(record.end).filter(|&end| end < info.written);
            }
        }
        (records, bytes, damage)
    }

    fn pass_over(&mut self, path: &Path) -> Result<()> {
        let bytes = fs::metadata(path).map_err(|e| io_error(path, &e))?.len();
        let info = LogFileInfo { path: path.to_owned(), bytes, written: 0, records: 0, end: LogEnd::Unused };
        self.files.push((info, None));
        Ok(())
    }

    fn read_file(&mut self, path: &Path, number: u64, is_last: bool, parts: &mut Parts) -> Result<()> {
        let file = LogFile::open(path, number).map_err(|e| io_error(path, &e))?;
        let mut info =
            LogFileInfo { path: path.to_owned(), bytes: file.length, written: 0, records: 0, end: LogEnd::Whole };
        let torn = if is_last { torn_entries(path).map_err(|e| io_error(path, &e))? } else { None };
        let mut held: Option<Record> = None;
        let mut next = file.head();
        let mut stop = loop {
            let record = match next {
                Ok(at) => {
                    info.written = at;
                    let is_torn = torn.is_some_and(|torn| torn as u64 == at);
                    if is_torn { Err(Stop::Malformed("torn entries")) } else { file.record(at) }
                }
                Err(stop) => Err(stop),
            };
            match record {
                Ok(Some(record)) => {
                    next = Ok(record.end);
                    if let Some(before) = held.replace(record) {
                        self.replay(before, parts);
                        info.records += 1;
                    }
                }
                Ok(None) => break None,
                Err(stop) => break Some(stop),
            }
        };
        // Of the last record, the entries are checked too: they may not have reached the disk with it.
        if let Some(record) = held {
            match file.block(record.block) {
                Ok(_) => {
                    self.replay(record, parts);
                    info.records += 1;
                }
                Err(why) => {
                    info.written = record.at;
                    stop = Some(why);
                }
            }
        }
        if let Some(stop) = stop {
            info.end = end_of(&file, info.written, stop, is_last)?;
        }
        self.files.push((info, Some(file)));
        Ok(())
    }

    fn replay(&mut self, record: Record, parts: &mut Parts) {
        let file = self.files.len() as u32;
        let Block { at: block_at, length: block_length } = record.block;
        for (items, file, block_at, block_length) in parts.take(record.items, file, block_at, block_length) {
            for Item { group, what } in items {
                let place = |(at, length)| EntryPlace { file, block_at, block_length, at, length };
                self.groups.entry(group).or_default().replay(what, place);
            }
        }
    }

    fn entry(&self, place: EntryPlace, cached: &mut Option<(EntryPlace, Vec<u8>)>) -> Result<Entry> {
        let same = |of: &EntryPlace| (of.file, of.block_at) == (place.file, place.block_at);
        if !cached.as_ref().is_some_and(|(of, _)| same(of)) {
            let (info, file) = &self.files[place.file as usize];
            let file = file.as_ref().ok_or_else(|| Error::Corrupt(format!("{} is not in use", info.path.display())))?;
            let block = Block { at: place.block_at, length: place.block_length };
            let bytes = file.block(block).map_err(|stop| self.damage(place, &reason(&stop)))?;
            *cached = Some((place, bytes));
        }
        let bytes = cached.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        let end = place.at as usize + place.length as usize;
        let bytes =
            bytes.get(place.at as usize..end).ok_or_else(|| self.damage(place, "an entry outside its record"))?;
        let mut entry = Entry::default();
        entry.merge_from_bytes(bytes).map_err(|e| self.damage(place, &format!("an entry that cannot be read: {e}")))?;
        Ok(entry)
    }

    fn damage(&self, place: EntryPlace, detail: &str) -> Error {
        let (info, _) = &self.files[place.file as usize];
        Error::Corrupt(format!("{}: near byte {}: {detail}", info.path.display(), place.block_at))
    }
}

/// What follows the last record of a file.
fn end_of(file: &LogFile, written: u64, stop: Stop, is_last: bool) -> Result<LogEnd> {
    let stop = match stop {
        Stop::Io(e) => return Err(io_error(&file.path, &e)),
        malformed @ Stop::Malformed(_) => place_of(written, &malformed),
    };
    let failed = |e| io_error(&file.path, &e);
    let refusal = Refusal::of(&file.path, written as usize).map_err(failed)?;
    Ok(match refusal {
        Some(Refusal { found, .. }) => {
            LogEnd::Damaged { detail: format!("{stop}, though a whole record follows at byte {found}") }
        }
        None if !is_last => LogEnd::Damaged { detail: format!("{stop}, and it is not the last file") },
        None if file.is_blank(written).map_err(failed)? => LogEnd::Whole,
        None => LogEnd::Torn { detail: stop },
    })
}

fn place_of(at: u64, stop: &Stop) -> String {
    format!("at byte {at}: {}", reason(stop))
}

fn reason(stop: &Stop) -> String {
    match stop {
        Stop::Malformed(detail) => (*detail).to_owned(),
        Stop::Io(e) => e.to_string(),
    }
}

fn io_error(path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("{}: {error}", path.display()))
}

/// The items of a record and where its entries are: file, first byte and length.
type Located = (Vec<Item>, u32, u64, u64);

/// Rewrites that are written in parts, each under a number of its own, and count only when the last part is there.
#[derive(Default)]
struct Parts {
    open: HashMap<u64, Vec<Located>>,
}

impl Parts {
    /// Takes a record's items; answers what may be replayed now.
    fn take(&mut self, mut items: Vec<Item>, file: u32, block_at: u64, block_length: u64) -> Vec<Located> {
        let mut mark = None;
        items.retain(|item| match &item.what {
            What::Put(key, value) if key == PART_KEY => {
                mark = mark.or(value.first().map(|&part| (item.group, part)));
                false
            }
            _ => true,
        });
        let located = (items, file, block_at, block_length);
        match mark {
            None => vec![located],
            Some((number, PART_FIRST)) => {
                self.open.insert(number, vec![located]);
                Vec::new()
            }
            Some((number, PART_LAST)) => {
                let mut whole = self.open.remove(&number).unwrap_or_default();
                // A last part without a first one is left over from a rewrite whose other files are gone.
                if !whole.is_empty() {
                    whole.push(located);
                }
                whole
            }
            Some((number, _)) => {
                if let Some(parts) = self.open.get_mut(&number) {
                    parts.push(located);
                }
                Vec::new()
            }
        }
    }
}
