//! The state that all threads of a node share.

use super::access::Access;
use super::applied_settings::{AppliedSettings, SettingTargets};
use super::audit_log::AuditLog;
use super::background_state::BackgroundState;
use super::backup_snapshots::BackupSnapshots;
use super::budget::Budget;
use super::callers::Callers;
use super::client_memory::ClientMemory;
use super::cluster_databases::{ClusterDatabasesBegin, has_cluster_databases};
use super::data_dir::DataDir;
use super::database_rates::DatabaseRates;
use super::digests::Digests;
use super::entry_formats::EntryFormats;
use super::forks::Forks;
use super::free_space::FreeSpace;
use super::known_functions::KnownFunctions;
use super::masters::Masters;
use super::peer_registry::PeerRegistry;
use super::pending_calls::PendingCalls;
use super::pool::Pool;
use super::reconcile_state::ReconcileState;
use super::routing_table::{RoutingSnapshot, RoutingTable, ShardRoute};
use super::store_users::StoreUsers;
use super::verification::Verification;
use super::worker_mailboxes::WorkerMailboxes;
use crate::log_sync::LogThreads;
use crate::mailbox::{AnswerShare, EMBEDDED, WorkerMessage};
use crate::os::{Shares, SpareProcessors, now_ms, random, raw_moment, waited_for_disk};
use crate::security::NodeTls;
use crate::snapshots::Snapshots;
use arc_swap::Guard;
use cluster::{Map, NodeInfo};
use node::HotKeys;
use node::KeyUsage;
use node::eviction::Room;
use node::pubsub::{Answered, Broker};
use node::session::{Clients, Durability, ProgramFacts};
use node::stats::Stats;
use node::tracking::Tracking;
use node::{Config, KnownScripts, Monitors, ScriptTally, ScriptWatch, ShardHandle, StoreClock};
use parking_lot::Mutex;
use replica::{DiskHealth, DiskState, Log, LogOptions, LogStore};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use storage::{Compression, EngineKind, RowCache, SharedResources, StorageOptions};
use vocab::limits::SCRIPT_THREADS;
use vocab::{Moment, NodeId, Prng, ShardId};

/// A read that takes longer than this may have waited for the disk.
pub(crate) const SLOW_READ: Duration = Duration::from_micros(200);
/// For how long after a slow read no event loop reads from the disk by itself, in ms.
const SLOW_SPELL_MS: u64 = 1000;

/// The peer address of a node that has none.
const NO_PEERS: &str = "none";

/// Threads for the calls of other nodes.
fn calls_of(alone: bool, threads: usize) -> usize {
    if alone { 0 } else { (threads * 4).clamp(4, 32) }
}

/// How many threads run at a time.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

fn open_dir(path: &str, shards: i64, engine: EngineKind, seed: u64) -> Result<DataDir, String> {
    let shards = u32::try_from(shards).map_err(|_| "too many shards")?;
    DataDir::open(Path::new(path), shards, engine, seed)
}

/// Runs a command of another node on this node's replica of a shard; answers one RESP3 frame.
pub(crate) type PeerCommand = fn(&Arc<NodeShared>, ShardId, &[&[u8]]) -> Vec<u8>;

/// Runs a command of this process's own, if this node leads its keys, and promises that of what it writes, or else what the
/// settings say; answers one RESP2 frame.
pub(crate) type OwnCommand = fn(&Arc<NodeShared>, &[&[u8]], Option<Durability>) -> Vec<u8>;

