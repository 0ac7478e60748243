//! A shard becomes two at one entry of its log: docs/adr has the whole protocol.
//!
//! The leader has all trees flushed, and then proposes the split. From that moment on it answers for none of the slots
//! that go, so that the child may be led elsewhere before this replica has applied the entry. Each replica stops before
//! the entry until its tree is forked, and gives the slots away as it applies it.

use super::Answers;
use super::effects::SplitTask;
use super::proposals::Proposals;
use crate::format::entry::{self, Split};
use crate::format::slots::Slots;
use crate::format::{keys, snapshot_point};
use crate::shard_handle::ShardHandle;
use cluster::Map;
use replica::{ConfState, Entry, Replica, SnapshotPoint};
use std::sync::Arc;
use storage::Slice;
use vocab::ShardId;

/// The splits of one shard. What a leader prepares, and what any replica applies, are independent of each other.
#[derive(Default)]
pub(super) struct Splitting {
    wanted: Option<Wanted>,
    fork: Fork,
    /// What was split off here, and the map does not know to be done.
    made: Option<ShardId>,
    /// Whether the map says that the shard is being split.
    in_map: bool,
}

/// Of a leader: what it was ordered to do.
struct Wanted {
    child: ShardId,
    slots: Slots,
    /// The trees have been told to flush.
    sealed: bool,
    /// The entry is on its way, if it was not lost.
    proposed: bool,
}

/// The fork at an entry, by its index.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Fork {
    #[default]
    None,
    /// The shell makes it.
    Awaited(u64),
    /// It is made.
    Made(u64),
}

/// Whether an entry has to wait for a fork.
pub(super) enum ForkState {
    /// It splits nothing, or the fork is made.
    Ready,
    /// The shell makes the fork.
    Awaited,
    /// The shell is to make the fork: it is asked once.
    Wanted(Box<SplitTask>),
}

impl Splitting {
    /// Begins to give `slots` to a new shard; false if a split is under way, or the shard has not all of them to spare.
    /// Expects that the shard can be split now.
    pub(super) fn begin(
        &mut self,
        child: ShardId,
        slots: Slots,
        handle: &ShardHandle,
        proposals: &mut Proposals,
    ) -> bool {
        if self.wanted.is_some() || !handle.applied_slots().can_spare(&slots) {
            return false;
        }
        self.wanted = Some(Wanted { child, slots, sealed: false, proposed: false });
        proposals.take_lost_split();
        // What is in memory when the tree is forked has to be written while writes wait: the less the better.
        proposals.push_seal();
        true
    }

    /// What the map says of the splits of `shard`.
    pub(super) fn note_map(&mut self, shard: ShardId, map: &Map) {
        self.in_map = map.splits.values().any(|split| split.parent == shard);
        let is_over = |child: &ShardId| child.0 < map.next_shard && !map.splits.contains_key(child);
        self.made = self.made.filter(|child| !is_over(child));
    }

    /// Whether some replicas may have the entry of a split in their log, and nothing of it yet, while the part that it
    /// makes is not on a majority. They are to come to the entry: one that is sent past it by a snapshot loses its rows
    /// of the part, and if all others do, they are on one node alone.
    pub(super) fn keeps_log(&self) -> bool {
        self.in_map || self.made.is_some()
    }

    /// Proposes the split once all trees were told to flush and `ready` says that it can be; true if it did.
    pub(super) fn go_on(
        &mut self,
        ready: bool,
        replica: &Replica,
        handle: &ShardHandle,
        proposals: &mut Proposals,
    ) -> bool {
        let Some(wanted) = &mut self.wanted else { return false };
        if proposals.take_lost_split() {
            // Too much was under way, or the disk was full: the next order begins anew.
            self.stop(handle);
            return false;
        }
        if wanted.proposed || !ready || !wanted.sealed {
            return false;
        }
        wanted.proposed = true;
        let voters = replica.members().voters;
        let split = Split { child: wanted.child, slots: wanted.slots.ranges().to_vec(), voters };
        handle.fence(Some(wanted.slots.clone()));
        proposals.push_split(&split);
        true
    }

