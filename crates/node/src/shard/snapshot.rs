//! Snapshots of a shard: rows that are taken for a follower that lacks too much, and rows that came for this replica.

use super::effects::{ArrivedSnapshot, Effects, SnapshotTask};
use crate::format::{keys, snapshot_point};
use crate::shard_handle::ShardHandle;
use replica::{LogWrite, Message, Replica, SnapshotPoint};
use storage::Slice;
use vocab::{NodeId, ReplicaId};

/// A snapshot that is being received.
#[derive(Default)]
pub(super) struct SnapshotIntake {
    /// Its message has been stepped and not been accepted yet.
    arrived: Option<ArrivedSnapshot>,
}

impl SnapshotIntake {
    /// All rows are here. The replica is to step the message, and may accept it in its next turn.
    pub(super) fn arrive(&mut self, arrived: ArrivedSnapshot) -> Message {
        self.arrived.insert(arrived).message.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrived.is_none()
    }

    /// The replica did not need the rows after all.
    pub(super) fn forget(&mut self) {
        self.arrived = None;
    }

    /// The replica has accepted the snapshot: its rows take the place of the shard's. Answers the number to hand back
    /// once `write` is done.
    pub(super) fn install(
        &mut self,
        point: &SnapshotPoint,
        handle: &ShardHandle,
        replica: &mut Replica,
        write: &mut LogWrite,
    ) -> Result<u64, String> {
        let arrived = self.arrived.take().filter(|arrived| arrived.point.index == point.index);
        let arrived = arrived.ok_or_else(|| format!("shard {}: a snapshot without rows was accepted", handle.id()))?;
        handle.install(arrived.rows, point.index).map_err(|e| e.to_string())?;
        let number = replica.installed(point, write).map_err(|e| e.to_string())?;
        log::info!("shard {} has taken a snapshot as of entry {}", handle.id(), point.index);
        Ok(number)
    }
}

/// Has the rows sent to a follower. They are taken now, so the message must speak of now.
pub(super) fn send(
    handle: &ShardHandle,
    source: &mut Replica,
    replica: ReplicaId,
    node: NodeId,
    mut message: Message,
    effects: &mut dyn Effects,
) {
    if !effects.may_send(handle.id(), node) {
        // Its turn comes: raft asks again with the next heartbeat that is answered.
        source.report_snapshot(replica, false);
        return;
    }
    let point = source.snapshot_point();
    point.put_into(&mut message);
    let rows = handle.snapshot();
    assert_eq!(rows.index(), point.index, "the tree is not where the replica is");
    let mut facts = handle.facts();
    facts.push((Slice::from(keys::META_SNAPSHOT), Slice::from(snapshot_point::encode(&point))));
    effects.snapshot_wanted(SnapshotTask { shard: handle.id(), replica, node, rows, facts, point, message });
}
