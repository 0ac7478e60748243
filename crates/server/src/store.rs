//! The store of one node, open: its shards, its log, and what all threads share.

use crate::background::Background;
use crate::data_dir::DataDir;
use crate::embedded::Callers;
use crate::inbox::{Inbox, Message};
use crate::log_thread::LogThread;
use crate::pool::Pool;
use node::session::Clients;
use node::stats::Stats;
use node::{Answers, Config, Shard, ShardView, Ticket};
use replica::{DiskHealth, DiskState, Log, LogOptions, LogWrite, Replica};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use storage::{Compression, EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
use vocab::{Prng, SLOT_COUNT, ShardId, Slot, limits, wall_clock_ms};

/// How long a look into storage may take before it is asked whether it has waited for the disk.
pub(crate) const SLOW_READ: Duration = Duration::from_micros(200);
/// How long after a slow read others are sent to the pool rather than made on an event loop.
const SLOW_SPELL_MS: u64 = 1000;

/// What all threads of a node share.
pub(crate) struct Store {
    pub(crate) config: Arc<Config>,
    pub(crate) dir: DataDir,
    pub(crate) log: Arc<Log>,
    pub(crate) health: Arc<DiskHealth>,
    pub(crate) resources: Arc<SharedResources>,
    pub(crate) cache: Arc<RowCache>,
    pub(crate) views: Vec<Arc<ShardView>>,
    shard_of_slot: Box<[u16]>,
    pub(crate) sync: bool,
    pub(crate) pool: Pool,
    pub(crate) log_thread: LogThread,
    pub(crate) inboxes: OnceLock<Vec<Arc<Inbox>>>,
    pub(crate) cursors: Mutex<node::exec::ScanCursors>,
    pub(crate) clients: Clients,
    pub(crate) stats: Stats,
    pub(crate) background: Background,
    pub(crate) embedded: Callers,
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
    /// Opens the store in the directory that `config` names and brings every shard up to date with its log.
    pub(crate) fn open(config: Arc<Config>, workers: usize, seed: u64) -> Result<(Arc<Self>, Vec<Shard>), String> {
        let text = |name: &str| config.text(name).unwrap_or_default();
        let number = |name: &str| config.number(name).unwrap_or_default();
        let engine: EngineKind = text("engine").parse()?;
        let shards = u32::try_from(number("shards")).map_err(|_| "too many shards")?;
        let dir = DataDir::open(Path::new(&text("dir")), shards, engine, seed)?;
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
        let log = Log::open(&dir.log(), &LogOptions::default(), health.clone()).map_err(|e| e.to_string())?;
        let log = Arc::new(log);
        let identity = dir.identity().clone();
        let mut open = Vec::new();
        for id in (0..identity.shards).map(ShardId) {
            let slots = slots_of(id, identity.shards);
            let tree = open_engine(engine, &dir.shard(id), &resources).map_err(|e| e.to_string())?;
            let view = ShardView::open(id, slots, tree, cache.clone()).map_err(|e| e.to_string())?;
            Replica::bootstrap(&log, id, identity.node).map_err(|e| e.to_string())?;
            let state = log.state(id).map_err(|e| e.to_string())?.ok_or("the log forgot a shard")?;
            let applied = view.engine().flushed_index();
            let replica = Replica::open(log.clone(), id, identity.node, state, applied).map_err(|e| e.to_string())?;
            open.push(Shard::new(view, replica, health.clone()));
        }
        recover(&mut open, &log)?;
        health.be_patient();
        let views: Vec<_> = open.iter().map(|shard| shard.view().clone()).collect();
        let mut shard_of_slot = vec![0u16; usize::from(SLOT_COUNT)].into_boxed_slice();
        for (i, view) in views.iter().enumerate() {
            let (first, last) = view.slots();
            shard_of_slot[usize::from(first)..=usize::from(last)].fill(i as u16);
        }
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let store = Self {
            sync: text("durability") == "sync",
            pool: Pool::start((threads * 8).clamp(8, 64)).map_err(|e| e.to_string())?,
            log_thread: LogThread::start(log.clone()).map_err(|e| e.to_string())?,
            config,
            dir,
            log,
            health,
            resources,
            cache,
            views,
            shard_of_slot,
            inboxes: OnceLock::new(),
            cursors: Mutex::new(node::exec::ScanCursors::default()),
            clients: Clients::default(),
            stats: Stats::new(workers),
            background: Background::default(),
            embedded: Callers::default(),
            started_ms: now_ms(),
            run_id: run_id(seed),
            stopping: AtomicBool::new(false),
            stop_asked: AtomicBool::new(false),
            slow_until_ms: AtomicU64::new(0),
            queued_bytes: AtomicUsize::new(0),
            queued_bytes_max: budget.queued_writes,
        };
        Ok((Arc::new(store), open))
    }

    /// The shard that owns a slot.
    pub(crate) fn shard_of(&self, slot: Slot) -> usize {
        usize::from(self.shard_of_slot[usize::from(slot.0)])
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
    pub(crate) fn cursors(&self) -> std::sync::MutexGuard<'_, node::exec::ScanCursors> {
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
            self.slow_until_ms.store(now_ms + SLOW_SPELL_MS, Ordering::Relaxed);
        }
    }
}

