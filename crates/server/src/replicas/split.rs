//! A shard becomes two on this node: the tree is forked on a thread of its own while the shard waits and its worker
//! serves others; then the parent goes on, and the child is given to its worker.
//!
//! Invariant: the child's tree is complete on disk before the log knows its group, and both before the parent's tree may
//! say that it has applied the split. So a crash leaves a split that is applied again, of which each part that is there
//! already is taken as it is.

use crate::access::Access;
use crate::inbox::Message;
use crate::opening::Opened;
use crate::requests::KeyHashes;
use crate::store::Store;
use crate::worker::Worker;
use cluster::Map;
use node::session::Consistency;
use node::{Answers, Shard, ShardView, SplitTask, Ticket, Write};
use replica::{LogStore, Replica};
use resp::Reply;
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::{Engine, Error, open_engine};
use vocab::{Prng, ShardId, Slot};

/// How long it is waited between two attempts when there is no room.
const PAUSE: Duration = Duration::from_millis(200);

/// A write of a slot that was given away, until it is known who leads the shard that has it now.
pub(crate) struct HeldWrite {
    write: Write,
    keys: KeyHashes,
    ticket: Ticket,
    since_us: u64,
}

impl Worker {
    /// A write has come to a shard that is giving its slot away, or has.
    pub(crate) fn hold_write(&mut self, write: Write, keys: KeyHashes, ticket: Ticket) {
        self.held_writes.push(HeldWrite { write, keys, ticket, since_us: self.now.mono_us });
    }

    /// Brings writes that were held where they can be made now.
    pub(crate) fn send_held_writes(&mut self) {
        for held in std::mem::take(&mut self.held_writes) {
            let HeldWrite { write, keys, ticket, since_us } = held;
            let known = self.store.known();
            let shard = known.shard_of(ticket.slot).unwrap_or_default();
            let refusal = match self.store.access(&known, shard, ticket.slot, Consistency::Absolute) {
                Access::Leader(_) | Access::Follower(_) => {
                    drop(known);
                    self.hand_over(shard, write, keys, ticket);
                    continue;
                }
                Access::Wait if self.now.mono_us < since_us + HELD_WITHIN_US => {
                    self.held_writes.push(HeldWrite { write, keys, ticket, since_us });
                    continue;
                }
                Access::Wait => self.store.no_leader(Consistency::Absolute),
                Access::Refused(text) => text,
            };
            self.store.write_left(write.bytes());
            let mut reply = Reply::new(ticket.proto);
            reply.error(&refusal);
            self.outbox.answer(&ticket, &reply.buf);
        }
    }

    /// The fork that one of its shards waits for is made, or cannot be.
    pub(crate) fn forked(&mut self, forked: Forked) {
        let Forked { parent, child: id, outcome, leads } = forked;
        let (child, outcome) = match outcome {
            Ok(child) => (child, Ok(())),
            Err(detail) => (None, Err(detail)),
        };
        // Requests look for the child from now on; it answers when it has been adopted and elected.
        let at = self.core.shard(parent).map(|shard| shard.view().clone());
        let child = child.filter(|_| at.is_some());
        if let (Some(parent), Some(child)) = (at, &child) {
            let view = child.shard.view().clone();
            view.begin_after(&parent);
            self.store.directory.set_view(view.id(), Some((child.shard.replica().me(), view)));
        }
        self.core.forked(parent, outcome);
        // The parent gives the slots away before the child answers for them.
        self.core.apply(self.now, &mut self.outbox);
        self.after_apply();
        if let Some(child) = child
            && let Some(inbox) = self.store.inbox(self.store.owner_of(id.0 as usize))
        {
            inbox.send(Message::AdoptChild(Box::new(child), leads));
        }
        self.store.forks().remove(&id);
        // If the map gives it to this node and it was not made here, it is begun with nothing now.
        self.store.holdings.wake();
        self.store.wake_all_with(|| Message::Led);
    }
}

/// How long a write waits for the shard that has its slot now to be led, in µs.
const HELD_WITHIN_US: u64 = 5_000_000;

/// Some slots: looked for much more often than made.
#[derive(Default)]
pub(crate) struct SlotSet(BTreeSet<u16>);

impl SlotSet {
    fn contains(&self, slot: Slot) -> bool {
        self.0.contains(&slot.0)
    }
}

/// A fork that was made, or could not be.
pub(crate) struct Forked {
    /// The shard that waits for it.
    pub(crate) parent: ShardId,
    /// Which one it makes.
    pub(crate) child: ShardId,
    /// The child, unless it is open already or no concern of this node any more.
    pub(crate) outcome: Result<Option<Opened>, String>,
    /// Whether it is to be led here.
    pub(crate) leads: bool,
}

