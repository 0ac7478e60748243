//! What a shard asks of its shell.

use super::apply_task::ApplyTask;
use super::prefetch::PrefetchItem;
use super::ticket::{Answers, Ticket};
use crate::awaited_keys::ReadyKey;
use crate::format::Fact;
use crate::format::entry::{Bounding, Pops, Rules};
use crate::format::slots::Slots;
use crate::keyspace_events::KeyspaceEvent;
use crate::monitored_calls::{DeniedCall, MonitoredCalls};
use crate::peer_protocol::PeerMessage;
use crate::script_message::ScriptMessage;
use crate::shard_handle::ShardHandle;
use crate::tracking::ChangedKeys;
use replica::{Entry, LogRead, LogWrite, Members, Message, SnapshotPoint};
use std::sync::Arc;
use storage::{Engine, Keep, Snapshot};
use vocab::limits::APPLY_INLINE_ROWS_MAX;
use vocab::{NodeId, ReplicaId, ShardId, SteadyClock};

/// What shards ask of the shell: answers for clients, messages for other nodes, and news.
pub trait Effects: Answers {
    /// Sends a message to a node; it may be lost.
    fn send(&mut self, to: NodeId, message: PeerMessage);

    /// The replica that the ticket's write came to does not lead its shard: nothing was written.
    fn not_leader(&mut self, shard: ShardId, ticket: &Ticket);

    /// Another replica leads the shard, or none that is known. `term` tells newer news from older.
    fn led(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64);

    /// Reads that wait for the shard's leader to be confirmed can be looked at again.
    fn readable(&mut self, shard: ShardId);

    /// An entry has written these keys, for which clients may wait. Its own answers are out.
    fn keys_ready(&mut self, keys: Vec<ReadyKey>) {
        let _ = keys;
    }

    /// Clients of a shard are to be told of changes. The answers of the entry that has made them are out.
    fn keys_changed(&mut self, handle: &Arc<ShardHandle>, changed: ChangedKeys) {
        let _ = (handle, changed);
    }

    /// Events of an entry that this replica has proposed: they are to be published.
    fn keyspace_events(&mut self, events: Vec<KeyspaceEvent>) {
        let _ = events;
    }

    /// What the scripts of an entry that this replica has proposed have published.
    fn messages(&mut self, messages: Vec<ScriptMessage>) {
        let _ = messages;
    }

    /// The commands of scripts, of an entry that this replica has proposed: counters and monitors are told of them. `tickets` has the
    /// clients of its items.
    fn monitored(&mut self, calls: MonitoredCalls, tickets: &[Ticket]) {
        let _ = (calls, tickets);
    }

    /// A script of that client, of an entry that this replica has proposed, was refused a command.
    fn denied(&mut self, ticket: &Ticket, denied: DeniedCall) {
        let _ = (ticket, denied);
    }

    /// An entry has removed all keys of a shard.
    fn cleared(&mut self, shard: ShardId) {
        let _ = shard;
    }

    /// Whether reads from the disk are slow now. Then rows that committed entries will find are prefetched before the
    /// entries are applied.
    fn disk_is_slow(&mut self) -> bool {
        false
    }

    /// The rows of `items` are to be read into memory. Nothing of the shard is applied until the core has been told that
    /// all of them are ([`MultiRaft::prefetched`](crate::multi_raft::MultiRaft::prefetched)). Only asked for while the disk is slow.
    fn prefetch(&mut self, handle: &Arc<ShardHandle>, items: Vec<PrefetchItem>) {
        let _ = (handle, items);
    }

    /// Whether the shell wants to do something else before the next entry is applied: it is asked after each, and goes on
    /// with the others later.
    fn wants_turn(&mut self) -> bool {
        false
    }

    /// What tells for how long the caller evaluates an entry; none: it may take as long as it does.
    fn steady_clock(&self) -> Option<SteadyClock> {
        None
    }

    /// How many records and elements the caller reads and writes for an entry before it gives it up, to be evaluated again by
    /// `apply_aside`.
    fn inline_rows_max(&self) -> usize {
        APPLY_INLINE_ROWS_MAX
    }

    /// Whether an entry is to be given to `apply_aside` when it is applied, because evaluating it would keep the caller.
    fn applies_aside(&self, entry: &Entry) -> bool {
        let _ = entry;
        false
    }

    /// Has another thread run a task, whose outcome comes back to `MultiRaft::applied_aside`. Until then nothing of the
    /// shard is applied. Given back where there is no thread: then the caller runs it.
    fn apply_aside(&mut self, task: ApplyTask) -> Option<ApplyTask> {
        Some(task)
    }

