//! A shard for tests.
#![allow(clippy::unwrap_used)]

use crate::{EntrySpace, Evaluation, ShardHandle};
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

/// Applies one more entry of that time to a shard: what `run` writes.
pub(crate) fn entry<T>(handle: &Arc<ShardHandle>, now_ms: u64, run: impl FnOnce(&mut EntrySpace<'_>) -> T) -> T {
    let index = handle.engine().applied_index() + 1;
    let mut space = EntrySpace::new(handle, index, now_ms, Evaluation::Second);
    let done = run(&mut space);
    space.commit();
    done
}
