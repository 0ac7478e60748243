//! The thread that brings this node's replicas in line with the map: it closes and removes what the map takes away, and
//! opens what it gives.

use super::leftovers::{local_replicas, remove, remove_leftovers};
use super::open::open_planned;
use super::report::Reporter;
use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use node::ShardView;
use node::control::reconcile::{lacks_replicas, reconcile};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use vocab::{ReplicaId, ShardId};

/// Between two reports to the director.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at whether a replica is still in use.
const NAP: Duration = Duration::from_millis(2);
/// After so long a warning says that a replica which is to be removed is still in use.
const IN_USE_MAX: Duration = Duration::from_secs(10);

/// The thread: it ends when the store stops.
pub(crate) fn reconcile_thread(store: &Arc<NodeShared>) {
    let mut report_at = Instant::now();
    let mut reporter = Reporter::default();
    while !store.is_stopping() {
        // One that was to come as a part of another may have to be sent after all.
        if store.holdings.wait(report_at) || lacks_some(store) {
            follow_map(store);
        }
        if Instant::now() >= report_at {
            report_at = Instant::now() + REPORT_EVERY;
            store.mailboxes.tell_links_worker(WorkerMessage::Report(Box::new(reporter.next(store))));
        }
    }
}

/// Closes what the map has taken away, opens what it has given.
fn follow_map(store: &NodeShared) {
    let Some(map) = store.known().map.clone() else { return };
    let plan = reconcile(&map, store.node(), &local_replicas(store));
    for &(shard, replica) in &plan.close {
        close(store, shard, replica);
    }
    store.holdings.forget_damaged(&map, store.node());
    if let Err(e) = remove_leftovers(store, &plan.remove) {
        log::error!("{e}");
        return;
    }
    open_planned(store, &map, &plan, &mut |(shard, replica), opened| match opened {
        Ok(opened) => store.mailboxes.tell_owner(shard, WorkerMessage::Adopt(Box::new(opened))),
        Err(why) => store.holdings.damaged(shard, replica, why),
    });
}

/// Whether the map gives this node a replica that is not open, and nothing is known to be wrong with it.
fn lacks_some(store: &NodeShared) -> bool {
    let known = store.known();
    let has = |shard: ShardId, replica: ReplicaId| {
        known.view(shard.0 as usize).is_some() || store.holdings.is_damaged(shard, replica)
    };
    known.map.as_ref().is_some_and(|map| lacks_replicas(map, store.node(), has))
}

/// Closes a replica and removes what there is of it.
fn close(store: &NodeShared, shard: ShardId, replica: ReplicaId) {
    let Some(view) = store.known().view(shard.0 as usize).cloned() else { return };
    log::info!("replica {replica} of shard {shard} is given up");
    store.routing.set_view(shard, None);
    if let Some(snapshots) = store.snapshots.get() {
        snapshots.cancel(shard);
    }
    let (sender, receiver) = sync_channel(1);
    store.mailboxes.tell_owner(shard, WorkerMessage::Release(shard, sender));
    while receiver.recv_timeout(REPORT_EVERY).is_err() {
        if store.is_stopping() {
            return;
        }
    }
    if await_unused(store, shard, view) {
        store.cache.clear_shard(shard.0);
        if let Err(e) = remove(store, shard) {
            log::error!("{e}");
        }
    }
}

/// Waits until a tree is not in use any more: only then can its folder go, and another come in its place. False if the
/// node is stopped before.
fn await_unused(store: &NodeShared, shard: ShardId, mut view: Arc<ShardView>) -> bool {
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
        if store.is_stopping() {
            return false;
        }
        if !said && since.elapsed() > IN_USE_MAX {
            said = true;
            log::warn!("the replica of shard {shard} that is to be removed is still in use");
        }
        std::thread::sleep(NAP);
    }
    while Arc::strong_count(&engine) > 1 {
        if store.is_stopping() {
            return false;
        }
        std::thread::sleep(NAP);
    }
    true
}
