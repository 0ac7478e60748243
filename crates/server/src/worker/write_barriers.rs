//! Shards whose writes are held back until a backup has its snapshot.

use super::event_loop::Worker;
use crate::mailbox::WriteBarrier;
use crate::shared::{BackupKey, BackupPoint, BackupSnapshot};
use std::sync::{Arc, Mutex};
use vocab::ShardId;

impl Worker {
    /// Holds a shard's writes back.
    pub(crate) fn begin_hold(&mut self, barrier: WriteBarrier) {
        let now = self.now;
        let lasts_us = barrier.lasts.as_micros() as u64;
        if self.core.shard_mut(barrier.shard).is_some_and(|shard| shard.hold(now, lasts_us)) {
            self.barriers.push(barrier);
            self.check_holds();
        } else {
            let key = BackupKey { backup: barrier.backup, shard: barrier.shard };
            self.store.backups.settle(key, Err("CLUSTERDOWN this node does not lead the shard"));
        }
    }

    /// Takes the snapshots of shards whose writes are held back and that have none under way any more.
    pub(crate) fn check_holds(&mut self) {
        let now = self.now;
        for barrier in std::mem::take(&mut self.barriers) {
            let key = BackupKey { backup: barrier.backup, shard: barrier.shard };
            let Some(shard) = self.core.shard(barrier.shard) else { continue };
            match shard.is_drained(now) {
                None => self.store.backups.settle(key, Err("TRYAGAIN the writes could not be held back")),
                Some(false) => self.barriers.push(barrier),
                Some(true) => {
                    let view = shard.view().clone();
                    let snapshot = view.snapshot();
                    let point =
                        BackupPoint { index: snapshot.index(), keys: view.key_count(), term: view.status().term };
                    let snapshot = Arc::new(Mutex::new(snapshot));
                    self.store.backups.settle(key, Ok(BackupSnapshot { view, snapshot, at_ms: barrier.at_ms, point }));
                }
            }
        }
    }

    /// A shard's writes go on.
    pub(crate) fn end_hold(&mut self, shard: ShardId) {
        if let Some(shard) = self.core.shard_mut(shard) {
            shard.release();
        }
        self.core.look_at(shard);
    }
}
