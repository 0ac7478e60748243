//! Snapshots on their way from node to node, and what becomes of them.

use crate::inbox::Message;
use crate::links::SharedIdentity;
use crate::store::Store;
use node::SnapshotTask;
use std::net::TcpStream;
use std::sync::Arc;
use vocab::NodeId;

impl Store {
    pub(crate) fn start_transfers(self: &Arc<Self>, _identity: SharedIdentity) -> Result<(), String> {
        Ok(())
    }

    /// Streams a snapshot to a follower; its leader hears how that went.
    pub(crate) fn send_snapshot(self: &Arc<Self>, task: SnapshotTask) {
        if let Some(inbox) = self.inbox(self.owner_of(task.shard.0 as usize)) {
            inbox.send(Message::SnapshotSent(task.shard, task.replica, false));
        }
    }

    /// Another node wants to send a snapshot.
    pub(crate) fn receive_snapshot(self: &Arc<Self>, _node: NodeId, _stream: TcpStream) {}
}
