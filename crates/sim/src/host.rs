//! One node: a core with what a server would have around it, on a disk and with clocks of its own.

use crate::clock::Clock;
use crate::disk::Disk;
use crate::request::{Form, Request};
use cluster::Map;
use node::core::{Core, Logging};
use node::exec::{self, Call};
use node::{CachedSpace, Fault, Shard, ShardView, SnapshotSpace, handlers};
use replica::{DiskHealth, LogStore, LogWrite, Replica};
use resp::{Proto, Reply, table};
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::RowCache;
use vocab::{Moment, NodeId, ReplicaId, ShardId};

/// Memory of a node's row cache: enough for all rows of a run.
const CACHE_BYTES: usize = 4 << 20;

/// A read that waits until its answer is allowed.
pub struct WaitingRead {
    /// The operation's number in the history.
    pub operation: usize,
    /// What is asked.
    pub request: Request,
    /// When it came, by the steady clock.
    pub arrived_us: u64,
}

/// What only lives while the process does.
pub struct Process {
    /// The core.
    pub core: Core,
    /// Whether the disk takes writes.
    pub health: Arc<DiskHealth>,
    /// The log write under way.
    pub writing: Option<(LogWrite, Logging)>,
    /// What is to be written after it.
    pub next: Option<(LogWrite, Logging)>,
    /// Reads whose leader is not confirmed yet, by shard.
    pub reads: BTreeMap<ShardId, Vec<WaitingRead>>,
    /// Writes under way, by operation.
    pub writes: BTreeMap<usize, Request>,
    /// Replicas that could not be opened, and why.
    pub refused: BTreeMap<(ShardId, ReplicaId), String>,
    /// How often in a row the operator found a replica here that stands still.
    pub stuck_looks: u32,
    cache: Arc<RowCache>,
}

/// See the module's words.
pub struct Host {
    /// Its id.
    pub id: NodeId,
    /// Its clocks.
    pub clock: Clock,
    /// Its disk.
    pub disk: Disk,
    /// `None` while it is down.
    pub process: Option<Process>,
    /// It stands still; events are held.
    pub paused: bool,
    /// Counts its starts: what was meant for an earlier one is void.
    pub life: u64,
    /// The newest map that it has seen.
    pub map: Arc<Map>,
}

impl Host {
    /// A node that has not been started.
    #[must_use]
    pub fn new(id: NodeId, map: Arc<Map>) -> Self {
        let clock = Clock::new(1_000_000 * id.0);
        Self { id, clock, disk: Disk::default(), process: None, paused: false, life: 0, map }
    }

    /// Starts it: opens what the map says that it has.
    pub fn boot(&mut self, now: Moment, seed: u64, keep_bytes: u64) {
        assert!(self.process.is_none(), "node {} is started twice", self.id);
        self.life += 1;
        let mut process = Process {
            core: Core::new(self.id),
            health: Arc::default(),
            writing: None,
            next: None,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            refused: BTreeMap::new(),
            stuck_looks: 0,
            cache: Arc::new(RowCache::new(CACHE_BYTES)),
        };
        process.core.map_changed(self.map.clone());
        self.process = Some(process);
        self.follow_map(now, seed, keep_bytes);
    }

    /// The process is gone, and with it what it had in memory.
    pub fn crash(&mut self) -> Option<Process> {
        self.paused = false;
        self.process.take()
    }

    /// Opens the replicas that the map has here and the core has not, gives those away that are not in it.
    pub fn follow_map(&mut self, now: Moment, seed: u64, keep_bytes: u64) {
        let Some(process) = &mut self.process else { return };
        let (map, me) = (self.map.clone(), self.id);
        process.core.map_changed(map.clone());
        for (shard, info) in map.data_shards() {
            let here = info.replica_on(me).map(|replica| replica.id);
            let has = process.core.shard(shard).map(|shard| shard.replica().me());
            if has.is_some() && has != here {
                process.core.release(shard);
            }
            if let Some(replica) = here
                && has != here
                && !process.refused.contains_key(&(shard, replica))
            {
                let seed = seed ^ u64::from(shard.0) << 32 ^ replica.0;
                match open(&mut self.disk, &map, shard, replica, process, seed) {
                    Ok((mut opened, fresh)) => {
                        opened.replica_mut().keep_log(keep_bytes);
                        process.core.adopt(opened, fresh, now);
                    }
                    Err(why) => _ = process.refused.insert((shard, replica), why),
                }
            }
        }
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
) -> Result<(Shard, bool), String> {
    let log: Arc<dyn LogStore> = disk.log.clone();
    let text = |e: replica::Error| e.to_string();
    let known = log.state(shard).map_err(text)?;
    if known.as_ref().is_some_and(|state| state.replica != replica) {
        // What is here is of a replica that was removed. The tree goes first: one without a log could not be told from
        // one that has lost its log.
        disk.forget_tree(shard);
        let mut write = LogWrite::default();
        write.remove(shard);
        log.write(write, true).map_err(text)?;
    }
    let fresh = log.state(shard).map_err(text)?.is_none();
    let info = &map.shards[&shard];
    if fresh {
        // The first replicas know each other from the first map; a later one waits to be told by a snapshot.
        let first = replica.0 <= u64::from(map.replication_factor);
        let voters: Vec<ReplicaId> =
            if first { (1..=u64::from(map.replication_factor)).map(ReplicaId).collect() } else { Vec::new() };
        Replica::bootstrap(&*log, shard, replica, &voters, &[]).map_err(text)?;
    }
    let tree = disk.open_tree(shard).map_err(|e| e.to_string())?;
    let slots = *info.slots.first().ok_or("a shard without slots")?;
    let view = ShardView::open(shard, slots, tree, process.cache.clone()).map_err(|e| e.to_string())?;
    let state = log.state(shard).map_err(text)?.ok_or("the log has lost the group")?;
    let flushed = view.engine().flushed_index();
    let installed = view.snapshot_point().map_err(|e| e.to_string())?;
    let replica = Replica::open(log, shard, state, flushed, installed.as_ref(), seed).map_err(text)?;
    Ok((Shard::new(view, replica, process.health.clone())?, fresh))
}

/// Runs a read on a view, as an event loop would: from the cache, else from a snapshot.
pub fn read(view: &ShardView, request: &Request, now: Moment) -> Vec<u8> {
    assert_eq!(request.form, Form::Get, "only KV.GET is a read");
    let args = request.command();
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let handler = table::lookup(args[0]).and_then(|spec| handlers(spec.id).data).expect("KV.GET has a handler");
    let mut reply = Reply::new(Proto::Resp2);
    let mut space = CachedSpace::new(view, now.wall_ms);
    match handler(&mut Call { args: &args, space: &mut space, reply: &mut reply }) {
        Ok(()) => return reply.buf,
        Err(exec::Error::Fault(Fault::WouldBlock)) => reply.buf.clear(),
        Err(e) => panic!("a read fails: {e:?}"),
    }
    let mut space = SnapshotSpace::new(view, now.wall_ms, 1);
    if let Err(e) = handler(&mut Call { args: &args, space: &mut space, reply: &mut reply }) {
        panic!("a read fails: {e:?}");
    }
    reply.buf
}
