//! The routing table: the map, the leader of each shard as far as it is known, and this node's own replicas.
//!
//! Every thread reads it without a lock. A change replaces the snapshot; in a snapshot, only leaders change.

use super::script_engine::ScriptRules;
use arc_swap::{ArcSwap, Guard};
use cluster::{DATABASES_SETTING, Databases, Map, Routes};
use node::ShardHandle;
use node::control::reconcile::owners;
use node::read::{LeaderCell, LocalShard};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::{Database, NodeId, ReplicaId, ShardId, Slot, SlotSpan};

/// One shard, as this node sees it.
#[derive(Clone, Default)]
pub(crate) struct ShardRoute {
    /// This node's replica, if it has one.
    pub(crate) handle: Option<Arc<ShardHandle>>,
    /// Which replica that is.
    pub(crate) replica: ReplicaId,
    /// Who leads.
    pub(crate) leader: Arc<LeaderCell>,
}

/// The routing table as of one change.
pub(crate) struct RoutingSnapshot {
    /// The map; `None` before the node belongs to a store.
    pub(crate) map: Option<Arc<Map>>,
    /// The map with those splits that have happened here and are not in it yet.
    owners: Option<Arc<Map>>,
    routes: Option<Arc<Routes>>,
    /// Higher whenever slots may have another shard than before.
    pub(crate) version: u64,
    /// What is set for single databases.
    pub(crate) databases: Arc<Databases>,
    /// By which rules scripts run, once they do.
    pub(crate) scripts: Option<ScriptRules>,
    /// By shard id.
    places: Arc<[ShardRoute]>,
}

/// What a map says of single databases.
fn databases_of(before: &RoutingSnapshot, map: Option<&Map>) -> Arc<Databases> {
    let text = |map: &Map| map.settings.get(DATABASES_SETTING).cloned();
    let now = map.and_then(text);
    if before.map.as_deref().and_then(text) == now {
        return before.databases.clone();
    }
    let parsed = now.as_deref().unwrap_or_default().parse();
    Arc::new(parsed.unwrap_or_else(|why| {
        log::warn!("what is set for single databases has no effect: {why}");
        Databases::default()
    }))
}

impl RoutingSnapshot {
    /// What is known after `before`, of which what has not changed is kept.
    fn after(before: &Self, map: Option<Arc<Map>>, places: Arc<[ShardRoute]>) -> Self {
        let handle = |shard: ShardId| places.get(shard.0 as usize)?.handle.as_deref();
        let owners = map.as_ref().map(|map| owners(map, handle));
        let routes = owners.as_ref().map(|map| match &before.routes {
            Some(routes) => Arc::new(routes.following(map)),
            None => Arc::new(Routes::from(&**map)),
        });
        let databases = databases_of(before, map.as_deref());
        let scripts = map.as_deref().and_then(ScriptRules::of);
        let is_as_before = match (&before.routes, &routes) {
            (Some(before), Some(now)) => now.has_slots_of(before),
            (before, now) => before.is_none() && now.is_none(),
        };
        let version = before.version + u64::from(!is_as_before);
        Self { map, owners, routes, version, databases, scripts, places }
    }

    /// The shard that owns a slot; none before there is a store.
    pub(crate) fn shard_of(&self, slot: Slot) -> Option<ShardId> {
        Some(self.routes.as_ref()?.shard_of(slot))
    }

    /// This node's replica of the shard that owns a slot, if it has one.
    pub(crate) fn handle_of(&self, slot: Slot) -> Option<&Arc<ShardHandle>> {
        self.handle(self.shard_of(slot)?)
    }

