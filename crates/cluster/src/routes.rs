//! What a request needs of the map, laid out for looking up: slot → shard → replicas → nodes.

use crate::map::{Map, NodeInfo, ReplicaInfo};
use std::collections::BTreeMap;
use vocab::{Epoch, NodeId, ReplicaId, SLOT_COUNT, ShardId, Slot};

const BLOCK_SLOTS: usize = 64;
const BLOCKS: usize = SLOT_COUNT as usize / BLOCK_SLOTS;
const _: () = assert!(BLOCKS * BLOCK_SLOTS == SLOT_COUNT as usize);

/// Where everything is, as of an epoch.
#[derive(Clone, Debug)]
pub struct Routes {
    epoch: Epoch,
    slots: Box<[ShardId; SLOT_COUNT as usize]>,
    /// Of so many slots side by side, the shard that owns them all; none if several do. It stays in a processor's caches,
    /// where `slots` does not.
    blocks: Box<[Option<ShardId>; BLOCKS]>,
    /// Rising, beside `shards`.
    ids: Vec<ShardId>,
    shards: Vec<RouteShard>,
    replicas: Vec<ReplicaInfo>,
    nodes: BTreeMap<NodeId, NodeInfo>,
}

#[derive(Clone, Debug)]
struct RouteShard {
    slots: Vec<(u16, u16)>,
    /// Its part of `Routes::replicas`.
    first: u32,
    count: u32,
}

impl From<&Map> for Routes {
    /// Expects a map that [`Map::validate`] finds nothing wrong with.
    fn from(map: &Map) -> Self {
        let mut slots = Box::new([ShardId::META; SLOT_COUNT as usize]);
        let mut shards = Vec::with_capacity(map.shards.len());
        let mut replicas = Vec::with_capacity(map.shards.values().map(|shard| shard.replicas.len()).sum());
        for (id, shard) in &map.shards {
            for &(first, last) in &shard.slots {
                slots[usize::from(first)..=usize::from(last)].fill(*id);
            }
            let (first, count) = (replicas.len() as u32, shard.replicas.len() as u32);
            replicas.extend_from_slice(&shard.replicas);
            shards.push(RouteShard { slots: shard.slots.clone(), first, count });
        }
        assert!(slots.iter().all(|id| *id != ShardId::META), "every slot is owned by a data shard");
        let ids = map.shards.keys().copied().collect();
        let mut blocks = Box::new([None; BLOCKS]);
        for (block, slots) in blocks.iter_mut().zip(slots.chunks(BLOCK_SLOTS)) {
            *block = slots.iter().all(|id| *id == slots[0]).then_some(slots[0]);
        }
        Self { epoch: map.epoch, slots, blocks, ids, shards, replicas, nodes: map.nodes.clone() }
    }
}

impl Routes {
    /// The map's number.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The shard that owns `slot`.
    #[must_use]
    pub fn shard_of(&self, slot: Slot) -> ShardId {
        let slot = usize::from(slot.0);
        self.blocks[slot / BLOCK_SLOTS].unwrap_or_else(|| self.slots[slot])
    }

    /// Every shard, the metadata group first.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.ids.iter().copied()
    }

    /// The slots that a shard owns, as ranges of first and last.
    #[must_use]
    pub fn slots_of(&self, shard: ShardId) -> &[(u16, u16)] {
        self.shard(shard).map_or(&[], |shard| &shard.slots)
    }

    /// A shard's replicas; none for a shard that the map does not know.
    #[must_use]
    pub fn replicas(&self, shard: ShardId) -> &[ReplicaInfo] {
        self.shard(shard).map_or(&[], |shard| &self.replicas[shard.first as usize..][..shard.count as usize])
    }

    /// The node where a shard's replica is.
    #[must_use]
    pub fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        self.replicas(shard).iter().find(|known| known.id == replica).map(|known| known.node)
    }

    /// A shard's replica on `node`.
    #[must_use]
    pub fn replica_on(&self, shard: ShardId, node: NodeId) -> Option<ReplicaId> {
        self.replicas(shard).iter().find(|known| known.node == node).map(|known| known.id)
    }

    /// How a node is reached.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeInfo> {
        self.nodes.get(&id)
    }

    /// Every node.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeInfo)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    fn shard(&self, id: ShardId) -> Option<&RouteShard> {
        // As long as no shard was ever removed, a shard's place is its number.
        let place = id.0 as usize;
        if self.ids.get(place) == Some(&id) {
            return Some(&self.shards[place]);
        }
        self.ids.binary_search(&id).ok().map(|place| &self.shards[place])
    }
}
