//! Opens whichever engine a shard's folder is for.

use crate::{Engine, EngineKind, LsmEngine, MemoryEngine, Result, SharedResources};
use std::path::Path;
use std::sync::Arc;

/// Opens the map of one shard in `folder`, or makes an empty one there.
pub fn open_engine(kind: EngineKind, folder: &Path, shared: &Arc<SharedResources>) -> Result<Arc<dyn Engine>> {
    match kind {
        EngineKind::Lsm => Ok(Arc::new(LsmEngine::open(folder, shared)?)),
        EngineKind::Memory => Ok(Arc::new(MemoryEngine::open(folder, shared)?)),
    }
}
