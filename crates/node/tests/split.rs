//! A shard becomes two, and its node crashes at every point of that: the split is repeated, and nothing is lost or doubled.
#![allow(clippy::unwrap_used)]

use node::peer_protocol::PeerMessage;
use node::session::Acks;
use node::tracking::Registers;
use node::{Answers, Effects, EncodedCommand, Shard, ShardHandle, Slots, SnapshotTask, SplitTask, Ticket, Write};
use replica::{DiskHealth, Log, LogOptions, LogStore, LogWrite, Members, Replica};
use resp::Proto;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use storage::{EngineKind, RowCache, SharedResources, Span, StorageOptions, open_engine};
use vocab::{Moment, NodeId, ReplicaId, SLOT_COUNT, ShardId, Slot, slot_of};

const PARENT: ShardId = ShardId(1);
const CHILD: ShardId = ShardId(7);
const HALF: u16 = SLOT_COUNT / 2;
const NOW_MS: u64 = 1_700_000_000_000;

#[derive(Default)]
struct Inbox {
    answers: BTreeMap<u64, String>,
    split: Option<SplitTask>,
}

impl Answers for Inbox {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        self.answers.insert(ticket.sequence, String::from_utf8(reply.to_vec()).unwrap());
    }
}

impl Effects for Inbox {
    fn send(&mut self, _to: NodeId, _message: PeerMessage) {}
    fn not_leader(&mut self, _shard: ShardId, ticket: &Ticket) {
        panic!("request {} was not led", ticket.sequence);
    }
    fn led(&mut self, _shard: ShardId, _leader: Option<NodeId>, _term: u64) {}
    fn readable(&mut self, _shard: ShardId) {}
    fn sealed(&mut self, _shard: ShardId) {}
    fn snapshot_wanted(&mut self, _task: SnapshotTask) {}
    fn split(&mut self, task: SplitTask) {
        assert!(self.split.replace(task).is_none(), "a split is asked for twice");
    }
    fn split_ended(&mut self, _child: ShardId) {}
    fn members(&mut self, _shard: ShardId, _index: u64, _members: Members) {}
    fn map(&mut self, _update: cluster::MapUpdate) {}
}

/// A node of one shard, and of two later.
struct Node<'a> {
    dir: &'a Path,
    kind: EngineKind,
    log: Arc<Log>,
    resources: Arc<SharedResources>,
    shards: BTreeMap<ShardId, Shard>,
    inbox: Inbox,
    sequence: u64,
    /// The process ends before this step of a fork, or before the parent applies its entry.
    crash_before: usize,
}

impl<'a> Node<'a> {
    fn start(dir: &'a Path, kind: EngineKind, crash_before: usize) -> Self {
        Self::start_with(dir, kind, crash_before, SLOT_COUNT - 1)
    }

    /// `last`: the last slot that the map gives to a shard whose tree does not say.
    fn start_with(dir: &'a Path, kind: EngineKind, crash_before: usize, last: u16) -> Self {
        let log = Log::open(&dir.join("log"), &LogOptions::default(), Arc::default()).unwrap();
        let (resources, shards) = (SharedResources::new(StorageOptions::default()), BTreeMap::new());
        let (log, inbox) = (Arc::new(log), Inbox::default());
        let mut node = Self { dir, kind, log, resources, shards, inbox, sequence: 0, crash_before };
        Replica::bootstrap(&*node.log, PARENT, ReplicaId(1), &[ReplicaId(1)], &[]).unwrap();
        for shard in node.log.groups() {
            node.open(shard, Slots::from((0, last)));
        }
        node
    }

    fn open(&mut self, id: ShardId, slots: Slots) {
        let tree = open_engine(self.kind, &self.dir.join(id.to_string()), &self.resources).unwrap();
        let view = ShardHandle::open(id, slots, tree, Arc::new(RowCache::new(1 << 16))).unwrap();
        let state = self.log.state(id).unwrap().unwrap();
        let (flushed, installed) = (view.engine().flushed_index(), view.snapshot_point().unwrap());
        let mut replica = Replica::open(self.log.clone(), id, state, flushed, installed.as_ref(), 1).unwrap();
        replica.campaign().unwrap();
        let shard = Shard::new(view, replica, Arc::new(DiskHealth::default())).unwrap();
        self.shards.insert(id, shard);
        self.run();
    }

