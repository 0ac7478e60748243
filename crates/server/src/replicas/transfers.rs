//! Snapshots on their way from node to node, and what becomes of them.

use crate::inbox::Message;
use crate::links::SharedIdentity;
use crate::snapshots::{Direction, Outbound, Received, SnapshotHost, SnapshotOptions, Snapshots};
use crate::store::Store;
use node::session::TransferFacts;
use node::{ArrivedSnapshot, SnapshotTask};
use replica::{SnapshotPoint, wire};
use std::net::TcpStream;
use std::sync::{Arc, Weak};
use storage::Ingest;
use vocab::{NodeId, ReplicaId, ShardId};

/// The store, for the threads of transfers.
struct Host(Weak<Store>);

impl Host {
    fn store(&self) -> Result<Arc<Store>, String> {
        self.0.upgrade().ok_or_else(|| "the node has stopped".to_owned())
    }
}

impl SnapshotHost for Host {
    fn ingest(&self, _from: NodeId, shard: ShardId, message: &[u8]) -> Result<Box<dyn Ingest>, String> {
        let store = self.store()?;
        let message = wire::decode(message)?;
        let known = store.known();
        let view = known.view(shard.0 as usize).ok_or_else(|| format!("this node has no replica of shard {shard}"))?;
        let point = SnapshotPoint::of(&message);
        if point.index <= view.engine().applied_index() {
            return Err(format!("the replica holds entry {} already", point.index));
        }
        view.engine().ingest().map_err(|e| e.to_string())
    }

    fn received(&self, snapshot: Received) {
        let Ok(store) = self.store() else { return };
        let Ok(message) = wire::decode(&snapshot.message) else { return };
        let arrived = ArrivedSnapshot { point: SnapshotPoint::of(&message), message, rows: snapshot.ingested };
        if let Some(inbox) = store.inbox(store.owner_of(snapshot.shard.0 as usize)) {
            inbox.send(Message::SnapshotArrived(snapshot.shard, Box::new(arrived)));
        }
    }

    fn sent(&self, to: NodeId, shard: ShardId, replica: ReplicaId, outcome: Result<(), String>) {
        let Ok(store) = self.store() else { return };
        if let Err(e) = &outcome {
            log::info!("the snapshot of shard {shard} for node {to} was not taken: {e}");
        }
        store.snapshot_done(shard, replica, outcome.is_ok());
    }
}

/// The transfers under way, for INFO.
pub(crate) fn facts(snapshots: &Snapshots) -> Vec<TransferFacts> {
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

impl Store {
    /// Makes transfers possible.
    pub(crate) fn start_transfers(self: &Arc<Self>, identity: SharedIdentity) -> Result<(), String> {
        let rate = self.config.number("transfer-rate").unwrap_or_default().unsigned_abs();
        let options = SnapshotOptions { send_rate: rate, receive_rate: rate, ..SnapshotOptions::default() };
        let snapshots = Snapshots::new(identity, Arc::new(Host(Arc::downgrade(self))), options);
        self.snapshots.set(snapshots).map_err(|_| "transfers have been started already".to_owned())
    }

    /// Streams a snapshot to a follower; its leader hears how that went.
    pub(crate) fn send_snapshot(self: &Arc<Self>, task: SnapshotTask) {
        let (shard, replica) = (task.shard, task.replica);
        let address = self.known().map.as_ref().and_then(|map| Some(map.nodes.get(&task.node)?.peer_address.clone()));
        let mut message = Vec::new();
        wire::encode(&task.message, &mut message);
        let bytes_approx = self.known().view(shard.0 as usize).map_or(0, |view| view.engine().stats().wanted_bytes());
        let taken = address.zip(self.snapshots.get()).is_some_and(|(address, snapshots)| {
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
            self.snapshot_done(shard, replica, false);
        }
    }

    fn snapshot_done(&self, shard: ShardId, replica: ReplicaId, whole: bool) {
        if let Some(inbox) = self.inbox(self.owner_of(shard.0 as usize)) {
            inbox.send(Message::SnapshotSent(shard, replica, whole));
        }
    }

    /// Another node wants to send a snapshot.
    pub(crate) fn receive_snapshot(&self, node: NodeId, stream: TcpStream) {
        if let Some(snapshots) = self.snapshots.get() {
            snapshots.receive(node, stream);
        }
    }
}
