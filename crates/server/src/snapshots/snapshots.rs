//! All snapshot transfers of a node, each on a thread of its own.
//!
//! Invariants: of a shard at most one snapshot comes in at a time; the latest that is offered wins. Each transfer takes
//! the memory of a few chunks. The host hears exactly once of every snapshot that it gave to be sent.

use super::outbound::{Outbound, SnapshotHost, Telling};
use super::receiver;
use super::sender;
use super::shared::{Shared, SnapshotOptions};
use super::transfer::TransferStatus;
use crate::links::{Identity, SharedIdentity};
use crate::net::Stream;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Instant;
use vocab::{NodeId, ShardId};

/// All snapshot transfers of a node, in both directions.
pub struct Snapshots {
    shared: Arc<Shared>,
}

impl Snapshots {
    /// Transfers between `identity` and other nodes, of the shards of `host`.
    #[must_use]
    pub fn new(identity: SharedIdentity, host: Arc<dyn SnapshotHost>, options: SnapshotOptions) -> Self {
        Self { shared: Arc::new(Shared::new(identity, host, options)) }
    }

    /// Whether a shard may be sent to that node, when `waiting` others are to be sent first. Asked before a snapshot is made.
    #[must_use]
    pub fn may_send(&self, shard: ShardId, to: NodeId, waiting: usize) -> bool {
        self.shared.may_send(shard, to, waiting)
    }

    /// Sends a snapshot; the host hears what came of it. Given back if there is no room, or that shard is being sent
    /// to that node already.
    pub fn send(&self, outbound: Outbound) -> Result<(), Box<Outbound>> {
        let Outbound { to, shard, bytes_approx, .. } = outbound;
        let Some(sending) = self.shared.begin_sending(shard, to, bytes_approx) else { return Err(Box::new(outbound)) };
        let (telling, shared) = (Telling::new(self.shared.host.clone(), &outbound), self.shared.clone());
        self.spawn("snapshot-out", move || {
            let outcome = sender::send(&shared, &outbound, &sending.transfer, random());
            let status = sending.transfer.status();
            // There is room for the next before the host hears of it.
            drop((sending, outbound));
            match &outcome {
                Ok(()) => log::info!(
                    "sent the snapshot of shard {shard} to node {to}: {} rows, {} bytes, {:.1} s",
                    status.rows,
                    status.bytes,
                    status.age.as_secs_f64()
                ),
                Err(why) => log::warn!("cannot send the snapshot of shard {shard} to node {to}: {why}"),
            }
            telling.tell(outcome);
        });
        Ok(())
    }

    /// Takes in what comes over a connection that a node has made for a snapshot.
    pub fn receive(&self, from: NodeId, stream: Stream) {
        if !self.shared.may_meet() {
            // It calls again.
            return;
        }
        let shared = self.shared.clone();
        self.spawn("snapshot-in", move || receiver::serve(&shared, from, stream));
    }

    /// Who this node is to others.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.shared.identity.now()
    }

    /// All transfers under way.
    #[must_use]
    pub fn transfers(&self) -> Vec<TransferStatus> {
        self.shared.transfers()
    }

    /// Ends the transfers of a shard, both ways.
    pub fn cancel(&self, shard: ShardId) {
        self.shared.cancel(shard);
    }

    /// Bytes a second that are sent at most, from now on; 0: no limit.
    pub fn set_send_rate(&self, rate: u64) {
        self.shared.sending.set_rate(rate);
    }

    /// Bytes a second that are taken in at most, from now on; 0: no limit.
    pub fn set_receive_rate(&self, rate: u64) {
        self.shared.receiving.set_rate(rate);
    }

    /// Ends all transfers, for good, and waits for their threads.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// A thread that the node can do without: its waiters hear when it ends.
    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) {
        let running = self.shared.begin_thread();
        let thread = move || {
            let _running = running;
            crate::os::set_niceness(crate::os::NICE_BACKGROUND);
            run();
        };
        if let Err(e) = Builder::new().name(name.to_owned()).spawn(thread) {
            log::warn!("cannot start the thread {name}: {e}");
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Another number each time.
fn random() -> u64 {
    RandomState::new().hash_one(Instant::now())
}