    /// This replica leads no more, or leads anew: what it has proposed may come or not.
    pub(super) fn stop(&mut self, handle: &ShardHandle) {
        self.wanted = None;
        handle.fence(None);
    }

    /// The entry that has all trees flush is applied.
    pub(super) fn sealed(&mut self) {
        if let Some(wanted) = &mut self.wanted {
            wanted.sealed = true;
        }
    }

    /// Whether `committed` can be applied, or has to wait for a fork.
    pub(super) fn fork_state(&mut self, committed: &Entry, handle: &ShardHandle, replica: &mut Replica) -> ForkState {
        let Some(split) = entry::split_of(&committed.data).filter(|split| takes_effect(split, handle)) else {
            return ForkState::Ready;
        };
        match self.fork {
            Fork::Awaited(_) => ForkState::Awaited,
            Fork::Made(index) if index == committed.index => ForkState::Ready,
            Fork::Made(_) | Fork::None => {
                self.fork = Fork::Awaited(committed.index);
                // The others fork meanwhile: the child is led once a majority has.
                replica.lets_tell(committed.index);
                replica.ping();
                ForkState::Wanted(Box::new(task(committed, split, handle, replica)))
            }
        }
    }

    /// The fork is made, or cannot be. Answers its entry, if one waited for it.
    pub(super) fn forked(&mut self, is_made: bool) -> Option<u64> {
        let Fork::Awaited(index) = self.fork else { return None };
        self.fork = if is_made { Fork::Made(index) } else { Fork::None };
        Some(index)
    }

    /// The split at entry `index` is applied: the slots are the child's from here on. True if it takes effect.
    pub(super) fn apply(
        &mut self,
        index: u64,
        split: &Split,
        handle: &ShardHandle,
        proposals: &mut Proposals,
        answers: &mut dyn Answers,
    ) -> bool {
        let gone = Slots::from(split.slots.clone());
        let takes_effect = takes_effect(split, handle);
        if takes_effect {
            assert!(self.fork == Fork::Made(index), "a split is applied before its tree is forked");
            handle.give_away(&gone);
            proposals.give_back(&gone, answers);
            self.made = Some(split.child);
            log::info!("shard {} has given slots to shard {} at entry {index}", handle.id(), split.child);
        } else if handle.applied_slots().has_none_of(&gone) {
            // A tree that has kept nothing yet has its slots of the map, which may know of the split already: then the
            // entries before it have brought rows of those slots back, and nothing hides them.
            handle.give_away(&gone);
        }
        self.fork = Fork::None;
        self.stop(handle);
        takes_effect
    }
}

/// The same on every replica: a split that was proposed twice comes too late the second time.
fn takes_effect(split: &Split, handle: &ShardHandle) -> bool {
    handle.id() != ShardId::META && handle.applied_slots().can_spare(&Slots::from(split.slots.clone()))
}

fn task(committed: &Entry, split: Split, handle: &ShardHandle, replica: &Replica) -> SplitTask {
    let slots = Slots::from(split.slots).of_forked();
    let voters = split.voters.iter().map(|voter| voter.0).collect();
    let conf_state = ConfState { voters, ..ConfState::default() };
    let point = SnapshotPoint { index: committed.index, term: committed.term, conf_state };
    let mut facts = handle.facts_of_child(&slots);
    facts.push((Slice::from(keys::META_SNAPSHOT), Slice::from(snapshot_point::encode(&point))));
    SplitTask {
        parent: handle.id(),
        child: split.child,
        replica: replica.me(),
        tree: handle.engine().clone(),
        facts,
        keep: Arc::new(slots.clone()).keep(),
        slots,
        point,
        leads: replica.is_leader(),
    }
}
