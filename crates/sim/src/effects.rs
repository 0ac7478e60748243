//! What a node's core asks of the simulated world, kept until the world looks at it.

use cluster::Map;
use node::peer::PeerMessage;
use node::{Answers, Effects, SnapshotTask, SplitTask, Ticket};
use replica::Members;
use std::collections::BTreeSet;
use std::sync::Arc;
use vocab::{NodeId, ShardId};

/// See the module's words.
#[derive(Default)]
pub struct Outbox {
    /// Messages, in order.
    pub messages: Vec<(NodeId, PeerMessage)>,
    /// Answers, in order; `None`: not here.
    pub answers: Vec<(Ticket, Option<Vec<u8>>)>,
    /// Snapshots that are to be sent.
    pub snapshots: Vec<SnapshotTask>,
    /// Shards whose waiting reads can be looked at again.
    pub readable: BTreeSet<ShardId>,
    /// Shards whose members have changed, as of which entry.
    pub members: Vec<(ShardId, u64, Members)>,
    /// Shards that were split off and need nothing from their parents.
    pub ended: Vec<ShardId>,
    /// Shards that become two.
    pub splits: Vec<SplitTask>,
    /// Shards with another leader, and in which term.
    pub led: Vec<(ShardId, Option<NodeId>, u64)>,
    /// The newest map that the metadata group's replica has applied.
    pub map: Option<Arc<Map>>,
}

impl Answers for Outbox {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        self.answers.push((*ticket, Some(reply.to_vec())));
    }
}

impl Effects for Outbox {
    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.messages.push((to, message));
    }

    fn not_leader(&mut self, _shard: ShardId, ticket: &Ticket) {
        self.answers.push((*ticket, None));
    }

    fn led(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64) {
        self.led.push((shard, leader, term));
    }

    fn readable(&mut self, shard: ShardId) {
        self.readable.insert(shard);
    }

    /// The world decides when trees are flushed.
    fn sealed(&mut self, _shard: ShardId) {}

    fn snapshot_wanted(&mut self, task: SnapshotTask) {
        self.snapshots.push(task);
    }

    fn split(&mut self, task: SplitTask) {
        self.splits.push(task);
    }

    fn split_ended(&mut self, child: ShardId) {
        self.ended.push(child);
    }

    fn members(&mut self, shard: ShardId, index: u64, members: Members) {
        self.members.push((shard, index, members));
    }

    fn map(&mut self, map: Arc<Map>) {
        self.map = Some(map);
    }
}
