//! The map: which node there is, which shard owns a slot, and where its replicas are.
//!
//! Invariants, checked before a map is believed (`Map::validate`): every slot is owned by exactly one data shard; a shard's replicas are on different, known
//! nodes; a replica's id is below its shard's `next_replica`, so that none is ever used twice.

use crate::bytes::Result;
use crate::plan::{Plan, Split, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use vocab::limits::{
    ADDRESS_BYTES_MAX, MAP_SETTINGS_MAX, MAP_SHARDS_MAX, NODES_MAX, REPLICAS_MAX, REPLICATION_FACTOR_MAX,
    SETTING_NAME_BYTES_MAX, SETTING_VALUE_BYTES_MAX, ZONE_BYTES_MAX,
};
use vocab::{Epoch, NodeId, PlanId, Reader, ReplicaId, SLOT_COUNT, ShardId, Slot, StoreId, put_bytes, put_varint};

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

    /// Checks every rule that a map keeps.
    pub fn validate(&self) -> std::result::Result<(), MapError> {
        self.broken_rule().map_or(Ok(()), |rule| Err(MapError::Invalid(rule)))
    }

    fn broken_rule(&self) -> Option<String> {
        if self.nodes.len() > NODES_MAX {
            return Some(format!("{} nodes are more than {NODES_MAX}", self.nodes.len()));
        }
        if self.shards.len() > MAP_SHARDS_MAX {
            return Some(format!("{} shards are more than {MAP_SHARDS_MAX}", self.shards.len()));
        }
        if self.settings.len() > MAP_SETTINGS_MAX {
            return Some(format!("{} settings are more than {MAP_SETTINGS_MAX}", self.settings.len()));
        }
        if !(1..=REPLICATION_FACTOR_MAX).contains(&self.replication_factor) {
            return Some(format!("a replication factor is 1 to {REPLICATION_FACTOR_MAX}"));
        }
        if !self.shards.contains_key(&ShardId::META) {
            return Some("there is no metadata group".to_owned());
        }
        let nodes = self.nodes.iter().find_map(|(id, node)| {
            if node.id == *id { node.fault() } else { Some(format!("node {id} is listed as {}", node.id)) }
        });
        let settings = || self.settings.iter().find_map(|(name, value)| setting_fault(name, value));
        let shards = || {
            self.shards.iter().find_map(|(id, shard)| Some(format!("shard {id}: {}", self.shard_fault(*id, shard)?)))
        };
        nodes.or_else(settings).or_else(shards).or_else(|| self.slot_fault())
    }

    fn shard_fault(&self, id: ShardId, shard: &ShardInfo) -> Option<String> {
        if shard.replicas.len() > REPLICAS_MAX {
            return Some(format!("{} replicas are more than {REPLICAS_MAX}", shard.replicas.len()));
        }
        if shard.voters().next().is_none() {
            return Some("no replica votes".to_owned());
        }
        for (i, replica) in shard.replicas.iter().enumerate() {
            if replica.id.0 == 0 || replica.id.0 >= shard.next_replica {
                return Some(format!("replica {} is not of 1 to {}", replica.id, shard.next_replica.saturating_sub(1)));
            }
            if i > 0 && shard.replicas[i - 1].id >= replica.id {
                return Some(format!("replica {} is out of order, or there twice", replica.id));
            }
            if shard.replicas[..i].iter().any(|other| other.node == replica.node) {
                return Some(format!("two replicas are on node {}", replica.node));
            }
            if !self.nodes.contains_key(&replica.node) {
                return Some(format!("replica {} is on the unknown node {}", replica.id, replica.node));
            }
        }
        if id == ShardId::META && !shard.slots.is_empty() {
            return Some("the metadata group owns slots".to_owned());
        }
        for (i, &(first, last)) in shard.slots.iter().enumerate() {
            if first > last || last >= SLOT_COUNT {
                return Some(format!("{first} to {last} is no range of slots"));
            }
            if i > 0 && u32::from(shard.slots[i - 1].1) + 1 >= u32::from(first) {
                return Some(format!("slots from {first} on do not stand apart from the range before"));
            }
        }
        None
    }

    /// Expects ranges that are well formed by themselves.
    fn slot_fault(&self) -> Option<String> {
        let mut owners = vec![ShardId::META; usize::from(SLOT_COUNT)];
        for (id, shard) in self.data_shards() {
            for slot in shard.slots.iter().flat_map(|&(first, last)| first..=last) {
                let owner = &mut owners[usize::from(slot)];
                if *owner != ShardId::META {
                    return Some(format!("slot {slot} is owned by shard {owner} and by shard {id}"));
                }
                *owner = id;
            }
        }
        let orphan = owners.iter().position(|owner| *owner == ShardId::META)?;
        Some(format!("slot {} is owned by no shard", Slot(orphan as u16)))
    }
}

impl NodeInfo {
    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.id.0.to_le_bytes());
        put_bytes(bytes, self.peer_address.as_bytes());
        put_bytes(bytes, self.client_host.as_bytes());
        put_varint(bytes, u64::from(self.client_port));
        put_bytes(bytes, self.zone.as_bytes());
        put_varint(bytes, self.capacity);
    }

    /// Reads what [`NodeInfo::encode`] wrote, and nothing after it; checks that it is one that a map may hold.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, MapError> {
        let mut reader = Reader::new(bytes);
        let node = Self::read(&mut reader).map_err(MapError::Bytes)?;
        reader.end().map_err(|why| MapError::Bytes(why.text()))?;
        node.fault().map_or(Ok(node), |fault| Err(MapError::Invalid(fault)))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            id: NodeId(reader.u64_le()?),
            peer_address: reader.text(ADDRESS_BYTES_MAX)?.to_owned(),
            client_host: reader.text(ADDRESS_BYTES_MAX)?.to_owned(),
            client_port: reader.at_most(u64::from(u16::MAX))? as u16,
            zone: reader.text(ZONE_BYTES_MAX)?.to_owned(),
            capacity: reader.varint()?,
        })
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        let texts = [
            ("peer address", &self.peer_address, ADDRESS_BYTES_MAX),
            ("client host", &self.client_host, ADDRESS_BYTES_MAX),
            ("zone", &self.zone, ZONE_BYTES_MAX),
        ];
        for (what, text, bytes_max) in texts {
            if text.len() > bytes_max {
                return Some(format!("node {}: the {what} is longer than {bytes_max} bytes", self.id));
            }
            // They stand in replies whose fields are separated by these.
            if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == ',') {
                return Some(format!("node {}: the {what} contains a space, comma or control character", self.id));
            }
        }
        if self.peer_address.is_empty() || self.client_host.is_empty() || self.client_port == 0 {
            return Some(format!("node {}: it has no peer address, client host or client port", self.id));
        }
        None
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

/// What is wrong with a setting, if anything is.
pub(crate) fn setting_fault(name: &str, value: &str) -> Option<String> {
    if name.is_empty() || name.len() > SETTING_NAME_BYTES_MAX {
        return Some(format!("a setting's name has 1 to {SETTING_NAME_BYTES_MAX} bytes"));
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Some("a setting's name consists of lower-case letters, digits and hyphens".to_owned());
    }
    if value.len() > SETTING_VALUE_BYTES_MAX {
        return Some(format!("the setting {name} has a value longer than {SETTING_VALUE_BYTES_MAX} bytes"));
    }
    None
}