    /// This node's replicas, with their ids.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (ReplicaId, &Arc<ShardHandle>)> {
        self.places.iter().filter_map(|place| Some((place.replica, place.handle.as_ref()?)))
    }

    /// This node's replica of a shard.
    pub(crate) fn handle(&self, shard: ShardId) -> Option<&Arc<ShardHandle>> {
        self.place(shard)?.handle.as_ref()
    }

    /// One shard.
    pub(crate) fn place(&self, shard: ShardId) -> Option<&ShardRoute> {
        self.places.get(shard.0 as usize)
    }

    /// What a read of a shard needs to know on this node, which is `node`; `None` while it belongs to no store.
    pub(crate) fn local(&self, node: NodeId, shard: Option<ShardId>) -> Option<LocalShard<'_>> {
        let (map, shard) = (self.map.as_deref()?, shard?);
        let place = self.place(shard);
        let handle = place.and_then(|place| place.handle.as_ref());
        Some(LocalShard { node, shard, map, handle, leader: place.map(|place| &*place.leader) })
    }

    /// The error that sends a client to a node of the map.
    pub(crate) fn moved(&self, slot: Slot, node: NodeId) -> Option<String> {
        let node = self.map.as_ref()?.nodes.get(&node)?;
        Some(format!("MOVED {slot} {}:{}", node.client_host, node.client_port))
    }

    /// The error that sends a client of this node, which is `node`, to the one that leads a shard; `None` if no other node
    /// is known to lead it.
    pub(crate) fn redirection(&self, node: NodeId, shard: ShardId, slot: Slot) -> Option<String> {
        self.moved(slot, self.local(node, Some(shard))?.other_leader()?)
    }

    /// All shards, in the order of their ids.
    pub(crate) fn places(&self) -> impl Iterator<Item = &ShardRoute> {
        self.places.iter()
    }

    /// This node's replicas of data shards, by shard.
    pub(crate) fn data_handles(&self) -> impl Iterator<Item = &Arc<ShardHandle>> {
        self.places.iter().skip(1).filter_map(|place| place.handle.as_ref())
    }

    /// This node's replicas, that of the metadata group included.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Arc<ShardHandle>> {
        self.places.iter().filter_map(|place| place.handle.as_ref())
    }

    /// The map with those splits that have happened here and are not in it yet.
    pub(crate) fn owners(&self) -> Option<&Arc<Map>> {
        self.owners.as_ref()
    }

    /// The slots of a shard, as ranges of first and last.
    pub(crate) fn ranges(&self, shard: ShardId) -> &[(u16, u16)] {
        self.owners.as_ref().and_then(|map| map.shards.get(&shard)).map_or(&[], |info| &info.slots)
    }

    /// The slots beside that one that its shard has too, without a gap.
    pub(crate) fn run_of(&self, slot: Slot) -> Option<SlotSpan> {
        let ranges = self.ranges(self.shard_of(slot)?);
        let span = ranges.iter().find(|range| SlotSpan::from(slot).is_within(**range));
        span.map(|(first, last)| SlotSpan::between(*first, *last))
    }

    /// Whether one shard has all slots of a span.
    pub(crate) fn shares_shard(&self, span: SlotSpan) -> bool {
        self.run_of(span.first()).is_some_and(|run| run.contains(span.last()))
    }

    /// All data shards in the order of their slots.
    pub(crate) fn shards(&self) -> Vec<(ShardId, (u16, u16))> {
        let shards = self.owners.iter().flat_map(|map| map.data_shards());
        let mut shards: Vec<_> =
            shards.filter_map(|(id, info)| Some((id, (info.slots.first()?.0, info.slots.last()?.1)))).collect();
        shards.sort_unstable_by_key(|(_, slots)| *slots);
        shards
    }
}

/// The newest routing snapshot, and the lock under which the next one is made.
pub(crate) struct RoutingTable {
    now: ArcSwap<RoutingSnapshot>,
    change: Mutex<()>,
    /// Whether reads of some database may go to any replica: each request of a database asks, and for most the answer is no.
    some_read_any: AtomicBool,
}

