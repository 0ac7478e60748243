//! The replicas that this node holds, brought in line with the map on a thread of their own: what the map takes away is
//! closed and removed, what it gives is opened.
//!
//! Invariant: of a replica that goes, the tree is removed before the log's group. So what a crash leaves is known by the
//! log to be of a replica that the map no longer has, and is never taken for another one's.

use crate::mailbox::WorkerMessage;
use crate::replicas::open_planned;
use crate::shared::{LINKS_WORKER, NodeShared};
use cluster::Map;
use node::ShardView;
use node::control::reconcile::{LocalGroup, LocalReplica, Removal, lacks_replicas, reconcile};
use node::director::{NodeFigures, NodeReport, ReplicaReport, TransferReport};
use replica::{DiskState, LogStore, LogWrite};
use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vocab::limits::{REPORT_REPLICAS_MAX, REPORT_TRANSFERS_MAX};
use vocab::{NodeId, ReplicaId, ShardId};

/// Between two reports to the director.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at whether nobody uses a replica any more.
const NAP: Duration = Duration::from_millis(2);
/// After so long it is said that a replica which is to be removed is still in use.
const IN_USE_MAX: Duration = Duration::from_secs(10);
/// Why a replica is of no use that `start --rebuild` has set aside.
pub(crate) const SET_ASIDE: &str = "set aside by start --rebuild, to be made anew from its peers";

/// What is known of replicas beside those that are open.
#[derive(Default)]
pub(crate) struct Holdings {
    /// Replicas that cannot be opened, and why.
    damaged: Mutex<BTreeMap<ShardId, (ReplicaId, String)>>,
    /// The map has changed since it was looked at.
    wakes: Mutex<bool>,
    changed: Condvar,
}

impl Holdings {
    /// There is a newer map.
    pub(crate) fn wake(&self) {
        *lock(&self.wakes) = true;
        self.changed.notify_all();
    }

    /// A replica cannot be opened.
    pub(crate) fn damaged(&self, shard: ShardId, replica: ReplicaId, why: String) {
        log::error!("replica {replica} of shard {shard} is of no use, the others go on: {why}");
        lock(&self.damaged).insert(shard, (replica, why));
    }

    /// Whether a replica is known to be of no use.
    pub(crate) fn is_damaged(&self, shard: ShardId, replica: ReplicaId) -> bool {
        lock(&self.damaged).get(&shard).is_some_and(|(known, _)| *known == replica)
    }

    /// The replicas that are known to be of no use, and why.
    pub(crate) fn all_damaged(&self) -> Vec<(ShardId, String)> {
        lock(&self.damaged).iter().map(|(shard, (_, why))| (*shard, why.clone())).collect()
    }

    /// Replicas that the map does not give the node any more are damaged no more.
    fn forget_damaged(&self, map: &Map, me: NodeId) {
        let gives = |shard: &ShardId| Some(map.shards.get(shard)?.replica_on(me)?.id);
        lock(&self.damaged).retain(|shard, (replica, _)| gives(shard) == Some(*replica));
    }

