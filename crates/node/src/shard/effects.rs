//! What a shard asks of the world around it.

use super::{Answers, Fact, Ticket};
use crate::peer::PeerMessage;
use replica::{Members, Message, SnapshotPoint};
use std::sync::Arc;
use storage::Snapshot;
use vocab::{NodeId, ReplicaId, ShardId};

/// What shards ask of the shell: answers for clients, messages for other nodes, and news.
pub trait Effects: Answers {
    /// Sends a message to a node; it may be lost.
    fn send(&mut self, to: NodeId, message: PeerMessage);

    /// The replica that the ticket's write came to does not lead its shard: nothing was written.
    fn not_leader(&mut self, shard: ShardId, ticket: &Ticket);

    /// Another replica leads the shard, or none that is known. `term` tells newer news from older.
    fn led(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64);

    /// Reads that wait for the shard's leader to be confirmed can be looked at again.
    fn readable(&mut self, shard: ShardId);

    /// The tree has memory set apart for a flush.
    fn sealed(&mut self, shard: ShardId);

    /// A follower needs everything: the rows are to be streamed, then the message is to be handed over.
    fn snapshot_wanted(&mut self, task: SnapshotTask);

    /// The shard's members have changed.
    fn members(&mut self, shard: ShardId, index: u64, members: Members);

    /// An entry has marked this moment: the rows are to be compared with those of the other replicas. `at_ms` is the
    /// leader's clock then. Whoever does not compare lets go of them.
    fn marked(&mut self, shard: ShardId, comparison: u64, at_ms: u64, rows: Box<dyn Snapshot>) {
        let _ = (shard, comparison, at_ms, rows);
    }

    /// The map has changed.
    fn map(&mut self, map: Arc<cluster::Map>);
}

/// A snapshot that is to be sent.
pub struct SnapshotTask {
    /// Of which shard.
    pub shard: ShardId,
    /// To which replica.
    pub replica: ReplicaId,
    /// On which node.
    pub node: NodeId,
    /// The rows.
    pub rows: Box<dyn Snapshot>,
    /// Records of the tree's meta space that go with them.
    pub facts: Vec<Fact>,
    /// What they are as of; to be kept in the meta space too (`SNAPSHOT_POINT`).
    pub point: SnapshotPoint,
    /// What is handed to the receiver's replica once it has the rows.
    pub message: Message,
}

/// A snapshot that has arrived.
pub struct ArrivedSnapshot {
    /// The rows with their facts, on disk.
    pub rows: Box<dyn storage::Ingested>,
    /// For the replica.
    pub message: Message,
    /// What the rows are as of.
    pub point: SnapshotPoint,
}