/// First and last slot of a shard, when slots are shared out evenly.
#[must_use]
pub fn slots_of(id: ShardId, shards: u32) -> (u16, u16) {
    let first = |i: u32| (u64::from(i) * u64::from(SLOT_COUNT)).div_ceil(u64::from(shards)) as u16;
    let last = if id.0 + 1 == shards { SLOT_COUNT - 1 } else { first(id.0 + 1) - 1 };
    (first(id.0), last)
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
                row_cache: (memory / 100 * 40) as usize,
                block_cache: memory / 100 * 15,
                memtables: memory / 100 * 20,
                queued_writes,
            },
            // The tree is in memory itself.
            EngineKind::Memory => Self { row_cache: 1 << 20, block_cache: 1 << 20, memtables: memory, queued_writes },
        }
    }
}

/// Nobody waits for what is replayed.
struct NoAnswers;

impl Answers for NoAnswers {
    fn answer(&mut self, _ticket: &Ticket, _reply: &[u8]) {}
}

/// Elects every group of one, applies what its log holds beyond its tree, and says what it does.
fn recover(shards: &mut [Shard], log: &Log) -> Result<(), String> {
    let started = Instant::now();
    let behind: u64 = shards.iter().map(|shard| shard.replica().status()).map(|s| s.last - s.applied).sum();
    if behind > 0 {
        log::info!("replaying {behind} log entries of {} shards", shards.len());
    }
    let mut write = LogWrite::default();
    let mut numbers = vec![0; shards.len()];
    for (shard, number) in shards.iter_mut().zip(&mut numbers) {
        shard.replica_mut().campaign().map_err(|e| e.to_string())?;
        turns(shard, &mut write, number)?;
    }
    log.write(&mut write, true).map_err(|e| e.to_string())?;
    let mut shown = Instant::now();
    for i in 0..shards.len() {
        shards[i].persisted(numbers[i]);
        loop {
            let mut number = 0;
            let more = step(&mut shards[i], &mut write, &mut number)?;
            if number > 0 {
                log.write(&mut write, true).map_err(|e| e.to_string())?;
                shards[i].persisted(number);
            }
            if shards[i].view().engine().wants_flush() {
                shards[i].seal();
                shards[i].view().engine().flush().map_err(|e| e.to_string())?;
            }
            if shown.elapsed() > Duration::from_secs(1) {
                shown = Instant::now();
                let now: u64 = shards.iter().map(|s| s.replica().status()).map(|s| s.last - s.applied).sum();
                log::info!("replaying: {now} of {behind} entries left, {} shards of {} done", i, shards.len());
            }
            if !more && number == 0 {
                break;
            }
        }
        if let Some(detail) = shards[i].broken() {
            return Err(detail.to_owned());
        }
        let status = shards[i].replica().status();
        assert!(shards[i].view().serving(), "a group of one that does not serve: {status:?}");
    }
    if behind > 0 {
        let keys: u64 = shards.iter().map(|shard| shard.view().key_count()).sum();
        log::info!("replayed {behind} entries in {:.1} s, {keys} keys", started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn turns(shard: &mut Shard, write: &mut LogWrite, number: &mut u64) -> Result<(), String> {
    while step(shard, write, number)? {}
    Ok(())
}

fn step(shard: &mut Shard, write: &mut LogWrite, number: &mut u64) -> Result<bool, String> {
    match shard.turn(write, &mut NoAnswers).map_err(|e| e.to_string())? {
        Some(turned) => {
            *number = (*number).max(turned);
            Ok(true)
        }
        None => Ok(false),
    }
}

fn run_id(seed: u64) -> String {
    let mut prng = Prng::new(seed ^ now_ms());
    format!("{:016x}{:016x}{:08x}", prng.next_u64(), prng.next_u64(), prng.next_u64() as u32)
}

/// The clock that entries carry.
pub(crate) fn now_ms() -> u64 {
    wall_clock_ms()
}
