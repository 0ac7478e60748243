//! Snapshots of a shard: rows that are taken for a follower that lacks too much, and rows that came for this replica.

use super::{ArrivedSnapshot, Effects, MetaState, Shard, SnapshotTask, point};
use crate::format::keys;
use replica::{LogWrite, Message};
use storage::Slice;
use vocab::{NodeId, ReplicaId};

impl Shard {
    /// All rows of a snapshot are here: the replica may accept them in its next turn.
    pub fn step_snapshot(&mut self, arrived: ArrivedSnapshot) {
        if !self.can_write() {
            // Once it is accepted there is no way back. Its leader finds that it was not taken, and sends it again.
            log::warn!("shard {}: a snapshot cannot be taken now: {}", self.view.id(), self.health.reason());
            return;
        }
        let message = arrived.message.clone();
        self.arrived = Some(arrived);
        self.step(message);
    }

    /// The rows are taken now, so the message must speak of now.
    pub(super) fn send_snapshot(
        &mut self,
        replica: ReplicaId,
        node: NodeId,
        mut message: Message,
        effects: &mut dyn Effects,
    ) {
        if !effects.may_send(self.view.id(), node) {
            // Its turn comes: raft asks again with the next heartbeat that is answered.
            self.replica.report_snapshot(replica, false);
            return;
        }
        let point = self.replica.snapshot_point();
        point.put_into(&mut message);
        let rows = self.view.snapshot();
        assert_eq!(rows.index(), point.index, "the tree is not where the replica is");
        let mut facts = self.view.facts();
        facts.push((Slice::from(keys::META_SNAPSHOT), Slice::from(point::encode(&point))));
        effects.snapshot_wanted(SnapshotTask { shard: self.view.id(), replica, node, rows, facts, point, message });
    }

    pub(super) fn install(&mut self, point: &replica::SnapshotPoint, write: &mut LogWrite) -> Result<u64, String> {
        let arrived = self.arrived.take().filter(|arrived| arrived.point.index == point.index);
        let arrived =
            arrived.ok_or_else(|| format!("shard {}: a snapshot without rows was accepted", self.view.id()))?;
        self.view.install(arrived.rows, point.index).map_err(|e| e.to_string())?;
        let number = self.replica.installed(point, write).map_err(|e| e.to_string())?;
        if self.meta.is_some() {
            self.meta = Some(MetaState::load(&self.view)?);
        }
        log::info!("shard {} has taken a snapshot as of entry {}", self.view.id(), point.index);
        Ok(number)
    }
}