/// The state that all threads of a node share.
pub(crate) struct NodeShared {
    pub(crate) config: Arc<Config>,
    /// The certificates.
    pub(crate) tls: Arc<NodeTls>,
    /// The store's time: entries carry it, and expiry goes by it.
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) dir: DataDir,
    pub(crate) log: Arc<Log>,
    pub(crate) health: Arc<DiskHealth>,
    pub(crate) resources: Arc<SharedResources>,
    pub(crate) cache: Arc<RowCache>,
    pub(crate) routing: RoutingTable,
    pub(crate) pool: Pool,
    /// Threads for the calls of other nodes. Their jobs wait for no other node.
    pub(crate) call_pool: Pool,
    pub(crate) log_threads: LogThreads,
    pub(crate) mailboxes: WorkerMailboxes,
    pub(crate) cursors: node::command::ScanCursors,
    pub(crate) clients: Clients,
    /// Who has subscribed to what.
    pub(crate) broker: Broker,
    /// How often single databases are asked.
    pub(crate) database_rates: DatabaseRates,
    /// What this node does to have the store begin cluster databases.
    pub(crate) begins_cluster_databases: ClusterDatabasesBegin,
    /// What clients that are configured for Sentinel take for masters.
    pub(crate) masters: Masters,
    /// Clients that are told of every command.
    pub(crate) monitors: Arc<Monitors>,
    /// What others see of the scripts that run.
    pub(crate) script_watch: Arc<ScriptWatch>,
    /// Threads for scripts that only read, and take long.
    pub(crate) script_pool: Pool,
    /// What clients may have cached.
    pub(crate) tracking: Arc<Tracking>,
    /// Held by each wait that SWAPDB has to go on elsewhere, until it does.
    pub(crate) moving_waits: Arc<()>,
    /// The scripts that this node knows the store to know.
    pub(crate) scripts: KnownScripts,
    /// About how many the store keeps, while this node leads the metadata group.
    pub(crate) script_tally: Mutex<ScriptTally>,
    /// The functions that this node knows the store to have.
    pub(crate) functions: KnownFunctions,
    /// Logins, refusals and the deeds of operators.
    pub(crate) audit_log: AuditLog,
    /// Who may do what.
    pub(crate) users: StoreUsers,
    /// The links' worker has been asked to tell other nodes what clients have subscribed to.
    pub(crate) announces: AtomicBool,
    pub(crate) stats: Arc<Stats>,
    /// What is known of the use of keys, for eviction.
    pub(crate) usage: Arc<KeyUsage>,
    /// The room that clients have for more data.
    pub(crate) room: Room,
    /// Which keys cost the node most.
    pub(crate) hot_keys: HotKeys,
    pub(crate) background: BackgroundState,
    pub(crate) embedded: Callers,
    pub(crate) calls: PendingCalls,
    pub(crate) peer_command: PeerCommand,
    pub(crate) own_command: OwnCommand,
    pub(crate) backups: BackupSnapshots,
    pub(crate) peers: PeerRegistry,
    pub(crate) reconcile: ReconcileState,
    /// Shards that are being forked from others.
    pub(crate) forks: Forks,
    pub(crate) digests: Digests,
    pub(crate) verification: Verification,
    pub(crate) snapshots: OnceLock<Snapshots>,
    pub(crate) spare_processors: SpareProcessors,
    pub(crate) client_memory: ClientMemory,
    /// An operator wants the store to be made.
    pub(crate) init_asked: AtomicBool,
    /// When the process started, in ms since the epoch.
    pub(crate) started_ms: u64,
    /// Differs in every run of the process.
    pub(crate) run_id: String,
    pub(crate) stopping: AtomicBool,
    /// A client has asked for the end (SHUTDOWN).
    pub(crate) stop_asked: AtomicBool,
    applied_settings: AppliedSettings,
    /// It was started without peer-listen: no other node can join it.
    alone: bool,
    /// Until when the disk counts as slow, in ms since the epoch.
    slow_until_ms: AtomicU64,
    /// Bytes of writes that are on their way to their shard's next entry.
    queued_bytes: AtomicUsize,
    /// Which entries other nodes read.
    pub(crate) entry_formats: EntryFormats,
    queued_bytes_max: usize,
}

impl NodeShared {
    /// An answer was taken, or its read is over: reads go on that waited for room.
    pub(crate) fn give_back(&self, share: Option<AnswerShare>) {
        drop(share);
        while let Some((share, read)) = self.client_memory.read.next() {
            self.pool.run(Box::new(move || read(share)));
        }
    }

