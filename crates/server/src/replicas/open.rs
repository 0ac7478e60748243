//! Opening this node's replicas: tree and log of each, brought up to date where no other node is needed for that.

use super::leftovers::{local_replicas, remove_leftovers};
use super::patience::patiently;
use super::replica::open_replica;
use super::skips::check_skips;
use super::split::{comes_by_split_here, fork, joined_slots};
use crate::mailbox::Opened;
use crate::shared::{NodeShared, SET_ASIDE, read_map};
use cluster::{Map, MapUpdate};
use node::control::reconcile::{Reconciliation, reconcile};
use node::peer_protocol::PeerMessage;
use node::{Answers, Effects, Shard, ShardHandle, SnapshotTask, SplitTask, Ticket};
use replica::{LogStore, LogWrite, Members};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};
use storage::{Engine, open_engine};
use vocab::{NodeId, Prng, ReplicaId, ShardId, StoreId};

/// A replica that the map gives this node.
pub(crate) type Given = (ShardId, ReplicaId);

/// A tree, or why it cannot be opened.
type TreeOpened = Result<Arc<dyn Engine>, String>;

/// A replica whose tree is open, on its way to its group.
struct Begun {
    given: Given,
    handle: Arc<ShardHandle>,
    fresh: bool,
}

/// So many replicas are opened together: they share fsyncs, and one change of what is known. What has been opened serves
/// while the next are.
const TOGETHER_MAX: usize = 256;
/// Between two lines about an opening that goes on.
const TELLS_EVERY: Duration = Duration::from_secs(3);
/// Threads that open trees: they wait for the disk, and what they wait for at the same time is one wait.
const OPENERS_MAX: usize = 16;

/// Opens this node's replicas, if the node belongs to a store, and brings every shard that has one voter up to date with
/// its log. A node that is alone makes a store of its own.
pub(crate) fn open_shards(store: &NodeShared) -> Result<Vec<Opened>, String> {
    let map = match read_map(store.dir.root())? {
        Some(map) => map,
        None if store.is_alone() => {
            let identity = store.dir.identity();
            let id = StoreId(Prng::new(identity.node.0).next_u64() >> 1 | 1);
            let map = cluster::initial_map(id, &[store.node_info()], identity.shards, 1).map_err(|e| e.to_string())?;
            store.dir.keep_map(&MapUpdate::whole(Arc::new(map.clone())))?;
            map
        }
        None => return Ok(Vec::new()),
    };
    require_peers(store, &map)?;
    let mut opened = open_replicas(store, &Arc::new(map))?;
    check_skips(store, &opened)?;
    recover(store, &mut opened)?;
    Ok(opened)
}

/// A node of several that others cannot reach would answer CLUSTERDOWN to everything.
fn require_peers(store: &NodeShared, map: &Map) -> Result<(), String> {
    let others = map.nodes.values().filter(|node| node.id != store.node()).count();
    if others == 0 || !store.is_alone() {
        return Ok(());
    }
    let own = map.nodes.values().find(|node| node.id == store.node());
    let address = own.map_or("HOST:PORT", |node| node.peer_address.as_str());
    Err(format!(
        "this data directory is of a node of a store with {others} other nodes, which cannot reach it without peer-listen. \
         Nothing was changed: start it with --peer-listen, as it was (the others know it at {address})"
    ))
}

/// Opens all replicas that the map gives this node, and tells the directory. One that is damaged is told of, and made
/// anew from its peers when an operator says so; a node that has no peers does not start.
fn open_replicas(store: &NodeShared, map: &Arc<Map>) -> Result<Vec<Opened>, String> {
    store.set_map(map.clone());
    let plan = reconcile(map, store.node(), &local_replicas(store, std::iter::empty()));
    remove_leftovers(store, &plan.remove)?;
    let (mut opened, mut failed) = (Vec::with_capacity(plan.open.len() + plan.begin.len()), None);
    open_planned(store, map, &plan, &mut |(shard, replica), one| match one {
        Ok(one) => opened.push(one),
        Err(why) if store.is_alone() => _ = failed.get_or_insert(why),
        Err(why) => store.reconcile.damaged(shard, replica, why),
    });
    opened.sort_unstable_by_key(|opened| opened.shard.handle().id());
    failed.map_or(Ok(opened), Err)
}