    /// Has another thread read entries of the log for followers; what was read comes back to `MultiRaft::log_was_read`.
    /// Given back where there is no thread: then the caller reads them.
    fn read_log(&mut self, read: LogRead) -> Option<LogRead> {
        Some(read)
    }

    /// The tree has memory set apart for a flush.
    fn sealed(&mut self, shard: ShardId);

    /// Whether a snapshot of the shard may be sent to that node now: asked before its rows are taken.
    fn may_send(&mut self, shard: ShardId, node: NodeId) -> bool {
        let _ = (shard, node);
        true
    }

    /// A follower needs everything: the rows are to be streamed, then the message is to be handed over.
    fn snapshot_wanted(&mut self, task: SnapshotTask);

    /// The shard becomes two: another tree is to be made of this one's. Until that is done nothing is applied.
    fn split(&mut self, task: SplitTask);

    /// This replica leads a shard that was split off, and all its members have their part: the map may say so.
    fn split_ended(&mut self, child: ShardId);

    /// The shard's members have changed.
    fn members(&mut self, shard: ShardId, index: u64, members: Members);

    /// An entry has marked this moment: the rows are to be compared with those of the other replicas. `at_ms` is the
    /// leader's clock then. A shell that does not compare drops them.
    fn marked(&mut self, shard: ShardId, comparison: u64, at_ms: u64, rows: Box<dyn Snapshot>) {
        let _ = (shard, comparison, at_ms, rows);
    }

    /// Whether a node reads entries of format 2. One that was never heard of does.
    fn reads_second_format(&self, node: NodeId) -> bool {
        let _ = node;
        true
    }

    /// Whether a node keeps changes of the map rather than maps. One that was never heard of does.
    fn keeps_map_changes(&self, node: NodeId) -> bool {
        let _ = node;
        true
    }

    /// How a node is known to pop members of large sets where an entry says so.
    fn pops(&self, node: NodeId) -> Pops {
        let _ = node;
        Pops::GoingOn
    }

    /// The newest rules that all nodes to which a replica may move are known to evaluate commands by where an entry says so.
    fn rules(&self) -> Rules {
        Rules::NEWEST
    }

    /// Which commands a node is known to refuse for how many keys databases have, where an entry says so.
    fn bounding(&self, node: NodeId) -> Bounding {
        let _ = node;
        Bounding::OfAll
    }

    /// The map has changed.
    fn map(&mut self, update: cluster::MapUpdate);
}

/// A shard that becomes two, at entry `point.index` of its log. What to do, in this order: the log is synced, the tree
/// forked, the child's group made in the log by `install`, durably; then the parent goes on, and the child begins.
/// What is there already, of an attempt before a crash, is left as it is.
pub struct SplitTask {
    /// Whose slots they are as yet.
    pub parent: ShardId,
    /// Whose they will be.
    pub child: ShardId,
    /// Which.
    pub slots: Slots,
    /// The child's replica here: it has the parent's id.
    pub replica: ReplicaId,
    /// The parent's tree: applied up to the entry before, and sealed.
    pub tree: Arc<dyn Engine>,
    /// What the child's tree keeps beside its rows.
    pub facts: Vec<Fact>,
    /// Which rows the child wants.
    pub keep: Keep,
    /// Where the child's log begins, and its members.
    pub point: SnapshotPoint,
    /// Whether this replica leads the parent: then it is to lead the child.
    pub leads: bool,
}

impl SplitTask {
    /// Makes the child's group known to the log.
    #[must_use]
    pub fn install(&self) -> LogWrite {
        let mut write = LogWrite::default();
        write.begin_at(self.child, self.replica, &self.point);
        write
    }
}

/// A snapshot that is to be sent.
pub struct SnapshotTask {
    /// Of which shard.
    pub shard: ShardId,
    /// To which replica.
    pub replica: ReplicaId,
    /// On which node.
    pub node: NodeId,
    /// The rows.
    pub rows: Box<dyn Snapshot>,
    /// Records of the tree's meta space that go with them.
    pub facts: Vec<Fact>,
    /// What they are as of; to be kept in the meta space too (`SNAPSHOT_POINT`).
    pub point: SnapshotPoint,
    /// What is handed to the receiver's replica once it has the rows.
    pub message: Message,
}

/// A snapshot that has arrived.
pub struct ArrivedSnapshot {
    /// The rows with their facts, on disk.
    pub rows: Box<dyn storage::Ingested>,
    /// For the replica.
    pub message: Message,
    /// What the rows are as of.
    pub point: SnapshotPoint,
}
