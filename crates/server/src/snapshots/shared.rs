//! What all threads of the transfers share: which transfers are under way, how the last ones ended, the rates.
//!
//! Invariants: at most one transfer of a shard comes in, and at most one goes to each node. A transfer is known here from
//! its begin until its `Open` or `Sending` is dropped.

use super::bucket::Bucket;
use super::outbound::SnapshotHost;
use super::parts::Begin;
use super::stream::Parts;
use super::transfer::{Direction, Transfer, TransferStatus};
use crate::links::SharedIdentity;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use vocab::limits::{SNAPSHOTS_INBOUND_MAX, SNAPSHOTS_OUTBOUND_MAX};
use vocab::{NodeId, ShardId};

/// Connections that have not yet said which snapshot they bring, or that wait for an answer to that.
const MEETINGS_MAX: usize = 16;
/// Transfers whose end is remembered.
const ENDED_MAX: usize = 256;
/// How long a stop waits for what cannot be interrupted.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Settings of the transfers.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// Bytes a second that are sent at most, over all transfers; 0: no limit.
    pub send_rate: u64,
    /// Bytes a second that are taken in at most; 0: no limit.
    pub receive_rate: u64,
    /// Snapshots that are sent at once.
    pub outbound_max: usize,
    /// Snapshots that are taken in at once.
    pub inbound_max: usize,
    /// How long both sides keep what they have when the connection breaks.
    pub resume_within: Duration,
    /// How long a sender asks again when the other side has no room for it.
    pub busy_within: Duration,
    /// How long the other side may be silent before the connection counts as broken.
    pub silence_max: Duration,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            send_rate: 200_000_000,
            receive_rate: 200_000_000,
            outbound_max: SNAPSHOTS_OUTBOUND_MAX,
            inbound_max: SNAPSHOTS_INBOUND_MAX,
            resume_within: Duration::from_secs(60),
            busy_within: Duration::from_secs(10),
            silence_max: Duration::from_secs(15),
        }
    }
}

/// What all threads of the transfers share.
pub(super) struct Shared {
    pub(super) identity: SharedIdentity,
    pub(super) host: Arc<dyn SnapshotHost>,
    pub(super) options: SnapshotOptions,
    pub(super) sending: Bucket,
    pub(super) receiving: Bucket,
    state: Mutex<TransferState>,
    changed: Condvar,
}

#[derive(Default)]
struct TransferState {
    outbound: Vec<Arc<Transfer>>,
    inbound: HashMap<ShardId, Inbound>,
    /// Shard and transfer, and whether it was taken in; else it is not wanted any more.
    ended: VecDeque<(ShardId, u64, bool)>,
    threads: usize,
    stopped: bool,
}

struct Inbound {
    from: NodeId,
    id: u64,
    transfer: Arc<Transfer>,
    mailbox: SyncSender<Parts>,
}

/// What is to become of a snapshot that is offered.
pub(super) enum Admission {
    /// It is taken in, as long as this lives.
    New(Open),
    /// It is being taken in: its connection goes there.
    Known(SyncSender<Parts>),
    /// It was taken in.
    Done,
    /// Not now.
    Busy(&'static str),
    /// Never.
    Refused(&'static str),
}

/// The place of a snapshot that is taken in.
pub(super) struct Open {
    shared: Arc<Shared>,
    shard: ShardId,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.lock().inbound.remove(&self.shard);
    }
}

/// A thread of a transfer, counted while it runs.
pub(super) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// The place of a snapshot that is sent.
pub(super) struct Sending {
    shared: Arc<Shared>,
    pub(super) transfer: Arc<Transfer>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.shared.lock().outbound.retain(|other| !Arc::ptr_eq(other, &self.transfer));
    }
}

