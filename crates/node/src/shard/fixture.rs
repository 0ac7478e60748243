//! A replica with its tree and its log, and a shell that notes what it is asked for: for tests of the parts of a shard.
#![allow(clippy::unwrap_used)]

use super::effects::{Effects, SnapshotTask, SplitTask};
use super::prefetch::PrefetchItem;
use super::ticket::{Answers, Ticket};
use crate::entry_id::EntryId;
use crate::peer_protocol::PeerMessage;
use crate::shard_handle::ShardHandle;
use crate::subscriber::Subscriber;
use crate::test_shard::empty_shard;
use crate::tracking::Tracker;
use replica::{Entry, LogStore, LogWrite, Members, MemoryLog, Message, Replica, SnapshotPoint};
use std::sync::Arc;
use storage::Snapshot;
use vocab::{NodeId, ReplicaId, ShardId};

/// What a shell was asked for.
#[derive(Default)]
pub(super) struct Shell {
    /// Whether reads from the disk are slow.
    pub(super) is_slow: bool,
    /// Whether no snapshot may be sent now.
    pub(super) sends_no_snapshot: bool,
    /// The number of items of each prefetch.
    pub(super) prefetches: Vec<usize>,
    /// The request numbers and the encoded answers, in order.
    pub(super) answers: Vec<(u64, String)>,
    /// The entries of those of them that were made before their entry was committed.
    pub(super) early: Vec<EntryId>,
    pub(super) seals: usize,
    pub(super) snapshots: Vec<SnapshotTask>,
    pub(super) splits: Vec<SplitTask>,
    /// Comparisons, and the index of the rows that each compares.
    pub(super) marks: Vec<(u64, u64)>,
    pub(super) maps: Vec<cluster::MapUpdate>,
    /// Where a client that has tracking on reads a key as soon as a request is answered.
    pub(super) read_when_answered: Option<Arc<ShardHandle>>,
}

impl Answers for Shell {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        if let Some(keys) = self.read_when_answered.as_ref().and_then(|handle| handle.tracked()) {
            let tracker = Tracker { client: Subscriber::default(), no_loop: false };
            keys.add([&b"a"[..]].into_iter(), tracker);
        }
        self.early.extend(ticket.early);
        self.answers.push((ticket.sequence, String::from_utf8_lossy(reply).into_owned()));
    }
}

impl Effects for Shell {
    fn send(&mut self, _to: NodeId, _message: PeerMessage) {}
    fn not_leader(&mut self, _shard: ShardId, _ticket: &Ticket) {}
    fn led(&mut self, _shard: ShardId, _leader: Option<NodeId>, _term: u64) {}
    fn readable(&mut self, _shard: ShardId) {}
    fn disk_is_slow(&mut self) -> bool {
        self.is_slow
    }
    fn prefetch(&mut self, _handle: &Arc<ShardHandle>, items: Vec<PrefetchItem>) {
        self.prefetches.push(items.len());
    }
    fn sealed(&mut self, _shard: ShardId) {
        self.seals += 1;
    }
    fn may_send(&mut self, _shard: ShardId, _node: NodeId) -> bool {
        !self.sends_no_snapshot
    }
    fn snapshot_wanted(&mut self, task: SnapshotTask) {
        self.snapshots.push(task);
    }
    fn split(&mut self, task: SplitTask) {
        self.splits.push(task);
    }
    fn split_ended(&mut self, _child: ShardId) {}
    fn members(&mut self, _shard: ShardId, _index: u64, _members: Members) {}
    fn marked(&mut self, _shard: ShardId, comparison: u64, _at_ms: u64, rows: Box<dyn Snapshot>) {
        self.marks.push((comparison, rows.index()));
    }
    fn map(&mut self, update: cluster::MapUpdate) {
        self.maps.push(update);
    }
}

/// What came of the turns of a replica.
#[derive(Default)]
pub(super) struct Turns {
    /// Entries to apply.
    pub(super) committed: Vec<Entry>,
    pub(super) messages: Vec<Message>,
    /// A snapshot that was accepted.
    pub(super) snapshot: Option<SnapshotPoint>,
}

/// One replica of a group.
pub(super) struct Member {
    pub(super) handle: Arc<ShardHandle>,
    pub(super) replica: Replica,
    pub(super) log: Arc<MemoryLog>,
    _folder: tempfile::TempDir,
}

impl Member {
    /// Replica `me` of a group of so many voters, with nothing in its log and its tree.
    pub(super) fn new(shard: ShardId, me: u64, voters: u64) -> Self {
        let (handle, folder) = empty_shard(shard);
        let log = Arc::new(MemoryLog::default());
        let voters: Vec<ReplicaId> = (1..=voters).map(ReplicaId).collect();
        Replica::bootstrap(&*log, shard, ReplicaId(me), &voters, &[]).unwrap();
        let state = log.state(shard).unwrap().unwrap();
        let replica = Replica::open(log.clone(), shard, state, 0, None, me).unwrap();
        Self { handle, replica, log, _folder: folder }
    }

    /// Has the replica do what it can do by itself. Entries are not applied.
    pub(super) fn turn(&mut self) -> Turns {
        let mut turns = Turns::default();
        loop {
            let mut write = LogWrite::default();
            let Some(ready) = self.replica.ready(&mut write).unwrap() else { return turns };
            self.log.write(write, true).unwrap();
            turns.messages.extend(ready.messages);
            turns.committed.extend(ready.committed);
            if ready.snapshot.is_some() {
                turns.snapshot = ready.snapshot;
                return turns;
            }
            if ready.number > 0 {
                turns.messages.extend(self.replica.persisted(ready.number));
            }
        }
    }
}

/// Delivers what `members` send to each other until there is no more. They apply what is committed as entries without items.
/// Messages for members that are not there are lost.
pub(super) fn run(members: &mut [Member]) {
    loop {
        let mut messages = Vec::new();
        for member in members.iter_mut() {
            let turns = member.turn();
            messages.extend(turns.messages);
            for entry in turns.committed {
                super::apply::apply_nothing(&member.handle, entry.index);
                member.replica.applied(&entry);
            }
        }
        if messages.is_empty() {
            return;
        }
        for message in messages {
            if let Some(to) = members.iter_mut().find(|member| member.replica.me().0 == message.to) {
                to.replica.step(message).unwrap();
            }
        }
    }
}

/// Elects the first of `members`.
pub(super) fn elect_first(members: &mut [Member]) {
    members[0].replica.campaign().unwrap();
    run(members);
    assert!(members[0].replica.serves());
}
