//! Records of the trees, in order.

use super::report::Report;
use super::show::{Bytes, Shown, count};
use super::source::{Source, tell};
use super::stored::StoredRecord;
use super::table::Table;
use node::inspect::{TreeKey, record_span};
use serde::Serialize;
use std::io::{self, Write};
use vocab::ShardId;

/// Records as the trees' files have them: what the log holds beyond is not in them.
#[derive(Serialize)]
pub struct RecordsReport {
    records: Vec<RecordLine>,
    /// Whether there are more than were asked for.
    more: bool,
    /// Entries of these shards' logs that the trees do not have yet.
    to_replay: u64,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct RecordLine {
    shard: u32,
    key: Bytes,
    record: StoredRecord,
}

impl RecordsReport {
    pub fn of(source: &Source, shards: &[ShardId], prefix: &[u8], limit: usize, shown: Shown) -> Result<Self, String> {
        let mut report = Self { records: Vec::new(), more: false, to_replay: 0, problems: Vec::new() };
        for &shard in shards {
            if let Err(why) = report.add(source, shard, prefix, limit, shown) {
                report.problems.push(format!("shard {shard}: {why}"));
            }
        }
        Ok(report)
    }

    fn add(
        &mut self,
        source: &Source,
        shard: ShardId,
        prefix: &[u8],
        limit: usize,
        shown: Shown,
    ) -> Result<(), String> {
        let tree = source.tree(shard)?;
        let snapshot = tree.snapshot();
        self.to_replay += source.group(shard)?.bounds.1.saturating_sub(snapshot.index());
        for row in snapshot.iter(record_span(prefix), false) {
            let (tree_key, value) = row.map_err(tell)?;
            if self.records.len() >= limit {
                self.more = true;
                break;
            }
            let Some(TreeKey::Record(key)) = TreeKey::parse(&tree_key) else { continue };
            let record = StoredRecord::of(key, value, snapshot, shown)?;
            // A key is what the next question is asked with, so it is never cut.
            self.records.push(RecordLine { shard: shard.0, key: Bytes::of(key, Shown::Whole), record });
        }
        Ok(())
    }
}

impl Report for RecordsReport {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["shard", "key ", "record ", "value "]);
        for row in &self.records {
            table.row(vec![row.shard.to_string(), row.key.to_string(), row.record.summary(), row.record.value()]);
        }
        table.print(out)?;
        let shown = count(self.records.len() as u64, "record", "records");
        writeln!(out, "\n{shown}{}", if self.more { "; there are more: --limit" } else { "" })?;
        if self.to_replay > 0 {
            writeln!(
                out,
                "The logs hold {} that the trees do not have yet: --key shows what they make of a key.",
                count(self.to_replay, "entry", "entries")
            )?;
        }
        self.problems.iter().try_for_each(|problem| writeln!(out, "DAMAGED: {problem}"))
    }

    fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}
