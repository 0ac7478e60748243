//! Collects what a node's core asks of the simulated world, until the world carries it out.

use cluster::MapUpdate;
use node::peer_protocol::PeerMessage;
use node::{
    Answers, ApplyTask, Effects, PrefetchItem, ReadyKey, ScriptMessage, ShardHandle, SnapshotTask, SplitTask, Ticket,
};
use replica::{Entry, LogRead, Members};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use vocab::limits::APPLY_INLINE_ROWS_MAX;
use vocab::{NodeId, ShardId};

/// A read from disk for entries that wait.
pub struct Prefetch {
    pub(crate) handle: Arc<ShardHandle>,
    pub(crate) item: PrefetchItem,
    /// How many reads the entries still wait for, this one included.
    pub(crate) left: Rc<Cell<usize>>,
}

impl Prefetch {
    /// Whose entries wait.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.handle.id()
    }
}

/// One of so many entries counts as large, where any does.
const ASIDE_EVERY: u64 = 5;
/// After so many entries others have their turn.
const TURN_ENTRIES: u64 = 3;

/// News for clients that wait in blocking commands.
pub enum WaitNews {
    /// Entries have written keys.
    Ready(Vec<ReadyKey>),
    /// A shard has no keys any more.
    Cleared(ShardId),
}

/// What the cores of a node ask for in one step.
#[derive(Default)]
pub struct Outbox {
    /// The disk is slow: what entries will find is read before they are applied.
    pub disk_is_slow: bool,
    /// How many entries were applied since the event loop has begun to.
    pub applied: u64,
    /// What is to be read for shards whose entries wait for it.
    pub prefetches: Vec<(Arc<ShardHandle>, Vec<PrefetchItem>)>,
    /// Some entries are evaluated beside the event loop.
    pub applies_aside: bool,
    /// How many rows an event loop reads and writes for an entry, if fewer than usual.
    pub inline_rows: Option<usize>,
    /// Entries that are evaluated beside it.
    pub asides: Vec<ApplyTask>,
    /// What is to be read from the log for followers.
    pub log_reads: Vec<LogRead>,
    /// Messages, in order.
    pub messages: Vec<(NodeId, PeerMessage)>,
    /// Answers, in order; `None`: not here.
    pub answers: Vec<(Ticket, Option<Vec<u8>>)>,
    /// What scripts have published, in order.
    pub published: Vec<ScriptMessage>,
    /// News for clients that wait, in order; behind how many of the answers.
    pub wait_news: Vec<(usize, WaitNews)>,
    /// Snapshots that are to be sent.
    pub snapshots: Vec<SnapshotTask>,
    /// Shards whose waiting reads can be looked at again.
    pub readable: BTreeSet<ShardId>,
    /// Shards whose members have changed, as of which entry.
    pub members: Vec<(ShardId, u64, Members)>,
    /// Shards that were split off and need nothing from their parents.
    pub ended: Vec<ShardId>,
    /// Shards that become two.
    pub splits: Vec<SplitTask>,
    /// Shards with another leader, and in which term.
    pub led: Vec<(ShardId, Option<NodeId>, u64)>,
    /// The newest map that the metadata group's replica has applied.
    pub map: Option<MapUpdate>,
}

impl Answers for Outbox {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        self.answers.push((*ticket, Some(reply.to_vec())));
    }
}

impl Effects for Outbox {
    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.messages.push((to, message));
    }

    fn not_leader(&mut self, _shard: ShardId, ticket: &Ticket) {
        self.answers.push((*ticket, None));
    }

    fn led(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64) {
        self.led.push((shard, leader, term));
    }

    fn keys_ready(&mut self, keys: Vec<ReadyKey>) {
        self.wait_news.push((self.answers.len(), WaitNews::Ready(keys)));
    }

    fn messages(&mut self, messages: Vec<ScriptMessage>) {
        self.published.extend(messages);
    }

    fn cleared(&mut self, shard: ShardId) {
        self.wait_news.push((self.answers.len(), WaitNews::Cleared(shard)));
    }

    fn readable(&mut self, shard: ShardId) {
        self.readable.insert(shard);
    }

    fn disk_is_slow(&mut self) -> bool {
        self.disk_is_slow
    }

    /// Others have their turn after a few entries.
    fn wants_turn(&mut self) -> bool {
        self.applied += 1;
        self.applied.is_multiple_of(TURN_ENTRIES)
    }

    fn prefetch(&mut self, handle: &Arc<ShardHandle>, items: Vec<PrefetchItem>) {
        self.prefetches.push((handle.clone(), items));
    }

    fn applies_aside(&self, entry: &Entry) -> bool {
        self.applies_aside && entry.index.is_multiple_of(ASIDE_EVERY)
    }

    fn inline_rows_max(&self) -> usize {
        self.inline_rows.unwrap_or(APPLY_INLINE_ROWS_MAX)
    }

    fn apply_aside(&mut self, task: ApplyTask) -> Option<ApplyTask> {
        self.asides.push(task);
        None
    }

    fn read_log(&mut self, read: LogRead) -> Option<LogRead> {
        self.log_reads.push(read);
        None
    }

    /// The world decides when trees are flushed.
    fn sealed(&mut self, _shard: ShardId) {}

    fn snapshot_wanted(&mut self, task: SnapshotTask) {
        self.snapshots.push(task);
    }

    fn split(&mut self, task: SplitTask) {
        self.splits.push(task);
    }

    fn split_ended(&mut self, child: ShardId) {
        self.ended.push(child);
    }

    fn members(&mut self, shard: ShardId, index: u64, members: Members) {
        self.members.push((shard, index, members));
    }

    fn map(&mut self, update: MapUpdate) {
        let before = self.map.take();
        self.map = Some(before.map_or(update.clone(), |before| before.then(update)));
    }
}