    /// Whether clients of a cluster may use databases beyond 0.
    pub(crate) fn has_cluster_databases(&self) -> bool {
        self.known().map.as_ref().is_some_and(|map| has_cluster_databases(map))
    }

    /// Opens the data directory that `config` names, and its log. Its shards are opened afterwards.
    pub(crate) fn open(
        config: Arc<Config>,
        workers: usize,
        descriptors: &Shares,
        seed: u64,
        (peer_command, own_command): (PeerCommand, OwnCommand),
    ) -> Result<Arc<Self>, String> {
        let text = |name: &str| config.text(name).unwrap_or_default();
        let number = |name: &str| config.number(name).unwrap_or_default();
        let engine: EngineKind = text("engine").parse()?;
        let mut dir = open_dir(&text("dir"), number("shards"), engine, seed)?;
        let budget = Budget::of(number("memory").unsigned_abs(), engine);
        let (cache, health) = (Arc::new(RowCache::new(budget.row_cache)), Arc::new(DiskHealth::default()));
        let (alone, stats) = (text("peer-listen").is_empty(), Arc::new(Stats::new(workers)));
        (text("rebuild") == "yes").then(|| set_aside(&mut dir, alone)).transpose()?;
        let (threads, monitors, log) = (processors(), Arc::default(), open_log(&dir, &health, alone)?);
        Ok(Arc::new(Self {
            pool: Pool::start("read", (threads * 8).clamp(8, 64)).map_err(|e| e.to_string())?,
            call_pool: Pool::start("call", calls_of(alone, threads)).map_err(|e| e.to_string())?,
            audit_log: AuditLog::start(config.clone()).map_err(|e| e.to_string())?,
            log_threads: LogThreads::start(log.clone(), stats.clone(), config.clone()).map_err(|e| e.to_string())?,
            tls: Arc::new(NodeTls::open(config.clone())?),
            resources: resources(&config, &budget, descriptors)?,
            config,
            clock: Arc::new(StoreClock::new(raw_moment())),
            dir,
            log,
            health,
            cache,
            routing: RoutingTable::new(),
            mailboxes: WorkerMailboxes::default(),
            cursors: node::command::ScanCursors::default(),
            clients: Clients::default(),
            broker: Broker::default(),
            tracking: Arc::default(),
            moving_waits: Arc::default(),
            database_rates: DatabaseRates::default(),
            masters: Masters::default(),
            script_watch: Arc::new(ScriptWatch::new(Arc::clone(&monitors))),
            monitors,
            script_pool: Pool::with_classes("script", &SCRIPT_THREADS).map_err(|e| e.to_string())?,
            scripts: KnownScripts::default(),
            script_tally: Mutex::default(),
            functions: KnownFunctions::default(),
            users: StoreUsers::new(random()),
            announces: AtomicBool::new(false),
            stats,
            usage: Arc::default(),
            room: Room::default(),
            hot_keys: HotKeys::default(),
            background: BackgroundState::default(),
            embedded: Callers::default(),
            calls: PendingCalls::default(),
            peer_command,
            own_command,
            backups: BackupSnapshots::default(),
            peers: PeerRegistry::default(),
            reconcile: ReconcileState::default(),
            forks: Forks::default(),
            digests: Digests::default(),
            verification: Verification::default(),
            snapshots: OnceLock::new(),
            spare_processors: SpareProcessors::default(),
            client_memory: ClientMemory::new(workers),
            init_asked: AtomicBool::new(false),
            started_ms: now_ms(),
            run_id: run_id(seed),
            stopping: AtomicBool::new(false),
            stop_asked: AtomicBool::new(false),
            applied_settings: AppliedSettings::default(),
            alone,
            slow_until_ms: AtomicU64::new(0),
            queued_bytes: AtomicUsize::new(0),
            entry_formats: EntryFormats::default(),
            begins_cluster_databases: ClusterDatabasesBegin::default(),
            queued_bytes_max: budget.queued_writes,
        }))
    }

