//! A key by random draw, each of a snapshot's keys with the same probability, without a walk over them.
//!
//! All places where a row may lie are numbered: the rows of the memtables, and in each block of a table as many places as
//! the table's fullest block has rows. A number is drawn. It counts only if there is a row, and if that row is the one that
//! the snapshot sees of its key, of which there is exactly one; else another number is drawn. So no key is more likely than
//! another, however blocks are filled and however often a key was written.
//!
//! How many rows the fullest block has is learned from the blocks that are read: until then, its last rows are not drawn.

use super::memtable::Memtable;
use super::table::{Access, Blocks, SampledRow};
use super::view::View;
use crate::{Result, Slice, Span};
use lsm_tree::{AbstractTree, Table};
use std::ops::Range;
use std::sync::Arc;

/// Numbers that are drawn before it gives up, and how many of these may need a block to be read.
const DRAWS_MAX: usize = 4096;
const BLOCKS_MAX: usize = 128;

/// Draws keys of a span of a view as of an index.
pub(super) struct Sampler<'a> {
    view: &'a View,
    index: u64,
    span: &'a Span,
    sources: Vec<Source<'a>>,
}

enum Source<'a> {
    Memtable {
        memtable: &'a Arc<Memtable>,
        rows: u64,
    },
    /// Blocks of a table that may hold keys of the span.
    Table {
        table: &'a Table,
        blocks: &'a Blocks,
        units: Range<usize>,
        run: usize,
    },
}

/// How the places of a source are numbered.
struct Places {
    units: u64,
    /// In each unit.
    blocks: u64,
    /// In each block.
    rows: u64,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(view: &'a View, index: u64, span: &'a Span) -> Self {
        let memtables = view.memtables().map(|memtable| Source::Memtable { memtable, rows: memtable.len() as u64 });
        let tables = view.runs_of_tables().filter_map(|(run, table, blocks)| {
            let units = blocks.units_between(table, &span.start, &span.end);
            (!units.is_empty()).then_some(Source::Table { table, blocks, units, run })
        });
        let sources = memtables.chain(tables).collect();
        Self { view, index, span, sources }
    }

    /// A key; `None` if none was found in a bounded number of draws. `below` draws a number below its argument.
    pub(super) fn draw(&self, below: &mut dyn FnMut(u64) -> u64) -> Result<Option<Slice>> {
        let mut blocks_read = 0;
        for _ in 0..DRAWS_MAX {
            let places: Vec<Places> = self.sources.iter().map(Source::places).collect();
            let total = places.iter().map(Places::count).sum();
            if total == 0 || blocks_read == BLOCKS_MAX {
                break;
            }
            let mut number = below(total);
            let source = self.sources.iter().zip(&places).find(|(_, places)| {
                let is_here = number < places.count();
                number -= if is_here { 0 } else { places.count() };
                is_here
            });
            let Some((source, places)) = source else { break };
            blocks_read += usize::from(matches!(source, Source::Table { .. }));
            if let Some(key) = self.key_at(source, number, places)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// The key at a place, if there is one and the row there is what the snapshot sees of it.
    fn key_at(&self, source: &Source<'_>, number: u64, places: &Places) -> Result<Option<Slice>> {
        match source {
            Source::Memtable { memtable, .. } => {
                let Some(row) = memtable.row_as_of(number as u32, self.index) else { return Ok(None) };
                let key = &row.key.user_key;
                let newer = self.view.memtables().take_while(|other| !Arc::ptr_eq(other, memtable));
                let is_seen = self.includes(key) && !row.key.is_tombstone() && !self.is_in(newer, key);
                Ok(is_seen.then(|| row.key.user_key.clone()))
            }
            Source::Table { table, blocks, units, run } => {
                let access =
                    Access { tree: self.view.generation.index().id(), descriptors: &self.view.generation.descriptors };
                let (block, row) = (number / places.rows, number % places.rows);
                let unit = units.start + (block / places.blocks) as usize;
                let found = blocks.row_at(table, access, unit, block % places.blocks, row)?;
                let Some(SampledRow { key, is_removal }) = found else {
                    return Ok(None);
                };
                if is_removal || !self.includes(&key) || self.is_in(self.view.memtables(), &key) {
                    return Ok(None);
                }
                let is_newest = !self.view.dropped.covers(&key) && !self.view.is_in_newer(&key, *run)?;
                Ok(is_newest.then_some(key))
            }
        }
    }

    fn includes(&self, key: &[u8]) -> bool {
        key >= &self.span.start[..] && (self.span.end.is_empty() || key < &self.span.end[..])
    }

    /// Whether some of these memtables have something of `key`, a removal perhaps.
    fn is_in<'b>(&self, mut memtables: impl Iterator<Item = &'b Arc<Memtable>>, key: &[u8]) -> bool {
        memtables.any(|memtable| memtable.get(key, self.index).is_some())
    }
}

impl Source<'_> {
    fn places(&self) -> Places {
        match self {
            Self::Memtable { rows, .. } => Places { units: *rows, blocks: 1, rows: 1 },
            Self::Table { blocks, units, .. } => {
                let (units, (blocks, rows)) = (units.len() as u64, blocks.fullest());
                Places { units, blocks, rows }
            }
        }
    }
}

