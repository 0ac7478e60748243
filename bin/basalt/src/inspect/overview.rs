//! What there is, shard by shard.

use super::report::Report;
use super::show::{count, size};
use super::source::{Source, tell};
use super::table::Table;
use replica::{LogEnd, LogFileInfo};
use serde::Serialize;
use server::Identity;
use std::io::{self, Write};
use storage::{EngineKind, Inspection};
use vocab::ShardId;

/// The whole directory at a glance.
#[derive(Serialize)]
pub struct Overview {
    directory: String,
    node: String,
    format: u32,
    shard_count: u32,
    engine: &'static str,
    running: bool,
    log: LogSummary,
    shards: Vec<ShardSummary>,
}

/// The log's files.
#[derive(Serialize)]
pub struct LogSummary {
    bytes: u64,
    written_bytes: u64,
    records: u64,
    files: Vec<LogFileSummary>,
}

/// One file of the log.
#[derive(Serialize)]
pub struct LogFileSummary {
    path: String,
    bytes: u64,
    written_bytes: u64,
    records: u64,
    end: &'static str,
    detail: Option<String>,
}

/// One shard: its part of the log, and its tree.
#[derive(Serialize)]
pub struct ShardSummary {
    pub shard: u32,
    pub first_slot: u16,
    pub last_slot: u16,
    /// What is damaged.
    pub problems: Vec<String>,
    pub log: Option<GroupSummary>,
    pub tree: Option<TreeSummary>,
    /// Entries that a start applies to the tree.
    pub to_replay: Option<u64>,
}

/// What the log holds about a shard.
#[derive(Serialize)]
pub struct GroupSummary {
    /// 0 if there is no entry.
    pub first: u64,
    pub last: u64,
    pub term: u64,
    pub voted_for: u64,
    pub commit: u64,
    pub truncated: u64,
    pub voters: Vec<u64>,
}

/// A tree as its files have it.
#[derive(Serialize)]
pub struct TreeSummary {
    pub engine: &'static str,
    pub flushed: u64,
    pub keys: u64,
    pub slots_with_keys: usize,
    pub bytes: u64,
    pub level_tables: Vec<usize>,
    pub blob_files: usize,
    pub blob_stale_bytes: u64,
    pub versions: u64,
    /// Below the data directory.
    pub files: Vec<String>,
}

impl Overview {
    pub fn of(source: &Source) -> Self {
        let identity = source.identity();
        Self {
            directory: source.root().display().to_string(),
            node: identity.name.clone(),
            format: Identity::FORMAT,
            shard_count: identity.shards,
            engine: identity.engine.name(),
            running: source.is_running(),
            log: LogSummary::of(source),
            shards: source.shards().map(|shard| ShardSummary::of(source, shard)).collect(),
        }
    }
}

impl LogSummary {
    fn of(source: &Source) -> Self {
        let files: Vec<_> = source.log().files().map(|info| LogFileSummary::of(source, info)).collect();
        Self {
            bytes: files.iter().map(|file| file.bytes).sum(),
            written_bytes: files.iter().map(|file| file.written_bytes).sum(),
            records: files.iter().map(|file| file.records).sum(),
            files,
        }
    }

    fn is_sound(&self) -> bool {
        self.files.iter().all(|file| file.end != "damaged")
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "log: {} in {}, {} ({} with room set aside)",
            count(self.records, "record", "records"),
            count(self.files.len() as u64, "file", "files"),
            size(self.written_bytes),
            size(self.bytes)
        )?;
        for file in &self.files {
            let Some(detail) = &file.detail else { continue };
            match file.end {
                "torn" => writeln!(
                    out,
                    "  {}: an unfinished write at its end, as a crash leaves it; a start cuts it off ({detail})",
                    file.path
                )?,
                end => writeln!(out, "  {}: {}: {detail}", file.path, end.to_uppercase())?,
            }
        }
        Ok(())
    }
}

impl LogFileSummary {
    fn of(source: &Source, info: &LogFileInfo) -> Self {
        let (end, detail) = match &info.end {
            LogEnd::Whole => ("whole", None),
            LogEnd::Torn { detail } => ("torn", Some(detail.clone())),
            LogEnd::Damaged { detail } => ("damaged", Some(detail.clone())),
            LogEnd::Unused => ("unused", None),
        };
        let path = source.relative(&info.path);
        Self { path, bytes: info.bytes, written_bytes: info.written, records: info.records, end, detail }
    }
}

impl ShardSummary {
    pub fn of(source: &Source, shard: ShardId) -> Self {
        let (first_slot, last_slot) = source.slots(shard);
        let mut problems = Vec::new();
        let mut keep = |why: String| problems.push(why);
        let log = GroupSummary::of(source, shard).map_err(&mut keep).ok();
        let tree = source.tree(shard).and_then(|tree| TreeSummary::of(source, &tree)).map_err(&mut keep).ok();
        let mut to_replay = None;
        if shard == ShardId::META {
            problems.extend(server::read_map_changes(source.root()).1);
        }
        if let (Some(log), Some(tree)) = (&log, &tree) {
            to_replay = Some(log.last.saturating_sub(tree.flushed));
            if tree.flushed > log.last {
                problems.push(format!(
                    "the tree holds entry {}, the log ends at {}: log files are missing",
                    tree.flushed, log.last
                ));
            } else if log.first > tree.flushed + 1 {
                problems.push(format!(
                    "the tree ends at entry {}, the log begins at {}: log files are missing",
                    tree.flushed, log.first
                ));
            }
        }
        Self { shard: shard.0, first_slot, last_slot, problems, log, tree, to_replay }
    }

