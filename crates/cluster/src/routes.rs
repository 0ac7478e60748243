//! What a request needs of the map, laid out for looking up: slot → shard → replicas → nodes.

use crate::map::Map;
use crate::node_info::NodeInfo;
use crate::shard_info::ReplicaInfo;
use crate::shards::Shards;
use crate::shared::Shared;
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
    /// Shared with the map.
    shards: Shards,
    nodes: Shared<BTreeMap<NodeId, NodeInfo>>,
}

impl From<&Map> for Routes {
    /// Expects a map that [`Map::validate`] finds nothing wrong with.
    fn from(map: &Map) -> Self {
        let nothing = Self {
            epoch: Epoch::default(),
            slots: Box::new([ShardId::META; SLOT_COUNT as usize]),
            blocks: Box::new([None; BLOCKS]),
            shards: Shards::default(),
            nodes: Shared::default(),
        };
        nothing.following(map)
    }
}

impl Routes {
    /// The routes of another map of the store, of which only what has changed is looked at. Expects a map that
    /// [`Map::validate`] finds nothing wrong with.
    #[must_use]
    pub fn following(&self, map: &Map) -> Self {
        let (mut slots, mut blocks) = (self.slots.clone(), self.blocks.clone());
        // A slot that another shard owns now is among those of a shard that has changed.
        for (id, shard) in map.shards.changed_since(&self.shards).filter(|(id, _)| **id != ShardId::META) {
            for &(first, last) in &shard.slots {
                slots[usize::from(first)..=usize::from(last)].fill(*id);
            }
        }
        if slots != self.slots {
            assert!(slots.iter().all(|id| *id != ShardId::META), "every slot is owned by a data shard");
            for (block, slots) in blocks.iter_mut().zip(slots.chunks(BLOCK_SLOTS)) {
                *block = slots.iter().all(|id| *id == slots[0]).then_some(slots[0]);
            }
        }
        Self { epoch: map.epoch, slots, blocks, shards: map.shards.clone(), nodes: map.nodes.clone() }
    }

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

    /// Whether each slot has the shard that it has in `other`.
    #[must_use]
    pub fn has_slots_of(&self, other: &Self) -> bool {
        self.slots == other.slots
    }

    /// Every shard, the metadata group first.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.shards.keys().copied()
    }

    /// The slots that a shard owns, as ranges of first and last.
    #[must_use]
    pub fn slots_of(&self, shard: ShardId) -> &[(u16, u16)] {
        self.shards.get(&shard).map_or(&[], |shard| &shard.slots)
    }

    /// A shard's replicas; none for a shard that the map does not know.
    #[must_use]
    pub fn replicas(&self, shard: ShardId) -> &[ReplicaInfo] {
        self.shards.get(&shard).map_or(&[], |shard| &shard.replicas)
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
}