    fn run(&mut self) {
        let now = Moment { wall_ms: NOW_MS, mono_us: NOW_MS * 1000 };
        let ids: Vec<ShardId> = self.shards.keys().copied().collect();
        for id in ids {
            loop {
                let shard = self.shards.get_mut(&id).unwrap();
                shard.propose(now, &mut self.inbox);
                let (mut write, mut later) = (LogWrite::default(), LogWrite::default());
                let number = shard.collect(&mut write, &mut self.inbox).unwrap();
                let done = write.is_empty() && !shard.has_collected();
                self.log.write(write, true).unwrap();
                shard.persisted(number, &mut self.inbox);
                shard.apply_collected(now, &mut later, &mut self.inbox);
                self.log.write(later, true).unwrap();
                shard.validate();
                assert_eq!(shard.broken(), None);
                if let Some(task) = self.inbox.split.take()
                    && !self.fork(&task)
                {
                    return;
                }
                if done {
                    break;
                }
            }
        }
    }

    /// What a server does; false if the process ends.
    fn fork(&mut self, task: &SplitTask) -> bool {
        assert_eq!((task.parent, task.child), (PARENT, CHILD));
        if self.crash_before == 0 {
            return false;
        }
        if self.log.state(CHILD).unwrap().is_none() {
            let folder = self.dir.join(CHILD.to_string());
            match task.tree.fork(&folder, task.point.index, task.facts.clone(), &task.keep) {
                Ok(_) | Err(storage::Error::Mismatch { .. }) => {}
                Err(e) => panic!("{e}"),
            }
            if self.crash_before == 1 {
                return false;
            }
            self.log.write(task.install(), true).unwrap();
        }
        if self.crash_before == 2 {
            return false;
        }
        self.shards.get_mut(&PARENT).unwrap().forked(Ok(()));
        self.run();
        if !self.shards.contains_key(&CHILD) {
            self.open(CHILD, task.slots.clone());
        }
        true
    }

    fn command(&mut self, args: &[&str]) -> String {
        let slot = slot_of(args[1].as_bytes());
        let id = if self.shards.contains_key(&CHILD) && slot.0 >= HALF { CHILD } else { PARENT };
        self.command_at(id, slot, args)
    }

    fn command_at(&mut self, id: ShardId, slot: Slot, args: &[&str]) -> String {
        self.sequence += 1;
        let words: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let ticket = Ticket {
            worker: 0,
            connection: 0,
            generation: 0,
            sequence: self.sequence,
            proto: Proto::Resp2,
            slot,
            wider: None,
            sync: true,
            acks: Acks::Majority,
            reply_bytes: 0,
            may_wait: false,
            registers: Registers::Nothing,
            early: None,
        };
        let write = Write::Command(EncodedCommand::new(&words));
        self.shards.get_mut(&id).unwrap().submit(&write, &[], ticket, &mut self.inbox);
        self.run();
        self.inbox.answers.remove(&self.sequence).expect("an answer")
    }

    fn split(&mut self) {
        let parent = self.shards.get_mut(&PARENT).unwrap();
        assert!(parent.split(CHILD, &[(HALF, SLOT_COUNT - 1)]));
        assert!(!parent.split(CHILD, &[(HALF, SLOT_COUNT - 1)]), "twice");
        self.run();
        self.flush(PARENT);
        let now = Moment { wall_ms: NOW_MS, mono_us: NOW_MS * 1000 };
        let parent = self.shards.get_mut(&PARENT).unwrap();
        assert!(parent.handle().owns(Slot(HALF)));
        assert!(parent.go_on_splitting(now));
        assert!(!parent.handle().owns(Slot(HALF)), "fenced before anybody else could know of it");
        self.run();
    }

