//! The thread that brings this node's replicas in line with the map: it closes and removes what the map takes away, and
//! opens what it gives.

use super::closing::Closing;
use super::leftovers::{local_replicas, remove_leftovers};
use super::open::open_planned;
use super::report::Reporter;
use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use node::control::reconcile::{lacks_replicas, reconcile};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use vocab::{ReplicaId, ShardId};

/// Between two reports to the director.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at whether a replica is still in use.
const NAP: Duration = Duration::from_millis(2);

/// The thread: it ends when the store stops.
pub(crate) fn reconcile_thread(store: &Arc<NodeShared>) {
    let mut report_at = Instant::now();
    let mut reporter = Reporter::default();
    let mut closing = Closing::default();
    while !store.is_stopping() {
        let until = if closing.is_empty() { report_at } else { report_at.min(Instant::now() + NAP) };
        let is_newer = store.reconcile.wait(until);
        let has_room = !closing.is_empty() && closing.finish(store, |shard| is_given(store, shard));
        // A replica that was to come by a split may have to be sent as a snapshot after all.
        if is_newer || has_room || (Instant::now() >= report_at && lacks_some(store)) {
            follow_map(store, &mut closing);
        }
        if Instant::now() >= report_at {
            report_at = Instant::now() + REPORT_EVERY;
            store.mailboxes.tell_links_worker(WorkerMessage::Report(Box::new(reporter.next(store))));
        }
    }
}

/// Whether the map gives this node a replica of the shard.
fn is_given(store: &NodeShared, shard: ShardId) -> bool {
    let known = store.known();
    let info = known.map.as_ref().and_then(|map| map.shards.get(&shard));
    info.is_some_and(|info| info.replica_on(store.node()).is_some())
}

/// Closes what the map has taken away, opens what it has given.
fn follow_map(store: &NodeShared, closing: &mut Closing) {
    let Some(map) = store.known().map.clone() else { return };
    let mut plan = reconcile(&map, store.node(), &local_replicas(store, closing.shards()));
    for &(shard, replica) in &plan.close {
        close(store, closing, shard, replica);
    }
    closing.finish(store, |_| false);
    // The place of one that is still in use is taken later.
    let in_use: BTreeSet<ShardId> = closing.shards().collect();
    for given in [&mut plan.open, &mut plan.begin] {
        given.retain(|(shard, _)| !in_use.contains(shard));
    }
    store.reconcile.forget_damaged(&map, store.node());
    if let Err(e) = remove_leftovers(store, &plan.remove) {
        log::error!("{e}");
        return;
    }
    open_planned(store, &map, &plan, &mut |(shard, replica), opened| match opened {
        Ok(opened) => store.mailboxes.tell_owner(shard, WorkerMessage::Adopt(Box::new(opened))),
        Err(why) => store.reconcile.damaged(shard, replica, why),
    });
}

/// Whether the map gives this node a replica that is not open, and nothing is known to be wrong with it.
fn lacks_some(store: &NodeShared) -> bool {
    let known = store.known();
    let has = |shard: ShardId, replica: ReplicaId| {
        known.handle(shard).is_some() || store.reconcile.is_damaged(shard, replica)
    };
    known.map.as_ref().is_some_and(|map| lacks_replicas(map, store.node(), has))
}

/// Closes a replica: its worker lets it go.
fn close(store: &NodeShared, closing: &mut Closing, shard: ShardId, replica: ReplicaId) {
    let Some(handle) = store.known().handle(shard).cloned() else { return };
    log::info!("replica {replica} of shard {shard} is given up");
    store.routing.set_replica(shard, None);
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
    closing.begin(shard, handle);
}
