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
    let mut facts = handle.facts_of_child(&slots, point.index);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::EntryBuilder;
    use crate::shard::ticket::Ticket;
    use replica::{DiskHealth, Log, LogOptions, LogStore};
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::{PlanId, ReplicaId, Slot};

    const PARENT: ShardId = ShardId(1);
    const CHILD: ShardId = ShardId(5);
    const GONE: (u16, u16) = (8192, 16383);

    struct NoClients;

    impl Answers for NoClients {
        fn answer(&mut self, _ticket: &Ticket, _reply: &[u8]) {
            panic!("no client waits");
        }
    }

    /// A group of one, its tree and its log.
    struct Fixture {
        handle: Arc<ShardHandle>,
        replica: Replica,
        proposals: Proposals,
        splitting: Splitting,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let resources = SharedResources::new(StorageOptions::default());
            let tree = open_engine(EngineKind::Memory, &folder.path().join("tree"), &resources).unwrap();
            let handle = ShardHandle::open(PARENT, (0, 16383), tree, Arc::new(RowCache::new(0))).unwrap();
            let health = Arc::new(DiskHealth::default());
            let log = Arc::new(Log::open(&folder.path().join("log"), &LogOptions::default(), health).unwrap());
            Replica::bootstrap(&*log, PARENT, ReplicaId(1), &[ReplicaId(1)], &[]).unwrap();
            let state = log.state(PARENT).unwrap().unwrap();
            let replica = Replica::open(log, PARENT, state, 0, None, 1).unwrap();
            let (proposals, splitting) = (Proposals::default(), Splitting::default());
            Self { handle, replica, proposals, splitting, _folder: folder }
        }

        fn begin(&mut self, slots: (u16, u16)) -> bool {
            self.splitting.begin(CHILD, Slots::from(slots), &self.handle, &mut self.proposals)
        }

        fn go_on(&mut self, ready: bool) -> bool {
            self.splitting.go_on(ready, &self.replica, &self.handle, &mut self.proposals)
        }

        fn is_fenced(&self) -> bool {
            !self.handle.owns(Slot(GONE.0))
        }
    }

    fn split() -> Split {
        Split { child: CHILD, slots: vec![GONE], voters: vec![ReplicaId(1)] }
    }

    fn entry(index: u64) -> Entry {
        let mut builder = EntryBuilder::new();
        builder.split(&split());
        Entry { index, term: 1, data: builder.seal(1_000).into(), ..Entry::default() }
    }

    #[test]
    fn a_leader_fences_the_slots_once_it_proposes_and_not_before_all_trees_were_told_to_flush() {
        let mut f = Fixture::new();
        assert!(!f.go_on(true) && !f.proposals.has_queued(), "nothing was ordered");
        assert!(!f.begin((0, 16383)), "a shard keeps a slot");
        assert!(f.begin(GONE) && f.proposals.has_queued(), "the trees are told to flush");
        assert!(!f.begin(GONE), "one at a time");
        assert!(!f.go_on(true) && !f.is_fenced(), "they have not flushed");
        f.splitting.sealed();
        assert!(!f.go_on(false) && !f.is_fenced(), "it cannot be now");
        assert!(f.go_on(true) && f.is_fenced());
        assert!(!f.go_on(true), "it is proposed once");
        f.splitting.stop(&f.handle);
        assert!(!f.is_fenced() && f.begin(GONE), "another leader, or this one again, begins anew");
    }

    #[test]
    fn an_entry_waits_for_its_fork_and_gives_the_slots_away() {
        let mut f = Fixture::new();
        assert_eq!(f.splitting.forked(true), None, "no fork is awaited");
        let (first, second) = (entry(7), entry(8));
        let ForkState::Wanted(task) = f.splitting.fork_state(&first, &f.handle, &mut f.replica) else {
            panic!("it is wanted")
        };
        assert_eq!((task.parent, task.child, task.point.index), (PARENT, CHILD, 7));
        assert!(matches!(f.splitting.fork_state(&first, &f.handle, &mut f.replica), ForkState::Awaited));
        assert_eq!(f.splitting.forked(true), Some(7));
        assert!(matches!(f.splitting.fork_state(&first, &f.handle, &mut f.replica), ForkState::Ready));
        assert!(f.splitting.apply(7, &split(), &f.handle, &mut f.proposals, &mut NoClients));
        assert!(!f.handle.has_slot(Slot(GONE.0)) && f.handle.has_slot(Slot(GONE.0 - 1)));
        // Another leader has proposed it too: it comes too late, and needs no fork.
        assert!(matches!(f.splitting.fork_state(&second, &f.handle, &mut f.replica), ForkState::Ready));
        assert!(!f.splitting.apply(8, &split(), &f.handle, &mut f.proposals, &mut NoClients));
    }

    #[test]
    fn the_log_is_kept_until_the_map_says_that_the_child_is_there() {
        let splits = |parent: ShardId| cluster::Split { plan: PlanId(1), parent, slots: vec![GONE] };
        // Per case: the split that the map has under way, its next shard, whether the entry was applied here, and whether
        // the log is kept.
        let cases = [
            (None, 5, false, false),
            (Some(PARENT), 5, false, true),
            (Some(ShardId(2)), 5, false, false),
            (Some(PARENT), 6, true, true),
            // The map of this node is older than the split.
            (None, 5, true, true),
            (None, 6, true, false),
        ];
        for (parent, next_shard, is_made, keeps) in cases {
            let mut map = Map { next_shard, ..Map::default() };
            map.splits.extend(parent.map(|parent| (CHILD, splits(parent))));
            let mut splitting = Splitting { made: is_made.then_some(CHILD), ..Splitting::default() };
            splitting.note_map(PARENT, &map);
            assert_eq!(splitting.keeps_log(), keeps, "{parent:?} {next_shard} {is_made}");
        }
    }
}
