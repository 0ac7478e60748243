//! A shard becomes two on this node: the tree is forked on a thread of its own while the shard waits and its worker
//! serves others; then the parent goes on, and the child is given to its worker.
//!
//! Invariant: the child's tree is complete on disk before the log knows its group, and both before the parent's tree may
//! say that it has applied the split. So a crash leaves a split that is applied again, of which each part that is there
//! already is taken as it is.

use crate::mailbox::{Forked, Opened, WorkerMessage};
use crate::os::spawn_critical;
use crate::shared::NodeShared;
use cluster::Map;
use node::{Shard, ShardView, SplitTask};
use replica::{LogStore, Replica};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{Engine, Error, open_engine};
use vocab::{Prng, ShardId, Slot};

/// How long it is waited between two attempts when there is no room.
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
    let spawned = spawn_critical("fork", move || {
        let (leads, begun) = (task.leads, Instant::now());
        let outcome = fork(&of_thread, &task);
        log::info!(
            "shard {} is forked from shard {parent} as of entry {}: writes waited for {} ms",
            task.child,
            task.point.index,
            begun.elapsed().as_millis()
        );
        drop(task);
        of_thread.tell_owner(parent, WorkerMessage::Forked(Box::new(Forked { parent, child, outcome, leads })));
    });
    if let Err(e) = spawned {
        let outcome = Err(format!("no thread can be started: {e}"));
        store.tell_owner(parent, WorkerMessage::Forked(Box::new(Forked { parent, child, outcome, leads: false })));
    }
}

/// Makes the child of a split; none if there is nothing to be opened. Blocks.
pub(super) fn fork(store: &NodeShared, task: &SplitTask) -> Result<Option<Opened>, String> {
    let shard = task.child;
    let text = |e: replica::Error| e.to_string();
    let map = store.known().map.clone();
    let given = map.as_ref().and_then(|map| map.shards.get(&shard)).map(|info| info.replica_on(store.node()));
    if given.is_some_and(|given| given.is_none_or(|given| given.id != task.replica)) {
        // The entry is applied again long after: the replica has gone to another node since.
        return Ok(None);
    }
    if store.log.state(shard).map_err(text)?.is_some() {
        // It was made before, and opened at the start.
        return Ok(None);
    }
    let tree = fork_tree(store, task)?;
    store.log.write(task.install(), true).map_err(text)?;
    let view = ShardView::open(shard, task.slots.clone(), tree, store.cache.clone()).map_err(|e| e.to_string())?;
    view.set_config(store.config.clone());
    let state = store.log.state(shard).map_err(text)?.ok_or_else(|| format!("the log forgot shard {shard}"))?;
    let applied = view.engine().flushed_index();
    let installed = view.snapshot_point()?;
    let seed = Prng::new(store.node().0 ^ u64::from(shard.0)).next_u64();
    let log: Arc<dyn LogStore> = store.log.clone();
    let replica = Replica::open(log, shard, state, applied, installed.as_ref(), seed).map_err(text)?;
    let shard = Shard::new(view, replica, store.health.clone())?;
    Ok(Some(Opened { shard, fresh: true }))
}

fn fork_tree(store: &NodeShared, task: &SplitTask) -> Result<Arc<dyn Engine>, String> {
    let folder = store.dir.shard(task.child);
    loop {
        // A tree never holds what the log could still lose.
        store.log.sync().map_err(|e| e.to_string())?;
        match task.tree.fork(&folder, task.point.index, task.facts.clone(), &task.keep) {
            Ok(tree) => return Ok(tree),
            Err(e @ Error::Full { .. }) if !store.is_stopping() => {
                store.health.set_full(&e.to_string());
                std::thread::sleep(PAUSE);
            }
            // A crash came between the tree and the log.
            Err(Error::Mismatch { .. }) => {
                let engine = store.dir.identity().engine;
                return open_engine(engine, &folder, &store.resources).map_err(|e| e.to_string());
            }
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// Whether a replica that the map gives this node will come by itself, as a part of another shard's that is here: then
/// it must not be begun with nothing.
/// `joined` are the slots of replicas here that have come to some entry.
pub(super) fn will_be_forked(store: &NodeShared, map: &Map, shard: ShardId, joined: &SlotSet) -> Result<bool, String> {
    if store.forks.contains(shard) {
        return Ok(true);
    }
    let Some(info) = map.shards.get(&shard) else { return Ok(false) };
    if store.log.state(shard).map_err(|e| e.to_string())?.is_some() {
        return Ok(false);
    }
    let first = |slots: &[(u16, u16)]| slots.first().map(|range| Slot(range.0));
    if let Some(split) = map.splits.get(&shard) {
        // Until it is over the parent has the same replicas. One that has applied nothing since the node's start, or
        // cannot be opened, may come to the entry yet: were the child begun on a majority, it would have no leader.
        let given = map.shards.get(&split.parent).is_some_and(|parent| parent.replica_on(store.node()).is_some());
        let known = store.known();
        let parent = known.view(split.parent.0 as usize);
        let gone_by = parent.is_some_and(|view| first(&split.slots).is_some_and(|slot| !view.has_slot(slot)));
        return Ok(given && !gone_by);
    }
    // A replica here that it was a part of, and that has not come so far yet. Where there is none, or where it has gone
    // by with a snapshot, the child is sent by its leader.
    Ok(first(&info.slots).is_some_and(|slot| joined.contains(slot)))
}

/// The slots of this node's replicas that have come to some entry.
pub(super) fn joined_slots(store: &NodeShared) -> SlotSet {
    let mut joined = SlotSet::default();
    for view in store.known().views().filter(|view| view.has_joined()) {
        let (first, last) = view.slots();
        joined.0.extend((first..=last).filter(|slot| view.has_slot(Slot(*slot))));
    }
    joined
}
