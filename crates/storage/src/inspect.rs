//! A look at a shard's folder that never writes to it, for `basalt inspect`.

use crate::lsm::LsmInspection;
use crate::memory::MemoryInspection;
use crate::{EngineKind, EngineStats, Error, Result, SharedResources, Slice, Snapshot, StorageOptions};
use std::path::{Path, PathBuf};

/// A shard's map as its files have it: what a restart would begin with, before the log.
pub struct Inspection(Inner);

enum Inner {
    Lsm(LsmInspection),
    Memory(MemoryInspection),
}

/// Looks at the map of the shard in `folder`, which an engine of that kind keeps.
pub fn inspect_engine(kind: EngineKind, folder: &Path) -> Result<Inspection> {
    if kind == EngineKind::Memory {
        return MemoryInspection::open(folder).map(|memory| Inspection(Inner::Memory(memory)));
    }
    let shared = SharedResources::new(StorageOptions::default());
    let lsm = LsmInspection::open(folder, &shared)?.map(|lsm| Inspection(Inner::Lsm(lsm)));
    lsm.ok_or_else(|| Error::Corrupt { path: folder.to_path_buf(), detail: "there is no tree".into() })
}

impl Inspection {
    /// What keeps the map.
    #[must_use]
    pub fn kind(&self) -> EngineKind {
        match &self.0 {
            Inner::Lsm(_) => EngineKind::Lsm,
            Inner::Memory(_) => EngineKind::Memory,
        }
    }

    /// All keys and values; its index is the flushed index.
    #[must_use]
    pub fn snapshot(&self) -> &dyn Snapshot {
        match &self.0 {
            Inner::Lsm(lsm) => lsm.snapshot(),
            Inner::Memory(memory) => memory.snapshot(),
        }
    }

    /// The value of a meta record.
    pub fn meta(&self, key: &[u8]) -> Result<Option<Slice>> {
        match &self.0 {
            Inner::Lsm(lsm) => lsm.meta(key),
            Inner::Memory(memory) => Ok(memory.meta(key)),
        }
    }

    /// Figures of the map.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        match &self.0 {
            Inner::Lsm(lsm) => lsm.stats(),
            Inner::Memory(memory) => memory.stats(),
        }
    }

    /// The files that make the map.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        match &self.0 {
            Inner::Lsm(lsm) => lsm.files(),
            Inner::Memory(memory) => memory.files(),
        }
    }

    /// Reads every file whole and checks it; the error names the file.
    pub fn verify(&self) -> Result<()> {
        match &self.0 {
            Inner::Lsm(lsm) => lsm.verify(),
            Inner::Memory(memory) => memory.verify(),
        }
    }
}
