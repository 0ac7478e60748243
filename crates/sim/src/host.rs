//! One node: a core with what a server would have around it, on a disk and with clocks of its own.

use crate::bulk::BulkRequest;
use crate::clock::Clock;
use crate::collections::CollectionRequest;
use crate::disk::Disk;
use crate::effects::Outbox;
use crate::event::NodeEvent;
use crate::log_pipe::LogPipe;
use crate::request::Request;
use crate::schedule::Micros;
use crate::sessions::Sessions;
use crate::waiting_reads::WaitingReads;
use cluster::{Map, MapUpdate, NodeInfo, Routes};
use node::blocking::Blocked;
use node::command::{self, Handler, handler};
use node::control::reconcile::{LocalGroup, LocalReplica, Removal, comes_by_split, owners, reconcile};
use node::control::{Control, Shape};
use node::multi_raft::MultiRaft;
use node::read::{LeaderCell, LocalShard};
use node::{CachedSpace, Fault, Shard, ShardHandle, Slots, SnapshotSpace, StoreClock};
use replica::{LogStore, LogWrite, Replica};
use resp::{Proto, Reply, table};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use storage::{Engine, RowCache};
use vocab::{Epoch, Moment, NodeId, ReplicaId, ShardId, Slot};

/// Memory of a node's row cache: enough for all rows of a run.
const CACHE_BYTES: usize = 4 << 20;

/// Who leads which shard, as a node has heard.
#[derive(Default)]
pub struct Leaders(BTreeMap<ShardId, LeaderCell>);

impl Leaders {
    /// News of a term; true if the leader has changed.
    pub fn learn(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64) -> bool {
        self.0.entry(shard).or_default().learn(leader, term)
    }

    /// A node does not answer any more.
    pub fn lost(&mut self, node: NodeId) {
        self.0.values().for_each(|cell| cell.lost(node));
    }

    /// Who leads.
    #[must_use]
    pub fn of(&self, shard: ShardId) -> Option<NodeId> {
        self.cell(shard)?.node()
    }

    /// The news of a shard.
    #[must_use]
    pub fn cell(&self, shard: ShardId) -> Option<&LeaderCell> {
        self.0.get(&shard)
    }
}

/// What only lives while the process does.
pub struct Process {
    /// The core.
    pub core: MultiRaft,
    /// The node's part in the control of the store.
    pub control: Control,
    /// The store's time, as the node has it.
    pub clock: Arc<StoreClock>,
    /// Ticks since the start.
    pub ticks: u64,
    /// Who leads.
    pub leaders: Leaders,
    /// The newest map that it has.
    pub map: Option<Arc<Map>>,
    pub(crate) routes: Option<Routes>,
    /// The core has yet to follow the newest map.
    pub behind: bool,
    /// What is written to the log.
    pub log: LogPipe,
    /// Reads that wait for news of their shard.
    pub reads: WaitingReads,
    /// Writes under way, by operation and the shard that they were brought to.
    pub writes: BTreeMap<(usize, ShardId), Request>,
    /// What hostile clients have under way, by the connection and number of its ticket.
    pub bulk: BTreeMap<(u32, u64), BulkRequest>,
    /// What clients of collections have under way, likewise.
    pub collections: BTreeMap<(u32, u64), CollectionRequest>,
    /// Clients of collections that wait in blocking commands.
    pub blocked: Blocked,
    /// Clients that publish and that listen.
    pub sessions: Sessions,
    /// Answers to those that waited for replicas which are closed: they go out with the next tick.
    pub dismissed: Outbox,
    /// Shards that are being split off.
    pub forks: BTreeSet<ShardId>,
    /// Replicas that could not be opened, and why.
    pub refused: BTreeMap<(ShardId, ReplicaId), String>,
    /// Replicas are not open, or not removed, for want of room, descriptors or memory.
    pub unopened: bool,
    /// How often in a row the operator found a replica here that stands still.
    pub stuck_looks: u32,
    pub(crate) cache: Arc<RowCache>,
}

