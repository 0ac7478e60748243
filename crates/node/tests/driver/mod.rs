//! One shard with its tree and its log, and what a server would do around it.

use node::command::{Handler, handler};
use node::key_hash;
use node::peer_protocol::PeerMessage;
use node::session::Acks;
use node::tracking::Registers;
use node::{
    Answers, ApplyTask, CachedSpace, Effects, Fault, PrefetchItem, Shard, ShardHandle, SnapshotSpace, SnapshotTask,
    SplitTask, Ticket, Write,
};
use replica::{DiskHealth, Log, LogOptions, LogStore, LogWrite, Members, Replica};
use resp::{Proto, Reply, table};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use storage::{Engine, EngineKind, RowCache, SharedResources, Span, StorageOptions, open_engine};
use vocab::{Moment, NodeId, ReplicaId, SLOT_COUNT, ShardId, Slot};

const SHARD: ShardId = ShardId(1);

#[derive(Default)]
struct Inbox {
    answers: HashMap<u64, Vec<u8>>,
    split: Option<SplitTask>,
    /// How often it was asked whether the disk is slow, and whether a prefetch is under way.
    asked: u64,
    awaited: bool,
    turns: u64,
    /// How many entries were given to another thread.
    asides: u64,
}

impl Answers for Inbox {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        let before = self.answers.insert(ticket.sequence, reply.to_vec());
        assert_eq!(before, None, "request {} was answered twice", ticket.sequence);
    }
}

/// A group of one: it has no peers to send to.
impl Effects for Inbox {
    fn send(&mut self, to: NodeId, _message: PeerMessage) {
        panic!("a message to {to}");
    }
    fn not_leader(&mut self, _shard: ShardId, ticket: &Ticket) {
        panic!("request {} was not led", ticket.sequence);
    }
    fn led(&mut self, _shard: ShardId, _leader: Option<NodeId>, _term: u64) {}
    fn readable(&mut self, _shard: ShardId) {}
    fn sealed(&mut self, _shard: ShardId) {}
    /// Two times of three.
    fn disk_is_slow(&mut self) -> bool {
        assert!(!self.awaited, "it is asked while a prefetch is under way");
        self.asked += 1;
        !self.asked.is_multiple_of(3)
    }
    fn apply_aside(&mut self, task: ApplyTask) -> Option<ApplyTask> {
        self.asides += 1;
        Some(task)
    }
    /// One time of two.
    fn wants_turn(&mut self) -> bool {
        self.turns += 1;
        self.turns.is_multiple_of(2)
    }
    fn prefetch(&mut self, _handle: &Arc<ShardHandle>, items: Vec<PrefetchItem>) {
        assert!(!self.awaited && !items.is_empty(), "rows are asked for once, and only where some are lacking");
        self.awaited = true;
    }
    fn snapshot_wanted(&mut self, task: SnapshotTask) {
        panic!("a snapshot for {}", task.node);
    }
    fn split(&mut self, task: SplitTask) {
        assert!(self.split.replace(task).is_none(), "a shard is split twice at once");
    }
    fn split_ended(&mut self, child: ShardId) {
        panic!("shard {child} was not split off here");
    }
    fn members(&mut self, _shard: ShardId, _index: u64, _members: Members) {}
    fn map(&mut self, _update: cluster::MapUpdate) {}
}

/// One shard, its tree and its log, driven as a server would drive them.
pub struct Driver {
    pub shard: Shard,
    log: Arc<Log>,
    inbox: Inbox,
    sequence: u64,
    pub now_ms: u64,
    /// Whether the log is cut when the tree was flushed.
    pub cuts_log: bool,
}

/// Everything that a shard holds: rows, and keys by slot.
pub type Dump = (Vec<(Vec<u8>, Vec<u8>)>, Vec<u64>);

impl Driver {
    /// Opens the log in `dir` with the tree in `dir/tree`, and applies what the tree does not hold.
    pub fn open(dir: &Path, tree: &str, engine: EngineKind, cache_bytes: usize) -> Self {
        let resources = SharedResources::new(StorageOptions::default());
        let tree = open_engine(engine, &dir.join(tree), &resources).unwrap();
        Self::with_tree(dir, tree, cache_bytes, Arc::new(DiskHealth::default()))
    }