    /// Now, by the store's time and the steady clock.
    pub(crate) fn moment(&self) -> Moment {
        self.clock.read(raw_moment())
    }

    /// The scripts and functions that the node knows.
    pub(crate) fn program_facts(&self) -> ProgramFacts {
        let (scripts, script_bytes) = self.scripts.figures();
        let known = self.functions.newest();
        let (libraries, functions) = known.libraries.counts();
        ProgramFacts { scripts, script_bytes, libraries, functions, library_bytes: known.libraries.bytes() }
    }

    /// The store's time, in ms since the epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.moment().wall_ms
    }

    /// Whether this node is a store by itself.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
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

    /// The port for clients with TLS that clients are told; 0: none.
    pub(crate) fn tls_port(&self) -> u16 {
        let port = |name: &str| u16::try_from(self.config.number(name).unwrap_or_default()).unwrap_or_default();
        if port("announce-tls-port") > 0 { port("announce-tls-port") } else { port("tls-port") }
    }

    /// The same of a node, as far as it is known.
    pub(crate) fn tls_port_of(&self, node: NodeId) -> u16 {
        if node == self.node() { self.tls_port() } else { self.tls.ports.of(node) }
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.dir.identity().node
    }

    /// Begins reads and settles whether their answers count, for threads that may wait.
    pub(crate) fn access(&self) -> Access<'_> {
        Access {
            node: self.node(),
            routing: &self.routing,
            clock: &self.clock,
            mailboxes: &self.mailboxes,
            stopping: &self.stopping,
        }
    }

    /// The routing table as of now.
    pub(crate) fn known(&self) -> Guard<Arc<RoutingSnapshot>> {
        self.routing.known()
    }

    /// This node's replicas of data shards, by shard.
    pub(crate) fn data_handles(&self) -> Vec<Arc<ShardHandle>> {
        self.known().data_handles().cloned().collect()
    }

    /// Gives a client, or a caller in this process, a reply that it waits for.
    pub(crate) fn answer(&self, answered: Answered) {
        if answered.ticket.worker == EMBEDDED {
            self.embedded.deliver_owned(&answered.ticket, answered.reply);
        } else {
            self.mailboxes.answer(answered.ticket, answered.reply);
        }
    }

    /// Whether the store is being stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A write of so many bytes sets out for its shard.
    pub(crate) fn write_queued(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes of so many bytes are proposed, or were refused.
    pub(crate) fn write_left(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of writes that are on their way to their shard's next entry.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Whether as many writes wait for the log as may. A store that refuses writes lets reads go on.
    pub(crate) fn is_full(&self) -> bool {
        self.queued_bytes.load(Ordering::Relaxed) > self.queued_bytes_max && self.health.state() == DiskState::Healthy
    }

    /// Whether a read that misses the row cache may be made on an event loop: not while the disk is being waited for.
    pub(crate) fn reads_are_fast(&self, now_ms: impl FnOnce() -> u64) -> bool {
        // Most disks are never slow, and a clock costs more than this.
        let slow_until_ms = self.slow_until_ms.load(Ordering::Relaxed);
        slow_until_ms == 0 || slow_until_ms <= now_ms()
    }

    /// Tells how long a read of one key took.
    pub(crate) fn note_read(&self, took: Duration, now_ms: impl FnOnce() -> u64) {
        if took > SLOW_READ && waited_for_disk() {
            log::debug!("slow read {took:?}");
            self.note_slow_read(now_ms());
        }
    }

    /// Tells that a read has waited for the disk.
    pub(crate) fn note_slow_read(&self, now_ms: u64) {
        self.slow_until_ms.store(now_ms + SLOW_SPELL_MS, Ordering::Relaxed);
    }

    /// The node that leads a shard, as far as this node knows.
    pub(crate) fn leader_of(&self, shard: ShardId) -> Option<NodeId> {
        self.known().place(shard).and_then(|place| self.leader_at(place))
    }

    /// The node that leads at a place of the routing table. A node that is a store by itself hears of no leader.
    pub(crate) fn leader_at(&self, place: &ShardRoute) -> Option<NodeId> {
        let here = || place.handle.as_ref().is_some_and(|handle| handle.serving()).then(|| self.node());
        place.leader.node().or_else(here)
    }

    /// The shards that this node leads, and their terms.
    pub(crate) fn led(&self) -> Vec<(ShardId, u64)> {
        let known = self.known();
        let led = known.handles().filter(|handle| handle.serving());
        led.map(|handle| (handle.id(), handle.status().term)).collect()
    }

    /// The link to a node has broken: no leader is known of the shards that it led.
    pub(crate) fn lost(&self, node: NodeId) {
        self.peers.down(node);
        let known = self.known();
        for place in known.places() {
            place.leader.lost(node);
        }
    }

    /// There is a newer map: entries go by it, and requests.
    pub(crate) fn set_map(&self, map: Arc<Map>) {
        self.entry_formats.map_changed(&map, self.node());
        self.routing.set_map(map);
    }

    /// Applies what the map sets for the whole store.
    pub(crate) fn apply_settings(&self, map: &Map) {
        let (config, resources, snapshots) = (&*self.config, &*self.resources, self.snapshots.get());
        self.applied_settings.apply(map, &SettingTargets { config, resources, snapshots });
    }

    /// Applies the users of a map; connections go by them at once.
    pub(crate) fn apply_users(&self, map: &Map) {
        if self.users.apply(map) {
            self.mailboxes.tell_all(|| WorkerMessage::UsersChanged(None));
        }
    }

    /// Bytes that are free on the device of the data directory, if the system tells.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        FreeSpace::of(self.dir.root()).ok().map(|space| space.free_bytes)
    }

    /// Whether a write of the log might have to wait for room: then no event loop may make it. A device can fill up
    /// faster than the thread that watches it looks.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.health.state() != DiskState::Healthy || FreeSpace::of(self.dir.root()).is_ok_and(|space| space.is_short())
    }
}

