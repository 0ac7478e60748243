//! What applying will look at in memory, so that it is fetched for all shards side by side (docs/adr/0018).

use super::Shard;
use crate::format::entry::first_arguments;
use crate::format::keys;
use replica::has_commands;
use std::ops::Range;
use storage::{Lines, Step};

/// Keys of a round that are fetched at once: of more, the first would be gone from the processor's caches again.
const FETCH_MAX: usize = 256;

/// The keys of one round, by what finds their rows.
#[derive(Default)]
pub(crate) struct Fetch {
    /// Their hashes in the row cache.
    rows: Vec<u64>,
    /// In the trees of their shards.
    trees: Vec<u64>,
    tree_key: Vec<u8>,
    lines: Lines,
}

impl Fetch {
    /// Begins a round.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.trees.clear();
    }

    /// Prefetches the noted addresses into the CPU cache.
    pub(crate) fn fetch(&mut self) {
        self.lines.fetch();
    }
}

impl Shard {
    /// Adds the keys that applying will look at; answers which of the round's they are.
    pub(crate) fn add_keys(&self, fetch: &mut Fetch) -> Range<usize> {
        let first = fetch.rows.len();
        if self.warming.is_awaited() {
            return first..first;
        }
        let (view, shard) = (&self.view, self.view.id().0);
        let entries = self.collected.iter().flat_map(|turn| &turn.committed).filter(|entry| has_commands(entry));
        for key in entries.flat_map(|entry| first_arguments(&entry.data)).take(FETCH_MAX - first) {
            fetch.rows.push(view.cache().hash(shard, key));
            keys::record_into(&mut fetch.tree_key, key);
            fetch.trees.push(view.engine().hash(&fetch.tree_key));
        }
        first..fetch.rows.len()
    }

    /// Notes what is looked at for these of the round's keys, for one step.
    pub(crate) fn note(&self, keys: Range<usize>, step: Step, fetch: &mut Fetch) {
        self.view.cache().note(&fetch.rows[keys.clone()], step, &mut fetch.lines);
        self.view.engine().note(&fetch.trees[keys], step, &mut fetch.lines);
    }
}
