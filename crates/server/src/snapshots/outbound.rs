//! The snapshots of a node as its worker asks for them and hears of them.

use std::sync::Arc;
use storage::{Ingest, Ingested, Slice, Snapshot};
use vocab::{NodeId, ReplicaId, ShardId};

/// A snapshot for another node.
pub struct Outbound {
    /// The node.
    pub to: NodeId,
    /// Its peer address.
    pub address: String,
    /// The shard.
    pub shard: ShardId,
    /// The replica on that node: for `SnapshotHost::sent`.
    pub replica: ReplicaId,
    /// The rows. Kept until the other side has them all, or cannot be reached for too long.
    pub snapshot: Box<dyn Snapshot>,
    /// The meta records as of the snapshot's index.
    pub meta: Vec<(Slice, Slice)>,
    /// Raft's message, which the other side steps when it has the rows; opaque here.
    pub message: Vec<u8>,
    /// About how many bytes the rows are; 0: unknown.
    pub bytes_approx: u64,
}

/// A snapshot that has come in, complete and durable.
pub struct Received {
    /// The node that sent it.
    pub from: NodeId,
    /// The shard.
    pub shard: ShardId,
    /// The index that it is of.
    pub index: u64,
    /// For `Engine::install`.
    pub ingested: Box<dyn Ingested>,
    /// The meta records, which `ingested` holds too.
    pub meta: Vec<(Slice, Slice)>,
    /// Raft's message, as the sender gave it.
    pub message: Vec<u8>,
}

/// The owner of the shards. All of these are called by transfer threads and may block them.
pub trait SnapshotHost: Send + Sync {
    /// Where the rows of a snapshot are to go; or why this node does not want them, in words.
    fn ingest(&self, from: NodeId, shard: ShardId, message: &[u8]) -> Result<Box<dyn Ingest>, String>;

    /// A snapshot is complete. The sender is told so afterwards.
    fn received(&self, snapshot: Received);

    /// What came of an `Outbound`: told once for each that was taken.
    fn sent(&self, to: NodeId, shard: ShardId, replica: ReplicaId, outcome: Result<(), String>);
}

/// Tells the host what came of an outbound snapshot, whatever happens to its thread.
pub(super) struct Telling {
    host: Arc<dyn SnapshotHost>,
    to: NodeId,
    shard: ShardId,
    replica: ReplicaId,
    told: bool,
}

impl Telling {
    pub(super) fn new(host: Arc<dyn SnapshotHost>, outbound: &Outbound) -> Self {
        Self { host, to: outbound.to, shard: outbound.shard, replica: outbound.replica, told: false }
    }

    pub(super) fn tell(mut self, outcome: Result<(), String>) {
        self.told = true;
        self.host.sent(self.to, self.shard, self.replica, outcome);
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.told {
            let outcome = Err("the thread that was to send it has ended".to_owned());
            self.host.sent(self.to, self.shard, self.replica, outcome);
        }
    }
}
