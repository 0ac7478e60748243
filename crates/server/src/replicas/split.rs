//! A shard becomes two on this node: the tree is forked on a thread of its own while the shard waits and its worker
//! serves others; then the parent goes on, and the child is given to its worker.
//!
//! Invariant: the child's tree is complete on disk before the log knows its group, and both before the parent's tree may
//! say that it has applied the split. So a crash leaves a split that is applied again, of which each part that is there
//! already is taken as it is.

use super::patience::patiently;
use super::replica::open_replica;
use crate::mailbox::{Forked, Opened, WorkerMessage};
use crate::shared::NodeShared;
use cluster::Map;
use node::control::reconcile::{comes_by_split, wants_fork};
use node::{ShardHandle, SplitTask};
use replica::LogStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{Engine, Error, open_engine};
use vocab::{ShardId, Slot};

/// The pause between two attempts while there is no room, or too few descriptors or too little memory.
const PAUSE: Duration = Duration::from_millis(200);

/// Some slots: looked for much more often than made.
#[derive(Default)]
pub(super) struct SlotSet(BTreeSet<u16>);

impl SlotSet {
    fn contains(&self, slot: Slot) -> bool {
        self.0.contains(&slot.0)
    }
}

/// Forks a shard's tree in the background; `WorkerMessage::Forked` comes to the shard's worker.
pub(crate) fn fork_behind(store: &Arc<NodeShared>, task: SplitTask) {
    let (of_thread, parent, child) = (store.clone(), task.parent, task.child);
    store.forks.begin(child);
    store.pool.run_beside("fork", move || {
        let (leads, begun) = (task.leads, Instant::now());
        let outcome = fork(&of_thread, &task);
        log::info!(
            "shard {} is forked from shard {parent} as of entry {}: writes waited for {} ms",
            task.child,
            task.point.index,
            begun.elapsed().as_millis()
        );
        drop(task);
        of_thread
            .mailboxes
            .tell_owner(parent, WorkerMessage::Forked(Box::new(Forked { parent, child, outcome, leads })));
    });
}

/// Makes the child of a split; none if there is nothing to be opened. Blocks.
pub(super) fn fork(store: &NodeShared, task: &SplitTask) -> Result<Option<Opened>, String> {
    let shard = task.child;
    let text = |e: replica::Error| e.to_string();
    let map = store.known().map.clone();
    let has_group = store.log.state(shard).map_err(text)?.is_some();
    if !wants_fork(map.as_deref(), store.node(), shard, task.replica, has_group) {
        return Ok(None);
    }
    let tree = fork_tree(store, task)?;
    store.log.write(task.install(), true).map_err(text)?;
    let handle = patiently(store, shard, || {
        Ok(ShardHandle::open(shard, task.slots.clone(), tree.clone(), store.cache.clone())?)
    })?;
    handle.set_config(store.config.clone());
    handle.set_usage(store.usage.clone());
    handle.set_tracking(store.tracking.clone());
    handle.set_script_watch(store.script_watch.clone());
    Ok(Some(Opened { shard: open_replica(store, &handle)?, fresh: true }))
}

fn fork_tree(store: &NodeShared, task: &SplitTask) -> Result<Arc<dyn Engine>, String> {
    let folder = store.dir.shard(task.child);
    loop {
        // A tree never holds what the log could still lose.
        store.log.sync().map_err(|e| e.to_string())?;
        match task.tree.fork(&folder, task.point.index, task.facts.clone(), &task.keep) {
            Ok(tree) => return Ok(tree),
            Err(e) if !store.is_stopping() && (e.is_busy() || node::note_lack(&store.health, &e)) => {
                std::thread::sleep(PAUSE);
            }
            // A crash came between the tree and the log.
            Err(Error::Mismatch { .. }) => {
                let engine = store.dir.identity().engine;
                return patiently(store, task.child, || Ok(open_engine(engine, &folder, &store.resources)?));
            }
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// Whether a replica of which the log has nothing will come by a split. `joined` are the slots of replicas here that have
/// come to some entry.
pub(super) fn comes_by_split_here(store: &NodeShared, map: &Map, shard: ShardId, joined: &SlotSet) -> bool {
    let known = store.known();
    let parent = |parent: ShardId| known.handle(parent).map(|handle| &**handle);
    comes_by_split(map, store.node(), shard, parent, |slot| joined.contains(slot))
}

/// The slots of this node's replicas that have come to some entry.
pub(super) fn joined_slots(store: &NodeShared) -> SlotSet {
    let mut joined = SlotSet::default();
    for handle in store.known().data_handles().filter(|handle| handle.has_joined()) {
        let (first, last) = handle.slots();
        joined.0.extend((first..=last).filter(|slot| handle.has_slot(Slot(*slot))));
    }
    joined
}
