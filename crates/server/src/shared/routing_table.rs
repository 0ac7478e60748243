//! What every thread of a node knows of the store: the map, who leads each shard, and this node's own replicas.

use arc_swap::{ArcSwap, Guard};
use cluster::{Map, Routes};
use node::ShardView;
use node::control::reconcile::has_split;
use node::read::LeaderCell;
use std::sync::{Arc, Mutex, PoisonError};
use vocab::{ReplicaId, ShardId, Slot};

/// One shard, as this node sees it.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// This node's replica, if it has one.
    pub(crate) view: Option<Arc<ShardView>>,
    /// Which replica that is.
    pub(crate) replica: ReplicaId,
    /// Who leads.
    pub(crate) leader: Arc<LeaderCell>,
}

/// What is known at one moment. A new one replaces it; nothing in it changes but leaders.
pub(crate) struct Known {
    /// The map; none before there is a store.
    pub(crate) map: Option<Arc<Map>>,
    /// The map as it will be when splits that have happened here are reported.
    owners: Option<Arc<Map>>,
    routes: Option<Arc<Routes>>,
    /// By shard id.
    places: Vec<Place>,
}

/// The shards that were split off, as this node's replicas show, while the map does not say so yet.
fn split_off(map: &Map, places: &[Place]) -> Vec<ShardId> {
    let view = |shard: ShardId| places.get(shard.0 as usize)?.view.as_ref();
    let view = |shard: ShardId| view(shard).map(|view| &**view);
    let has_happened =
        |(child, split): &(&ShardId, &cluster::Split)| has_split(split, view(split.parent), view(**child));
    map.splits.iter().filter(has_happened).map(|(child, _)| *child).collect()
}

impl Known {
    fn of(map: Option<Arc<Map>>, places: Vec<Place>) -> Self {
        let children = map.as_ref().map_or_else(Vec::new, |map| split_off(map, &places));
        let owners = match &map {
            Some(map) if !children.is_empty() => Some(Arc::new(map.as_split(&children))),
            same => same.clone(),
        };
        let routes = owners.as_ref().map(|map| Arc::new(Routes::from(&**map)));
        Self { map, owners, routes, places }
    }

    /// The shard that owns a slot; none before there is a store.
    pub(crate) fn shard_of(&self, slot: Slot) -> Option<ShardId> {
        Some(self.routes.as_ref()?.shard_of(slot))
    }

    /// This node's replicas, with their ids.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (ReplicaId, &Arc<ShardView>)> {
        self.places.iter().filter_map(|place| Some((place.replica, place.view.as_ref()?)))
    }

    /// This node's replica of a shard.
    pub(crate) fn view(&self, shard: usize) -> Option<&Arc<ShardView>> {
        self.places.get(shard)?.view.as_ref()
    }

    /// One shard.
    pub(crate) fn place(&self, shard: usize) -> Option<&Place> {
        self.places.get(shard)
    }

    /// All shards, by id.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// This node's replicas of data shards, by shard.
    pub(crate) fn views(&self) -> impl Iterator<Item = &Arc<ShardView>> {
        self.places.iter().skip(1).filter_map(|place| place.view.as_ref())
    }

    /// This node's replicas, that of the metadata group included.
    pub(crate) fn all_views(&self) -> impl Iterator<Item = &Arc<ShardView>> {
        self.places.iter().filter_map(|place| place.view.as_ref())
    }

    /// The slots of a shard, as ranges of first and last.
    pub(crate) fn ranges(&self, shard: ShardId) -> &[(u16, u16)] {
        self.owners.as_ref().and_then(|map| map.shards.get(&shard)).map_or(&[], |info| &info.slots)
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

/// The way to what is known.
pub(crate) struct Directory {
    known: ArcSwap<Known>,
    change: Mutex<()>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        let nothing = Known { map: None, owners: None, routes: None, places: Vec::new() };
        Self { known: ArcSwap::from_pointee(nothing), change: Mutex::new(()) }
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Guard<Arc<Known>> {
        self.known.load()
    }

    /// There is a newer map.
    pub(crate) fn set_map(&self, map: Arc<Map>) {
        self.replace(|known| {
            let count = map.shards.keys().last().map_or(0, |last| last.0 as usize + 1);
            let mut places = known.places.clone();
            places.resize_with(count.max(places.len()), Place::default);
            Known::of(Some(map), places)
        });
    }

    /// This node has a replica of a shard, or has it no more.
    pub(crate) fn set_view(&self, shard: ShardId, view: Option<(ReplicaId, Arc<ShardView>)>) {
        self.set_views([(shard, view)]);
    }

    /// The same of several shards at once: each change costs a copy of everything that is known.
    pub(crate) fn set_views(&self, views: impl IntoIterator<Item = (ShardId, Option<(ReplicaId, Arc<ShardView>)>)>) {
        self.replace(|known| {
            let mut places = known.places.clone();
            for (shard, view) in views {
                let at = shard.0 as usize;
                places.resize_with(places.len().max(at + 1), Place::default);
                (places[at].replica, places[at].view) =
                    view.map_or_else(Default::default, |(id, view)| (id, Some(view)));
            }
            if known.map.as_ref().is_some_and(|map| !map.splits.is_empty()) {
                return Known::of(known.map.clone(), places);
            }
            let (map, owners, routes) = (known.map.clone(), known.owners.clone(), known.routes.clone());
            Known { map, owners, routes, places }
        });
    }

    fn replace(&self, make: impl FnOnce(&Known) -> Known) {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let next = make(&self.known.load());
        self.known.store(Arc::new(next));
    }
}
