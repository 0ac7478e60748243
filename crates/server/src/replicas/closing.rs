//! Replicas that were closed and whose trees are still in use: by a backup, a transfer, a read under way.
//!
//! Invariant: of each, the tree is removed once it is not in use any more, then the log's group. Until then the shard is left
//! alone on this node, and all others go on.

use super::leftovers::remove;
use crate::shared::NodeShared;
use node::ShardHandle;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::Engine;
use vocab::ShardId;

/// After so long a warning says that a replica which is to be removed is still in use.
const IN_USE_MAX: Duration = Duration::from_secs(10);
/// For so long a backup or a long reply may go on with a replica that another one of the same shard is to take the place of.
const READ_MAX: Duration = Duration::from_secs(10);

/// The replicas that are closed and in use.
#[derive(Default)]
pub(super) struct Closing(Vec<ClosingReplica>);

struct ClosingReplica {
    shard: ShardId,
    handle: Weak<ShardHandle>,
    engine: Arc<dyn Engine>,
    since: Instant,
    /// It was told that it is still in use.
    said: bool,
}

impl Closing {
    /// A replica was closed: no request finds it any more.
    pub(super) fn begin(&mut self, shard: ShardId, handle: Arc<ShardHandle>) {
        let engine = handle.engine().clone();
        engine.abandon();
        self.0.push(ClosingReplica {
            shard,
            handle: Arc::downgrade(&handle),
            engine,
            since: Instant::now(),
            said: false,
        });
    }

    /// Their shards.
    pub(super) fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.0.iter().map(|closing| closing.shard)
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes those that are not in use any more; true if there were some. `is_wanted`: the map gives this node another
    /// replica of the shard, which waits for the place.
    pub(super) fn finish(&mut self, store: &NodeShared, is_wanted: impl Fn(ShardId) -> bool) -> bool {
        let (used, unused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(ClosingReplica::is_used);
        self.0 = used;
        for closing in &mut self.0 {
            let age = closing.since.elapsed();
            if age > READ_MAX && is_wanted(closing.shard) {
                closing.end_reads(store);
            }
            if age > IN_USE_MAX && !closing.said {
                closing.said = true;
                log::warn!("the replica of shard {} that is to be removed is still in use", closing.shard);
            }
        }
        let some = !unused.is_empty();
        for ClosingReplica { shard, engine, .. } in unused {
            drop(engine);
            store.cache.clear_shard(shard.0);
            if let Err(e) = remove(store, shard) {
                log::error!("{e}");
            }
        }
        some
    }
}

impl ClosingReplica {
    /// Another replica of the shard waits for the place: what clients read slowly ends, however slowly that is.
    fn end_reads(&self, store: &NodeShared) {
        let shard = self.shard;
        if store.backups.end_shard(shard) {
            log::warn!("a backup of shard {shard} ends: the replica that it reads is replaced by another");
        }
        if let Some(handle) = self.handle.upgrade() {
            handle.end_replies();
        }
    }

    fn is_used(&self) -> bool {
        self.handle.strong_count() > 0 || Arc::strong_count(&self.engine) > 1
    }
}
