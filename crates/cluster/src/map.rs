//! The map: which node there is, which shard owns a slot, and where its replicas are.
//!
//! Invariants (`Map::validate`): every slot is owned by exactly one data shard; a shard's replicas are on different, known
//! nodes; a replica's id is below its shard's `next_replica`, so that none is ever used twice.

use crate::plan::{Plan, Split, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use vocab::{Epoch, NodeId, PlanId, ReplicaId, ShardId, Slot, StoreId};

/// The whole map, as of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Whose map it is.
    pub store: StoreId,
    /// Rises by one with every change.
    pub epoch: Epoch,
    /// Every node of the store.
    pub nodes: BTreeMap<NodeId, NodeInfo>,
    /// Every shard, the metadata group among them.
    pub shards: BTreeMap<ShardId, ShardInfo>,
    /// How many replicas each data shard is to have, as far as there are nodes.
    pub replication_factor: u32,
    /// What was set for the whole store, by name.
    pub settings: BTreeMap<String, String>,
    /// Nodes that are to hold nothing.
    pub leaving: BTreeSet<NodeId>,
    /// Plans that have not ended, and the newest of those that have.
    pub plans: BTreeMap<PlanId, Plan>,
    /// Replicas that come and go now, by shard.
    pub steps: BTreeMap<ShardId, Step>,
    /// Shards that are about to be made out of others. Each is in the map, without slots.
    pub splits: BTreeMap<ShardId, Split>,
    /// Of shards that are recovered unsafely: for which plan, and the one replica that may go on alone.
    pub survivors: BTreeMap<ShardId, (PlanId, ReplicaId)>,
    /// The number that the next plan gets.
    pub next_plan: u64,
    /// The number that the next shard gets: none is used twice.
    pub next_shard: u32,
}

/// What the map knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Which node.
    pub id: NodeId,
    /// Where other nodes reach it, as host:port.
    pub peer_address: String,
    /// Where clients reach it: the host.
    pub client_host: String,
    /// Where clients reach it: the port.
    pub client_port: u16,
    /// Its zone; nodes without one share the zone "".
    pub zone: String,
    /// How much it takes, against other nodes; 0 if it is to hold nothing.
    pub capacity: u64,
}

/// What the map knows of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardInfo {
    /// The slots that it owns, as ranges of first and last, both included, rising, with a gap between one and the next.
    pub slots: Vec<(u16, u16)>,
    /// Where it has replicas, and where it is about to have some, by rising id.
    pub replicas: Vec<ReplicaInfo>,
    /// The id that the next new replica gets.
    pub next_replica: u64,
    /// The log index of the newest change of members that was reported: an older report comes too late. 0: the members are
    /// those of the store's first map.
    pub members_index: u64,
}

/// One replica of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// As Raft knows it.
    pub id: ReplicaId,
    /// Where it is.
    pub node: NodeId,
    /// It does not vote.
    pub learner: bool,
    /// The shard's group counts it among its members, as far as was reported. If not, it is about to be added.
    pub member: bool,
}

/// Why a map cannot be made or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The bytes are no map, or damaged.
    Bytes(&'static str),
    /// The map breaks a rule; the text says which, and where.
    Invalid(String),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(what) => write!(f, "the map cannot be read: {what}"),
            Self::Invalid(what) => write!(f, "the map breaks a rule: {what}"),
        }
    }
}

impl std::error::Error for MapError {}

impl Map {
    /// Numbers for plans and shards that come, of a map that has none yet.
    pub(crate) fn number_shards(&mut self) {
        self.next_plan = 1;
        self.next_shard = self.shards.keys().next_back().map_or(1, |last| last.0 + 1);
    }

    /// The plans that have not ended.
    pub fn open_plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.values().filter(|plan| !plan.state.has_ended())
    }

    /// The shards that own slots or may come to own some: all but the metadata group.
    pub fn data_shards(&self) -> impl Iterator<Item = (ShardId, &ShardInfo)> {
        self.shards.iter().filter(|(id, _)| **id != ShardId::META).map(|(id, shard)| (*id, shard))
    }

    /// A shard's replica of that id.
    #[must_use]
    pub fn replica(&self, shard: ShardId, id: ReplicaId) -> Option<&ReplicaInfo> {
        self.shards.get(&shard)?.replica(id)
    }

    /// The shards that have a replica on `node`, with that replica.
    pub fn replicas_on(&self, node: NodeId) -> impl Iterator<Item = (ShardId, &ReplicaInfo)> {
        self.shards.iter().filter_map(move |(id, shard)| shard.replica_on(node).map(|replica| (*id, replica)))
    }
}

impl ShardInfo {
    /// Its replica of that id.
    #[must_use]
    pub fn replica(&self, id: ReplicaId) -> Option<&ReplicaInfo> {
        self.replicas.iter().find(|replica| replica.id == id)
    }

    /// Its replica on `node`.
    #[must_use]
    pub fn replica_on(&self, node: NodeId) -> Option<&ReplicaInfo> {
        self.replicas.iter().find(|replica| replica.node == node)
    }

    /// The members of its group that vote.
    pub fn voters(&self) -> impl Iterator<Item = &ReplicaInfo> {
        self.replicas.iter().filter(|replica| replica.member && !replica.learner)
    }

    /// How many slots it owns.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots.iter().map(|&(first, last)| usize::from(last - first) + 1).sum()
    }

    /// Whether it owns `slot`.
    #[must_use]
    pub fn owns(&self, slot: Slot) -> bool {
        self.slots.iter().any(|&(first, last)| (first..=last).contains(&slot.0))
    }
}
