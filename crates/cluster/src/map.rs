//! The map: which nodes there are, which shard owns a slot, and where its replicas are. docs/FORMATS.md has its bytes.
//!
//! Invariants, checked before a map is believed (`Map::validate`): every slot is owned by exactly one data shard; a shard's
//! replicas are on different, known nodes; a replica's id is below its shard's `next_replica`, so that none is used twice.
//!
//! A clone shares what is large. A change of the clone copies one part of it, whatever the store's size.

use crate::bytes::Result;
use crate::error::MapError;
use crate::node_info::NodeInfo;
use crate::plan::{Plan, Split, Step, read_shard};
use crate::shard_info::{ReplicaInfo, ShardInfo};
use crate::shards::Shards;
use crate::shared::Shared;
use crate::users::{UserRules, read_users, users_fault};
use std::collections::{BTreeMap, BTreeSet};
use vocab::limits::{
    MAP_BYTES_MAX, MAP_SETTINGS_MAX, MAP_SHARDS_MAX, NODES_MAX, PLANS_MAX, REPLICATION_FACTOR_MAX,
    SETTING_NAME_BYTES_MAX, SETTING_VALUE_BYTES_MAX,
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
    pub nodes: Shared<BTreeMap<NodeId, NodeInfo>>,
    /// Every shard, the metadata group among them.
    pub shards: Shards,
    /// How many replicas each data shard is to have, as far as there are nodes.
    pub replication_factor: u32,
    /// What was set for the whole store, by name.
    pub settings: Shared<BTreeMap<String, String>>,
    /// The rules of each user, by name. Without any, a node has those of its `aclfile`, and its `requirepass`.
    pub users: Shared<UserRules>,
    /// Nodes that are to hold nothing.
    pub leaving: BTreeSet<NodeId>,
    /// Plans that have not ended, and the newest of those that have.
    pub plans: Shared<BTreeMap<PlanId, Plan>>,
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

const MAGIC: &[u8; 7] = b"BASMAP\0";
/// Of a map without survivors.
const FORMAT: u8 = 2;
const FORMAT_WITH_SURVIVORS: u8 = 3;
/// Has the number of survivors, which may be 0, and users.
const FORMAT_WITH_USERS: u8 = 4;
/// Had no plans.
const FORMAT_WITHOUT_PLANS: u8 = 1;
const CHECK_BYTES: usize = 4;

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
        self.shards.held_by(node).filter_map(move |id| Some((id, self.shards.get(&id)?.replica_on(node)?)))
    }

    /// Its bytes. Equal maps have equal bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.nodes.len() * 96 + self.shards.len() * 32);
        bytes.extend_from_slice(MAGIC);
        bytes.push(match (self.users.is_empty(), self.survivors.is_empty()) {
            (false, _) => FORMAT_WITH_USERS,
            (true, false) => FORMAT_WITH_SURVIVORS,
            (true, true) => FORMAT,
        });
        bytes.extend_from_slice(&self.store.0.to_le_bytes());
        put_varint(&mut bytes, self.epoch.0);
        put_varint(&mut bytes, u64::from(self.replication_factor));
        put_varint(&mut bytes, self.nodes.len() as u64);
        for node in self.nodes.values() {
            node.encode(&mut bytes);
        }
        let places: BTreeMap<NodeId, u64> = self.nodes.keys().copied().zip(0..).collect();
        put_varint(&mut bytes, self.shards.len() as u64);
        let mut next = 0;
        for (id, shard) in &self.shards {
            put_varint(&mut bytes, u64::from(id.0) - next);
            next = u64::from(id.0) + 1;
            shard.encode(&places, &mut bytes);
        }
        put_varint(&mut bytes, self.settings.len() as u64);
        for (name, value) in &self.settings {
            put_bytes(&mut bytes, name.as_bytes());
            put_bytes(&mut bytes, value.as_bytes());
        }
        self.encode_plans(&mut bytes);
        if !self.users.is_empty() {
            self.users.encode(&mut bytes);
        }
        let check = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads what [`Map::encode`] wrote, and checks the map's rules.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, MapError> {
        if bytes.len() > MAP_BYTES_MAX {
            return Err(MapError::Bytes("it is too long"));
        }
        let end = bytes.len().checked_sub(CHECK_BYTES).ok_or(MapError::Bytes("cut short"))?;
        let (body, check) = bytes.split_at(end);
        if crc32fast::hash(body).to_le_bytes() != check {
            return Err(MapError::Bytes("its checksum does not match"));
        }
        let map = Self::read(&mut Reader::new(body)).map_err(MapError::Bytes)?;
        map.validate()?;
        Ok(map)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.take(MAGIC.len())? != MAGIC {
            return Err("it is no map");
        }
        let format = reader.u8()?;
        if ![FORMAT_WITH_USERS, FORMAT_WITH_SURVIVORS, FORMAT, FORMAT_WITHOUT_PLANS].contains(&format) {
            return Err("its format is unknown");
        }
        let store = StoreId(reader.u64_le()?);
        let epoch = Epoch(reader.varint()?);
        let replication_factor = reader.at_most(u64::from(REPLICATION_FACTOR_MAX))? as u32;
        let nodes = read_nodes(reader)?;
        let shards = read_shards(reader, &nodes.keys().copied().collect::<Vec<_>>())?;
        let settings = read_settings(reader)?;
        let (nodes, settings) = (nodes.into(), settings.into());
        let mut map = Self { store, epoch, nodes, shards, replication_factor, settings, ..Self::default() };
        if format == FORMAT_WITHOUT_PLANS {
            map.number_shards();
        } else {
            map.read_plans(reader)?;
        }
        if format == FORMAT_WITH_SURVIVORS || format == FORMAT_WITH_USERS {
            map.read_survivors(reader)?;
            if format == FORMAT_WITH_SURVIVORS && map.survivors.is_empty() {
                return Err("a map of this format has survivors");
            }
        }
        if format == FORMAT_WITH_USERS {
            map.users = read_users(reader)?.into();
        }
        reader.end()?;
        Ok(map)
    }

    fn encode_plans(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.leaving.len() as u64);
        self.leaving.iter().for_each(|node| bytes.extend_from_slice(&node.0.to_le_bytes()));
        put_varint(bytes, self.next_plan);
        put_varint(bytes, u64::from(self.next_shard));
        put_varint(bytes, self.plans.len() as u64);
        self.plans.values().for_each(|plan| plan.encode(bytes));
        put_varint(bytes, self.steps.len() as u64);
        for (shard, step) in &self.steps {
            put_varint(bytes, u64::from(shard.0));
            step.encode(bytes);
        }
        put_varint(bytes, self.splits.len() as u64);
        for (child, split) in &self.splits {
            put_varint(bytes, u64::from(child.0));
            split.encode(bytes);
        }
        if !self.survivors.is_empty() || !self.users.is_empty() {
            put_varint(bytes, self.survivors.len() as u64);
        }
        for (shard, (plan, replica)) in &self.survivors {
            [u64::from(shard.0), plan.0, replica.0].into_iter().for_each(|number| put_varint(bytes, number));
        }
    }

    fn read_survivors(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let count = reader.count_at_most(MAP_SHARDS_MAX, 3)?;
        for _ in 0..count {
            let shard = read_shard(reader)?;
            rising(self.survivors.last_key_value().map(|(id, _)| id), &shard)?;
            self.survivors.insert(shard, (PlanId(reader.varint()?), ReplicaId(reader.varint()?)));
        }
        Ok(())
    }

    fn read_plans(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for _ in 0..reader.count_at_most(NODES_MAX, 8)? {
            let node = NodeId(reader.u64_le()?);
            rising(self.leaving.last(), &node)?;
            self.leaving.insert(node);
        }
        self.next_plan = reader.varint()?;
        self.next_shard = reader.at_most(u64::from(u32::MAX))? as u32;
        for _ in 0..reader.count_at_most(PLANS_MAX, 7)? {
            let plan = Plan::read(reader)?;
            rising(self.plans.last_key_value().map(|(id, _)| id), &plan.id)?;
            self.plans.insert(plan.id, plan);
        }
        for _ in 0..reader.count_at_most(MAP_SHARDS_MAX, 4)? {
            let shard = read_shard(reader)?;
            rising(self.steps.last_key_value().map(|(id, _)| id), &shard)?;
            self.steps.insert(shard, Step::read(reader)?);
        }
        for _ in 0..reader.count_at_most(MAP_SHARDS_MAX, 4)? {
            let child = read_shard(reader)?;
            rising(self.splits.last_key_value().map(|(id, _)| id), &child)?;
            self.splits.insert(child, Split::read(reader)?);
        }
        Ok(())
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
            let knows = |node: NodeId| self.nodes.contains_key(&node);
            let fault = |id: ShardId, shard: &ShardInfo| shard.fault(id == ShardId::META, knows);
            self.shards.iter().find_map(|(id, shard)| Some(format!("shard {id}: {}", fault(*id, shard)?)))
        };
        let users = || users_fault(&self.users);
        nodes.or_else(settings).or_else(users).or_else(shards).or_else(|| self.slot_fault())
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