/// Opens replicas, and begins those that do not come by a split. Each is given to `take`, or why it cannot be opened. It
/// goes on until the store stops.
pub(crate) fn open_planned(
    store: &NodeShared,
    map: &Map,
    plan: &Reconciliation,
    take: &mut dyn FnMut(Given, Result<Opened, String>),
) {
    let mut progress = Progress::of("replicas are open", plan.open.len() + plan.begin.len());
    for together in plan.open.chunks(TOGETHER_MAX) {
        if store.is_stopping() {
            return;
        }
        open_together(store, map, together, take);
        progress.add(together.len());
    }
    for together in plan.begin.chunks(TOGETHER_MAX) {
        if store.is_stopping() {
            return;
        }
        let joined = joined_slots(store);
        let comes = |shard: ShardId| store.forks.contains(shard) || comes_by_split_here(store, map, shard, &joined);
        let begun: Vec<Given> = together.iter().copied().filter(|(shard, _)| !comes(*shard)).collect();
        open_together(store, map, &begun, take);
        progress.add(together.len());
    }
}

/// How far work on many replicas is: told every few seconds.
struct Progress {
    what: &'static str,
    done: usize,
    all: usize,
    told: Instant,
}

impl Progress {
    fn of(what: &'static str, all: usize) -> Self {
        Self { what, done: 0, all, told: Instant::now() }
    }

    fn add(&mut self, count: usize) {
        self.done += count;
        if self.told.elapsed() >= TELLS_EVERY && self.done < self.all {
            log::info!("{} of {} {}", self.done, self.all, self.what);
            self.told = Instant::now();
        }
    }
}

fn open_together(store: &NodeShared, map: &Map, given: &[Given], take: &mut dyn FnMut(Given, Result<Opened, String>)) {
    let mut wanted = Vec::with_capacity(given.len());
    for &(shard, me) in given {
        match store.dir.is_set_aside(shard, me) {
            true => take((shard, me), Err(SET_ASIDE.to_owned())),
            false => wanted.push((shard, me)),
        }
    }
    let mut write = LogWrite::default();
    let mut begun = Vec::with_capacity(wanted.len());
    for ((shard, me), tree) in open_trees(store, &wanted) {
        match tree.and_then(|tree| begin(store, map, (shard, me), tree, &mut write)) {
            Ok(one) => begun.push(one),
            Err(why) => take((shard, me), Err(why)),
        }
    }
    let written = if write.is_empty() { Ok(()) } else { store.log.write(write, true).map_err(|e| e.to_string()) };
    if written.is_ok() && !begun.is_empty() {
        store.dir.note_groups();
    }
    let mut opened = Vec::with_capacity(begun.len());
    for one in begun {
        let given = one.given;
        let written = if one.fresh { written.clone() } else { Ok(()) };
        match written.and_then(|()| join(store, map, one)) {
            Ok(one) => opened.push((given, one)),
            Err(why) => take(given, Err(why)),
        }
    }
    let handle = |((shard, me), one): &(Given, Opened)| (*shard, Some((*me, one.shard.handle().clone())));
    store.routing.set_replicas(opened.iter().map(handle));
    opened.into_iter().for_each(|(given, one)| take(given, Ok(one)));
}

/// Opens trees, or makes them, several at a time.
fn open_trees(store: &NodeShared, wanted: &[Given]) -> Vec<(Given, TreeOpened)> {
    if let Err(why) = store.dir.make_folders(wanted.iter().map(|(shard, _)| *shard)) {
        return wanted.iter().map(|given| (*given, Err(why.clone()))).collect();
    }
    let engine = store.dir.identity().engine;
    let open = |shard: ShardId| {
        patiently(store, shard, || Ok(open_engine(engine, &store.dir.shard(shard), &store.resources)?))
    };
    let share = wanted.len().div_ceil(OPENERS_MAX).max(1);
    let open_all = |given: &[Given]| given.iter().map(|&(shard, me)| ((shard, me), open(shard))).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        // Where no thread can be started, this one opens them.
        let begin = |given| (given, Builder::new().spawn_scoped(scope, move || open_all(given)));
        let openers: Vec<_> = wanted.chunks(share).map(begin).collect();
        let opened = openers.into_iter().flat_map(|(given, opener)| match opener {
            Ok(opener) => opener.join().expect("a panic while opening is not survived"),
            Err(_) => open_all(given),
        });
        opened.collect()
    })
}

