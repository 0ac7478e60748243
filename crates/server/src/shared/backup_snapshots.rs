//! The shards that this node keeps for backups: each is a snapshot as of the backup's moment, or on its way to one.

use node::{ShardHandle, Slots};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::Snapshot;
use vocab::{ShardId, limits};

/// A backup's snapshots are dropped after so long without a read.
const IDLE: Duration = Duration::from_secs(600);

/// Which shard of which backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackupKey {
    pub(crate) backup: u64,
    pub(crate) shard: ShardId,
}

/// A shard as of a backup's moment.
pub(crate) struct BackupSnapshot {
    pub(crate) handle: Arc<ShardHandle>,
    /// Locked while a page of it is read.
    pub(crate) snapshot: Arc<Mutex<Box<dyn Snapshot>>>,
    /// The backup's moment, in ms since the epoch.
    pub(crate) at_ms: u64,
    pub(crate) point: BackupPoint,
}

/// What a backup's snapshot is as of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupPoint {
    /// The last entry that it contains.
    pub(crate) index: u64,
    pub(crate) keys: u64,
    /// The term in which the shard was led.
    pub(crate) term: u64,
    /// The slots that the shard had: the snapshot holds the keys of these.
    pub(crate) slots: Arc<Slots>,
}

/// The state of a shard of a backup.
enum SnapshotState {
    /// A write barrier stands until the snapshot is taken.
    Waiting,
    Failed(&'static str),
    Done {
        taken: BackupSnapshot,
        used: Instant,
    },
}

impl SnapshotState {
    fn is_idle(&self) -> bool {
        matches!(self, Self::Done { used, .. } if used.elapsed() > IDLE)
    }
}

/// The snapshots that this node keeps for backups.
#[derive(Default)]
pub(crate) struct BackupSnapshots {
    states: Mutex<HashMap<BackupKey, SnapshotState>>,
    changed: Condvar,
}

impl BackupSnapshots {
    /// Registers a snapshot that is to be taken; false if there are as many as there may be.
    pub(crate) fn begin(&self, key: BackupKey) -> bool {
        let mut states = self.lock();
        states.retain(|_, state| !state.is_idle());
        let may = states.len() < limits::BACKUP_SNAPSHOTS_MAX;
        if may {
            states.insert(key, SnapshotState::Waiting);
        }
        may
    }

    /// The snapshot was taken, or could not be.
    pub(crate) fn settle(&self, key: BackupKey, outcome: Result<BackupSnapshot, &'static str>) {
        // The caller may have given up: then the snapshot is dropped.
        if let Some(state) = self.lock().get_mut(&key) {
            *state = match outcome {
                Ok(taken) => SnapshotState::Done { taken, used: Instant::now() },
                Err(text) => SnapshotState::Failed(text),
            };
        }
        self.changed.notify_all();
    }

    /// Waits until a snapshot is taken. The error is the text of the reply.
    pub(crate) fn wait(&self, key: BackupKey, within: Duration) -> Result<BackupPoint, &'static str> {
        let until = Instant::now() + within;
        let mut states = self.lock();
        if !states.contains_key(&key) {
            return Err("BUSY this node holds as many snapshots for backups as it may");
        }
        loop {
            match states.get(&key) {
                Some(SnapshotState::Done { taken, .. }) => return Ok(taken.point.clone()),
                Some(SnapshotState::Failed(text)) => {
                    let text = *text;
                    states.remove(&key);
                    return Err(text);
                }
                Some(SnapshotState::Waiting) => {}
                None => return Err("TRYAGAIN the backup was given up"),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                states.remove(&key);
                return Err("TRYAGAIN the writes under way did not come to an end in time");
            }
            self.changed.wait_for(&mut states, left);
        }
    }

    /// Calls `read` with a snapshot; none if this node does not have it. All shards of the backup count as used: a client reads
    /// them one after the other.
    pub(crate) fn read<T>(&self, key: BackupKey, read: impl FnOnce(&BackupSnapshot) -> T) -> Option<T> {
        let (mut states, now) = (self.lock(), Instant::now());
        for (_, state) in states.iter_mut().filter(|(other, _)| other.backup == key.backup) {
            if let SnapshotState::Done { used, .. } = state {
                *used = now;
            }
        }
        match states.get(&key) {
            Some(SnapshotState::Done { taken, .. }) => Some(read(taken)),
            _ => None,
        }
    }

    /// Drops a shard of a backup.
    pub(crate) fn drop_shard(&self, key: BackupKey) {
        self.lock().remove(&key);
    }

    /// Drops the snapshots of one shard, for any backup; true if there was something.
    pub(crate) fn end_shard(&self, shard: ShardId) -> bool {
        let mut states = self.lock();
        let before = states.len();
        states.retain(|key, _| key.shard != shard);
        states.len() < before
    }

    /// Drops all shards of a backup.
    pub(crate) fn end(&self, backup: u64) {
        self.lock().retain(|key, _| key.backup != backup);
    }

    /// Drops snapshots that no client reads any more.
    pub(crate) fn sweep(&self) {
        self.lock().retain(|_, state| !state.is_idle());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BackupKey, SnapshotState>> {
        self.states.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(backup: u64, shard: u32) -> BackupKey {
        BackupKey { backup, shard: ShardId(shard) }
    }

    #[test]
    fn what_was_asked_for_is_told_once_and_there_is_a_limit() {
        let snapshots = BackupSnapshots::default();
        let now = Duration::ZERO;
        assert!(snapshots.wait(key(1, 1), now).is_err_and(|text| text.starts_with("BUSY")), "it was not begun");
        assert!(snapshots.begin(key(1, 1)) && snapshots.begin(key(1, 2)));
        snapshots.settle(key(1, 1), Err("CLUSTERDOWN it does not lead"));
        assert_eq!(snapshots.wait(key(1, 1), now), Err("CLUSTERDOWN it does not lead"));
        assert!(snapshots.wait(key(1, 2), now).is_err_and(|text| text.starts_with("TRYAGAIN")), "its time is over");
        snapshots.settle(key(1, 2), Err("late"));
        assert!(snapshots.lock().is_empty());
        assert!((0..limits::BACKUP_SNAPSHOTS_MAX as u32).all(|shard| snapshots.begin(key(2, shard))));
        assert!(!snapshots.begin(key(3, 0)));
        assert!(snapshots.read(key(2, 0), |_| ()).is_none(), "it is not taken yet");
        snapshots.drop_shard(key(2, 0));
        assert!(snapshots.begin(key(3, 0)));
        assert!(snapshots.end_shard(ShardId(1)) && !snapshots.end_shard(ShardId(1)));
        snapshots.end(2);
        assert_eq!(snapshots.lock().len(), 1);
    }
}