/// One simulated node: its core, its disk and its clocks.
pub struct Host {
    /// What it says of itself.
    pub info: NodeInfo,
    /// Its clocks.
    pub clock: Clock,
    /// Its disk.
    pub disk: Disk,
    /// `None` while it is down.
    pub process: Option<Process>,
    /// It stands still.
    pub paused: bool,
    /// What has come to it while it stands still.
    pub held: VecDeque<NodeEvent>,
    /// When the turn of its event loop began that it stood still in: while that goes on.
    pub turn: Option<Moment>,
    /// Since when it is down, if it is.
    pub down_since: Option<Micros>,
}

impl Host {
    /// A node that has not been started.
    #[must_use]
    pub fn new(info: NodeInfo) -> Self {
        let clock = Clock::new(1_000_000 * info.id.0);
        Self {
            info,
            clock,
            disk: Disk::default(),
            process: None,
            paused: false,
            held: VecDeque::new(),
            turn: None,
            down_since: Some(0),
        }
    }

    /// The number of the newest map that it has.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.process.as_ref()?.map.as_ref().map(|map| map.epoch)
    }

    /// Starts it: opens what the map that it has kept says that it has.
    pub fn boot(&mut self, now: Moment, seed: u64, shape: Shape, keep_bytes: u64) {
        assert!(self.process.is_none(), "node {} is started twice", self.info.id);
        self.down_since = None;
        let map = self.disk.map.start();
        let clock = Arc::new(StoreClock::new(now));
        let process = Process {
            core: MultiRaft::new(self.info.id, clock.clone()),
            control: Control::new(self.info.clone(), shape, map.clone(), clock.clone(), seed),
            clock,
            ticks: 0,
            leaders: Leaders::default(),
            routes: map.as_ref().map(|map| Routes::from(&**map)),
            map,
            behind: false,
            log: LogPipe::default(),
            reads: WaitingReads::default(),
            writes: BTreeMap::new(),
            bulk: BTreeMap::new(),
            collections: BTreeMap::new(),
            // In every other run each client of more than one key joins their queues by and by.
            blocked: if seed.is_multiple_of(2) { Blocked::new(1) } else { Blocked::default() },
            sessions: Sessions::default(),
            dismissed: Outbox::default(),
            forks: BTreeSet::new(),
            refused: BTreeMap::new(),
            unopened: false,
            stuck_looks: 0,
            cache: Arc::new(RowCache::new(CACHE_BYTES)),
        };
        self.process = Some(process);
        self.follow_map(now, seed, keep_bytes);
    }

    /// The process is gone, and with it what it had in memory.
    pub fn crash(&mut self, at: Micros) -> Option<Process> {
        self.paused = false;
        self.turn = None;
        self.down_since.get_or_insert(at);
        self.process.take()
    }

    /// Keeps a map, if its disk has room.
    pub fn keep(&mut self, update: &MapUpdate) -> bool {
        let map = &update.map;
        let is_full = self.disk.is_full();
        if let Some(process) = &mut self.process {
            if is_full {
                process.control.not_kept(map.clone(), process.map.clone());
                return false;
            }
            let before = process.routes.take();
            process.routes = Some(before.map_or_else(|| Routes::from(&**map), |routes| routes.following(map)));
            process.map = Some(map.clone());
            process.behind = true;
        }
        self.disk.map.keep(update);
        true
    }

    /// Opens the replicas that the map has here and the core has not, removes those that are not in it.
    pub fn follow_map(&mut self, now: Moment, seed: u64, keep_bytes: u64) {
        let Some(process) = &mut self.process else { return };
        process.behind = false;
        let me = self.info.id;
        let Some(map) = process.map.clone() else { return };
        process.core.map_changed(map.clone());
        process
            .refused
            .retain(|(shard, replica), _| map.replica(*shard, *replica).is_some_and(|there| there.node == me));
        let plan = reconcile(&map, me, &local_replicas(&self.disk, process));
        let is_written_to = |shard: ShardId| process.core.shard(shard).is_some_and(node::Shard::is_applied_aside);
        if plan.close.iter().any(|(shard, _)| is_written_to(*shard)) {
            process.behind = true;
            return;
        }
        if self.disk.lack().is_some() && !(plan.close.is_empty() && plan.remove.is_empty()) {
            // A log that has no room takes no removal either: all of it waits until there is some.
            process.unopened = true;
            return;
        }
        for &(shard, _) in &plan.close {
            if let Some(mut released) = process.core.release(shard) {
                released.dismiss(&mut process.dismissed);
                process.cache.clear_shard(shard.0);
            }
            remove(&mut self.disk, Removal { shard, group: true }, &map, me, process);
        }
        for &removal in &plan.remove {
            remove(&mut self.disk, removal, &map, me, process);
        }
        let begun = plan.begin.iter().map(|given| (given, true));
        for (&(shard, replica), begins) in plan.open.iter().map(|given| (given, false)).chain(begun) {
            if begins && process.comes_by_split(&map, me, shard) {
                continue;
            }
            let seed = seed ^ u64::from(shard.0) << 32 ^ replica.0;
            match open(&mut self.disk, &map, shard, replica, process, seed) {
                Ok((mut opened, fresh)) => {
                    opened.replica_mut().keep_log(keep_bytes);
                    opened.handle().watch_followers(true);
                    process.core.adopt(opened, fresh, now);
                }
                Err(OpenError::Lack) => process.unopened = true,
                Err(OpenError::Refused(why)) => _ = process.refused.insert((shard, replica), why),
            }
        }
    }
}