/// Opens the log. A replica that was begun is not begun anew: it would not know for whom it has voted.
fn open_log(dir: &DataDir, health: &Arc<DiskHealth>, alone: bool) -> Result<Arc<Log>, String> {
    let lost = || {
        let path = dir.log();
        let begins = format!("the log of this node is lost: {} has nothing of its replicas", path.display());
        match alone {
            true => format!("{begins}. Bring it back, or restore a backup into an empty --data"),
            false => format!(
                "{begins}, which may have made promises that others rely on. Bring it back, or start the node with --rebuild: its \
                 replicas are made anew from their peers then"
            ),
        }
    };
    if !dir.has_log() && dir.has_replicas()? {
        return Err(lost());
    }
    let opened = Log::open(&dir.log(), &LogOptions::default(), health.clone());
    let log = opened.map_err(|e| match alone {
        true => e.to_string(),
        false => format!("{e}; its peers have what it holds: start it with --rebuild"),
    })?;
    if !log.groups().is_empty() {
        // Earlier releases do not.
        dir.note_groups();
    } else if dir.has_groups() && dir.has_replicas()? {
        return Err(lost());
    } else {
        dir.forget_groups()?;
    }
    Ok(Arc::new(log))
}

/// What the shards' trees share.
fn resources(config: &Config, budget: &Budget, descriptors: &Shares) -> Result<Arc<SharedResources>, String> {
    let number = |name: &str| config.number(name).unwrap_or_default();
    let compression = config.text("compression").unwrap_or_default().parse::<Compression>()?;
    Ok(SharedResources::new(StorageOptions {
        block_cache_bytes: budget.block_cache,
        memtable_bytes_total: budget.memtables,
        rate_limit_bytes_per_s: number("rate-limit").unsigned_abs(),
        compression,
        separation_bytes: u32::try_from(number("separation-bytes")).unwrap_or(u32::MAX),
        open_files_max: usize::try_from(descriptors.files).unwrap_or(usize::MAX),
        ..StorageOptions::default()
    }))
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