impl Shared {
    pub(super) fn new(identity: SharedIdentity, host: Arc<dyn SnapshotHost>, options: SnapshotOptions) -> Self {
        Self {
            identity,
            host,
            sending: Bucket::new(options.send_rate),
            receiving: Bucket::new(options.receive_rate),
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether a shard may be sent to that node, when `waiting` others are to be sent first.
    pub(super) fn may_send(&self, shard: ShardId, to: NodeId, waiting: usize) -> bool {
        self.lock().may_send(shard, to, waiting, self.options.outbound_max)
    }

    /// The place of a snapshot that is to be sent; `None` if there is none.
    pub(super) fn begin_sending(self: &Arc<Self>, shard: ShardId, to: NodeId, bytes_approx: u64) -> Option<Sending> {
        let mut state = self.lock();
        state.may_send(shard, to, 0, self.options.outbound_max).then(|| {
            let transfer = Arc::new(Transfer::new(Direction::Out, to, shard, bytes_approx));
            state.outbound.push(transfer.clone());
            Sending { shared: self.clone(), transfer }
        })
    }

    /// What is to become of a snapshot that `from` offers.
    pub(super) fn admit(
        self: &Arc<Self>,
        from: NodeId,
        begin: &Begin,
        transfer: &Arc<Transfer>,
        mailbox: SyncSender<Parts>,
    ) -> Admission {
        let mut state = self.lock();
        let (shard, id) = (begin.shard, begin.transfer);
        let ended = state.ended.iter().find(|(known, ended, _)| (*known, *ended) == (shard, id)).map(|ended| ended.2);
        match ended {
            Some(true) => return Admission::Done,
            Some(false) => return Admission::Refused("the snapshot is not wanted any more"),
            None if state.stopped => return Admission::Busy("the node is stopping"),
            None => {}
        }
        if let Some(inbound) = state.inbound.get(&shard) {
            if (inbound.from, inbound.id) == (from, id) {
                // Its thread may not have noticed that the old connection is dead.
                inbound.transfer.cut();
                return Admission::Known(inbound.mailbox.clone());
            }
            state.end_inbound(shard);
            return Admission::Busy("another snapshot of the shard is just ending");
        }
        if state.inbound.len() >= self.options.inbound_max {
            return Admission::Busy("as many snapshots come in as may");
        }
        state.inbound.insert(shard, Inbound { from, id, transfer: transfer.clone(), mailbox });
        Admission::New(Open { shared: self.clone(), shard })
    }

    /// Whether one more connection may bring a snapshot.
    pub(super) fn may_meet(&self) -> bool {
        let state = self.lock();
        !state.stopped && state.threads < MEETINGS_MAX + state.inbound.len() + state.outbound.len()
    }

    /// Counts a thread, until what this answers is dropped.
    pub(super) fn begin_thread(self: &Arc<Self>) -> Running {
        self.lock().threads += 1;
        Running(self.clone())
    }

    /// All transfers under way.
    pub(super) fn transfers(&self) -> Vec<TransferStatus> {
        let state = self.lock();
        let inbound = state.inbound.values().map(|inbound| &inbound.transfer);
        state.outbound.iter().chain(inbound).map(|transfer| transfer.status()).collect()
    }

    /// Ends the transfers of a shard, both ways.
    pub(super) fn cancel(&self, shard: ShardId) {
        let mut state = self.lock();
        state.outbound.iter().filter(|transfer| transfer.shard == shard).for_each(|transfer| transfer.cancel());
        state.end_inbound(shard);
    }

    /// Ends all transfers, for good, and waits for their threads.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.outbound.iter().for_each(|transfer| transfer.cancel());
        let shards: Vec<ShardId> = state.inbound.keys().copied().collect();
        shards.into_iter().for_each(|shard| state.end_inbound(shard));
        let until = Instant::now() + STOP_MAX;
        while state.threads > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                log::warn!("{} snapshot threads do not end", state.threads);
                return;
            }
            self.changed.wait_for(&mut state, left);
        }
    }

    /// Remembers how a transfer ended.
    pub(super) fn ended(&self, shard: ShardId, id: u64, done: bool) {
        self.lock().ended(shard, id, done);
    }

    fn lock(&self) -> MutexGuard<'_, TransferState> {
        self.state.lock()
    }
}

impl TransferState {
    fn may_send(&self, shard: ShardId, to: NodeId, waiting: usize, outbound_max: usize) -> bool {
        let known = self.outbound.iter().any(|transfer| transfer.peer == to && transfer.shard == shard);
        !known && !self.stopped && self.outbound.len() + waiting < outbound_max
    }

    fn end_inbound(&mut self, shard: ShardId) {
        let Some(inbound) = self.inbound.get(&shard) else { return };
        inbound.transfer.cancel();
        let id = inbound.id;
        self.ended(shard, id, false);
    }

    fn ended(&mut self, shard: ShardId, id: u64, done: bool) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((shard, id, done));
    }
}