/// Makes the group of a tree known to the log, if it has never seen it, by `write`.
fn begin(
    store: &NodeShared,
    map: &Map,
    given: Given,
    tree: Arc<dyn Engine>,
    write: &mut LogWrite,
) -> Result<Begun, String> {
    let (shard, me) = given;
    let info = map.shards.get(&shard).ok_or_else(|| format!("the map has no shard {shard}"))?;
    // A shard that is being split off owns none yet, as far as the map says.
    let slots = map.splits.get(&shard).map_or(&info.slots, |split| &split.slots).clone();
    let handle =
        patiently(store, shard, || Ok(ShardHandle::open(shard, slots.clone(), tree.clone(), store.cache.clone())?))?;
    handle.set_config(store.config.clone());
    handle.set_usage(store.usage.clone());
    handle.set_tracking(store.tracking.clone());
    handle.set_script_watch(store.script_watch.clone());
    let fresh = store.log.state(shard).map_err(|e| e.to_string())?.is_none();
    if fresh {
        // The members of a store's first map know each other from it; any other replica is told by a snapshot.
        let is_first = info.members_index == 0 && info.replica(me).is_some_and(|replica| replica.member);
        let voters: Vec<ReplicaId> = info.voters().filter(|_| is_first).map(|replica| replica.id).collect();
        write.begin(shard, me, &voters, &[]);
    }
    Ok(Begun { given, handle, fresh })
}

/// Opens the replica of a tree whose group the log knows.
fn join(store: &NodeShared, map: &Map, begun: Begun) -> Result<Opened, String> {
    let Begun { given: (shard, me), handle, fresh } = begun;
    let fail = |what: &str| format!("shard {shard}: {what}");
    let state = store.log.state(shard).map_err(|e| e.to_string())?.ok_or_else(|| fail("the log forgot it"))?;
    if state.replica != me {
        return Err(fail(&format!("the log holds replica {}, the map gives this node {me}", state.replica)));
    }
    let mut shard = open_replica(store, &handle)?;
    shard.set_first_map(map);
    Ok(Opened { shard, fresh })
}

/// The effects of a replay: no client waits, so only splits are kept.
#[derive(Default)]
struct ReplayEffects {
    splits: Vec<SplitTask>,
}

impl Answers for ReplayEffects {
    fn answer(&mut self, _ticket: &Ticket, _reply: &[u8]) {}
}

impl Effects for ReplayEffects {
    fn send(&mut self, _to: NodeId, _message: PeerMessage) {}
    fn not_leader(&mut self, _shard: ShardId, _ticket: &Ticket) {}
    fn led(&mut self, _shard: ShardId, _leader: Option<NodeId>, _term: u64) {}
    fn readable(&mut self, _shard: ShardId) {}
    fn sealed(&mut self, _shard: ShardId) {}
    fn snapshot_wanted(&mut self, _task: SnapshotTask) {}
    fn split(&mut self, task: SplitTask) {
        self.splits.push(task);
    }
    fn split_ended(&mut self, _child: ShardId) {}
    fn members(&mut self, _shard: ShardId, _index: u64, _members: Members) {}
    fn map(&mut self, _update: cluster::MapUpdate) {}
}

