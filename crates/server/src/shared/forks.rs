//! The shards that are being forked from others on this node. Only the fork opens such a shard.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use vocab::ShardId;

/// The shards that are being forked.
#[derive(Default)]
pub(crate) struct Forks(Mutex<BTreeSet<ShardId>>);

impl Forks {
    pub(crate) fn begin(&self, child: ShardId) {
        self.lock().insert(child);
    }

    pub(crate) fn end(&self, child: ShardId) {
        self.lock().remove(&child);
    }

    /// Whether a shard is being forked from another.
    pub(crate) fn contains(&self, child: ShardId) -> bool {
        self.lock().contains(&child)
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<ShardId> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ShardId>> {
        self.0.lock()
    }
}
