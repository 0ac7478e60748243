//! The map's rules, checked before a map is believed.

use crate::map::{Map, MapError, NodeInfo, ShardInfo};
use vocab::limits::{
    ADDRESS_BYTES_MAX, MAP_SETTINGS_MAX, MAP_SHARDS_MAX, NODES_MAX, REPLICAS_MAX, REPLICATION_FACTOR_MAX,
    SETTING_NAME_BYTES_MAX, SETTING_VALUE_BYTES_MAX, ZONE_BYTES_MAX,
};
use vocab::{SLOT_COUNT, ShardId, Slot};

impl Map {
    /// Checks every rule that a map keeps.
    pub fn validate(&self) -> Result<(), MapError> {
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
