//! One key: in the tree, in the log after it, and what a start makes of both.

use super::logged::{LoggedEntry, LoggedItem};
use super::report::Report;
use super::show::{Bytes, Shown, count};
use super::source::{Source, tell};
use super::stored::StoredRecord;
use node::inspect::{Replay, record_key};
use serde::Serialize;
use std::io::{self, Write};
use vocab::ShardId;

/// All that the directory has of a key.
#[derive(Serialize)]
pub struct KeyReport {
    key: Bytes,
    slot: u16,
    shard: u32,
    flushed: u64,
    /// As the tree's files have it.
    tree: Option<StoredRecord>,
    /// Entries after what the tree holds.
    entries_after: u64,
    /// Those of them that touch the key.
    entries: Vec<LoggedEntry>,
    /// Entries that only collect what has expired, whatever its key.
    housekeeping: u64,
    /// The last entry.
    last: u64,
    /// What a start makes of it.
    recovered: Option<StoredRecord>,
    /// Why the log could not be followed to its end.
    problem: Option<String>,
}

impl KeyReport {
    pub fn of(source: &Source, key: &[u8], shown: Shown) -> Result<Self, String> {
        let slot = vocab::slot_of(key);
        let shard = source.owner(slot)?;
        let tree = source.tree(shard)?;
        let snapshot = tree.snapshot();
        let stored = snapshot.get(&record_key(key)).map_err(tell)?;
        let stored = stored.map(|bytes| StoredRecord::of(key, bytes, snapshot, shown)).transpose()?;
        let mut report = Self {
            key: Bytes::of(key, Shown::Whole),
            slot: slot.0,
            shard: shard.0,
            flushed: snapshot.index(),
            tree: stored,
            entries_after: 0,
            entries: Vec::new(),
            housekeeping: 0,
            last: 0,
            recovered: None,
            problem: None,
        };
        let replay = Replay::begin(shard, source.slots(shard), tree).map_err(tell)?;
        report.problem = report.follow(source, replay, key, shown).err();
        Ok(report)
    }

    /// Goes through the log. What cannot be read ends it; what was found before stays.
    fn follow(&mut self, source: &Source, mut replay: Replay, key: &[u8], shown: Shown) -> Result<(), String> {
        for entry in source.entries(ShardId(self.shard), self.flushed + 1, u64::MAX) {
            let entry = entry?;
            self.entries_after += 1;
            self.note(LoggedEntry::of(&entry, Some(key), shown)?);
            replay.apply(&entry)?;
        }
        let snapshot = replay.snapshot();
        self.last = snapshot.index();
        let recovered = snapshot.get(&record_key(key)).map_err(tell)?;
        self.recovered = recovered.map(|bytes| StoredRecord::of(key, bytes, &*snapshot, shown)).transpose()?;
        Ok(())
    }

    fn note(&mut self, entry: LoggedEntry) {
        let only_collects = |item: &LoggedItem| matches!(item, LoggedItem::Housekeeping);
        if entry.time.is_none() || entry.items.is_empty() {
            return;
        }
        if entry.items.iter().all(only_collects) {
            self.housekeeping += 1;
        } else {
            self.entries.push(entry);
        }
    }
}

impl Report for KeyReport {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "key {}: slot {}, shard {}", self.key, self.slot, self.shard)?;
        writeln!(out, "\nin the tree, as of entry {}:", self.flushed)?;
        match &self.tree {
            Some(record) => record.text(out)?,
            None => writeln!(out, "  not there")?,
        }
        let after = count(self.entries_after, "entry", "entries");
        writeln!(out, "\nin the log, {after} after that, {} of them about this key:", self.entries.len())?;
        self.entries.iter().try_for_each(|entry| entry.text(out))?;
        if self.housekeeping > 0 {
            let entries = count(self.housekeeping, "entry", "entries");
            writeln!(out, "  and {entries} that collect what has expired, whatever its key")?;
        }
        if let Some(problem) = &self.problem {
            return writeln!(out, "\nDAMAGED: {problem}");
        }
        writeln!(out, "\nafter a start, as of entry {}:", self.last)?;
        match &self.recovered {
            Some(record) => record.text(out),
            None => writeln!(out, "  not there"),
        }
    }

    fn is_sound(&self) -> bool {
        self.problem.is_none()
    }
}
