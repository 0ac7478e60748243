//! A shard for tests.
#![allow(clippy::unwrap_used)]

use crate::ShardHandle;
use std::sync::Arc;
use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
use tempfile::TempDir;
use vocab::ShardId;

/// An empty shard in memory that owns all slots, and the folder of its snapshots.
pub(crate) fn empty_shard(id: ShardId) -> (Arc<ShardHandle>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let resources = SharedResources::new(StorageOptions::default());
    let tree = open_engine(EngineKind::Memory, folder.path(), &resources).unwrap();
    (ShardHandle::open(id, (0, 16383), tree, Arc::new(RowCache::new(1 << 20))).unwrap(), folder)
}