    /// The same with a tree that is open, and what is known of the disk.
    pub fn with_tree(dir: &Path, tree: Arc<dyn Engine>, cache_bytes: usize, health: Arc<DiskHealth>) -> Self {
        let mut driver = Self::elected(dir, tree, cache_bytes, health);
        driver.run();
        assert!(driver.shard.handle().serving());
        driver
    }

    /// One that has applied nothing yet of what the tree does not hold.
    pub fn elected(dir: &Path, tree: Arc<dyn Engine>, cache_bytes: usize, health: Arc<DiskHealth>) -> Self {
        let log = Arc::new(Log::open(&dir.join("log"), &LogOptions::default(), health.clone()).unwrap());
        let cache = Arc::new(RowCache::new(cache_bytes));
        let view = ShardHandle::open(SHARD, (0, SLOT_COUNT - 1), tree, cache).unwrap();
        Replica::bootstrap(&*log, SHARD, ReplicaId(1), &[ReplicaId(1)], &[]).unwrap();
        let state = log.state(SHARD).unwrap().unwrap();
        let flushed = view.engine().flushed_index();
        let mut replica = Replica::open(log.clone(), SHARD, state, flushed, None, 1).unwrap();
        replica.campaign().unwrap();
        let shard = Shard::new(view, replica, health).unwrap();
        let now_ms = 1_700_000_000_000;
        Self { shard, log, inbox: Inbox::default(), sequence: 0, now_ms, cuts_log: true }
    }

    /// Hands a write over; the number to ask its answer by.
    pub fn submit(&mut self, write: &Write, keys: &[&str]) -> u64 {
        self.sequence += 1;
        let hashes: Vec<u64> = keys.iter().map(|key| key_hash(key.as_bytes())).collect();
        let ticket = Ticket {
            worker: 0,
            connection: 0,
            generation: 0,
            sequence: self.sequence,
            proto: Proto::Resp2,
            slot: Slot(0),
            wider: None,
            sync: false,
            acks: Acks::Majority,
            reply_bytes: 0,
            may_wait: false,
            registers: Registers::Nothing,
            early: None,
        };
        assert!(self.shard.submit(write, &hashes, ticket, &mut self.inbox));
        self.sequence
    }

    pub fn housekeep(&mut self) {
        self.shard.housekeep(self.now());
    }

    fn now(&self) -> Moment {
        Moment { wall_ms: self.now_ms, mono_us: self.now_ms * 1000 }
    }

    /// Proposes, persists, commits and applies until nothing is left.
    pub fn run(&mut self) {
        while self.turn() {}
        assert_eq!(self.shard.broken(), None);
    }

    /// Clients that have waited for so long are told.
    #[allow(dead_code, reason = "of one test")]
    pub fn expire(&mut self, waited_ms: u64) {
        let wall_ms = self.now_ms + waited_ms;
        self.shard.expire(Moment { wall_ms, mono_us: wall_ms * 1000 }, &mut self.inbox);
    }

    /// Proposes and persists; false if there was nothing, nor anything to apply.
    pub fn commit(&mut self) -> bool {
        let now = self.now();
        let is_filling = self.shard.propose(now, &mut self.inbox);
        let mut write = LogWrite::default();
        let number = self.shard.collect(&mut write, &mut self.inbox).unwrap();
        let collected = self.shard.has_collected();
        if write.is_empty() && !collected && !is_filling {
            return false;
        }
        self.log.write(write, false).unwrap();
        self.shard.persisted(number, &mut self.inbox);
        true
    }

