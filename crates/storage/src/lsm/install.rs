//! How another tree becomes the shard's: an empty one, or one that was built aside.

use super::engine::LsmEngine;
use super::fault::translate;
use super::generation::{self, Generation};
use super::view::{APPLIED_KEY, View, applied_record, meta_key};
use crate::{Result, Slice};
use lsm_tree::AbstractTree;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl LsmEngine {
    /// A new tree, empty as of `index` but for `meta` and `rows`, complete and durable.
    pub(super) fn begun_with(
        &self,
        index: u64,
        meta: Vec<(Slice, Slice)>,
        rows: Vec<(Slice, Slice)>,
    ) -> Result<Arc<Generation>> {
        let current = self.view.load().generation.number;
        let generation = Generation::create(&self.folder, current, &self.shared)?;
        for (key, value) in rows {
            generation.tree().insert(key, self.packing.pack(value), index);
        }
        self.stamp(&generation, index, meta).map_err(|error| translate(&generation.folder, error))?;
        Ok(generation)
    }

    /// Writes what is storage's own into a tree that nobody reads yet, as of `index`, and makes sure that all is on disk.
    pub(super) fn stamp(&self, generation: &Generation, index: u64, meta: Vec<(Slice, Slice)>) -> lsm_tree::Result<()> {
        let tree = generation.tree();
        for (key, value) in meta {
            tree.insert(meta_key(&key), self.packing.pack(value), index);
        }
        tree.insert(APPLIED_KEY, applied_record(index), index);
        tree.rotate_memtable();
        tree.flush(&tree.get_flush_lock(), u64::MAX)?;
        // Not before the manifest names them, but before the pointer names the tree.
        Ok(generation.blob_names.sync()?)
    }

    /// Makes `generation`, which is complete and durable as of `index`, the shard's: on disk, then for readers.
    pub(super) fn replace(&self, generation: Arc<Generation>, index: u64) -> Result<()> {
        self.health.check()?;
        let applied = self.applied.load(Ordering::Relaxed);
        assert!(index >= applied, "a map of {index} installed, or cleared to, after {applied}");
        generation.keep.store(self.keep.load_full());
        self.switch(&generation)?;
        generation.flushed.store(index, Ordering::Release);
        let _publishing = self.publishing.lock().expect("a panic while publishing is not survived");
        // The view first: who pairs it with the index before waits for the next one.
        let old = self.publish(View::of_files(generation, index));
        self.applied.store(index, Ordering::SeqCst);
        self.sealed.store(index, Ordering::Relaxed);
        old.generation.condemn();
        self.cleared.lock().expect("nothing panics while it is held").push(old);
        Ok(())
    }

    /// Lets the pointer name `generation`. If that fails, the old one stays and the new one goes; if it cannot be told
    /// which one a start would find, both stay and the engine is poisoned.
    fn switch(&self, generation: &Generation) -> Result<()> {
        generation.spare();
        generation::write_pointer(&self.folder, generation.number).map_err(|error| {
            match generation::read_pointer(&self.folder) {
                Ok(Some(number)) if number != generation.number => generation.condemn(),
                _ => self.health.poison(format!("{}: the pointer may name another tree", self.folder.display())),
            }
            self.health.judge_write(error)
        })
    }
}
