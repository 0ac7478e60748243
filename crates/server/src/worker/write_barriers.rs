//! Shards that propose no write until a backup has its snapshot.

use crate::mailbox::WriteBarrier;
use crate::shared::{BackupKey, BackupPoint, BackupSnapshot, BackupSnapshots};
use node::multi_raft::MultiRaft;
use parking_lot::Mutex;
use std::sync::Arc;
use vocab::{Moment, ShardId};

/// The write barriers of a worker's shards that have no snapshot yet.
#[derive(Default)]
pub(super) struct WriteBarriers(Vec<WriteBarrier>);

impl WriteBarriers {
    /// Holds a shard's writes back.
    pub(super) fn begin(
        &mut self,
        barrier: WriteBarrier,
        multi_raft: &mut MultiRaft,
        backups: &BackupSnapshots,
        now: Moment,
    ) {
        let lasts_us = barrier.lasts.as_micros() as u64;
        if multi_raft.shard_mut(barrier.shard).is_some_and(|shard| shard.begin_barrier(now, lasts_us)) {
            self.0.push(barrier);
            self.check(multi_raft, backups, now);
        } else {
            let key = BackupKey { backup: barrier.backup, shard: barrier.shard };
            backups.settle(key, Err("CLUSTERDOWN this node does not lead the shard"));
        }
    }

    /// Takes the snapshots of shards that have a write barrier and no write under way any more.
    pub(super) fn check(&mut self, multi_raft: &MultiRaft, backups: &BackupSnapshots, now: Moment) {
        self.0.retain(|barrier| {
            let key = BackupKey { backup: barrier.backup, shard: barrier.shard };
            let Some(shard) = multi_raft.shard(barrier.shard) else { return false };
            match shard.is_drained(now) {
                None => backups.settle(key, Err("TRYAGAIN the writes could not be held back")),
                Some(false) => return true,
                Some(true) => {
                    let handle = shard.handle().clone();
                    let snapshot = handle.snapshot();
                    let (keys, term) = (handle.key_count(), handle.status().term);
                    let point = BackupPoint { index: snapshot.index(), keys, term };
                    let snapshot = Arc::new(Mutex::new(snapshot));
                    backups.settle(key, Ok(BackupSnapshot { handle, snapshot, at_ms: barrier.at_ms, point }));
                }
            }
            false
        });
    }

    /// A shard's writes go on.
    pub(super) fn end(shard: ShardId, multi_raft: &mut MultiRaft) {
        if let Some(shard) = multi_raft.shard_mut(shard) {
            shard.end_barrier();
        }
        multi_raft.look_at(shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::StoreClock;
    use std::time::Duration;
    use vocab::NodeId;

    #[test]
    fn a_shard_that_is_not_here_gets_no_barrier_and_its_backup_is_told() {
        let now = Moment { wall_ms: 5_000, mono_us: 7 };
        let mut multi_raft = MultiRaft::new(NodeId(1), Arc::new(StoreClock::new(now)));
        let (backups, mut barriers) = (BackupSnapshots::default(), WriteBarriers::default());
        let key = BackupKey { backup: 3, shard: ShardId(1) };
        assert!(backups.begin(key));
        let barrier = WriteBarrier { backup: 3, shard: ShardId(1), at_ms: 5_000, lasts: Duration::from_secs(1) };
        barriers.begin(barrier, &mut multi_raft, &backups, now);
        assert!(barriers.0.is_empty());
        assert_eq!(backups.wait(key, Duration::ZERO), Err("CLUSTERDOWN this node does not lead the shard"));
        WriteBarriers::end(ShardId(1), &mut multi_raft);
    }
}