    fn flush(&mut self, id: ShardId) {
        let shard = &self.shards[&id];
        shard.seal();
        shard.handle().engine().flush().unwrap();
    }

    /// Rows of a shard, of kinds that belong to a slot; and that its counters say the same.
    fn rows(&self, id: ShardId) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let view = self.shards[&id].handle();
        let snapshot = view.snapshot();
        let rows = snapshot.iter(Span { start: vec![1], end: Vec::new() }, false).map(Result::unwrap);
        let rows: BTreeMap<_, _> = rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        let of = |kind: u8| rows.keys().filter(|key| key[0] == kind).count() as u64;
        assert_eq!((view.key_count(), view.expiring()), (of(b'r'), of(b'x')));
        rows.into_iter().filter(|(key, _)| !matches!(key[0], b'q' | b'y')).collect()
    }
}

fn fill(node: &mut Node<'_>) {
    for i in 0..200 {
        let (key, value) = (format!("key{i}"), "v".repeat(i * 40));
        match i % 4 {
            0 => node.command(&["SET", &key, &value, "PX", "100000"]),
            1 => node.command(&["KV.PUT", &key, &value, "REQUEST", "client", &(i + 1).to_string()]),
            2 => node.command(&["HSET", &key, "field", &value]),
            _ => node.command(&["SET", &key, &value]),
        };
        if i == 120 {
            node.flush(PARENT);
        }
    }
}

#[test]
fn a_split_is_whole_whatever_crashes_when() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        for crash_before in 0..=4 {
            println!("{kind:?}, crash before step {crash_before}");
            let dir = tempfile::tempdir().unwrap();
            let mut node = Node::start(dir.path(), kind, crash_before);
            fill(&mut node);
            let before = node.rows(PARENT);
            node.split();
            if crash_before < 4 {
                drop(node);
                node = Node::start(dir.path(), kind, 9);
            }
            let (parent, child) = (node.rows(PARENT), node.rows(CHILD));
            assert!(!parent.is_empty() && !child.is_empty());
            assert!(parent.keys().all(|key| !child.contains_key(key)), "a row of both");
            let both: BTreeMap<_, _> = parent.into_iter().chain(child).collect();
            assert!(both == before, "{} rows of {}", both.len(), before.len());
            go_on(node);
        }
    }
}

/// Both write on with rising versions, remember requests, and forget nothing when they are restarted, flushed or not.
fn go_on(mut node: Node<'_>) {
    let last = |node: &Node<'_>, id: ShardId| node.shards[&id].replica().status().last;
    let at = last(&node, PARENT);
    for i in 200..260 {
        let key = format!("key{i}");
        let version = node.command(&["KV.PUT", &key, "new"]);
        let version: u64 = version.trim_matches([':', '\r', '\n']).parse().unwrap();
        assert!(version > 200, "versions rise: {version}, {at}");
    }
    let retried = node.command(&["KV.PUT", "key197", &"v".repeat(197 * 40), "REQUEST", "client", "198"]);
    assert!(retried.starts_with(':'), "{retried}");
    let of_child = (0..).map(|i| format!("key{i}")).find(|key| slot_of(key.as_bytes()).0 >= HALF).unwrap();
    let refused = node.command_at(PARENT, slot_of(of_child.as_bytes()), &["SET", &of_child, "x"]);
    assert!(refused.starts_with("-TRYAGAIN"), "{refused}");
    node.flush(CHILD);
    let (parent, child) = (node.rows(PARENT), node.rows(CHILD));
    for flushed in [PARENT, CHILD] {
        let (dir, kind) = (node.dir, node.kind);
        node.flush(flushed);
        while node.shards[&flushed].handle().engine().purge().unwrap() {}
        drop(node);
        node = Node::start(dir, kind, 9);
        assert!(node.rows(PARENT) == parent && node.rows(CHILD) == child);
    }
    let cleared = [PARENT, CHILD].map(|id| node.shards[&id].handle().slots());
    assert_eq!(cleared, [(0, HALF - 1), (HALF, SLOT_COUNT - 1)]);
}