impl Process {
    /// What the node knows of a shard.
    pub(crate) fn local<'a>(
        &'a self,
        node: NodeId,
        shard: Option<ShardId>,
        handle: Option<&'a Arc<ShardHandle>>,
    ) -> Option<LocalShard<'a>> {
        let (map, shard) = (self.map.as_deref()?, shard?);
        Some(LocalShard { node, shard, map, handle, leader: self.leaders.cell(shard) })
    }

    /// The shard that owns a slot, as far as this node knows: by the map, and by what its replicas show.
    #[must_use]
    pub fn shard_of(&self, slot: Slot) -> Option<ShardId> {
        let map = self.map.as_ref()?;
        let owners = owners(map, |shard| self.core.shard(shard).map(|shard| &**shard.handle()));
        if Arc::ptr_eq(&owners, map) {
            return Some(self.routes.as_ref()?.shard_of(slot));
        }
        Some(Routes::from(&*owners).shard_of(slot))
    }

    /// Whether a replica of which the log has nothing will come by a split.
    #[must_use]
    pub fn comes_by_split(&self, map: &Map, me: NodeId, shard: ShardId) -> bool {
        let parent = |parent: ShardId| self.core.shard(parent).map(|shard| &**shard.handle());
        let others =
            self.core.shards().map(Shard::handle).filter(|view| view.id() != ShardId::META && view.id() != shard);
        let has_joined = |slot: Slot| others.into_iter().any(|view| view.has_slot(slot) && view.has_joined());
        comes_by_split(map, me, shard, parent, has_joined)
    }
}

/// What the node has of every shard, on disk and open.
fn local_replicas(disk: &Disk, process: &Process) -> BTreeMap<ShardId, LocalReplica> {
    let mut all: BTreeMap<ShardId, LocalReplica> = BTreeMap::new();
    for shard in process.core.shards() {
        all.entry(shard.handle().id()).or_default().open = Some(shard.replica().me());
    }
    for shard in disk.log.groups() {
        all.entry(shard).or_default().group = match disk.log.state(shard) {
            Ok(state) => state.map_or(LocalGroup::None, |state| LocalGroup::Of(state.replica)),
            Err(_) => LocalGroup::Unreadable,
        };
    }
    for shard in disk.trees() {
        all.entry(shard).or_default().tree = true;
    }
    for shard in &process.forks {
        all.entry(*shard).or_default().forking = true;
    }
    for (shard, replica) in process.refused.keys() {
        all.entry(*shard).or_default().damaged = Some(*replica);
    }
    all
}

