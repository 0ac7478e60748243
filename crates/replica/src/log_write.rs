//! What is to be written to the log: a list of operations of any number of groups. Cheap to make; the thread
//! that writes it encodes it.

use crate::ready::SnapshotPoint;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState};
use vocab::{ReplicaId, ShardId};

/// In an entry's context: it must be on the disk before it counts as held.
pub(crate) const SYNC: &[u8] = &[1];

/// About how many bytes an entry takes besides its data.
const ENTRY_OVERHEAD_BYTES: usize = 16;
/// About how many bytes any other operation takes.
const OP_BYTES: usize = 64;

/// One operation on one group's log.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Appends entries; what they overlap goes.
    Entries(Vec<Entry>),
    /// Sets term, vote and commit index.
    HardState(HardState),
    /// Sets the members, as of entry `index`.
    Members {
        /// They.
        conf_state: Box<ConfState>,
        /// Entries up to here have been taken into account.
        index: u64,
    },
    /// Entries up to `index` (of `term`) are no longer needed.
    Truncate {
        /// The last one.
        index: u64,
        /// Its term.
        term: u64,
    },
    /// The log begins anew after `index`, holding no entry.
    Install(Box<Install>),
    /// The group is forgotten.
    Remove,
}

/// Where a log begins that has no entries before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Install {
    /// Whose log it is.
    pub replica: ReplicaId,
    /// The last entry that the tree holds.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The members as of then.
    pub conf_state: ConfState,
    /// Term, vote and commit index.
    pub hard_state: HardState,
}

/// Writes of any number of groups, to be made at once and in order.
#[derive(Clone, Debug, Default)]
pub struct LogWrite {
    ops: Vec<(ShardId, Op)>,
    bytes: usize,
    wants_sync: bool,
}

impl LogWrite {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// About how many bytes it will take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether some part of it must be on the disk before anything that follows from it is told to anyone, whatever
    /// the store's durability is: terms, votes, members, and entries marked so.
    #[must_use]
    pub fn wants_sync(&self) -> bool {
        self.wants_sync
    }

    /// The operations, in order.
    #[must_use]
    pub fn ops(&self) -> &[(ShardId, Op)] {
        &self.ops
    }

    /// Adds all of `other` after what is there; nothing is left in `other`.
    pub fn append(&mut self, other: &mut Self) {
        let mut other = std::mem::take(other);
        self.ops.append(&mut other.ops);
        self.bytes += other.bytes;
        self.wants_sync |= other.wants_sync;
    }

    /// Takes out what is to be written of a group.
    pub fn drop_group(&mut self, shard: ShardId) {
        self.ops.retain(|(of, _)| *of != shard);
    }

    /// Makes a group known whose log begins after `point`: of a replica whose tree was forked. It has promised nothing in
    /// that term.
    pub fn begin_at(&mut self, shard: ShardId, replica: ReplicaId, point: &SnapshotPoint) {
        let hard_state = HardState { term: point.term, commit: point.index, ..HardState::default() };
        let (index, term, conf_state) = (point.index, point.term, point.conf_state.clone());
        self.install(shard, Install { replica, index, term, conf_state, hard_state });
    }

    /// Makes a group known that begins with nothing. Without voters its replica waits for a snapshot that says who the
    /// members are: so is one begun that is added to a group.
    pub fn begin(&mut self, shard: ShardId, replica: ReplicaId, voters: &[ReplicaId], learners: &[ReplicaId]) {
        let ids = |ids: &[ReplicaId]| ids.iter().map(|id| id.0).collect();
        let conf_state = ConfState { voters: ids(voters), learners: ids(learners), ..ConfState::default() };
        self.install(shard, Install { replica, conf_state, ..Install::default() });
    }

    /// Forgets a group: its replica is gone from this node.
    pub fn remove(&mut self, shard: ShardId) {
        self.push(shard, Op::Remove, OP_BYTES, true);
    }

    pub(crate) fn entries(&mut self, shard: ShardId, entries: Vec<Entry>) {
        let bytes = entries.iter().map(|entry| entry.data.len() + ENTRY_OVERHEAD_BYTES).sum();
        // A term's first entry is no client's write, but an index that was committed must not get another entry.
        let vital = |entry: &Entry| is_member_change(entry) || &entry.context[..] == SYNC || entry.data.is_empty();
        let vital = entries.iter().any(vital);
        self.push(shard, Op::Entries(entries), bytes, vital);
    }

    pub(crate) fn hard_state(&mut self, shard: ShardId, state: HardState, vital: bool) {
        self.push(shard, Op::HardState(state), OP_BYTES, vital);
    }

    pub(crate) fn members(&mut self, shard: ShardId, conf_state: ConfState, index: u64, vital: bool) {
        self.push(shard, Op::Members { conf_state: Box::new(conf_state), index }, OP_BYTES, vital);
    }

    pub(crate) fn truncate(&mut self, shard: ShardId, index: u64, term: u64) {
        self.push(shard, Op::Truncate { index, term }, OP_BYTES, false);
    }

    pub(crate) fn install(&mut self, shard: ShardId, install: Install) {
        self.push(shard, Op::Install(Box::new(install)), OP_BYTES, true);
    }

    fn push(&mut self, shard: ShardId, op: Op, bytes: usize, vital: bool) {
        self.ops.push((shard, op));
        self.bytes += bytes;
        self.wants_sync |= vital;
    }
}

/// Whether an entry changes the group's members rather than carrying commands.
#[must_use]
pub fn is_member_change(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}