#[test]
fn a_tree_that_had_kept_nothing_hides_what_the_map_knows_to_be_split_off() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Node::start(dir.path(), kind, 9);
        fill(&mut node);
        node.split();
        let parent = node.rows(PARENT);
        drop(node);
        std::fs::remove_dir_all(dir.path().join(PARENT.to_string())).unwrap();
        let node = Node::start_with(dir.path(), kind, 9, HALF - 1);
        assert!(node.rows(PARENT) == parent);
        // They are there: the entries before the split have brought them back.
        let all = node.shards[&PARENT].handle().engine().snapshot();
        let records = all.iter(Span { start: vec![b'r'], end: vec![b's'] }, false).count();
        assert!(records > parent.keys().filter(|key| key[0] == b'r').count());
    }
}

/// Its replica was down when the shard was split, and has its map of afterwards, and its rows of the entries before.
#[test]
fn a_tree_that_had_kept_nothing_hides_what_is_to_be_split_off_before_it_is() {
    for kind in [EngineKind::Lsm, EngineKind::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Node::start(dir.path(), kind, 9);
        fill(&mut node);
        let all = node.rows(PARENT);
        drop(node);
        std::fs::remove_dir_all(dir.path().join(PARENT.to_string())).unwrap();
        let records = |rows: &BTreeMap<Vec<u8>, Vec<u8>>| rows.keys().filter(|key| key[0] == b'r').count();
        for _ in 0..2 {
            let mut node = Node::start_with(dir.path(), kind, 9, HALF - 1);
            // As many as the counters say, which count its own slots only.
            let rows = node.rows(PARENT);
            assert!(records(&rows) > 0 && records(&rows) < records(&all));
            // And what it has kept says so.
            node.flush(PARENT);
        }
    }
}

/// A disk that was full for a moment takes what was queued: the next order begins anew.
#[test]
fn a_split_whose_entries_were_refused_is_made_by_the_next_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::start(dir.path(), EngineKind::Lsm, 9);
    fill(&mut node);
    let now = Moment { wall_ms: NOW_MS, mono_us: NOW_MS * 1000 };
    let parent = node.shards.get_mut(&PARENT).unwrap();
    assert!(parent.split(CHILD, &[(HALF, SLOT_COUNT - 1)]));
    parent.fail_pending("the disk is full", &mut node.inbox);
    assert!(!parent.go_on_splitting(now));
    assert!(parent.split(CHILD, &[(HALF, SLOT_COUNT - 1)]), "the first part was lost");
    node.run();
    node.flush(PARENT);
    let parent = node.shards.get_mut(&PARENT).unwrap();
    assert!(parent.go_on_splitting(now));
    parent.fail_pending("the disk is full", &mut node.inbox);
    assert!(!parent.go_on_splitting(now));
    assert!(parent.handle().owns(Slot(HALF)), "the second part was lost: the slots are its own again");
    node.split();
    assert!(!node.rows(CHILD).is_empty());
}

/// Others may have the entry in their log, and not have come to it.
#[test]
fn the_log_is_kept_until_the_map_says_that_the_split_has_happened() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::start(dir.path(), EngineKind::Lsm, 9);
    fill(&mut node);
    node.split();
    node.flush(PARENT);
    let mut map = cluster::Map { next_shard: CHILD.0, ..cluster::Map::default() };
    let cuts = |node: &mut Node<'_>, map: &cluster::Map| {
        let parent = node.shards.get_mut(&PARENT).unwrap();
        parent.note_splits(map);
        parent.truncate(&mut LogWrite::default()).unwrap()
    };
    assert!(!cuts(&mut node, &map), "the map is older than the split");
    let split = cluster::Split { plan: vocab::PlanId(1), parent: PARENT, slots: vec![(HALF, SLOT_COUNT - 1)] };
    map.next_shard = CHILD.0 + 1;
    map.splits.insert(CHILD, split);
    assert!(!cuts(&mut node, &map), "it is under way");
    map.splits.clear();
    assert!(cuts(&mut node, &map));
}