    /// The slots that it owns, for people.
    pub fn slots(&self) -> String {
        if self.shard == ShardId::META.0 {
            "none".to_owned()
        } else {
            format!("{}-{}", self.first_slot, self.last_slot)
        }
    }

    fn cells(&self) -> Vec<String> {
        let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        let log = self.log.as_ref();
        let tree = self.tree.as_ref();
        vec![
            self.shard.to_string(),
            self.slots(),
            or_dash(tree.map(|tree| tree.keys.to_string())),
            or_dash(log.filter(|log| log.first > 0).map(|log| format!("{}..{}", log.first, log.last))),
            or_dash(log.map(|log| log.term.to_string())),
            or_dash(log.map(|log| log.commit.to_string())),
            or_dash(log.map(|log| log.truncated.to_string())),
            or_dash(tree.map(|tree| tree.flushed.to_string())),
            or_dash(self.to_replay.map(|n| n.to_string())),
            or_dash(tree.map(|tree| size(tree.bytes))),
            or_dash(tree.filter(|tree| !tree.level_tables.is_empty()).map(TreeSummary::shape)),
            or_dash(tree.map(|tree| tree.blob_files.to_string())),
        ]
    }
}

impl GroupSummary {
    fn of(source: &Source, shard: ShardId) -> Result<Self, String> {
        let state = source.group(shard)?;
        let (first, last) = state.bounds;
        Ok(Self {
            first: if last < first { 0 } else { first },
            last,
            term: state.hard_state.term,
            voted_for: state.hard_state.vote,
            commit: state.hard_state.commit,
            truncated: state.truncated.0,
            voters: state.conf_state.voters,
        })
    }
}

impl TreeSummary {
    fn of(source: &Source, tree: &Inspection) -> Result<Self, String> {
        let stats = tree.stats();
        let counters = tree.meta(node::inspect::COUNTERS).map_err(tell)?;
        let counts = counters.as_deref().map(node::inspect::key_counts).transpose()?.unwrap_or_default();
        Ok(Self {
            engine: tree.kind().name(),
            flushed: tree.snapshot().index(),
            keys: counts.iter().map(|(_, count)| count).sum(),
            slots_with_keys: counts.len(),
            bytes: stats.disk_bytes,
            level_tables: if tree.kind() == EngineKind::Lsm { stats.level_tables } else { Vec::new() },
            blob_files: stats.blob_files,
            blob_stale_bytes: stats.blob_stale_bytes,
            versions: stats.entries_approx,
            files: tree.files().iter().map(|path| source.relative(path)).collect(),
        })
    }

    /// Tables of each level, down to the last that has any.
    pub fn shape(&self) -> String {
        let used = self.level_tables.iter().rposition(|&tables| tables > 0).map_or(1, |last| last + 1);
        let counts: Vec<String> = self.level_tables.iter().take(used).map(usize::to_string).collect();
        counts.join("/")
    }
}

impl Report for Overview {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{}: {}, {} engine, format {}, node {}",
            self.directory,
            count(u64::from(self.shard_count), "shard", "shards"),
            self.engine,
            self.format,
            self.node
        )?;
        if self.running {
            writeln!(out, "IN USE by a running process: what it changes meanwhile may look damaged")?;
        }
        self.log.text(out)?;
        writeln!(out)?;
        let mut table = Table::new(&[
            "shard",
            "slots ",
            "keys",
            "log ",
            "term",
            "commit",
            "truncated",
            "flushed",
            "to replay",
            "size",
            "tables by level ",
            "blob files",
        ]);
        self.shards.iter().for_each(|shard| table.row(shard.cells()));
        table.print(out)?;
        let keys: u64 = self.shards.iter().filter_map(|shard| shard.tree.as_ref()).map(|tree| tree.keys).sum();
        let replay: u64 = self.shards.iter().filter_map(|shard| shard.to_replay).sum();
        writeln!(
            out,
            "\n{} in the trees; a start replays {}",
            count(keys, "key", "keys"),
            count(replay, "entry", "entries")
        )?;
        writeln!(out, "(commit is as last written: a group of one commits all that its log holds)")?;
        for shard in &self.shards {
            for problem in &shard.problems {
                writeln!(out, "DAMAGED: shard {}: {problem}", shard.shard)?;
            }
        }
        Ok(())
    }

    fn is_sound(&self) -> bool {
        self.log.is_sound() && self.shards.iter().all(|shard| shard.problems.is_empty())
    }
}
