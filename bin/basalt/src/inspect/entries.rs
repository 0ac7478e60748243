//! Entries of one shard's log.

use super::logged::LoggedEntry;
use super::report::Report;
use super::show::{Shown, count};
use super::source::Source;
use serde::Serialize;
use std::io::{self, Write};
use vocab::ShardId;

/// Entries in order. Ends at the first that cannot be read.
#[derive(Serialize)]
pub struct EntriesReport {
    shard: u32,
    first: u64,
    last: u64,
    flushed: Option<u64>,
    entries: Vec<LoggedEntry>,
    problem: Option<String>,
}

impl EntriesReport {
    pub fn of(source: &Source, shard: ShardId, from: u64, to: u64, shown: Shown) -> Result<Self, String> {
        let (first, last) = source.group(shard)?.bounds;
        let flushed = source.tree(shard).ok().map(|tree| tree.snapshot().index());
        let mut report = Self { shard: shard.0, first, last, flushed, entries: Vec::new(), problem: None };
        for entry in source.entries(shard, from, to) {
            match entry.and_then(|entry| LoggedEntry::of(&entry, None, shown)) {
                Ok(entry) => report.entries.push(entry),
                Err(why) => {
                    report.problem = Some(why);
                    break;
                }
            }
        }
        Ok(report)
    }
}

impl Report for EntriesReport {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let shown = count(self.entries.len() as u64, "entry", "entries");
        writeln!(out, "shard {}: {shown} of {}..{}", self.shard, self.first, self.last)?;
        let mut flushed = self.flushed;
        for entry in &self.entries {
            if flushed.is_some_and(|index| index < entry.index) {
                writeln!(out, "  ---- the tree has what is above; a start replays what is below ----")?;
                flushed = None;
            }
            entry.text(out)?;
        }
        match &self.problem {
            Some(problem) => writeln!(out, "DAMAGED: {problem}"),
            None => Ok(()),
        }
    }

    fn is_sound(&self) -> bool {
        self.problem.is_none()
    }
}
