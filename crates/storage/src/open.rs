//! Opens whichever engine a shard's folder is for.

use crate::{Engine, EngineKind, Error, LsmEngine, MemoryEngine, Result, SharedResources, lsm, memory};
use std::path::Path;
use std::sync::Arc;

/// Opens the map of one shard in `folder`, or makes an empty one there. A folder that another kind of engine has
/// written to is refused: that map would not be seen.
pub fn open_engine(kind: EngineKind, folder: &Path, shared: &Arc<SharedResources>) -> Result<Arc<dyn Engine>> {
    let other = match kind {
        EngineKind::Lsm => memory::is_in(folder)?.then_some(EngineKind::Memory),
        EngineKind::Memory => lsm::is_in(folder)?.then_some(EngineKind::Lsm),
    };
    if let Some(other) = other {
        let detail = format!("was written by the engine '{}', not '{}'", other.name(), kind.name());
        return Err(Error::Mismatch { path: folder.to_path_buf(), detail });
    }
    match kind {
        EngineKind::Lsm => Ok(Arc::new(LsmEngine::open(folder, shared)?)),
        EngineKind::Memory => Ok(Arc::new(MemoryEngine::open(folder, shared)?)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{StorageOptions, WriteBatch};

    #[test]
    fn a_folder_of_the_other_kind_is_refused() {
        let shared = SharedResources::new(StorageOptions::default());
        for (kind, other) in [(EngineKind::Lsm, EngineKind::Memory), (EngineKind::Memory, EngineKind::Lsm)] {
            let folder = tempfile::tempdir().unwrap();
            let engine = open_engine(kind, folder.path(), &shared).unwrap();
            engine.apply(1, WriteBatch { writes: vec![(b"a".into(), Some(b"b".into()))], ..WriteBatch::default() });
            engine.seal(vec![]);
            engine.flush().unwrap();
            drop(engine);
            let refused = open_engine(other, folder.path(), &shared);
            assert!(matches!(refused, Err(Error::Mismatch { .. })));
            assert!(open_engine(kind, folder.path(), &shared).unwrap().get(b"a").unwrap().is_some());
        }
    }
}