impl Places {
    fn count(&self) -> u64 {
        self.units * self.blocks * self.rows
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::{Engine, LsmEngine, SharedResources, Slice, Span, StorageOptions, WriteBatch};
    use std::collections::BTreeMap;
    use vocab::Prng;

    /// Keys of two lengths, values of many, some kept apart; some rows written again, some removed, in tables and memtables.
    fn filled(folder: &std::path::Path, table_bytes: u64) -> (LsmEngine, Vec<Vec<u8>>) {
        let options = StorageOptions { table_bytes, separation_bytes: 2000, ..StorageOptions::default() };
        let engine = LsmEngine::open(folder, &SharedResources::new(options)).unwrap();
        let (mut prng, mut keys) = (Prng::new(5), BTreeMap::new());
        for index in 1..=8u64 {
            let mut writes = BTreeMap::new();
            for _ in 0..200 {
                let number = prng.below(600);
                let key = if number < 300 { format!("r{number}") } else { format!("rather:long:prefix:{number}") };
                let length = [0, 20, 300, 3000][prng.below(4) as usize];
                let value = (prng.below(4) > 0).then(|| Slice::from(vec![7; length]));
                writes.insert(key.into_bytes(), value);
            }
            for (key, value) in &writes {
                keys.insert(key.clone(), value.is_some());
            }
            let others =
                (0..100).map(|i| (Slice::from(format!("e{index}/{i}").as_bytes()), Some(Slice::from(&b"x"[..]))));
            let writes = writes.into_iter().map(|(key, value)| (Slice::from(key), value)).chain(others).collect();
            engine.apply(index, WriteBatch { writes, ..WriteBatch::default() });
            if index < 7 {
                engine.seal(Vec::new());
                engine.flush().unwrap();
            }
            if index == 4 {
                while engine.compact().unwrap() {}
            }
        }
        (engine, keys.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key).collect())
    }

    #[test]
    fn every_key_is_as_likely_as_the_next() {
        for table_bytes in [8 << 10, 32 << 20] {
            let folder = tempfile::tempdir().unwrap();
            let (engine, keys) = filled(folder.path(), table_bytes);
            let snapshot = engine.snapshot();
            let span = Span { start: b"r".to_vec(), end: b"s".to_vec() };
            let mut prng = Prng::new(9);
            let mut draw =
                || snapshot.sample(&span, &mut |bound| prng.below(bound)).unwrap().expect("many keys are there");
            // What the fullest blocks hold is learned first.
            (0..2000).for_each(|_| drop(draw()));
            let mut counts: BTreeMap<Vec<u8>, u64> = keys.iter().map(|key| (key.clone(), 0)).collect();
            let draws = 40_000;
            for _ in 0..draws {
                *counts.get_mut(&draw()[..]).expect("a key that the snapshot has") += 1;
            }
            let expected = draws as f64 / keys.len() as f64;
            let chi_square: f64 = counts.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
            // About normal: its mean is the number of keys, its variance twice that.
            let freedom = keys.len() as f64 - 1.0;
            assert!(chi_square < freedom + 4.0 * (2.0 * freedom).sqrt(), "{chi_square} of {freedom}");
        }
    }
}
