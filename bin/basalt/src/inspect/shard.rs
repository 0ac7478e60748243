//! One shard in detail.

use super::overview::ShardSummary;
use super::report::Report;
use super::show::{count, size};
use super::source::Source;
use serde::Serialize;
use std::io::{self, Write};
use vocab::ShardId;

/// What the overview says of a shard, and its files.
#[derive(Serialize)]
pub struct ShardDetail {
    #[serde(flatten)]
    summary: ShardSummary,
    files: Vec<FileSize>,
}

#[derive(Serialize)]
struct FileSize {
    path: String,
    bytes: u64,
}

impl ShardDetail {
    pub fn of(source: &Source, shard: ShardId) -> Self {
        let summary = ShardSummary::of(source, shard);
        let paths = summary.tree.iter().flat_map(|tree| &tree.files);
        let files = paths
            .map(|path| {
                let bytes = std::fs::metadata(source.root().join(path)).map_or(0, |file| file.len());
                FileSize { path: path.clone(), bytes }
            })
            .collect();
        Self { summary, files }
    }
}

impl Report for ShardDetail {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let shard = &self.summary;
        writeln!(out, "shard {}, slots: {}", shard.shard, shard.slots())?;
        if let Some(log) = &shard.log {
            writeln!(out, "\nlog")?;
            match log.first {
                0 => writeln!(out, "  entries    none, the next is {}", log.last + 1)?,
                first => writeln!(out, "  entries    {first}..{}", log.last)?,
            }
            writeln!(out, "  truncated  up to {}", log.truncated)?;
            let voters: Vec<String> = log.voters.iter().map(u64::to_string).collect();
            writeln!(
                out,
                "  term {}, voted for replica {}, commit {} when last written",
                log.term, log.voted_for, log.commit
            )?;
            writeln!(out, "  voters     replicas {}", voters.join(", "))?;
        }
        if let Some(tree) = &shard.tree {
            writeln!(out, "\ntree ({} engine)", tree.engine)?;
            writeln!(out, "  flushed    {}", tree.flushed)?;
            let slots = u64::from(shard.last_slot - shard.first_slot) + 1;
            writeln!(out, "  keys       {} in {} of {slots} slots", tree.keys, tree.slots_with_keys)?;
            writeln!(out, "  versions   about {}, removals included", tree.versions)?;
            writeln!(out, "  size       {}", size(tree.bytes))?;
            if !tree.level_tables.is_empty() {
                writeln!(out, "  tables     {} by level", tree.shape())?;
                writeln!(
                    out,
                    "  blobs      {}, {} stale",
                    count(tree.blob_files as u64, "file", "files"),
                    size(tree.blob_stale_bytes)
                )?;
            }
            for file in &self.files {
                writeln!(out, "  {:>10}  {}", size(file.bytes), file.path)?;
            }
        }
        if let Some(entries) = shard.to_replay {
            writeln!(out, "\na start replays {}", count(entries, "entry", "entries"))?;
        }
        for problem in &shard.problems {
            writeln!(out, "\nDAMAGED: {problem}")?;
        }
        Ok(())
    }

    fn is_sound(&self) -> bool {
        self.summary.problems.is_empty()
    }
}
