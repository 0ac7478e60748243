//! A look at a shard's snapshot file.

use super::engine::{Generation, load};
use super::file;
use super::snapshot::MemorySnapshot;
use crate::{EngineStats, Result, Slice, Snapshot};
use std::fs;
use std::path::{Path, PathBuf};

/// See the module's words.
pub(crate) struct MemoryInspection {
    path: PathBuf,
    snapshot: MemorySnapshot,
}

impl MemoryInspection {
    /// Looks at the newest whole snapshot file in `folder`; `None` if there is none at all.
    pub(crate) fn open(folder: &Path) -> Result<Option<Self>> {
        let Some(loaded) = load(folder)? else { return Ok(None) };
        let generation = Generation::new(loaded.state);
        let id = generation.write().open_snapshot();
        let snapshot = MemorySnapshot::open(generation, id, loaded.index);
        Ok(Some(Self { path: loaded.path, snapshot }))
    }

    pub(crate) fn snapshot(&self) -> &dyn Snapshot {
        &self.snapshot
    }

    pub(crate) fn meta(&self, key: &[u8]) -> Option<Slice> {
        self.snapshot.generation().read().meta.get(key).cloned()
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let disk_bytes = fs::metadata(&self.path).map_or(0, |file| file.len());
        let state = self.snapshot.generation().read();
        EngineStats {
            disk_bytes,
            memtable_bytes: state.bytes(),
            entries_approx: state.len() as u64,
            ..EngineStats::default()
        }
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    pub(crate) fn verify(&self) -> Result<()> {
        file::read(&self.path).map(drop)
    }
}
