//! What the metadata group's entries carry: one change of the map each. docs/FORMATS.md has the layout.
//!
//! A change may arrive twice, or late. So each carries what it takes for granted, and [`crate::apply`] refuses it
//! when that no longer holds, or changes nothing when it has already happened.

use crate::bytes::Result;
use crate::error::MapError;
use crate::map::Map;
use crate::node_info::NodeInfo;
use crate::plan::{PlanKind, PlanState, Split, Step, read_shard};
use crate::users::UserChange;
use vocab::limits::{
    EVENT_BYTES_MAX, MAP_USERS_MAX, PLAN_DETAIL_BYTES_MAX, REPLICAS_MAX, SETTING_NAME_BYTES_MAX,
    SETTING_VALUE_BYTES_MAX, USER_NAME_BYTES_MAX,
};
use vocab::{NodeId, PlanId, Reader, ReplicaId, ShardId, put_bytes, put_varint};

const FORMAT: u8 = 1;
const BEGIN: u8 = 1;
const REGISTER_NODE: u8 = 2;
const UPDATE_NODE: u8 = 3;
const FORGET_NODE: u8 = 4;
const ADD_REPLICA: u8 = 5;
const SET_REPLICAS: u8 = 6;
const FORGET_REPLICA: u8 = 7;
const SETTING: u8 = 8;
const BEGIN_PLAN: u8 = 9;
const SET_PLAN: u8 = 10;
const BEGIN_STEP: u8 = 11;
const END_STEP: u8 = 12;
const BEGIN_SPLIT: u8 = 13;
const END_SPLIT: u8 = 14;
const EVENT: u8 = 15;
const CHOOSE_SURVIVOR: u8 = 16;
const SET_USERS: u8 = 17;

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
    /// A node leaves permanently. It must hold no replica.
    ForgetNode(NodeId),
    /// A shard is to have a replica on one more node. The shard's leader then makes it a member of the group, and reports
    /// that.
    AddReplica {
        /// The shard.
        shard: ShardId,
        /// The id that it gets: the shard's next.
        replica: ReplicaId,
        /// The node that gets it.
        node: NodeId,
        /// Whether it is to be a learner, as one does that has yet to be filled.
        learner: bool,
    },
    /// A shard's leader reports its group's members. Members that it no longer names are gone from the map.
    SetReplicas {
        /// The shard.
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
        /// The shard.
        shard: ShardId,
        /// Its id.
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
    /// Users come, change or go: all of them, or none.
    SetUsers(Vec<UserChange>),
    /// A plan is begun: what it wants holds from now on.
    BeginPlan {
        /// The number that it gets: the next.
        id: PlanId,
        /// What it is for.
        kind: PlanKind,
        /// When, in ms since the epoch.
        at_ms: u64,
        /// Who wanted it, and why.
        detail: String,
    },
    /// A plan is paused, goes on, or comes to an end.
    SetPlan {
        /// Its number.
        id: PlanId,
        /// How far it is taken to be.
        was: PlanState,
        /// How far it is from now on.
        now: PlanState,
        /// When, in ms since the epoch.
        at_ms: u64,
        /// What an operator should know of it.
        detail: String,
    },
    /// A replica of a shard is to come, to go, or to take the place of another. A shard has one step at a time.
    BeginStep {
        /// The plan that it is for.
        plan: PlanId,
        /// The shard.
        shard: ShardId,
        /// The one that comes, which has to have the shard's next id, and its node.
        add: Option<(ReplicaId, NodeId)>,
        /// The one that goes.
        remove: Option<ReplicaId>,
    },
    /// The step of a shard is done, or given up: then the replica that was to come is forgotten, unless it is a member.
    EndStep {
        /// For which plan it was.
        plan: PlanId,
        /// The shard.
        shard: ShardId,
        /// Whether what was wanted is so.
        done: bool,
    },
    /// A shard is to give some of its slots to a new one, on the same nodes. It must have no step, and only voters.
    BeginSplit {
        /// The plan that it is for.
        plan: PlanId,
        /// Whose slots they are.
        parent: ShardId,
        /// The new shard, which has to have the next number.
        child: ShardId,
        /// Which slots, as ranges of first and last.
        slots: Vec<(u16, u16)>,
    },
    /// The new shard has its rows: the slots are its own from now on.
    EndSplit {
        /// The new shard.
        child: ShardId,
    },
    /// One replica of a shard that has lost its majority is chosen to go on alone. As long as the plan runs, no other may:
    /// this one may have, although it has not reported.
    ChooseSurvivor {
        /// The plan that it is for.
        plan: PlanId,
        /// The shard.
        shard: ShardId,
        /// Which replica.
        replica: ReplicaId,
    },
    /// Something that operators may want to know of later. Does not change the map.
    Event {
        /// When, in ms since the epoch.
        at_ms: u64,
        /// Election, failure, plan, setting: one word.
        kind: String,
        /// What happened.
        text: String,
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
                    put_optional(&mut bytes, value.as_ref().map(String::as_bytes));
                }
            }
            Self::SetUsers(users) => {
                bytes.push(SET_USERS);
                put_varint(&mut bytes, users.len() as u64);
                for UserChange { name, was, now } in users {
                    put_bytes(&mut bytes, name.as_bytes());
                    put_optional(&mut bytes, was.as_deref());
                    put_optional(&mut bytes, now.as_deref());
                }
            }
            plans => plans.encode_plans(&mut bytes),
        }
        bytes
    }

    fn encode_plans(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::BeginPlan { id, kind, at_ms, detail } => {
                bytes.push(BEGIN_PLAN);
                put_varint(bytes, id.0);
                kind.encode(bytes);
                put_varint(bytes, *at_ms);
                put_bytes(bytes, detail.as_bytes());
            }
            Self::SetPlan { id, was, now, at_ms, detail } => {
                bytes.push(SET_PLAN);
                put_varint(bytes, id.0);
                bytes.extend_from_slice(&[was.code(), now.code()]);
                put_varint(bytes, *at_ms);
                put_bytes(bytes, detail.as_bytes());
            }
            Self::BeginStep { plan, shard, add, remove } => {
                bytes.push(BEGIN_STEP);
                put_varint(bytes, u64::from(shard.0));
                Step { plan: *plan, add: add.map(|(replica, _)| replica), remove: *remove }.encode(bytes);
                bytes.extend_from_slice(&add.map_or(0, |(_, node)| node.0).to_le_bytes());
            }
            Self::EndStep { plan, shard, done } => {
                bytes.push(END_STEP);
                put_varint(bytes, plan.0);
                put_varint(bytes, u64::from(shard.0));
                bytes.push(u8::from(*done));
            }
            Self::BeginSplit { plan, parent, child, slots } => {
                bytes.push(BEGIN_SPLIT);
                put_varint(bytes, u64::from(child.0));
                Split { plan: *plan, parent: *parent, slots: slots.clone() }.encode(bytes);
            }
            Self::EndSplit { child } => {
                bytes.push(END_SPLIT);
                put_varint(bytes, u64::from(child.0));
            }
            Self::ChooseSurvivor { plan, shard, replica } => {
                bytes.push(CHOOSE_SURVIVOR);
                put_varint(bytes, plan.0);
                put_varint(bytes, u64::from(shard.0));
                put_varint(bytes, replica.0);
            }
            Self::Event { at_ms, kind, text } => {
                bytes.push(EVENT);
                put_varint(bytes, *at_ms);
                put_bytes(bytes, kind.as_bytes());
                put_bytes(bytes, text.as_bytes());
            }
            _ => unreachable!("the caller writes all others"),
        }
    }

    /// Reads what [`Change::encode`] wrote. Whether it makes sense is for [`crate::apply`] to say.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, MapError> {
        if let Some(map) = bytes.strip_prefix(&[FORMAT, BEGIN]) {
            return Map::decode(map).map(Self::Begin);
        }
        let mut reader = Reader::new(bytes);
        let change = Self::read(&mut reader).map_err(MapError::Bytes)?;
        reader.end().map_err(|why| MapError::Bytes(why.text()))?;
        Ok(change)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.u8()? != FORMAT {
            return Err("a change's format is unknown");
        }
        Ok(match reader.u8()? {
            REGISTER_NODE => Self::RegisterNode(NodeInfo::read(reader)?),
            UPDATE_NODE => Self::UpdateNode { was: NodeInfo::read(reader)?, now: NodeInfo::read(reader)? },
            FORGET_NODE => Self::ForgetNode(NodeId(reader.u64_le()?)),
            ADD_REPLICA => Self::AddReplica {
                shard: read_shard(reader)?,
                replica: ReplicaId(reader.varint()?),
                node: NodeId(reader.u64_le()?),
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
                name: reader.text(SETTING_NAME_BYTES_MAX)?.to_owned(),
                was: read_value(reader)?,
                now: read_value(reader)?,
            },
            SET_USERS => {
                let count = reader.count_at_most(2 * MAP_USERS_MAX, 3)?;
                let user = |reader: &mut Reader<'_>| {
                    let name = reader.text(USER_NAME_BYTES_MAX)?.to_owned();
                    Ok(UserChange { name, was: read_rules(reader)?, now: read_rules(reader)? })
                };
                Self::SetUsers((0..count).map(|_| user(reader)).collect::<Result<_>>()?)
            }
            kind => return Self::read_plans(kind, reader),
        })
    }

    fn read_plans(kind: u8, reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match kind {
            BEGIN_PLAN => Self::BeginPlan {
                id: PlanId(reader.varint()?),
                kind: PlanKind::read(reader)?,
                at_ms: reader.varint()?,
                detail: reader.text(PLAN_DETAIL_BYTES_MAX)?.to_owned(),
            },
            SET_PLAN => Self::SetPlan {
                id: PlanId(reader.varint()?),
                was: PlanState::read(reader)?,
                now: PlanState::read(reader)?,
                at_ms: reader.varint()?,
                detail: reader.text(PLAN_DETAIL_BYTES_MAX)?.to_owned(),
            },
            BEGIN_STEP => {
                let shard = read_shard(reader)?;
                let step = Step::read(reader)?;
                let node = NodeId(reader.u64_le()?);
                if step.add.is_none() && node.0 != 0 {
                    return Err("a node for no replica");
                }
                Self::BeginStep {
                    plan: step.plan,
                    shard,
                    add: step.add.map(|replica| (replica, node)),
                    remove: step.remove,
                }
            }
            END_STEP => {
                Self::EndStep { plan: PlanId(reader.varint()?), shard: read_shard(reader)?, done: read_flag(reader)? }
            }
            BEGIN_SPLIT => {
                let child = read_shard(reader)?;
                let split = Split::read(reader)?;
                Self::BeginSplit { plan: split.plan, parent: split.parent, child, slots: split.slots }
            }
            END_SPLIT => Self::EndSplit { child: read_shard(reader)? },
            CHOOSE_SURVIVOR => Self::ChooseSurvivor {
                plan: PlanId(reader.varint()?),
                shard: read_shard(reader)?,
                replica: ReplicaId(reader.varint()?),
            },
            EVENT => Self::Event {
                at_ms: reader.varint()?,
                kind: reader.text(SETTING_NAME_BYTES_MAX)?.to_owned(),
                text: reader.text(EVENT_BYTES_MAX)?.to_owned(),
            },
            _ => return Err("a change of an unknown kind"),
        })
    }
}

fn put_optional(bytes: &mut Vec<u8>, value: Option<&[u8]>) {
    bytes.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_bytes(bytes, value);
    }
}

fn read_rules(reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>> {
    if read_flag(reader)? { Ok(Some(reader.bytes()?.to_vec())) } else { Ok(None) }
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a flag is neither 0 nor 1"),
    }
}

fn read_value(reader: &mut Reader<'_>) -> Result<Option<String>> {
    if read_flag(reader)? { Ok(Some(reader.text(SETTING_VALUE_BYTES_MAX)?.to_owned())) } else { Ok(None) }
}

fn read_ids(reader: &mut Reader<'_>) -> Result<Vec<ReplicaId>> {
    let count = reader.count_at_most(REPLICAS_MAX, 1)?;
    (0..count).map(|_| Ok(ReplicaId(reader.varint()?))).collect()
}
