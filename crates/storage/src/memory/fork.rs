//! A map in memory that begins as another one is: the rows that are wanted, written to a file of its own. And what the
//! other one still holds of them.

use super::engine::MemoryEngine;
use super::file::Writer;
use crate::files::create_folder;
use crate::{Engine, Keep, Result, Slice, Span};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows that one turn with the lock looks at.
pub(super) const TURN_ROWS: usize = 512;

impl MemoryEngine {
    /// See `Engine::fork`.
    pub(super) fn fork_into(
        &self,
        folder: &Path,
        index: u64,
        meta: Vec<(Slice, Slice)>,
        keep: &Keep,
    ) -> Result<Arc<dyn Engine>> {
        self.health.check()?;
        let applied = self.applied.load(Ordering::SeqCst);
        assert_eq!(self.sealed.load(Ordering::SeqCst), applied, "a map is forked that is not sealed");
        assert_eq!(index, applied + 1, "a map is forked as of another entry than the next");
        self.flush()?;
        create_folder(folder)?;
        let mut all = self.generation().read().meta.clone();
        all.extend(meta);
        let mut writer = Writer::create(folder, index)?;
        for (key, value) in &all {
            writer.meta(key, value)?;
        }
        let snapshot = self.snapshot();
        let mut rows = snapshot.cursor(Span { start: Vec::new(), end: Vec::new() }, false);
        while let Some(key) = rows.advance()? {
            if keep(&key) {
                writer.row(&key, &rows.value()?)?;
            }
        }
        drop(rows);
        writer.finish()?.publish()?;
        Ok(Arc::new(Self::open(folder, &self.shared)?))
    }

    /// See `Engine::purge`.
    pub(super) fn purge_step(&self) -> bool {
        let mut purged = self.purged.lock().expect("nothing panics while it is held");
        let (Some(from), Some(keep)) = (purged.take(), self.keep.load_full()) else { return false };
        let generation = self.generation();
        *purged = generation.write().purge(Bound::Excluded(from), TURN_ROWS, &keep);
        purged.is_some()
    }
}
