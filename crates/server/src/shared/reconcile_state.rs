//! What is known of this node's replicas beside those that are open: which are damaged, and that the map has changed.

use cluster::Map;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::Instant;
use vocab::{NodeId, ReplicaId, ShardId};

/// Why a replica is damaged that `start --rebuild` has set aside.
pub(crate) const SET_ASIDE: &str = "set aside by start --rebuild, to be made anew from its peers";

/// A replica that cannot be opened.
#[derive(Clone, Debug)]
pub(crate) struct DamagedReplica {
    pub(crate) shard: ShardId,
    pub(crate) replica: ReplicaId,
    pub(crate) why: String,
}

/// What is known of replicas beside those that are open.
#[derive(Default)]
pub(crate) struct ReconcileState {
    damaged: Mutex<BTreeMap<ShardId, DamagedReplica>>,
    /// The map has changed since the last reconciliation.
    wakes: Mutex<bool>,
    changed: Condvar,
}

impl ReconcileState {
    /// There is a newer map.
    pub(crate) fn wake(&self) {
        *self.wakes.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until there is a newer map, or until then; true if there is one.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut wakes = self.wakes.lock();
        while !*wakes {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.changed.wait_for(&mut wakes, left);
        }
        *wakes = false;
        true
    }

    /// A replica cannot be opened.
    pub(crate) fn damaged(&self, shard: ShardId, replica: ReplicaId, why: String) {
        log::error!("replica {replica} of shard {shard} is of no use, the others go on: {why}");
        self.lock().insert(shard, DamagedReplica { shard, replica, why });
    }

    /// Whether a replica is known to be damaged.
    pub(crate) fn is_damaged(&self, shard: ShardId, replica: ReplicaId) -> bool {
        self.lock().get(&shard).is_some_and(|damaged| damaged.replica == replica)
    }

    /// The damaged replicas, by shard.
    pub(crate) fn all_damaged(&self) -> Vec<DamagedReplica> {
        self.lock().values().cloned().collect()
    }

    /// Whether `start --rebuild` has set replicas aside that are not made anew yet.
    pub(crate) fn wants_rebuild(&self) -> bool {
        self.lock().values().any(|damaged| damaged.why == SET_ASIDE)
    }

    /// Forgets damaged replicas that the map does not give the node any more.
    pub(crate) fn forget_damaged(&self, map: &Map, me: NodeId) {
        let gives = |shard: &ShardId| Some(map.shards.get(shard)?.replica_on(me)?.id);
        self.lock().retain(|shard, damaged| gives(shard) == Some(damaged.replica));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardId, DamagedReplica>> {
        self.damaged.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_of_one_replica_and_a_wake_is_heard_once() {
        let state = ReconcileState::default();
        state.damaged(ShardId(3), ReplicaId(7), "a torn file".to_owned());
        assert!(state.is_damaged(ShardId(3), ReplicaId(7)));
        assert!(!state.is_damaged(ShardId(3), ReplicaId(8)), "another replica was made since");
        assert!(!state.is_damaged(ShardId(4), ReplicaId(7)));
        assert!(!state.wants_rebuild());
        state.damaged(ShardId(4), ReplicaId(9), SET_ASIDE.to_owned());
        assert!(state.wants_rebuild());
        let all: Vec<_> = state.all_damaged().into_iter().map(|damaged| (damaged.shard, damaged.replica)).collect();
        assert_eq!(all, [(ShardId(3), ReplicaId(7)), (ShardId(4), ReplicaId(9))]);
        let now = Instant::now();
        assert!(!state.wait(now));
        state.wake();
        state.wake();
        assert!(state.wait(now) && !state.wait(now));
    }
}
