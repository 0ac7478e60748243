//! Removes rows that a forked tree does not want, level by level, where compaction would not come by for long.
//!
//! ```text
//! <tree>/unwanted   "basalt unwanted 1\n<number>\n": tables up to that number may hold such rows
//! ```
//!
//! The file goes when no such table is left. It is a hint: without it, unwanted rows go as compaction meets them. With it,
//! compaction leaves the first level to the purge as long as it can: what is rewritten once need not be rewritten twice.

use super::collector::Plan;
use super::engine::LsmEngine;
use super::generation::Generation;
use super::view::View;
use crate::dropped::prefix_end;
use crate::files::{replace_file, system_error};
use crate::{Result, Slice};
use lsm_tree::AbstractTree;
use lsm_tree::compaction::PullDown;
use std::fs;
use std::io::ErrorKind;
use std::ops::Bound;
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
pub(super) fn unmark(generation: &Generation) -> Result<()> {
    let path = generation.folder.join(FILE);
    fs::remove_file(&path).map_err(|error| system_error(&path, error))?;
    generation.note_unwanted(None);
    Ok(())
}

impl LsmEngine {
    /// Rewrites a level of `generation` that holds rows that are to go, slowly; its compaction is held. False if it is to
    /// end.
    fn rewrite(&self, generation: &Arc<Generation>, from: u8, to: u8) -> Result<bool> {
        generation.pace.hurried.store(false, Ordering::Relaxed);
        generation.pace.purging.store(true, Ordering::Relaxed);
        let result = self.write_files(generation, || {
            generation.tree().compact(Arc::new(PullDown(from, to)), u64::MAX)?;
            Ok(generation.blob_names.check()?)
        });
        generation.pace.purging.store(false, Ordering::Relaxed);
        if self.is_ending(generation) {
            return Ok(false);
        }
        result?;
        self.refresh(generation, 0);
        Ok(true)
    }

    /// One step that removes rows which a fork has taken over.
    pub(super) fn purge_unwanted(&self) -> Result<bool> {
        let generation = self.view.load().generation.clone();
        if generation.keep.load().is_none() || self.is_ending(&generation) {
            return Ok(false);
        }
        let Some(last) = generation.unwanted() else { return Ok(false) };
        let _one = generation.compacting.lock().expect("a panic while compacting is not survived");
        let last = if last == EVERYTHING {
            // No compaction is under way that does not know what is wanted.
            let last = of_all_tables(&generation);
            mark(&generation, last)?;
            last
        } else {
            last
        };
        let Some((from, to)) = next_levels(&generation, |table| table <= last) else {
            unmark(&generation)?;
            log::info!("{}: rows that another shard has now are gone", self.folder.display());
            return Ok(false);
        };
        self.rewrite(&generation, from, to)
    }

    /// One step that frees the room of dropped prefixes.
    pub(super) fn purge_dropped(&self) -> Result<bool> {
        let generation = self.view.load().generation.clone();
        if generation.dropped.load().is_empty() || self.is_ending(&generation) {
            return Ok(false);
        }
        let _one = generation.compacting.lock().expect("a panic while compacting is not survived");
        let view = self.view.load_full();
        if !Arc::ptr_eq(&view.generation, &generation) {
            return Ok(false);
        }
        match generation.collector.plan(&view, generation.tree().disk_space()) {
            Plan::Nothing => Ok(false),
            Plan::GoOn => Ok(true),
            Plan::Cut(prefix) => {
                let (before, end) = (generation.table_ids(), prefix_end(&prefix));
                let high = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end) };
                let cut = || generation.tree().drop_range::<Slice, _>((Bound::Included(prefix), high));
                self.write_files(&generation, cut)?;
                self.refresh(&generation, 0);
                Ok(before != generation.table_ids())
            }
            Plan::Rewrite { from, to } => self.rewrite(&generation, from, to),
            Plan::Forget(prefixes) => {
                let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
                let current = self.view.load();
                if Arc::ptr_eq(&current.generation, &generation) {
                    generation.forget(prefixes);
                    let (active, sealed) = (current.active.clone(), current.sealed.clone());
                    drop(self.publish(View::new(
                        generation.clone(),
                        active,
                        sealed,
                        self.applied.load(Ordering::SeqCst),
                    )));
                }
                Ok(true)
            }
        }
    }
}

/// The first level that has a table which is to be rewritten, and the level that it is rewritten into: itself, or for level
/// 0 the next that is not empty.
pub(super) fn next_levels(generation: &Generation, is_to_go: impl Fn(u64) -> bool) -> Option<(u8, u8)> {
    let version = generation.index().current_version();
    let mut levels = (0u8..).zip(version.iter_levels());
    let (at, _) = levels.find(|(_, level)| level.iter().any(|run| run.iter().any(|table| is_to_go(table.id()))))?;
    if at > 0 {
        return Some((at, at));
    }
    let mut below = (1u8..).zip(version.iter_levels().skip(1));
    let lowest = version.level_count() as u8 - 1;
    Some((0, below.find(|(_, level)| !level.is_empty()).map_or(lowest, |(to, _)| to)))
}
