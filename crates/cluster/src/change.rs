//! What the metadata group's entries carry: one change of the map each. docs/FORMATS.md has the layout.
//!
//! A change may arrive twice, or late. So each carries what it takes for granted, and [`crate::Map::apply`] refuses it
//! when that no longer holds, or changes nothing when it has already happened.

use crate::bytes::{Reader, Result, put_bytes};
use crate::map::{Map, MapError, NodeInfo};
use vocab::limits::{REPLICAS_MAX, SETTING_NAME_BYTES_MAX, SETTING_VALUE_BYTES_MAX};
use vocab::{NodeId, ReplicaId, ShardId, put_varint};

const FORMAT: u8 = 1;
const BEGIN: u8 = 1;
const REGISTER_NODE: u8 = 2;
const UPDATE_NODE: u8 = 3;
const FORGET_NODE: u8 = 4;
const ADD_REPLICA: u8 = 5;
const SET_REPLICAS: u8 = 6;
const FORGET_REPLICA: u8 = 7;
const SETTING: u8 = 8;

/// A change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The store's first map: the first entry of the metadata group. A later one of the same store changes nothing.
    Begin(Map),
    /// A node joins the store.
    RegisterNode(NodeInfo),
    /// A node's addresses, zone or capacity are others.
    UpdateNode {
        /// What the map holds of it.
        was: NodeInfo,
        /// What it is to hold.
        now: NodeInfo,
    },
    /// A node leaves for ever. It must hold no replica.
    ForgetNode(NodeId),
    /// A shard is to have a replica on one more node. The shard's leader then makes it a member of the group, and reports
    /// that.
    AddReplica {
        /// Of which shard.
        shard: ShardId,
        /// The id that it gets: the shard's next.
        replica: ReplicaId,
        /// Where.
        node: NodeId,
        /// Whether it is to be a learner, as one does that has yet to be filled.
        learner: bool,
    },
    /// A shard's leader reports its group's members. Members that it no longer names are gone from the map.
    SetReplicas {
        /// Of which shard.
        shard: ShardId,
        /// The log index of the change of members that made them so.
        members_index: u64,
        /// Those that vote: of a joint configuration, those of either half.
        voters: Vec<ReplicaId>,
        /// Those that do not.
        learners: Vec<ReplicaId>,
    },
    /// A replica that was to be added, and did not become a member, is given up.
    ForgetReplica {
        /// Of which shard.
        shard: ShardId,
        /// Which.
        replica: ReplicaId,
    },
    /// Something is set for the whole store.
    Setting {
        /// Its name.
        name: String,
        /// What the map holds of it; none if it is not set.
        was: Option<String>,
        /// What it is to be; none for the default.
        now: Option<String>,
    },
}

impl Change {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        match self {
            Self::Begin(map) => {
                bytes.push(BEGIN);
                bytes.extend_from_slice(&map.encode());
            }
            Self::RegisterNode(node) => {
                bytes.push(REGISTER_NODE);
                node.encode(&mut bytes);
            }
            Self::UpdateNode { was, now } => {
                bytes.push(UPDATE_NODE);
                was.encode(&mut bytes);
                now.encode(&mut bytes);
            }
            Self::ForgetNode(node) => {
                bytes.push(FORGET_NODE);
                bytes.extend_from_slice(&node.0.to_le_bytes());
            }
            Self::AddReplica { shard, replica, node, learner } => {
                bytes.push(ADD_REPLICA);
                put_varint(&mut bytes, u64::from(shard.0));
                put_varint(&mut bytes, replica.0);
                bytes.extend_from_slice(&node.0.to_le_bytes());
                bytes.push(u8::from(*learner));
            }
            Self::SetReplicas { shard, members_index, voters, learners } => {
                bytes.push(SET_REPLICAS);
                put_varint(&mut bytes, u64::from(shard.0));
                put_varint(&mut bytes, *members_index);
                for ids in [voters, learners] {
                    put_varint(&mut bytes, ids.len() as u64);
                    ids.iter().for_each(|id| put_varint(&mut bytes, id.0));
                }
            }
            Self::ForgetReplica { shard, replica } => {
                bytes.push(FORGET_REPLICA);
                put_varint(&mut bytes, u64::from(shard.0));
                put_varint(&mut bytes, replica.0);
            }
            Self::Setting { name, was, now } => {
                bytes.push(SETTING);
                put_bytes(&mut bytes, name.as_bytes());
                for value in [was, now] {
                    bytes.push(u8::from(value.is_some()));
                    if let Some(value) = value {
                        put_bytes(&mut bytes, value.as_bytes());
                    }
                }
            }
        }
        bytes
    }

    /// Reads what [`Change::encode`] wrote. Whether it makes sense is for [`crate::Map::apply`] to say.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, MapError> {
        if let Some(map) = bytes.strip_prefix(&[FORMAT, BEGIN]) {
            return Map::decode(map).map(Self::Begin);
        }
        let mut reader = Reader::new(bytes);
        Self::read(&mut reader).and_then(|change| reader.end().map(|()| change)).map_err(MapError::Bytes)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.u8()? != FORMAT {
            return Err("a change's format is unknown");
        }
        Ok(match reader.u8()? {
            REGISTER_NODE => Self::RegisterNode(NodeInfo::read(reader)?),
            UPDATE_NODE => Self::UpdateNode { was: NodeInfo::read(reader)?, now: NodeInfo::read(reader)? },
            FORGET_NODE => Self::ForgetNode(NodeId(reader.u64()?)),
            ADD_REPLICA => Self::AddReplica {
                shard: read_shard(reader)?,
                replica: ReplicaId(reader.varint()?),
                node: NodeId(reader.u64()?),
                learner: read_flag(reader)?,
            },
            SET_REPLICAS => Self::SetReplicas {
                shard: read_shard(reader)?,
                members_index: reader.varint()?,
                voters: read_ids(reader)?,
                learners: read_ids(reader)?,
            },
            FORGET_REPLICA => Self::ForgetReplica { shard: read_shard(reader)?, replica: ReplicaId(reader.varint()?) },
            SETTING => Self::Setting {
                name: reader.text(SETTING_NAME_BYTES_MAX)?,
                was: read_value(reader)?,
                now: read_value(reader)?,
            },
            _ => return Err("a change of an unknown kind"),
        })
    }
}

fn read_shard(reader: &mut Reader<'_>) -> Result<ShardId> {
    Ok(ShardId(reader.bounded(u64::from(u32::MAX))? as u32))
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a flag is neither 0 nor 1"),
    }
}

fn read_value(reader: &mut Reader<'_>) -> Result<Option<String>> {
    if read_flag(reader)? { reader.text(SETTING_VALUE_BYTES_MAX).map(Some) } else { Ok(None) }
}

fn read_ids(reader: &mut Reader<'_>) -> Result<Vec<ReplicaId>> {
    let count = reader.count(REPLICAS_MAX, 1)?;
    (0..count).map(|_| Ok(ReplicaId(reader.varint()?))).collect()
}
