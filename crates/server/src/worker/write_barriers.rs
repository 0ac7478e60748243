//! Shards that propose no write until a backup has its snapshot.

use crate::mailbox::WriteBarrier;
use crate::shared::{BackupKey, BackupPoint, BackupSnapshot, BackupSnapshots};
use node::multi_raft::MultiRaft;
use parking_lot::Mutex;
use std::sync::Arc;
use vocab::{Moment, ShardId};

/// The write barriers of a worker's shards.
#[derive(Default)]
pub(super) struct WriteBarriers {
    /// Those whose shard has no snapshot yet.
    waiting: Vec<WriteBarrier>,
    /// Which backups hold shards: one that ends leaves the barriers of the others.
    standing: Vec<Standing>,
}

/// A shard that a backup holds.
struct Standing {
    key: BackupKey,
    /// Until when at most, in µs of the steady clock.
    until_us: u64,
}

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
        let key = BackupKey { backup: barrier.backup, shard: barrier.shard };
        if multi_raft.shard_mut(barrier.shard).is_some_and(|shard| shard.begin_barrier(now, lasts_us)) {
            self.standing.retain(|other| other.until_us > now.mono_us);
            self.standing.push(Standing { key, until_us: now.mono_us + lasts_us });
            self.waiting.push(barrier);
            self.check(multi_raft, backups, now);
        } else {
            backups.settle(key, Err("CLUSTERDOWN this node does not lead the shard"));
        }
    }

    /// Takes the snapshots of shards that have a write barrier and no write under way any more.
    pub(super) fn check(&mut self, multi_raft: &MultiRaft, backups: &BackupSnapshots, now: Moment) {
        self.waiting.retain(|barrier| {
            let key = BackupKey { backup: barrier.backup, shard: barrier.shard };
            let Some(shard) = multi_raft.shard(barrier.shard) else { return false };
            match shard.is_drained(now) {
                None => backups.settle(key, Err("TRYAGAIN the writes could not be held back")),
                Some(false) => return true,
                Some(true) => {
                    let handle = shard.handle().clone();
                    let snapshot = handle.snapshot();
                    let (keys, term, slots) = (handle.key_count(), handle.status().term, handle.applied_slots());
                    let point = BackupPoint { index: snapshot.index(), keys, term, slots };
                    let snapshot = Arc::new(Mutex::new(snapshot));
                    backups.settle(key, Ok(BackupSnapshot { handle, snapshot, at_ms: barrier.at_ms, point }));
                }
            }
            false
        });
    }

    /// A backup holds a shard no more: its writes go on, unless another backup holds it too.
    pub(super) fn end(&mut self, backup: u64, shard: ShardId, multi_raft: &mut MultiRaft, now: Moment) {
        if self.holds_after(BackupKey { backup, shard }, now) {
            return;
        }
        if let Some(held) = multi_raft.shard_mut(shard) {
            held.end_barrier();
        }
        multi_raft.look_at(shard);
    }

    /// Whether a shard is still held when a backup has let it go.
    fn holds_after(&mut self, gone: BackupKey, now: Moment) -> bool {
        self.standing.retain(|other| other.key != gone && other.until_us > now.mono_us);
        self.standing.iter().any(|other| other.key.shard == gone.shard)
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
        assert!(barriers.waiting.is_empty() && barriers.standing.is_empty());
        assert_eq!(backups.wait(key, Duration::ZERO), Err("CLUSTERDOWN this node does not lead the shard"));
        barriers.end(3, ShardId(1), &mut multi_raft, now);
    }

    #[test]
    fn a_backup_that_ends_leaves_the_barriers_of_others() {
        let at = |mono_us: u64| Moment { mono_us, ..Moment::default() };
        let key = |backup: u64, shard: u32| BackupKey { backup, shard: ShardId(shard) };
        let mut barriers = WriteBarriers::default();
        let begun = [(key(1, 1), 100), (key(1, 2), 100), (key(2, 1), 150), (key(3, 1), 120)];
        barriers.standing.extend(begun.map(|(key, until_us)| Standing { key, until_us }));
        assert!(!barriers.holds_after(key(1, 2), at(50)), "no other holds it");
        assert!(barriers.holds_after(key(1, 1), at(60)));
        assert!(barriers.holds_after(key(9, 1), at(70)), "one that has held nothing takes nothing away");
        assert!(barriers.holds_after(key(2, 1), at(110)));
        assert!(!barriers.holds_after(key(2, 1), at(120)), "its time is over");
        assert!(barriers.standing.is_empty());
    }
}
