//! Opening this node's replicas: tree and log of each, brought up to date where nobody else is needed for that.

use crate::holdings::SET_ASIDE;
use crate::store::{Store, moment};
use cluster::Map;
use node::peer::PeerMessage;
use node::{Answers, Effects, Shard, ShardView, SnapshotTask, SplitTask, Ticket};
use replica::{LogStore, LogWrite, Members, Replica};
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::open_engine;
use vocab::{NodeId, Prng, ReplicaId, ShardId};

/// A replica that has been opened, on its way to its worker.
pub(crate) struct Opened {
    pub(crate) shard: Shard,
    /// It has never been part of anything.
    pub(crate) fresh: bool,
}

impl Store {
    /// Opens all replicas that the map gives this node, and tells the directory. One that is damaged is told of, and made
    /// anew from its peers when an operator says so; a node that has no peers does not start.
    pub(crate) fn open_replicas(&self, map: &Arc<Map>) -> Result<Vec<Opened>, String> {
        self.directory.set_map(map.clone());
        self.sweep(map)?;
        let mut opened = Vec::new();
        for (shard, replica) in map.replicas_on(self.node()) {
            match self.open_held(map, shard, replica.id) {
                Ok(one) => opened.extend(one),
                Err(why) if self.is_alone() => return Err(why),
                Err(why) => self.holdings.damaged(shard, replica.id, why),
            }
        }
        Ok(opened)
    }

    /// Opens one replica, unless it is known to be of no use, or its shard is only about to be made.
    pub(crate) fn open_held(&self, map: &Map, shard: ShardId, me: ReplicaId) -> Result<Option<Opened>, String> {
        if self.holdings.is_damaged(shard, me) || self.will_be_forked(map, shard)? {
            return Ok(None);
        }
        if self.dir.is_set_aside(shard, me) {
            return Err(SET_ASIDE.to_owned());
        }
        self.open_replica(map, shard, me).map(Some)
    }

    /// Opens one replica; makes it if the log has never seen its group.
    pub(crate) fn open_replica(&self, map: &Map, shard: ShardId, me: ReplicaId) -> Result<Opened, String> {
        let info = map.shards.get(&shard).ok_or_else(|| format!("the map has no shard {shard}"))?;
        // A shard that is being split off owns none yet, as far as the map says.
        let slots = map.splits.get(&shard).map_or(&info.slots, |split| &split.slots).clone();
        let fail = |what: &str| format!("shard {shard}: {what}");
        let tree = open_engine(self.dir.identity().engine, &self.dir.shard(shard), &self.resources);
        let tree = tree.map_err(|e| e.to_string())?;
        let view = ShardView::open(shard, slots, tree, self.cache.clone()).map_err(|e| e.to_string())?;
        view.set_config(self.config.clone());
        let fresh = self.log.state(shard).map_err(|e| e.to_string())?.is_none();
        if fresh {
            // The members of a store's first map know each other from it; any other replica is told by a snapshot.
            let is_first = info.members_index == 0 && info.replica(me).is_some_and(|replica| replica.member);
            let voters: Vec<ReplicaId> = info.voters().filter(|_| is_first).map(|replica| replica.id).collect();
            Replica::bootstrap(&*self.log, shard, me, &voters, &[]).map_err(|e| fail(&e.to_string()))?;
        }
        let state = self.log.state(shard).map_err(|e| e.to_string())?.ok_or_else(|| fail("the log forgot it"))?;
        if state.replica != me {
            return Err(fail(&format!("the log holds replica {}, the map gives this node {me}", state.replica)));
        }
        let applied = view.engine().flushed_index();
        let installed = view.snapshot_point()?;
        let seed = Prng::new(self.node().0 ^ u64::from(shard.0)).next_u64();
        let log: Arc<dyn LogStore> = self.log.clone();
        let replica = Replica::open(log, shard, state, applied, installed.as_ref(), seed).map_err(|e| e.to_string())?;
        let mut shard = Shard::new(view.clone(), replica, self.health.clone())?;
        shard.set_first_map(map);
        self.directory.set_view(view.id(), Some((me, view)));
        Ok(Opened { shard, fresh })
    }
}

/// Nobody waits for what is replayed, and nobody is told.
#[derive(Default)]
struct Nobody {
    splits: Vec<SplitTask>,
}

impl Answers for Nobody {
    fn answer(&mut self, _ticket: &Ticket, _reply: &[u8]) {}
}

impl Effects for Nobody {
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
    fn map(&mut self, _map: Arc<Map>) {}
}

/// Elects every group of one, applies what its log holds beyond its tree, and says what it does. Groups of several
/// need the others for that. Shards that are split off meanwhile are added.
pub(crate) fn recover(store: &Store, opened: &mut Vec<Opened>) -> Result<(), String> {
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
    let mut at = 0;
    while at < opened.len() {
        let rest = left(&opened[at + 1..]);
        let shard = &mut opened[at].shard;
        at += 1;
        if !shard.replica().is_alone() {
            continue;
        }
        let mut children = Vec::new();
        shard.replica_mut().campaign().map_err(|e| e.to_string())?;
        while step(store, shard, &mut children)? {
            if shard.view().engine().wants_flush() {
                shard.seal();
                shard.view().engine().flush().map_err(|e| e.to_string())?;
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
        assert!(shard.view().serving(), "a group of one that does not serve: {status:?}");
        opened.append(&mut children);
    }
    if behind > 0 {
        let alone = opened.iter().map(|opened| &opened.shard).filter(|shard| shard.replica().is_alone());
        let keys: u64 = alone.map(|shard| shard.view().key_count()).sum();
        log::info!("replayed {behind} entries in {:.1} s, {keys} keys", started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// One round of a group of one; false if there was nothing to do.
fn step(store: &Store, shard: &mut Shard, children: &mut Vec<Opened>) -> Result<bool, String> {
    let mut write = LogWrite::default();
    let now = moment();
    let mut nobody = Nobody::default();
    shard.propose(now, &mut nobody);
    let number = shard.collect(&mut write, &mut nobody)?;
    let more = !write.is_empty() || shard.has_collected();
    if !write.is_empty() {
        store.log.write(write, true).map_err(|e| e.to_string())?;
        shard.persisted(number, &mut nobody);
    }
    let mut later = LogWrite::default();
    shard.apply_collected(now, &mut later, &mut nobody);
    for task in nobody.splits {
        let child = store.fork(&task)?;
        shard.forked(Ok(()));
        if let Some(child) = child {
            child.shard.view().begin_after(shard.view());
            store.directory.set_view(task.child, Some((task.replica, child.shard.view().clone())));
            children.push(child);
        }
    }
    if !later.is_empty() {
        store.log.write(later, true).map_err(|e| e.to_string())?;
    }
    Ok(more || shard.has_collected() || shard.has_queued() || shard.replica().has_ready())
}
