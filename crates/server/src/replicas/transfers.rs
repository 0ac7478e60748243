//! Snapshots on their way from node to node, and what becomes of them.

use crate::links::SharedIdentity;
use crate::mailbox::{ShardSnapshot, WorkerMessage};
use crate::net::Stream;
use crate::shared::NodeShared;
use crate::snapshots::{Direction, Outbound, Received, SnapshotHost, SnapshotOptions, Snapshots};
use node::session::TransferFacts;
use node::{ArrivedSnapshot, SnapshotTask};
use replica::{SnapshotPoint, wire};
use std::sync::{Arc, Weak};
use storage::Ingest;
use vocab::{NodeId, ReplicaId, ShardId};

/// The store, for the threads of transfers.
struct Host(Weak<NodeShared>);

impl Host {
    fn store(&self) -> Result<Arc<NodeShared>, String> {
        self.0.upgrade().ok_or_else(|| "the node has stopped".to_owned())
    }
}

impl SnapshotHost for Host {
    fn ingest(&self, _from: NodeId, shard: ShardId, message: &[u8]) -> Result<Box<dyn Ingest>, String> {
        let store = self.store()?;
        let message = wire::decode(message)?;
        let known = store.known();
        let handle = known.handle(shard).ok_or_else(|| format!("this node has no replica of shard {shard}"))?;
        let point = SnapshotPoint::of(&message);
        if point.index <= handle.engine().applied_index() {
            return Err(format!("the replica holds entry {} already", point.index));
        }
        handle.engine().ingest().map_err(|e| e.to_string())
    }

    fn received(&self, snapshot: Received) {
        let Ok(store) = self.store() else { return };
        let Ok(message) = wire::decode(&snapshot.message) else { return };
        let arrived = ArrivedSnapshot { point: SnapshotPoint::of(&message), message, rows: snapshot.ingested };
        let shard = snapshot.shard;
        store.mailboxes.tell_owner(shard, WorkerMessage::SnapshotArrived(Box::new(ShardSnapshot { shard, arrived })));
    }

    fn sent(&self, to: NodeId, shard: ShardId, replica: ReplicaId, outcome: Result<(), String>) {
        let Ok(store) = self.store() else { return };
        if let Err(e) = &outcome {
            log::info!("the snapshot of shard {shard} for node {to} was not taken: {e}");
        }
        snapshot_done(&store, shard, replica, outcome.is_ok());
    }
}

/// The transfers under way, for INFO.
pub(crate) fn transfer_facts(snapshots: &Snapshots) -> Vec<TransferFacts> {
    let all = snapshots.transfers();
    let facts = all.iter().map(|of| TransferFacts {
        inbound: of.direction == Direction::In,
        shard: of.shard,
        node: of.peer,
        bytes: of.bytes,
        bytes_approx: of.bytes_approx,
        rate: of.rate,
        seconds: of.age.as_secs(),
    });
    facts.collect()
}

/// Makes transfers possible.
pub(crate) fn start_transfers(store: &Arc<NodeShared>, identity: SharedIdentity) -> Result<(), String> {
    let rate = store.config.number("transfer-rate").unwrap_or_default().unsigned_abs();
    let options = SnapshotOptions { send_rate: rate, receive_rate: rate, ..SnapshotOptions::default() };
    let snapshots = Snapshots::new(identity, Arc::new(Host(Arc::downgrade(store))), options);
    store.snapshots.set(snapshots).map_err(|_| "transfers have been started already".to_owned())
}

/// Streams a snapshot to a follower; its leader hears how that went.
pub(crate) fn send_snapshot(store: &Arc<NodeShared>, task: SnapshotTask) {
    let (shard, replica) = (task.shard, task.replica);
    let address = store.known().map.as_ref().and_then(|map| Some(map.nodes.get(&task.node)?.peer_address.clone()));
    let mut message = Vec::new();
    wire::encode(&task.message, &mut message);
    let bytes_approx = store.known().handle(shard).map_or(0, |handle| handle.engine().stats().wanted_bytes());
    let taken = address.zip(store.snapshots.get()).is_some_and(|(address, snapshots)| {
        let outbound = Outbound {
            to: task.node,
            address,
            shard,
            replica,
            snapshot: task.rows,
            meta: task.facts,
            message,
            bytes_approx,
        };
        snapshots.send(outbound).is_ok()
    });
    if !taken {
        // Too many at once: raft asks again.
        snapshot_done(store, shard, replica, false);
    }
}

fn snapshot_done(store: &NodeShared, shard: ShardId, replica: ReplicaId, whole: bool) {
    store.mailboxes.tell_owner(shard, WorkerMessage::SnapshotSent { shard, replica, whole });
}

/// Another node wants to send a snapshot.
pub(crate) fn receive_snapshot(store: &NodeShared, node: NodeId, stream: Stream) {
    if let Some(snapshots) = store.snapshots.get() {
        snapshots.receive(node, stream);
    }
}