    /// Waits until there is a newer map, or until then; true if there is one.
    fn wait(&self, until: Instant) -> bool {
        let mut wakes = lock(&self.wakes);
        while !*wakes {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            wakes = self.changed.wait_timeout(wakes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *wakes = false;
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread: it ends when the store stops.
pub(crate) fn run(store: &Arc<NodeShared>) {
    let mut report_at = Instant::now();
    let mut reporter = Reporter::default();
    while !store.is_stopping() {
        // One that was to come as a part of another may have to be sent after all.
        if store.holdings.wait(report_at) || store.lacks_replicas() {
            store.follow_map();
        }
        if Instant::now() >= report_at {
            report_at = Instant::now() + REPORT_EVERY;
            if let Some(mailbox) = store.mailbox(LINKS_WORKER) {
                mailbox.send(WorkerMessage::Report(Box::new(reporter.next(store))));
            }
        }
    }
}

impl NodeShared {
    /// Closes what the map has taken away, opens what it has given.
    fn follow_map(&self) {
        let Some(map) = self.known().map.clone() else { return };
        let plan = reconcile(&map, self.node(), &local_replicas(self));
        for &(shard, replica) in &plan.close {
            self.close(shard, replica);
        }
        self.holdings.forget_damaged(&map, self.node());
        if let Err(e) = remove_leftovers(self, &plan.remove) {
            log::error!("{e}");
            return;
        }
        open_planned(self, &map, &plan, &mut |(shard, replica), opened| match opened {
            Ok(opened) => self.tell_owner(shard, WorkerMessage::Adopt(Box::new(opened))),
            Err(why) => self.holdings.damaged(shard, replica, why),
        });
    }

    /// Whether the map gives this node a replica that is not open, and nothing is known to be wrong with it.
    fn lacks_replicas(&self) -> bool {
        let known = self.known();
        let has = |shard: ShardId, replica: ReplicaId| {
            known.view(shard.0 as usize).is_some() || self.holdings.is_damaged(shard, replica)
        };
        known.map.as_ref().is_some_and(|map| lacks_replicas(map, self.node(), has))
    }

    /// Closes a replica and removes what there is of it.
    fn close(&self, shard: ShardId, replica: ReplicaId) {
        let Some(view) = self.known().view(shard.0 as usize).cloned() else { return };
        log::info!("replica {replica} of shard {shard} is given up");
        self.directory.set_view(shard, None);
        if let Some(snapshots) = self.snapshots.get() {
            snapshots.cancel(shard);
        }
        let (sender, receiver) = sync_channel(1);
        let Some(mailbox) = self.mailbox(self.owner_of(shard.0 as usize)) else { return };
        mailbox.send(WorkerMessage::Release(shard, sender));
        while receiver.recv_timeout(REPORT_EVERY).is_err() {
            if self.is_stopping() {
                return;
            }
        }
        if self.await_unused(shard, view) {
            self.cache.clear_shard(shard.0);
            if let Err(e) = remove(self, shard) {
                log::error!("{e}");
            }
        }
    }

    /// Waits until nobody has anything of a tree: only then can its folder go, and another come in its place. False if the
    /// node is stopped before.
    fn await_unused(&self, shard: ShardId, mut view: Arc<ShardView>) -> bool {
        let (since, mut said) = (Instant::now(), false);
        let engine = view.engine().clone();
        engine.abandon();
        loop {
            match Arc::try_unwrap(view) {
                Ok(alone) => {
                    drop(alone);
                    break;
                }
                Err(shared) => view = shared,
            }
            if self.is_stopping() {
                return false;
            }
            if !said && since.elapsed() > IN_USE_MAX {
                said = true;
                log::warn!("the replica of shard {shard} that is to be removed is still in use");
            }
            std::thread::sleep(NAP);
        }
        while Arc::strong_count(&engine) > 1 {
            if self.is_stopping() {
                return false;
            }
            std::thread::sleep(NAP);
        }
        true
    }
}

/// Removes a tree that nobody uses, then its group from the log.
fn remove(store: &NodeShared, shard: ShardId) -> Result<(), String> {
    store.dir.remove_tree(shard)?;
    let mut write = LogWrite::default();
    write.remove(shard);
    store.log_threads.write_last(write).map_err(|e| e.to_string())
}

/// What this node has of every shard, on disk and open.
pub(crate) fn local_replicas(store: &NodeShared) -> BTreeMap<ShardId, LocalReplica> {
    let mut all: BTreeMap<ShardId, LocalReplica> = BTreeMap::new();
    for (replica, view) in store.known().replicas() {
        let here = all.entry(view.id()).or_default();
        (here.open, here.group, here.tree) = (Some(replica), LocalGroup::Of(replica), true);
    }
    for shard in store.log.groups() {
        let here = all.entry(shard).or_default();
        if here.open.is_none() {
            here.group = match store.log.state(shard) {
                Ok(state) => state.map_or(LocalGroup::None, |state| LocalGroup::Of(state.replica)),
                Err(_) => LocalGroup::Unreadable,
            };
        }
    }
    for shard in store.dir.trees() {
        all.entry(shard).or_default().tree = true;
    }
    for shard in store.forks.all() {
        all.entry(shard).or_default().forking = true;
    }
    for (shard, (replica, _)) in lock(&store.holdings.damaged).iter() {
        all.entry(*shard).or_default().damaged = Some(*replica);
    }
    all
}

/// Removes what is left of replicas that the map does not give this node, and that are not open.
pub(crate) fn remove_leftovers(store: &NodeShared, removals: &[Removal]) -> Result<(), String> {
    store.dir.remove_gone();
    for &Removal { shard, group } in removals {
        if group {
            log::info!("what is left of a replica of shard {shard} is removed");
            remove(store, shard)?;
        } else {
            log::info!("a tree of shard {shard} without a group is removed");
            store.dir.remove_tree(shard)?;
        }
    }
    Ok(())
}

/// Makes reports, of some replicas at a time.
#[derive(Default)]
struct Reporter {
    /// The shard that comes next.
    next: u32,
    /// Bytes of trees that this round has come by, and those of the last whole round.
    counted: u64,
    trees: u64,
}

impl Reporter {
    fn next(&mut self, store: &NodeShared) -> NodeReport {
        let known = store.known();
        let mut replicas: Vec<ReplicaReport> = Vec::new();
        let from = known.replicas().filter(|(_, view)| view.id().0 >= self.next).take(REPORT_REPLICAS_MAX);
        replicas.extend(from.map(|(id, view)| view.report(id)));
        self.counted += replicas.iter().map(|replica| replica.bytes).sum::<u64>();
        self.next = match replicas.last() {
            Some(last) if replicas.len() == REPORT_REPLICAS_MAX => last.shard.0 + 1,
            _ => {
                self.trees = std::mem::take(&mut self.counted);
                0
            }
        };
        let damaged = lock(&store.holdings.damaged);
        replicas.extend(damaged.iter().take(REPORT_REPLICAS_MAX - replicas.len().min(REPORT_REPLICAS_MAX)).map(
            |(shard, (replica, why))| ReplicaReport {
                shard: *shard,
                replica: *replica,
                bytes: 0,
                keys: 0,
                applied: 0,
                last: 0,
                term: 0,
                leads: None,
                division: None,
                broken: Some(why.clone()),
            },
        ));
        drop(damaged);
        NodeReport { figures: self.figures(store), replicas, transfers: transfers(store) }
    }

    fn figures(&self, store: &NodeShared) -> NodeFigures {
        let process = crate::os::process_facts();
        let free = rustix::fs::statvfs(store.dir.root()).map_or(0, |device| device.f_bavail * device.f_frsize);
        NodeFigures {
            started_ms: store.started_ms,
            disk_bytes: self.trees + store.log.disk_bytes(),
            disk_free_bytes: free,
            can_write: store.health.state() == DiskState::Healthy,
            clock_skew_ms: store.clock.skew_ms(),
            clock_is_off: store.clock.is_off(),
            wants_rebuild: lock(&store.holdings.damaged).values().any(|(_, why)| why == SET_ASIDE),
            rss_bytes: process.rss_bytes.unwrap_or(0),
            cpu_us: process.cpu_user_us.unwrap_or(0) + process.cpu_system_us.unwrap_or(0),
            commands: store.stats.totals().commands,
            errors: store.stats.errors().values().sum(),
            clients: store.clients.count() as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

fn transfers(store: &NodeShared) -> Vec<TransferReport> {
    let all = store.snapshots.get().map(|snapshots| snapshots.transfers()).unwrap_or_default();
    let report = |of: &crate::snapshots::TransferStatus| TransferReport {
        shard: of.shard,
        peer: of.peer,
        inbound: of.direction == crate::snapshots::Direction::In,
        bytes: of.bytes,
        bytes_approx: of.bytes_approx,
        rate: of.rate,
    };
    all.iter().take(REPORT_TRANSFERS_MAX).map(report).collect()
}