/// One map has one encoding.
fn rising<T: Ord>(last: Option<&T>, next: &T) -> Result<()> {
    if last.is_some_and(|last| last >= next) { Err("something is out of order") } else { Ok(()) }
}

fn read_nodes(reader: &mut Reader<'_>) -> Result<BTreeMap<NodeId, NodeInfo>> {
    let count = reader.count_at_most(NODES_MAX, 13)?;
    let mut nodes = Vec::with_capacity(count);
    for _ in 0..count {
        let node = NodeInfo::read(reader)?;
        if nodes.last().is_some_and(|(last, _)| *last >= node.id) {
            return Err("its nodes are out of order");
        }
        nodes.push((node.id, node));
    }
    Ok(nodes.into_iter().collect())
}

fn read_shards(reader: &mut Reader<'_>, nodes: &[NodeId]) -> Result<Shards> {
    let count = reader.count_at_most(MAP_SHARDS_MAX, 5)?;
    let mut shards = Vec::with_capacity(count);
    let mut next = 0;
    for _ in 0..count {
        let id = next + reader.at_most(u64::from(u32::MAX))?;
        next = id + 1;
        let id = u32::try_from(id).map_err(|_| "a shard's number is too large")?;
        shards.push((ShardId(id), ShardInfo::read(reader, nodes)?));
    }
    Ok(shards.into_iter().collect())
}

fn read_settings(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>> {
    let count = reader.count_at_most(MAP_SETTINGS_MAX, 2)?;
    let mut settings = BTreeMap::new();
    for _ in 0..count {
        let name = reader.text(SETTING_NAME_BYTES_MAX)?.to_owned();
        let value = reader.text(SETTING_VALUE_BYTES_MAX)?.to_owned();
        if settings.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err("its settings are out of order");
        }
        settings.insert(name, value);
    }
    Ok(settings)
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