    /// One turn of that; false if nothing was left.
    pub fn turn(&mut self) -> bool {
        if !self.commit() {
            return false;
        }
        let now = self.now();
        let mut later = LogWrite::default();
        let (answered, waits) = (self.inbox.answers.len(), self.inbox.awaited);
        self.shard.apply_collected(now, &mut later, &mut self.inbox);
        self.log.write(later, false).unwrap();
        if waits {
            assert_eq!(self.inbox.answers.len(), answered, "an entry was applied that waits for its rows");
            self.inbox.awaited = false;
            assert!(self.shard.prefetched());
        }
        self.shard.validate();
        true
    }

    /// How many answers have come that were not looked at.
    pub fn answers(&self) -> usize {
        self.inbox.answers.len()
    }

    pub fn answer(&mut self, ticket: u64) -> String {
        String::from_utf8(self.inbox.answers.remove(&ticket).expect("no answer")).unwrap()
    }

    /// Seals the tree's memory, and writes it to files too if `whole`.
    pub fn flush(&mut self, whole: bool) {
        self.shard.seal();
        if whole {
            self.shard.handle().engine().flush().unwrap();
            let mut write = LogWrite::default();
            if self.cuts_log && self.shard.truncate(&mut write).unwrap() {
                self.log.write(write, false).unwrap();
            }
        }
    }

    /// Whether something was sealed that is not yet in files.
    pub fn wants_files(&self) -> bool {
        self.shard.handle().engine().needs_flush()
    }

    pub fn last_index(&self) -> u64 {
        self.shard.replica().status().last
    }

    pub fn key_count(&self) -> u64 {
        self.shard.handle().key_count()
    }

    /// How many entries were too much for an event loop so far.
    pub fn asides(&self) -> u64 {
        self.inbox.asides
    }

    pub fn expired_ever(&self) -> u64 {
        self.shard.handle().expired_ever()
    }

    pub fn dump(&self) -> Dump {
        let snapshot = self.shard.handle().engine().snapshot();
        let rows = snapshot.iter(Span { start: vec![1], end: Vec::new() }, false);
        let rows = rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
        (rows, (0..SLOT_COUNT).map(|slot| self.shard.handle().keys_in_slot(vocab::Slot(slot))).collect())
    }

    /// The counters say what the tree holds.
    pub fn validate(&self) {
        let (rows, counts) = self.dump();
        let records = rows.iter().filter(|(key, _)| key[0] == b'r').count() as u64;
        assert_eq!((self.key_count(), counts.iter().sum()), (records, records));
        let expiries = rows.iter().filter(|(key, _)| key[0] == b'x').count() as u64;
        assert_eq!(self.shard.handle().expiring(), expiries);
    }
}

/// Text and version of a key, as KV.GET answers them: from the cache where it has them, and from the tree, which must
/// say the same.
pub fn read(driver: &Driver, key: &str) -> Option<(String, u64)> {
    let view: &ShardHandle = driver.shard.handle();
    let now_ms = driver.now_ms;
    let Some(Handler::Read(handler)) = table::lookup(b"kv.get").and_then(handler) else { panic!("KV.GET reads") };
    let args: [&[u8]; 2] = [b"KV.GET", key.as_bytes()];
    let mut from_tree = Reply::new(Proto::Resp2);
    let mut space = SnapshotSpace::new(view, now_ms, 1);
    handler.run(&args, &mut space, &mut from_tree).unwrap();
    let mut from_cache = Reply::new(Proto::Resp2);
    let mut space = CachedSpace::new(view, now_ms);
    match handler.run(&args, &mut space, &mut from_cache) {
        Ok(()) => assert_eq!(from_cache.buf, from_tree.buf, "{key}: the cache says something else than the tree"),
        Err(node::command::Error::Fault(Fault::WouldBlock)) => {}
        Err(e) => panic!("{e:?}"),
    }
    let reply = String::from_utf8(from_tree.buf).unwrap();
    let mut parts = reply.strip_prefix("*2\r\n$")?.splitn(2, "\r\n");
    let length: usize = parts.next().unwrap().parse().unwrap();
    let rest = parts.next().unwrap();
    let version = rest[length..].trim_matches(['\r', '\n', ':']).parse().unwrap();
    Some((rest[..length].to_owned(), version))
}
