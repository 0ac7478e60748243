//! One key: in the tree, in the log after it, and what a start makes of both.

use super::logged::{LoggedEntry, LoggedItem};
use super::report::Report;
use super::show::{Bytes, Shown, count};
use super::source::{Source, tell};
use super::stored::StoredRecord;
use node::inspect::{Replay, record_key};
use serde::Serialize;
use std::io::{self, Write};

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
    /// What a start makes of it.
    recovered: Option<StoredRecord>,
}

impl KeyReport {
    pub fn of(source: &Source, key: &[u8], shown: Shown) -> Result<Self, String> {
        let slot = vocab::slot_of(key);
        let shard = source.owner(slot);
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
            recovered: None,
        };
        let mut replay = Replay::begin(shard, source.slots(shard), tree).map_err(tell)?;
        for entry in source.entries(shard, report.flushed + 1, u64::MAX) {
            let entry = entry?;
            report.entries_after += 1;
            replay.apply(&entry)?;
            let logged = LoggedEntry::of(&entry, Some(key), shown)?;
            let only_collects = |item: &LoggedItem| matches!(item, LoggedItem::Housekeeping);
            if logged.time.is_none() || logged.items.is_empty() {
                continue;
            }
            if logged.items.iter().all(only_collects) {
                report.housekeeping += 1;
            } else {
                report.entries.push(logged);
            }
        }
        let snapshot = replay.snapshot();
        let recovered = snapshot.get(&record_key(key)).map_err(tell)?;
        report.recovered = recovered.map(|bytes| StoredRecord::of(key, bytes, &*snapshot, shown)).transpose()?;
        Ok(report)
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
        writeln!(out, "\nafter a start, as of entry {}:", self.flushed + self.entries_after)?;
        match &self.recovered {
            Some(record) => record.text(out),
            None => writeln!(out, "  not there"),
        }
    }

    fn is_sound(&self) -> bool {
        true
    }
}
