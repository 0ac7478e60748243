//! The store of one node, open: its shards, its log, and what all threads share.

use crate::background::Background;
use crate::calls::Calls;
use crate::data_dir::{DataDir, read_map};
use crate::directory::{Directory, Known};
use crate::embedded::Callers;
use crate::holdings::Holdings;
use crate::inbox::{Inbox, Message};
use crate::log_threads::LogThreads;
use crate::neighbours::Neighbours;
use crate::opening::Opened;
use crate::pool::Pool;
use crate::snapshots::Snapshots;
use arc_swap::Guard;
use cluster::{Map, NodeInfo};
use node::session::Clients;
use node::stats::Stats;
use node::{Config, ShardView};
use replica::{DiskHealth, DiskState, Log, LogOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use storage::{Compression, EngineKind, RowCache, SharedResources, StorageOptions};
use vocab::{Moment, NodeId, Prng, ShardId, StoreId, limits, wall_clock_ms};

/// How long a look into storage may take before it is asked whether it has waited for the disk.
pub(crate) const SLOW_READ: Duration = Duration::from_micros(200);
/// How long after a slow read others wait for the disk reader or the pool rather than be made on an event loop.
const SLOW_SPELL_MS: u64 = 1000;

/// The peer address of a node that has none.
const NO_PEERS: &str = "none";

/// What all threads of a node share.
pub(crate) struct Store {
    pub(crate) config: Arc<Config>,
    pub(crate) dir: DataDir,
    pub(crate) log: Arc<Log>,
    pub(crate) health: Arc<DiskHealth>,
    pub(crate) resources: Arc<SharedResources>,
    pub(crate) cache: Arc<RowCache>,
    pub(crate) directory: Directory,
    pub(crate) pool: Pool,
    /// For what other nodes ask: it waits for none of them.
    pub(crate) call_pool: Pool,
    pub(crate) log_threads: LogThreads,
    pub(crate) inboxes: OnceLock<Vec<Arc<Inbox>>>,
    pub(crate) cursors: Mutex<node::command::ScanCursors>,
    pub(crate) clients: Clients,
    pub(crate) stats: Arc<Stats>,
    pub(crate) background: Background,
    pub(crate) embedded: Callers,
    pub(crate) calls: Calls,
    pub(crate) backups: crate::backup::Backups,
    pub(crate) neighbours: Neighbours,
    pub(crate) holdings: Holdings,
    /// Shards that are being forked from others now: they are opened by that, and by nothing else.
    pub(crate) forks: Mutex<std::collections::BTreeSet<ShardId>>,
    /// What the store's settings have set here.
    pub(crate) applied: crate::admin::Applied,
    /// What is compared with other nodes' replicas.
    pub(crate) digests: crate::admin::Digests,
    pub(crate) verification: crate::admin::Verification,
    pub(crate) snapshots: OnceLock<Snapshots>,
    /// Somebody wants the store to be made.
    pub(crate) init_asked: AtomicBool,
    pub(crate) started_ms: u64,
    /// Tells this run of the process from all others.
    pub(crate) run_id: String,
    pub(crate) stopping: AtomicBool,
    /// A client has asked for the end.
    pub(crate) stop_asked: AtomicBool,
    slow_until_ms: AtomicU64,
    /// Of writes that are on their way to their shard's next entry.
    queued_bytes: AtomicUsize,
    queued_bytes_max: usize,
}

impl Store {
    /// Opens the store in the directory that `config` names and brings every shard that has one voter up to date with
    /// its log.
    pub(crate) fn open(config: Arc<Config>, workers: usize, seed: u64) -> Result<(Arc<Self>, Vec<Opened>), String> {
        let text = |name: &str| config.text(name).unwrap_or_default();
        let number = |name: &str| config.number(name).unwrap_or_default();
        let engine: EngineKind = text("engine").parse()?;
        let shards = u32::try_from(number("shards")).map_err(|_| "too many shards")?;
        let mut dir = DataDir::open(Path::new(&text("dir")), shards, engine, seed)?;
        let budget = Budget::of(number("memory").unsigned_abs(), engine);
        let resources = SharedResources::new(StorageOptions {
            block_cache_bytes: budget.block_cache,
            memtable_bytes_total: budget.memtables,
            rate_limit_bytes_per_s: number("rate-limit").unsigned_abs(),
            compression: text("compression").parse::<Compression>()?,
            separation_bytes: u32::try_from(number("separation-bytes")).unwrap_or(u32::MAX),
            ..StorageOptions::default()
        });
        let cache = Arc::new(RowCache::new(budget.row_cache));
        let health = Arc::new(DiskHealth::default());
        let alone = text("peer-listen").is_empty();
        if text("rebuild") == "yes" {
            set_aside(&mut dir, alone)?;
        }
        let log = Log::open(&dir.log(), &LogOptions::default(), health.clone()).map_err(|e| match alone {
            true => e.to_string(),
            false => format!("{e}; its peers have what it holds: start it with --rebuild"),
        })?;
        let log = Arc::new(log);
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let calls = if alone { 0 } else { (threads * 4).clamp(4, 32) };
        let stats = Arc::new(Stats::new(workers));
        let store = Arc::new(Self {
            pool: Pool::start("read", (threads * 8).clamp(8, 64)).map_err(|e| e.to_string())?,
            call_pool: Pool::start("call", calls).map_err(|e| e.to_string())?,
            log_threads: LogThreads::start(log.clone(), (stats.clone(), config.clone())).map_err(|e| e.to_string())?,
            config,
            dir,
            log,
            health,
            resources,
            cache,
            directory: Directory::new(),
            inboxes: OnceLock::new(),
            cursors: Mutex::new(node::command::ScanCursors::default()),
            clients: Clients::default(),
            stats,
            background: Background::default(),
            embedded: Callers::default(),
            calls: Calls::default(),
            backups: crate::backup::Backups::default(),
            neighbours: Neighbours::default(),
            holdings: Holdings::default(),
            forks: Mutex::default(),
            applied: crate::admin::Applied::default(),
            digests: crate::admin::Digests::default(),
            verification: crate::admin::Verification::default(),
            snapshots: OnceLock::new(),
            init_asked: AtomicBool::new(false),
            started_ms: now_ms(),
            run_id: run_id(seed),
            stopping: AtomicBool::new(false),
            stop_asked: AtomicBool::new(false),
            slow_until_ms: AtomicU64::new(0),
            queued_bytes: AtomicUsize::new(0),
            queued_bytes_max: budget.queued_writes,
        });
        let opened = store.open_shards()?;
        store.health.be_patient();
        Ok((store, opened))
    }

    /// Opens this node's replicas, if the node belongs to a store; a node that is alone makes one of its own.
    fn open_shards(&self) -> Result<Vec<Opened>, String> {
        let map = match read_map(self.dir.root())? {
            Some(map) => map,
            None if self.is_alone() => {
                let identity = self.dir.identity();
                let id = StoreId(Prng::new(identity.node.0).next_u64() >> 1 | 1);
                let map = Map::initial(id, &[self.node_info()], identity.shards, 1).map_err(|e| e.to_string())?;
                self.dir.keep_map(&map)?;
                map
            }
            None => return Ok(Vec::new()),
        };
        let mut opened = self.open_replicas(&Arc::new(map))?;
        crate::opening::recover(self, &mut opened)?;
        Ok(opened)
    }

    /// Whether this node is a store by itself.
    pub(crate) fn is_alone(&self) -> bool {
        self.config.text("peer-listen").unwrap_or_default().is_empty()
    }

    /// What other nodes are to know of this one.
    pub(crate) fn node_info(&self) -> NodeInfo {
        let text = |name: &str| self.config.text(name).unwrap_or_default();
        let port = |name: &str| u16::try_from(self.config.number(name).unwrap_or_default()).unwrap_or_default();
        let announced = |name: &str, otherwise: String| Some(text(name)).filter(|t| !t.is_empty()).unwrap_or(otherwise);
        NodeInfo {
            id: self.dir.identity().node,
            peer_address: announced(
                "announce-peer",
                if self.is_alone() { NO_PEERS.into() } else { text("peer-listen") },
            ),
            client_host: announced("announce-host", text("bind")),
            client_port: Some(port("announce-port")).filter(|port| *port > 0).unwrap_or(port("port")).max(1),
            zone: text("zone"),
            capacity: 1,
        }
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.dir.identity().node
    }

    /// What is known of the store.
    pub(crate) fn known(&self) -> Guard<Arc<Known>> {
        self.directory.known()
    }

    /// This node's replicas of data shards, by shard.
    pub(crate) fn views(&self) -> Vec<Arc<ShardView>> {
        self.known().views().cloned().collect()
    }

    /// The worker that owns a shard.
    pub(crate) fn owner_of(&self, shard: usize) -> usize {
        shard % self.workers()
    }

    pub(crate) fn workers(&self) -> usize {
        self.inboxes.get().map_or(1, Vec::len)
    }

    /// The mailbox of a worker.
    pub(crate) fn inbox(&self, worker: usize) -> Option<&Arc<Inbox>> {
        self.inboxes.get()?.get(worker)
    }

    /// Whether the store is being stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sends a message to every worker.
    pub(crate) fn wake_all_with(&self, message: impl Fn() -> Message) {
        for inbox in self.inboxes.get().into_iter().flatten() {
            inbox.send(message());
        }
    }

    /// Where the scans under way on this node stand.
    pub(crate) fn cursors(&self) -> std::sync::MutexGuard<'_, node::command::ScanCursors> {
        self.cursors.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A write of so many bytes sets out for its shard.
    pub(crate) fn write_queued(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes of so many bytes are proposed, or were refused.
    pub(crate) fn write_left(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether as many writes wait for the log as may. A store that refuses writes lets reads go on.
    pub(crate) fn is_full(&self) -> bool {
        self.queued_bytes.load(Ordering::Relaxed) > self.queued_bytes_max && self.health.state() == DiskState::Healthy
    }

    /// Whether a read that misses the row cache may be made on an event loop: not while the disk is being waited for.
    pub(crate) fn reads_are_fast(&self, now_ms: u64) -> bool {
        self.slow_until_ms.load(Ordering::Relaxed) <= now_ms
    }

    /// Tells how long a read of one key took.
    pub(crate) fn note_read(&self, took: Duration, now_ms: u64) {
        if took > SLOW_READ && crate::process::waited_for_disk() {
            log::debug!("slow read {took:?}");
            self.note_slow_read(now_ms);
        }
    }

    /// Tells that a read has waited for the disk.
    pub(crate) fn note_slow_read(&self, now_ms: u64) {
        self.slow_until_ms.store(now_ms + SLOW_SPELL_MS, Ordering::Relaxed);
    }
}

/// How `--memory` is shared out. What is left over is for the log's index, buffers of clients, and the allocator.
struct Budget {
    row_cache: usize,
    block_cache: u64,
    memtables: u64,
    queued_writes: usize,
}

impl Budget {
    fn of(memory: u64, engine: EngineKind) -> Self {
        // They are in memory up to four times: as they came, in the log's tail, in its write, and as they are applied.
        let queued_writes = usize::try_from(memory / 32).unwrap_or(usize::MAX).min(limits::QUEUED_WRITE_BYTES_MAX);
        match engine {
            EngineKind::Lsm => Self {
                row_cache: (memory / 100 * 45) as usize,
                block_cache: memory / 100 * 15,
                memtables: memory / 100 * 20,
                queued_writes,
            },
            // The tree is in memory itself.
            EngineKind::Memory => Self { row_cache: 1 << 20, block_cache: 1 << 20, memtables: memory, queued_writes },
        }
    }
}

/// `start --rebuild`.
fn set_aside(dir: &mut DataDir, alone: bool) -> Result<(), String> {
    if alone {
        return Err("--rebuild is for a node of several: this one has no peers that could give it anything".to_owned());
    }
    match dir.rebuild()? {
        Some(folder) => log::warn!(
            "log and trees are set aside in {}, to be removed when the node is whole again; its replicas are made anew",
            folder.display()
        ),
        None => log::info!("log and trees were set aside before; their replicas are being made anew"),
    }
    Ok(())
}

fn run_id(seed: u64) -> String {
    let mut prng = Prng::new(seed ^ now_ms());
    format!("{:016x}{:016x}{:08x}", prng.next_u64(), prng.next_u64(), prng.next_u64() as u32)
}

/// The clock that entries carry.
pub(crate) fn now_ms() -> u64 {
    wall_clock_ms()
}

/// Now, by both clocks. The steady one goes on while the machine sleeps: leases end meanwhile.
pub(crate) fn moment() -> Moment {
    Moment { wall_ms: wall_clock_ms(), mono_us: steady_us() }
}

/// The steady clock, in µs.
pub(crate) fn steady_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}