/// Removes a tree, then the log's group.
fn remove(disk: &mut Disk, removal: Removal, map: &Map, me: NodeId, process: &Process) {
    let shard = removal.shard;
    let is_given = map.shards.get(&shard).is_some_and(|info| info.replica_on(me).is_some());
    if disk.keeps && !is_given {
        return;
    }
    disk.forget_tree(shard);
    let mut write = LogWrite::default();
    write.remove(shard);
    if removal.group
        && let Err(e) = disk.log.write(write, true)
    {
        process.log.health().poison(&e.to_string());
    }
}

/// Why a replica is not open.
enum OpenError {
    /// For want of descriptors or memory: it is tried again.
    Lack,
    /// It cannot be.
    Refused(String),
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// Opens a replica, or makes it.
fn open(
    disk: &mut Disk,
    map: &Map,
    shard: ShardId,
    replica: ReplicaId,
    process: &Process,
    seed: u64,
) -> Result<(Shard, bool), OpenError> {
    let log: Arc<dyn LogStore> = disk.log.clone();
    let text = |e: replica::Error| e.to_string();
    let info = &map.shards[&shard];
    let fresh = log.state(shard).map_err(text)?.is_none();
    if fresh {
        // The first replicas know each other from the first map; a later one waits to be told by a snapshot.
        let first = info.members_index == 0 && info.replica(replica).is_some_and(|replica| replica.member);
        let voters: Vec<ReplicaId> = if first { info.voters().map(|voter| voter.id).collect() } else { Vec::new() };
        Replica::bootstrap(&*log, shard, replica, &voters, &[]).map_err(text)?;
    }
    let tree = match disk.open_tree(shard) {
        Err(e) if e.is_passing() => return Err(OpenError::Lack),
        opened => opened.map_err(|e| e.to_string())?,
    };
    // A shard that is being split off owns none yet, as far as the map says.
    let slots = map.splits.get(&shard).map_or(&info.slots, |split| &split.slots).clone();
    let mut opened = begin(disk, process, (shard, replica), slots, tree, seed)?;
    if shard == ShardId::META {
        opened.set_first_map(map);
    }
    Ok((opened, fresh))
}

/// Opens a replica whose tree and group are there.
pub fn begin(
    disk: &Disk,
    process: &Process,
    (shard, replica): (ShardId, ReplicaId),
    slots: impl Into<Slots>,
    tree: Arc<dyn Engine>,
    seed: u64,
) -> Result<Shard, String> {
    let log: Arc<dyn LogStore> = disk.log.clone();
    let text = |e: replica::Error| e.to_string();
    let view = ShardHandle::open(shard, slots, tree, process.cache.clone()).map_err(|e| e.to_string())?;
    let state = log.state(shard).map_err(text)?.ok_or("the log has lost the group")?;
    if state.replica != replica {
        return Err(format!("the log holds replica {}", state.replica));
    }
    let flushed = view.engine().flushed_index();
    let installed = view.snapshot_point().map_err(|e| e.to_string())?;
    let replica = Replica::open(log, shard, state, flushed, installed.as_ref(), seed).map_err(text)?;
    Shard::new(view, replica, process.log.health().clone()).map_err(|e| e.to_string())
}

/// Runs a read on a view, as an event loop would: from the cache, else from a snapshot. The error is one of the rows.
pub fn read(view: &ShardHandle, args: &[Vec<u8>], now: Moment) -> Result<Vec<u8>, String> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let Some(Handler::Read(handler)) = table::lookup(args[0]).and_then(handler) else { panic!("{args:?} is no read") };
    let mut reply = Reply::new(Proto::Resp2);
    let mut done = handler.run(&args, &mut CachedSpace::new(view, now.wall_ms), &mut reply);
    if matches!(done, Err(command::Error::Fault(Fault::WouldBlock))) {
        reply.buf.clear();
        done = handler.run(&args, &mut SnapshotSpace::new(view, now.wall_ms, 1), &mut reply);
    }
    match done {
        Ok(()) => {}
        Err(command::Error::Reply(text)) => {
            reply.buf.clear();
            reply.error(&text);
        }
        Err(command::Error::Fault(fault)) => return Err(format!("a read fails: {args:?}: {fault:?}")),
    }
    Ok(reply.buf)
}
