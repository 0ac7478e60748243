//! All snapshot transfers of a node.
//!
//! Invariants: of a shard at most one snapshot comes in at a time; the latest that is offered wins. Each transfer takes
//! the memory of a few chunks. The host hears exactly once of every snapshot that it gave to be sent.

use super::bucket::Bucket;
use super::outbound::{Outbound, SnapshotHost, Telling};
use super::parts::Begin;
use super::receiver;
use super::sender;
use super::stream::Parts;
use super::transfer::{Direction, Transfer, TransferStatus};
use crate::links::SharedIdentity;
use crate::net::Stream;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};
use vocab::limits::{SNAPSHOTS_INBOUND_MAX, SNAPSHOTS_OUTBOUND_MAX};
use vocab::{NodeId, ShardId};

/// Connections that have not yet said which snapshot they bring, or that wait to be told.
const MEETINGS_MAX: usize = 16;
/// Transfers of which it is remembered how they ended.
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

/// All snapshot transfers of a node, in both directions.
pub struct Snapshots {
    shared: Arc<Shared>,
}

/// What all threads of the transfers share.
pub(super) struct Shared {
    pub(super) identity: SharedIdentity,
    pub(super) host: Arc<dyn SnapshotHost>,
    pub(super) options: SnapshotOptions,
    pub(super) sending: Bucket,
    pub(super) receiving: Bucket,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
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
pub(super) enum Place {
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

impl Snapshots {
    /// Transfers between `identity` and other nodes, of the shards of `host`.
    #[must_use]
    pub fn new(identity: SharedIdentity, host: Arc<dyn SnapshotHost>, options: SnapshotOptions) -> Self {
        let shared = Shared {
            identity,
            host,
            sending: Bucket::new(options.send_rate),
            receiving: Bucket::new(options.receive_rate),
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether a shard may be sent to that node, when `waiting` others are to be sent first. Asked before a snapshot is made.
    #[must_use]
    pub fn may_send(&self, shard: ShardId, to: NodeId, waiting: usize) -> bool {
        let state = self.shared.lock();
        let known = state.outbound.iter().any(|transfer| transfer.peer == to && transfer.shard == shard);
        !known && !state.stopped && state.outbound.len() + waiting < self.shared.options.outbound_max
    }

    /// Sends a snapshot; the host hears what came of it. Given back if there is no room, or that shard is being sent
    /// to that node already.
    pub fn send(&self, outbound: Outbound) -> Result<(), Box<Outbound>> {
        let Outbound { to, shard, bytes_approx, .. } = outbound;
        let transfer = Arc::new(Transfer::new(Direction::Out, to, shard, bytes_approx));
        {
            let mut state = self.shared.lock();
            let known = state.outbound.iter().any(|known| known.peer == to && known.shard == shard);
            if known || state.stopped || state.outbound.len() >= self.shared.options.outbound_max {
                return Err(Box::new(outbound));
            }
            state.outbound.push(transfer.clone());
        }
        let (telling, shared) = (Telling::new(self.shared.host.clone(), &outbound), self.shared.clone());
        let sending = Sending { shared: shared.clone(), transfer };
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
        {
            let state = self.shared.lock();
            if state.stopped || state.threads >= MEETINGS_MAX + state.inbound.len() + state.outbound.len() {
                // It calls again.
                return;
            }
        }
        let shared = self.shared.clone();
        self.spawn("snapshot-in", move || receiver::serve(&shared, from, stream));
    }

    /// All transfers under way.
    #[must_use]
    pub fn transfers(&self) -> Vec<TransferStatus> {
        let state = self.shared.lock();
        let inbound = state.inbound.values().map(|inbound| &inbound.transfer);
        state.outbound.iter().chain(inbound).map(|transfer| transfer.status()).collect()
    }

    /// Ends the transfers of a shard, both ways.
    pub fn cancel(&self, shard: ShardId) {
        let mut state = self.shared.lock();
        state.outbound.iter().filter(|transfer| transfer.shard == shard).for_each(|transfer| transfer.cancel());
        state.end_inbound(shard);
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
        let mut state = self.shared.lock();
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
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A thread that the node can do without: its waiters hear when it ends.
    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) {
        self.shared.lock().threads += 1;
        let running = Running(self.shared.clone());
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

/// A thread that runs.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// A snapshot that is sent.
struct Sending {
    shared: Arc<Shared>,
    transfer: Arc<Transfer>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.shared.lock().outbound.retain(|other| !Arc::ptr_eq(other, &self.transfer));
    }
}

impl Shared {
    /// What is to become of a snapshot that `from` offers.
    pub(super) fn place(
        self: &Arc<Self>,
        from: NodeId,
        begin: &Begin,
        transfer: &Arc<Transfer>,
        mailbox: SyncSender<Parts>,
    ) -> Place {
        let mut state = self.lock();
        let (shard, id) = (begin.shard, begin.transfer);
        let ended = state.ended.iter().find(|(known, ended, _)| (*known, *ended) == (shard, id)).map(|ended| ended.2);
        match ended {
            Some(true) => return Place::Done,
            Some(false) => return Place::Refused("the snapshot is not wanted any more"),
            None if state.stopped => return Place::Busy("the node is stopping"),
            None => {}
        }
        if let Some(inbound) = state.inbound.get(&shard) {
            if (inbound.from, inbound.id) == (from, id) {
                // Its thread may not have noticed that the old connection is dead.
                inbound.transfer.cut();
                return Place::Known(inbound.mailbox.clone());
            }
            state.end_inbound(shard);
            return Place::Busy("another snapshot of the shard is just ending");
        }
        if state.inbound.len() >= self.options.inbound_max {
            return Place::Busy("as many snapshots come in as may");
        }
        state.inbound.insert(shard, Inbound { from, id, transfer: transfer.clone(), mailbox });
        Place::New(Open { shared: self.clone(), shard })
    }

    /// Remembers how a transfer ended.
    pub(super) fn ended(&self, shard: ShardId, id: u64, done: bool) {
        self.lock().ended(shard, id, done);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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

/// Another number each time.
fn random() -> u64 {
    RandomState::new().hash_one(Instant::now())
}
