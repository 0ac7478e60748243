//! A look at a shard's snapshot file.

use super::engine::load;
use super::file;
use super::snapshot::MemorySnapshot;
use super::state::Generation;
use crate::{EngineStats, Result, Slice, Snapshot};
use std::fs;
use std::path::{Path, PathBuf};

/// A snapshot file that is only read.
pub(crate) struct MemoryInspection {
    /// None before the first snapshot: the log holds everything.
    path: Option<PathBuf>,
    snapshot: MemorySnapshot,
}

impl MemoryInspection {
    /// Looks at the newest whole snapshot file in `folder`; without one, the map is empty as of index 0.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let (path, index, state) =
            load(folder)?.map_or_else(Default::default, |loaded| (Some(loaded.path), loaded.index, loaded.state));
        let generation = Generation::new(state);
        let id = generation.write().open_snapshot();
        Ok(Self { path, snapshot: MemorySnapshot::open(generation, id, index) })
    }

    pub(crate) fn snapshot(&self) -> &dyn Snapshot {
        &self.snapshot
    }

    pub(crate) fn meta(&self, key: &[u8]) -> Option<Slice> {
        self.snapshot.generation().read().meta.get(key).cloned()
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let disk_bytes = self.path.as_ref().and_then(|path| fs::metadata(path).ok()).map_or(0, |file| file.len());
        let state = self.snapshot.generation().read();
        EngineStats {
            disk_bytes,
            memtable_bytes: state.bytes(),
            entries_approx: state.len() as u64,
            ..EngineStats::default()
        }
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.path.iter().cloned().collect()
    }

    pub(crate) fn verify(&self) -> Result<()> {
        self.path.as_ref().map_or(Ok(()), |path| file::read(path).map(drop))
    }
}