impl RoutingTable {
    pub(crate) fn new() -> Self {
        let databases = Arc::default();
        let places = Arc::from([]);
        let nothing =
            RoutingSnapshot { map: None, owners: None, routes: None, version: 0, databases, scripts: None, places };
        Self { now: ArcSwap::from_pointee(nothing), change: Mutex::default(), some_read_any: AtomicBool::default() }
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Guard<Arc<RoutingSnapshot>> {
        self.now.load()
    }

    /// Whether reads of a database may go to any replica.
    #[inline]
    pub(crate) fn reads_any(&self, database: Database) -> bool {
        self.some_read_any.load(Ordering::Relaxed)
            && self.known().databases.row(database).is_some_and(|row| row.reads_any)
    }

    /// There is a newer map.
    pub(crate) fn set_map(&self, map: Arc<Map>) {
        self.replace(|known| {
            let count = map.shards.keys().next_back().map_or(0, |last| last.0 as usize + 1);
            let mut places = known.places.clone();
            if count > places.len() {
                let new = count - places.len();
                places = places.iter().cloned().chain((0..new).map(|_| ShardRoute::default())).collect();
            }
            RoutingSnapshot::after(known, Some(map), places)
        });
    }

    /// This node has a replica of a shard, or has it no more.
    pub(crate) fn set_replica(&self, shard: ShardId, handle: Option<(ReplicaId, Arc<ShardHandle>)>) {
        self.set_replicas([(shard, handle)]);
    }

    /// `set_replica` of several shards at once: each change copies the whole snapshot.
    pub(crate) fn set_replicas(
        &self,
        handles: impl IntoIterator<Item = (ShardId, Option<(ReplicaId, Arc<ShardHandle>)>)>,
    ) {
        self.replace(|known| {
            let mut places = known.places.to_vec();
            for (shard, handle) in handles {
                let at = shard.0 as usize;
                places.resize_with(places.len().max(at + 1), ShardRoute::default);
                (places[at].replica, places[at].handle) =
                    handle.map_or_else(Default::default, |(id, handle)| (id, Some(handle)));
            }
            if known.map.as_ref().is_some_and(|map| !map.splits.is_empty()) {
                return RoutingSnapshot::after(known, known.map.clone(), places.into());
            }
            let (map, owners, routes) = (known.map.clone(), known.owners.clone(), known.routes.clone());
            let (version, databases, scripts) = (known.version, known.databases.clone(), known.scripts);
            RoutingSnapshot { map, owners, routes, version, databases, scripts, places: places.into() }
        });
    }

    fn replace(&self, make: impl FnOnce(&RoutingSnapshot) -> RoutingSnapshot) {
        let _change = self.change.lock();
        let before = self.now.load_full();
        let next = Arc::new(make(&before));
        self.now.store(next.clone());
        if !Arc::ptr_eq(&before.databases, &next.databases) {
            self.some_read_any.store(next.databases.some_read_any(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cluster::{NodeInfo, Split};
    use std::path::Path;
    use storage::{EngineKind, RowCache, SharedResources, StorageOptions, open_engine};
    use vocab::{PlanId, StoreId};

    const HERE: NodeId = NodeId(1);
    const THERE: NodeId = NodeId(2);

    fn info(id: NodeId) -> NodeInfo {
        NodeInfo {
            id,
            peer_address: format!("n{id}:1"),
            client_host: format!("host{}", id.0),
            client_port: 6379,
            zone: String::new(),
            capacity: 1,
        }
    }

    fn map(shards: u32) -> Map {
        cluster::initial_map(StoreId(1), &[info(HERE), info(THERE)], shards, 2).unwrap()
    }

    fn replica(folder: &Path, shard: ShardId, slots: (u16, u16)) -> Arc<ShardHandle> {
        let resources = SharedResources::new(StorageOptions::default());
        let engine = open_engine(EngineKind::Memory, &folder.join(shard.0.to_string()), &resources).unwrap();
        ShardHandle::open(shard, slots, engine, Arc::new(RowCache::new(0))).unwrap()
    }

    /// What is known, as words: the owner of slots 0 and 16383, the shards of which there is a replica here.
    fn words(table: &RoutingTable) -> String {
        let known = table.known();
        let owner = |slot| known.shard_of(Slot(slot)).map_or("none".to_owned(), |shard| shard.0.to_string());
        let replicas: Vec<String> = known.handles().map(|handle| handle.id().0.to_string()).collect();
        let ranges: Vec<String> =
            known.shards().iter().map(|(shard, (first, last))| format!("{}={first}-{last}", shard.0)).collect();
        format!("{} {} [{}] {}", owner(0), owner(16383), replicas.join(","), ranges.join(" "))
    }

    #[test]
    fn maps_and_replicas_come_and_go_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let table = RoutingTable::new();
        assert_eq!(words(&table), "none none [] ");
        let handle = replica(folder.path(), ShardId(2), (8192, 16383));
        table.set_replica(ShardId(2), Some((ReplicaId(7), handle.clone())));
        assert_eq!(words(&table), "none none [2] ", "a replica that was opened before the map came");
        table.set_map(Arc::new(map(2)));
        assert_eq!(words(&table), "1 2 [2] 1=0-8191 2=8192-16383");
        let known = table.known();
        assert_eq!(known.replicas().map(|(id, _)| id).collect::<Vec<_>>(), [ReplicaId(7)]);
        // Who leads is kept from map to map.
        assert!(known.place(ShardId(1)).unwrap().leader.learn(Some(THERE), 3));
        table.set_map(Arc::new(map(2)));
        assert_eq!(table.known().place(ShardId(1)).unwrap().leader.node(), Some(THERE));
        table.set_replicas([(ShardId(2), None), (ShardId(0), Some((ReplicaId(1), handle)))]);
        assert_eq!(table.known().data_handles().count(), 0, "shard 0 is no data shard");
        assert_eq!(table.known().handles().count(), 1);
        assert_eq!(words(&table), "1 2 [2] 1=0-8191 2=8192-16383", "the replica's own id is told");
    }

    #[test]
    fn a_client_is_sent_to_another_node_that_is_known_to_lead() {
        let table = RoutingTable::new();
        let sent = |slot, shard| table.known().redirection(HERE, ShardId(shard), Slot(slot));
        assert_eq!(sent(5, 1), None, "no store");
        table.set_map(Arc::new(map(2)));
        assert_eq!(sent(5, 1), None, "no leader is known");
        let leads = |node| table.known().place(ShardId(1)).unwrap().leader.learn(Some(node), node.0);
        leads(HERE);
        assert_eq!(sent(5, 1), None, "this node itself");
        leads(THERE);
        assert_eq!(sent(5, 1).as_deref(), Some("MOVED 5 host2:6379"));
        assert_eq!(sent(5, 2), None, "of another shard");
        assert_eq!(table.known().moved(Slot(9), NodeId(3)), None, "a node that is not in the map");
    }

    /// A replica here has given slots away, and the map does not say so yet.
    #[test]
    fn slots_are_the_new_shards_as_soon_as_its_parent_here_has_given_them_away() {
        let (low, high) = ((0, 8191), (8192, 16383));
        // Shards are told in the order of their slots, whichever half is the new one's.
        for (kept, given, expected) in
            [(low, high, "1 2 [1] 1=0-8191 2=8192-16383"), (high, low, "2 1 [1] 2=0-8191 1=8192-16383")]
        {
            let folder = tempfile::tempdir().unwrap();
            let mut splitting = map(1);
            let split = Split { plan: PlanId(1), parent: ShardId(1), slots: vec![given] };
            splitting.splits.insert(ShardId(2), split);
            let child = splitting.shards[&ShardId(1)].clone();
            splitting.shards.insert(ShardId(2), cluster::ShardInfo { slots: Vec::new(), ..child });
            let table = RoutingTable::new();
            table.set_map(Arc::new(splitting));
            assert_eq!(words(&table), "1 1 [] 1=0-16383");
            table.set_replica(ShardId(1), Some((ReplicaId(1), replica(folder.path(), ShardId(1), (0, 16383)))));
            assert_eq!(words(&table), "1 1 [1] 1=0-16383");
            let halved = replica(&folder.path().join("halved"), ShardId(1), kept);
            table.set_replica(ShardId(1), Some((ReplicaId(1), halved)));
            assert_eq!(words(&table), expected);
            assert_eq!(table.known().ranges(ShardId(2)), [given]);
        }
    }
}
