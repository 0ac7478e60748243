//! The map's bytes and a node's. docs/FORMATS.md has the layout.

use crate::bytes::{Result, put_slots, read_slots};
use crate::map::{Map, MapError, NodeInfo, ReplicaInfo, ShardInfo};
use crate::plan::{Plan, Split, Step, read_shard};
use std::collections::BTreeMap;
use vocab::limits::{
    MAP_BYTES_MAX, MAP_SETTINGS_MAX, MAP_SHARDS_MAX, NODES_MAX, PLANS_MAX, REPLICAS_MAX, REPLICATION_FACTOR_MAX,
    SETTING_NAME_BYTES_MAX, SETTING_VALUE_BYTES_MAX,
};
use vocab::{Epoch, NodeId, PlanId, Reader, ReplicaId, ShardId, StoreId, put_bytes, put_varint};

const MAGIC: &[u8; 7] = b"BASMAP\0";
/// Of a map without survivors.
const FORMAT: u8 = 2;
const FORMAT_WITH_SURVIVORS: u8 = 3;
/// Had no plans.
const FORMAT_WITHOUT_PLANS: u8 = 1;
const CHECK_BYTES: usize = 4;
const LEARNER: u8 = 1;
const MEMBER: u8 = 2;

impl Map {
    /// Its bytes. Equal maps have equal bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.nodes.len() * 96 + self.shards.len() * 32);
        bytes.extend_from_slice(MAGIC);
        bytes.push(if self.survivors.is_empty() { FORMAT } else { FORMAT_WITH_SURVIVORS });
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
            encode_shard(shard, &places, &mut bytes);
        }
        put_varint(&mut bytes, self.settings.len() as u64);
        for (name, value) in &self.settings {
            put_bytes(&mut bytes, name.as_bytes());
            put_bytes(&mut bytes, value.as_bytes());
        }
        self.encode_plans(&mut bytes);
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
        if ![FORMAT_WITH_SURVIVORS, FORMAT, FORMAT_WITHOUT_PLANS].contains(&format) {
            return Err("its format is unknown");
        }
        let store = StoreId(reader.u64_le()?);
        let epoch = Epoch(reader.varint()?);
        let replication_factor = reader.at_most(u64::from(REPLICATION_FACTOR_MAX))? as u32;
        let nodes = read_nodes(reader)?;
        let shards = read_shards(reader, &nodes.keys().copied().collect::<Vec<_>>())?;
        let settings = read_settings(reader)?;
        let mut map = Self { store, epoch, nodes, shards, replication_factor, settings, ..Self::default() };
        if format == FORMAT_WITHOUT_PLANS {
            map.number_shards();
        } else {
            map.read_plans(reader)?;
        }
        if format == FORMAT_WITH_SURVIVORS {
            map.read_survivors(reader)?;
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
        if !self.survivors.is_empty() {
            put_varint(bytes, self.survivors.len() as u64);
        }
        for (shard, (plan, replica)) in &self.survivors {
            [u64::from(shard.0), plan.0, replica.0].into_iter().for_each(|number| put_varint(bytes, number));
        }
    }

    fn read_survivors(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let count = reader.count_at_most(MAP_SHARDS_MAX, 3)?;
        if count == 0 {
            return Err("a map of this format has survivors");
        }
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

fn read_shards(reader: &mut Reader<'_>, nodes: &[NodeId]) -> Result<BTreeMap<ShardId, ShardInfo>> {
    let count = reader.count_at_most(MAP_SHARDS_MAX, 5)?;
    let mut shards = Vec::with_capacity(count);
    let mut next = 0;
    for _ in 0..count {
        let id = next + reader.at_most(u64::from(u32::MAX))?;
        next = id + 1;
        let id = u32::try_from(id).map_err(|_| "a shard's number is too large")?;
        shards.push((ShardId(id), read_shard_info(reader, nodes)?));
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

fn encode_shard(shard: &ShardInfo, places: &BTreeMap<NodeId, u64>, bytes: &mut Vec<u8>) {
    put_varint(bytes, shard.members_index);
    put_varint(bytes, shard.next_replica);
    put_slots(bytes, &shard.slots);
    put_varint(bytes, shard.replicas.len() as u64);
    for replica in &shard.replicas {
        put_varint(bytes, replica.id.0);
        put_varint(bytes, *places.get(&replica.node).expect("a replica's node is in the map"));
        bytes.push(u8::from(replica.learner) * LEARNER + u8::from(replica.member) * MEMBER);
    }
}

fn read_shard_info(reader: &mut Reader<'_>, nodes: &[NodeId]) -> Result<ShardInfo> {
    let members_index = reader.varint()?;
    let next_replica = reader.varint()?;
    let slots = read_slots(reader)?;
    let count = reader.count_at_most(REPLICAS_MAX, 3)?;
    let mut replicas = Vec::with_capacity(count);
    for _ in 0..count {
        let id = ReplicaId(reader.varint()?);
        let node = *nodes.get(reader.at_most(NODES_MAX as u64)? as usize).ok_or("a replica is on no node")?;
        let flags = reader.u8()?;
        if flags & !(LEARNER | MEMBER) != 0 {
            return Err("a replica has unknown flags");
        }
        replicas.push(ReplicaInfo { id, node, learner: flags & LEARNER != 0, member: flags & MEMBER != 0 });
    }
    Ok(ShardInfo { slots, replicas, next_replica, members_index })
}