/// Elects every group of one, applies what its log holds beyond its tree, and says what it does. Groups of several
/// need the others for that. Shards that are split off meanwhile are added.
fn recover(store: &NodeShared, opened: &mut Vec<Opened>) -> Result<(), String> {
    let started = Instant::now();
    let left = |opened: &[Opened]| -> u64 {
        let alone = opened.iter().map(|opened| &opened.shard).filter(|shard| shard.replica().is_alone());
        alone.map(|shard| shard.replica().status()).map(|status| status.last - status.applied).sum()
    };
    let behind = left(opened);
    if behind > 0 {
        log::info!("replaying {behind} log entries of {} shards", opened.len());
    }
    let mut shown = Instant::now();
    let mut progress = Progress::of("shards were looked through for what the log holds of them", opened.len());
    let mut at = 0;
    while at < opened.len() {
        progress.add(1);
        let rest = left(&opened[at + 1..]);
        let shard = &mut opened[at].shard;
        at += 1;
        if !shard.replica().is_alone() {
            continue;
        }
        let mut children = Vec::new();
        shard.replica_mut().campaign().map_err(|e| e.to_string())?;
        while step(store, shard, &mut children)? {
            if shard.handle().engine().wants_flush() {
                shard.seal();
                flushed(shard)?;
            }
            if behind > 0 && shown.elapsed() > Duration::from_secs(1) {
                shown = Instant::now();
                let status = shard.replica().status();
                log::info!("replaying: {} of {behind} entries left", rest + status.last - status.applied);
            }
        }
        if let Some(detail) = shard.broken() {
            return Err(detail.to_owned());
        }
        let status = shard.replica().status();
        assert!(shard.handle().serving(), "a group of one that does not serve: {status:?}");
        opened.append(&mut children);
    }
    if behind > 0 {
        let alone = opened.iter().map(|opened| &opened.shard).filter(|shard| shard.replica().is_alone());
        let keys: u64 = alone.map(|shard| shard.handle().key_count()).sum();
        log::info!("replayed {behind} entries in {:.1} s, {keys} keys", started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Writes what a tree has sealed to its files. What is interrupted is begun again.
fn flushed(shard: &Shard) -> Result<(), String> {
    loop {
        match shard.handle().engine().flush() {
            Err(e) if e.is_interrupted() => {}
            done => return done.map_err(|e| e.to_string()),
        }
    }
}

/// One round of a group of one; false if there was nothing to do.
fn step(store: &NodeShared, shard: &mut Shard, children: &mut Vec<Opened>) -> Result<bool, String> {
    let mut write = LogWrite::default();
    let now = store.moment();
    let mut effects = ReplayEffects::default();
    shard.propose(now, &mut effects);
    let number = shard.collect(&mut write, &mut effects)?;
    let more = !write.is_empty() || shard.has_collected();
    if !write.is_empty() {
        store.log.write(write, true).map_err(|e| e.to_string())?;
        shard.persisted(number, &mut effects);
    }
    let mut later = LogWrite::default();
    shard.apply_collected(now, &mut later, &mut effects);
    for task in effects.splits {
        let child = fork(store, &task)?;
        shard.forked(Ok(()));
        if let Some(child) = child {
            child.shard.handle().begin_after(shard.handle());
            store.routing.set_replica(task.child, Some((task.replica, child.shard.handle().clone())));
            children.push(child);
        }
    }
    if !later.is_empty() {
        store.log.write(later, true).map_err(|e| e.to_string())?;
    }
    Ok(more || shard.has_collected() || shard.has_queued() || shard.replica().has_ready())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::node::Server;
    use crate::shared::DataDir;
    use cluster::{MapUpdate, NodeInfo};
    use node::Config;
    use replica::{Log, LogOptions};
    use std::path::Path;
    use std::sync::Arc;
    use storage::EngineKind;
    use vocab::StoreId;

    /// Starts a node alone, and stops it; or why it does not start.
    fn start(data: &Path) -> Result<(), String> {
        let dir = data.display().to_string();
        let settings = [("dir", &*dir), ("shards", "2"), ("workers", "1"), ("memory", "64M")];
        Server::embedded(Config::start(settings).unwrap()).map(Server::stop)
    }

    fn make_log(path: &Path) {
        Log::open(path, &LogOptions { file_bytes: 16 << 10, ..LogOptions::default() }, Arc::default()).unwrap();
    }

    /// Whatever is in its place, the replicas are not begun anew.
    #[test]
    fn a_log_that_is_lost_is_not_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (data, kept) = (folder.path().join("data"), folder.path().join("kept"));
        let (log, groups) = (data.join("log"), data.join("basalt.groups"));
        for _ in 0..2 {
            start(&data).unwrap();
        }
        std::fs::rename(&log, &kept).unwrap();
        let refused = |case: &str| {
            let why = start(&data).expect_err(case);
            assert!(why.contains("the log of this node is lost") && why.contains("restore a backup"), "{case}: {why}");
        };
        refused("no folder");
        refused("no folder, again");
        assert!(!log.exists());
        std::fs::create_dir(&log).unwrap();
        refused("no files");
        make_log(&log);
        refused("no groups");
        std::fs::remove_dir_all(&log).unwrap();
        std::fs::rename(&kept, &log).unwrap();
        start(&data).unwrap();
        // As an earlier release leaves it.
        std::fs::remove_file(&groups).unwrap();
        start(&data).unwrap();
        assert!(groups.exists());
    }

    #[test]
    fn a_crash_before_the_first_replica_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path(), 2, EngineKind::Lsm, 7).unwrap();
        make_log(&dir.log());
        let info = NodeInfo {
            id: dir.identity().node,
            peer_address: "none".to_owned(),
            client_host: "127.0.0.1".to_owned(),
            client_port: 7000,
            zone: String::new(),
            capacity: 1,
        };
        let map = cluster::initial_map(StoreId(7), &[info], 2, 1).unwrap();
        dir.keep_map(&MapUpdate::whole(Arc::new(map))).unwrap();
        drop(dir);
        start(folder.path()).unwrap();
        start(folder.path()).unwrap();
    }
}
