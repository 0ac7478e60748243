//! A shard becomes two at one entry of its log: docs/adr has the whole protocol.
//!
//! The leader has all trees flushed, and then proposes the split. From that moment on it answers for none of the slots
//! that go, so that the child may be led elsewhere before this replica has applied the entry. Each replica stops before
//! the entry until its tree is forked, and gives the slots away as it applies it.

use super::{Effects, Shard, SplitTask};
use crate::format::entry::{self, Split};
use crate::format::keys;
use crate::format::slots::Slots;
use crate::shard::point;
use cluster::Map;
use replica::{ConfState, Entry, SnapshotPoint};
use std::sync::Arc;
use storage::Slice;
use vocab::{Moment, ShardId};

/// Where a split is. The two halves are independent: what a leader prepares, and what any replica applies.
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

impl Shard {
    /// Begins to give `slots` to a new shard; false if that cannot be, or is under way.
    pub fn split(&mut self, child: ShardId, slots: &[(u16, u16)]) -> bool {
        let slots = Slots::from(slots.to_vec());
        if !self.can_split() || self.splitting.wanted.is_some() || !self.view.applied_slots().can_spare(&slots) {
            return false;
        }
        self.splitting.wanted = Some(Wanted { child, slots, sealed: false, proposed: false });
        self.proposals.take_lost_split();
        // What is in memory when the tree is forked has to be written while writes wait: the less the better.
        self.proposals.push_seal();
        true
    }

    /// What the map says of the shard's splits.
    pub fn note_splits(&mut self, map: &Map) {
        let shard = self.view.id();
        self.splitting.in_map = map.splits.values().any(|split| split.parent == shard);
        let is_over = |child: &ShardId| child.0 < map.next_shard && !map.splits.contains_key(child);
        self.splitting.made = self.splitting.made.filter(|child| !is_over(child));
    }

    /// Whether some replicas may have the entry of a split in their log, and nothing of it yet, while the part that it makes
    /// is not on a majority. They are to come to the entry: one that is sent past it by a snapshot loses its rows of the
    /// part, and if all others do, they are on one node alone.
    pub(super) fn keeps_log(&self) -> bool {
        self.splitting.in_map || self.splitting.made.is_some()
    }

    fn can_split(&self) -> bool {
        let members = self.replica.members();
        self.replica.serves()
            && self.meta.is_none()
            && self.refusal().is_none()
            && !self.replica.is_transferring()
            && !self.replica.is_changing_members()
            && members.voters_outgoing.is_empty()
            && members.learners.is_empty()
    }

    /// Proposes the split once the tree is flushed; true if there is something to do now.
    pub fn go_on_splitting(&mut self, now: Moment) -> bool {
        let ready = self.can_split() && !self.hold.holds(now) && !self.view.engine().needs_flush();
        let Some(wanted) = &mut self.splitting.wanted else { return false };
        if self.proposals.take_lost_split() {
            // Too much was under way, or the disk was full: the next order begins anew.
            self.stop_splitting();
            return false;
        }
        if wanted.proposed || !ready || !wanted.sealed {
            return false;
        }
        wanted.proposed = true;
        let voters = self.replica.members().voters;
        let split = Split { child: wanted.child, slots: wanted.slots.ranges().to_vec(), voters };
        self.view.withhold(Some(wanted.slots.clone()));
        self.proposals.push_split(&split);
        true
    }

    /// This replica leads no more, or leads anew: what it has proposed may come or not.
    pub(super) fn stop_splitting(&mut self) {
        self.splitting.wanted = None;
        self.view.withhold(None);
    }

    /// Every replica flushes at this entry.
    pub(super) fn apply_seal(&mut self, index: u64, effects: &mut dyn Effects) {
        self.apply_nothing(index);
        self.view.engine().expect_fork();
        self.seal();
        if let Some(wanted) = &mut self.splitting.wanted {
            wanted.sealed = true;
        }
        effects.sealed(self.view.id());
    }

    /// Whether `committed` is a split whose fork is not made yet; the shell is asked for it once.
    pub(super) fn waits_for_fork(&mut self, committed: &Entry, effects: &mut dyn Effects) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let Some(split) = entry::split_of(&committed.data).filter(|split| self.takes_effect(split)) else {
            return false;
        };
        match self.splitting.fork {
            Fork::Awaited(_) => true,
            Fork::Made(index) if index == committed.index => false,
            Fork::Made(_) | Fork::None => {
                self.splitting.fork = Fork::Awaited(committed.index);
                // They fork meanwhile: the child is led once a majority has.
                self.replica.lets_tell(committed.index);
                self.replica.ping();
                self.seal();
                effects.split(self.task(committed, split));
                true
            }
        }
    }

    /// The same on every replica: a split that was proposed twice comes too late the second time.
    fn takes_effect(&self, split: &Split) -> bool {
        self.meta.is_none() && self.view.applied_slots().can_spare(&Slots::from(split.slots.clone()))
    }

    fn task(&self, committed: &Entry, split: Split) -> SplitTask {
        let slots = Slots::from(split.slots).of_forked();
        let voters = split.voters.iter().map(|voter| voter.0).collect();
        let conf_state = ConfState { voters, ..ConfState::default() };
        let point = SnapshotPoint { index: committed.index, term: committed.term, conf_state };
        let mut facts = self.view.facts_of_child(&slots);
        facts.push((Slice::from(keys::META_SNAPSHOT), Slice::from(point::encode(&point))));
        SplitTask {
            parent: self.view.id(),
            child: split.child,
            replica: self.replica.me(),
            tree: self.view.engine().clone(),
            facts,
            keep: Arc::new(slots.clone()).keep(),
            slots,
            point,
            leads: self.replica.is_leader(),
        }
    }

    /// The fork is made, or cannot be; true if there is something to apply now.
    pub fn forked(&mut self, outcome: Result<(), String>) -> bool {
        let Fork::Awaited(index) = self.splitting.fork else { return false };
        match outcome {
            Ok(()) => self.splitting.fork = Fork::Made(index),
            Err(detail) => {
                self.splitting.fork = Fork::None;
                self.breaks(format!("entry {index} of shard {} cannot be applied: {detail}", self.view.id()));
            }
        }
        true
    }

    /// The slots are the child's from here on.
    pub(super) fn apply_split(&mut self, index: u64, split: &Split, effects: &mut dyn Effects) {
        let gone = Slots::from(split.slots.clone());
        if self.takes_effect(split) {
            // Writes that were held back counted on other slots.
            self.release();
            assert!(self.splitting.fork == Fork::Made(index), "a split is applied before its tree is forked");
            self.view.give_away(&gone);
            self.proposals.give_back(&gone, effects);
            self.splitting.made = Some(split.child);
            log::info!("shard {} has given slots to shard {} at entry {index}", self.view.id(), split.child);
        } else if self.view.applied_slots().has_none_of(&gone) {
            // A tree that has kept nothing yet has its slots of the map, which may know of the split already: then the
            // entries before it have brought rows of those slots back, and nothing hides them.
            self.view.give_away(&gone);
        }
        self.splitting.fork = Fork::None;
        self.splitting.wanted = None;
        self.view.withhold(None);
        self.apply_nothing(index);
    }
}