impl Store {
    /// Forks a shard's tree in the background; `Message::Forked` comes to the shard's worker.
    pub(crate) fn fork_behind(self: &Arc<Self>, task: SplitTask) {
        let store = self.clone();
        let (parent, child) = (task.parent, task.child);
        self.forks().insert(child);
        let spawned = crate::vital::spawn("fork", move || {
            let (leads, begun) = (task.leads, Instant::now());
            let outcome = store.fork(&task);
            log::info!(
                "shard {} is forked from shard {parent} as of entry {}: writes waited for {} ms",
                task.child,
                task.point.index,
                begun.elapsed().as_millis()
            );
            drop(task);
            if let Some(inbox) = store.inbox(store.owner_of(parent.0 as usize)) {
                inbox.send(Message::Forked(Box::new(Forked { parent, child, outcome, leads })));
            }
        });
        if let Err(e) = spawned
            && let Some(inbox) = self.inbox(self.owner_of(parent.0 as usize))
        {
            let outcome = Err(format!("no thread can be started: {e}"));
            inbox.send(Message::Forked(Box::new(Forked { parent, child, outcome, leads: false })));
        }
    }

    /// Makes the child of a split; none if there is nothing to be opened. Blocks.
    pub(crate) fn fork(&self, task: &SplitTask) -> Result<Option<Opened>, String> {
        let shard = task.child;
        let text = |e: replica::Error| e.to_string();
        let map = self.known().map.clone();
        let given = map.as_ref().and_then(|map| map.shards.get(&shard)).map(|info| info.replica_on(self.node()));
        if given.is_some_and(|given| given.is_none_or(|given| given.id != task.replica)) {
            // The entry is applied again long after: the replica has gone to another node since.
            return Ok(None);
        }
        if self.log.state(shard).map_err(text)?.is_some() {
            // It was made before, and opened at the start.
            return Ok(None);
        }
        let tree = self.fork_tree(task)?;
        self.log.write(task.install(), true).map_err(text)?;
        let view = ShardView::open(shard, task.slots.clone(), tree, self.cache.clone()).map_err(|e| e.to_string())?;
        view.set_config(self.config.clone());
        let state = self.log.state(shard).map_err(text)?.ok_or_else(|| format!("the log forgot shard {shard}"))?;
        let applied = view.engine().flushed_index();
        let installed = view.snapshot_point()?;
        let seed = Prng::new(self.node().0 ^ u64::from(shard.0)).next_u64();
        let log: Arc<dyn LogStore> = self.log.clone();
        let replica = Replica::open(log, shard, state, applied, installed.as_ref(), seed).map_err(text)?;
        let shard = Shard::new(view, replica, self.health.clone())?;
        Ok(Some(Opened { shard, fresh: true }))
    }

    /// Whether a shard is just being split off here.
    pub(crate) fn is_forking(&self, shard: ShardId) -> bool {
        self.forks().contains(&shard)
    }

    fn forks(&self) -> MutexGuard<'_, BTreeSet<ShardId>> {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fork_tree(&self, task: &SplitTask) -> Result<Arc<dyn Engine>, String> {
        let folder = self.dir.shard(task.child);
        loop {
            // A tree never holds what the log could still lose.
            self.log.sync().map_err(|e| e.to_string())?;
            match task.tree.fork(&folder, task.point.index, task.facts.clone(), &task.keep) {
                Ok(tree) => return Ok(tree),
                Err(e @ Error::Full { .. }) if !self.is_stopping() => {
                    self.health.set_full(&e.to_string());
                    std::thread::sleep(PAUSE);
                }
                // A crash came between the tree and the log.
                Err(Error::Mismatch { .. }) => {
                    let engine = self.dir.identity().engine;
                    return open_engine(engine, &folder, &self.resources).map_err(|e| e.to_string());
                }
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    /// Whether a replica that the map gives this node will come by itself, as a part of another shard's that is here: then
    /// it must not be begun with nothing.
    /// `joined` are the slots of replicas here that have come to some entry.
    pub(crate) fn will_be_forked(&self, map: &Map, shard: ShardId, joined: &SlotSet) -> Result<bool, String> {
        if self.is_forking(shard) {
            return Ok(true);
        }
        let Some(info) = map.shards.get(&shard) else { return Ok(false) };
        if self.log.state(shard).map_err(|e| e.to_string())?.is_some() {
            return Ok(false);
        }
        let first = |slots: &[(u16, u16)]| slots.first().map(|range| Slot(range.0));
        if let Some(split) = map.splits.get(&shard) {
            // Until it is over the parent has the same replicas. One that has applied nothing since the node's start, or
            // cannot be opened, may come to the entry yet: were the child begun on a majority, it would have no leader.
            let given = map.shards.get(&split.parent).is_some_and(|parent| parent.replica_on(self.node()).is_some());
            let known = self.known();
            let parent = known.view(split.parent.0 as usize);
            let gone_by = parent.is_some_and(|view| first(&split.slots).is_some_and(|slot| !view.has_slot(slot)));
            return Ok(given && !gone_by);
        }
        // A replica here that it was a part of, and that has not come so far yet. Where there is none, or where it has gone
        // by with a snapshot, the child is sent by its leader.
        Ok(first(&info.slots).is_some_and(|slot| joined.contains(slot)))
    }

    /// The slots of this node's replicas that have come to some entry.
    pub(crate) fn joined_slots(&self) -> SlotSet {
        let mut joined = SlotSet::default();
        for view in self.known().views().filter(|view| view.has_joined()) {
            let (first, last) = view.slots();
            joined.0.extend((first..=last).filter(|slot| view.has_slot(Slot(*slot))));
        }
        joined
    }
}
