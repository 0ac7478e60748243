//! Removes rows that a forked tree does not want, level by level, where compaction would not come by for long.
//!
//! ```text
//! <tree>/unwanted   "basalt unwanted 1\n<number>\n": tables up to that number may hold such rows
//! ```
//!
//! The file goes when no such table is left. It is a hint: without it, unwanted rows go as compaction meets them. With it,
//! compaction leaves the first level to the purge as long as it can: what is rewritten once need not be rewritten twice.

use super::engine::LsmEngine;
use super::generation::Generation;
use crate::Result;
use crate::files::{replace_file, system_error};
use lsm_tree::AbstractTree;
use lsm_tree::compaction::PullDown;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FILE: &str = "unwanted";
const HEAD: &str = "basalt unwanted 1";
/// All tables that there are when compaction next looks: one that is being made may hold unwanted rows yet.
pub(super) const EVERYTHING: u64 = u64::MAX;

/// The tables of `generation`, as a number.
pub(super) fn of_all_tables(generation: &Generation) -> u64 {
    generation.index().current_version().iter_tables().map(lsm_tree::Table::id).max().unwrap_or(0)
}

/// Tables up to number `last` may hold unwanted rows.
pub(super) fn mark(generation: &Generation, last: u64) -> Result<()> {
    replace_file(&generation.folder, FILE, format!("{HEAD}\n{last}\n").as_bytes())?;
    generation.note_unwanted(Some(last));
    Ok(())
}

/// What `mark` said of the tree in `folder`; a file that cannot be read says that all tables are to be looked at.
pub(super) fn read_mark(folder: &Path) -> Result<Option<u64>> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let number = text.strip_prefix(HEAD).and_then(|rest| rest.trim().parse().ok());
            Ok(Some(number.unwrap_or(EVERYTHING)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Some(EVERYTHING)),
        Err(error) => Err(system_error(&path, error)),
    }
}

/// Of the bytes on disk, about how many are of rows that are to go: half of what the tables that are marked hold, since a
/// fork is made to halve.
pub(super) fn unwanted_bytes(generation: &Generation) -> u64 {
    let Some(last) = generation.unwanted() else { return 0 };
    let bytes = |last: u64| -> u64 {
        let version = generation.index().current_version();
        version.iter_tables().filter(|table| table.id() <= last).map(|table| table.metadata.file_size).sum()
    };
    let (marked, all) = (bytes(last), bytes(EVERYTHING).max(1));
    // What is kept out of the levels is shared out as they are.
    (generation.tree().disk_space() as f64 * marked as f64 / all as f64 / 2.0) as u64
}

/// No table holds unwanted rows any more.
fn unmark(generation: &Generation) -> Result<()> {
    let path = generation.folder.join(FILE);
    fs::remove_file(&path).map_err(|error| system_error(&path, error))?;
    generation.note_unwanted(None);
    Ok(())
}

impl LsmEngine {
    /// See `Engine::purge`.
    pub(super) fn purge_step(&self) -> Result<bool> {
        self.health.check()?;
        let generation = self.view.load().generation.clone();
        if generation.keep.load().is_none() || self.is_ending(&generation) {
            return Ok(false);
        }
        let Some(last) = generation.unwanted() else { return Ok(false) };
        let _one = generation.compacting.lock().expect("a panic while compacting is not survived");
        let last = if last == EVERYTHING {
            // Nothing is being compacted now that does not know what is wanted.
            let last = of_all_tables(&generation);
            mark(&generation, last)?;
            last
        } else {
            last
        };
        let Some((from, to)) = next_levels(&generation, last) else {
            unmark(&generation)?;
            log::info!("{}: rows that another shard has now are gone", self.folder.display());
            return Ok(false);
        };
        generation.pace.hurried.store(false, Ordering::Relaxed);
        generation.pace.purging.store(true, Ordering::Relaxed);
        let result = self.write_files(&generation, || {
            generation.tree().compact(Arc::new(PullDown(from, to)), u64::MAX)?;
            Ok(generation.blob_names.check()?)
        });
        generation.pace.purging.store(false, Ordering::Relaxed);
        if self.is_ending(&generation) {
            return Ok(false);
        }
        result?;
        self.refresh(&generation, 0);
        Ok(true)
    }
}

/// A level to be rewritten because it has tables up to `last`: into itself, or the first one into the next that is not
/// empty.
fn next_levels(generation: &Generation, last: u64) -> Option<(u8, u8)> {
    let version = generation.index().current_version();
    let mut levels = (0u8..).zip(version.iter_levels());
    let (at, _) = levels.find(|(_, level)| level.iter().any(|run| run.iter().any(|table| table.id() <= last)))?;
    if at > 0 {
        return Some((at, at));
    }
    let mut below = (1u8..).zip(version.iter_levels().skip(1));
    let lowest = version.level_count() as u8 - 1;
    Some((0, below.find(|(_, level)| !level.is_empty()).map_or(lowest, |(to, _)| to)))
}
