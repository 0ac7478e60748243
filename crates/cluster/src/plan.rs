//! Plans: numbered, durable changes of the store's shape, and their steps that are under way.
//!
//! A plan says what is wanted. Which replicas come and go for it is computed again and again from the map and what is observed
//! (`placement::next_moves`), one step a shard. So a plan may be stopped at any moment and taken up by another node.

use crate::bytes::{Result, put_slots, read_slots};
use vocab::limits::{PLAN_DETAIL_BYTES_MAX, REPLICATION_FACTOR_MAX, ZONE_BYTES_MAX};
use vocab::{NodeId, PlanId, Reader, ReplicaId, ShardId, Slot, put_bytes, put_varint};

/// A plan, as the map keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its number.
    pub id: PlanId,
    /// What is wanted.
    pub kind: PlanKind,
    /// How far it is.
    pub state: PlanState,
    /// When it was begun, in ms since the epoch, by the clock of the node that began it.
    pub began_ms: u64,
    /// When it came to an end; 0 before.
    pub ended_ms: u64,
    /// Steps that are done.
    pub steps_done: u64,
    /// What an operator should know: why it was begun, what it waits for, or why it ended.
    pub detail: String,
}

/// What a plan is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanKind {
    /// A node has joined, and takes its part.
    AddNode(NodeId),
    /// A node is to hold nothing.
    DrainNode(NodeId),
    /// A node is to hold nothing, and to be forgotten. It may be dead.
    RemoveNode(NodeId),
    /// A node has been silent for long: its replicas are built again elsewhere.
    Repair(NodeId),
    /// Data is to be spread evenly.
    Rebalance,
    /// Leaders are to be spread evenly.
    BalanceLeaders,
    /// A node is to lead nothing, until it has been restarted.
    DrainLeaders(NodeId),
    /// A replica goes from one node to another.
    MoveShard {
        /// Of which shard.
        shard: ShardId,
        /// The node that it leaves.
        from: NodeId,
        /// The node that it goes to.
        to: NodeId,
    },
    /// A shard becomes two.
    SplitShard {
        /// Which.
        shard: ShardId,
        /// The first slot of the new shard; none: the slot that halves the data.
        at: Option<Slot>,
    },
    /// Every shard becomes two.
    SplitAll,
    /// Shards get this number of replicas.
    SetReplicationFactor(u32),
    /// A node is in another zone.
    ChangeZone {
        /// Which.
        node: NodeId,
        /// The zone.
        zone: String,
    },
    /// One node takes the place of another, which is then forgotten.
    ReplaceNode {
        /// The node that goes.
        node: NodeId,
        /// The node that comes.
        with: NodeId,
    },
    /// Replicas of a node are dropped, and built again on it from the other replicas.
    Rebuild {
        /// The node.
        node: NodeId,
        /// The shard; none: all damaged replicas.
        shard: Option<ShardId>,
    },
    /// Shards that have lost their majority go on with what is left of them, whatever they have lost.
    UnsafeRecover(Vec<ShardId>),
}

/// How far a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// Steps are made.
    Running,
    /// No step is begun; those under way end.
    Paused,
    /// The store is as the plan wanted it.
    Done,
    /// It was cancelled. Finished steps stay.
    Cancelled,
    /// It has failed: it cannot be done.
    Failed,
}

/// A replica of a shard comes, goes, or takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// For which plan.
    pub plan: PlanId,
    /// The replica that comes. It is in the map, and becomes a member when the shard's leader adds it.
    pub add: Option<ReplicaId>,
    /// The replica that goes, once the other one votes.
    pub remove: Option<ReplicaId>,
}

/// A shard that is about to give some of its slots to a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// For which plan.
    pub plan: PlanId,
    /// The shard that has the slots now.
    pub parent: ShardId,
    /// The slots: ranges of first and last.
    pub slots: Vec<(u16, u16)>,
}

impl PlanState {
    /// Whether the plan has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Failed)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.u8()? {
            0 => Self::Running,
            1 => Self::Paused,
            2 => Self::Done,
            3 => Self::Cancelled,
            4 => Self::Failed,
            _ => return Err("a plan's state is unknown"),
        })
    }
}

impl PlanKind {
    /// The word that stands for it in `ctl plan`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::AddNode(_) => "add-node",
            Self::DrainNode(_) => "drain-node",
            Self::RemoveNode(_) => "remove-node",
            Self::Repair(_) => "repair",
            Self::Rebalance => "rebalance",
            Self::BalanceLeaders => "balance-leaders",
            Self::DrainLeaders(_) => "drain-leaders",
            Self::MoveShard { .. } => "move-shard",
            Self::SplitShard { .. } => "split-shard",
            Self::SplitAll => "split-all",
            Self::SetReplicationFactor(_) => "set-replication-factor",
            Self::ChangeZone { .. } => "change-zone",
            Self::ReplaceNode { .. } => "replace-node",
            Self::Rebuild { .. } => "rebuild",
            Self::UnsafeRecover(_) => "unsafe-recover",
        }
    }

    /// Whether `placement::next_moves` computes its moves.
    #[must_use]
    pub fn moves_replicas(&self) -> bool {
        match self {
            Self::AddNode(_)
            | Self::DrainNode(_)
            | Self::RemoveNode(_)
            | Self::Repair(_)
            | Self::Rebalance
            | Self::SetReplicationFactor(_)
            | Self::ChangeZone { .. }
            | Self::ReplaceNode { .. }
            | Self::UnsafeRecover(_) => true,
            Self::BalanceLeaders
            | Self::DrainLeaders(_)
            | Self::MoveShard { .. }
            | Self::SplitShard { .. }
            | Self::SplitAll
            | Self::Rebuild { .. } => false,
        }
    }

    /// Whether it empties that node.
    #[must_use]
    pub fn empties(&self, node: NodeId) -> bool {
        match self {
            Self::DrainNode(goes) | Self::RemoveNode(goes) | Self::ReplaceNode { node: goes, .. } => *goes == node,
            _ => false,
        }
    }

    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.code());
        match self {
            Self::AddNode(node)
            | Self::DrainNode(node)
            | Self::RemoveNode(node)
            | Self::Repair(node)
            | Self::DrainLeaders(node) => put_node(bytes, *node),
            Self::Rebalance | Self::BalanceLeaders | Self::SplitAll => {}
            Self::MoveShard { shard, from, to } => {
                put_varint(bytes, u64::from(shard.0));
                put_node(bytes, *from);
                put_node(bytes, *to);
            }
            Self::SplitShard { shard, at } => {
                put_varint(bytes, u64::from(shard.0));
                put_varint(bytes, at.map_or(0, |slot| u64::from(slot.0) + 1));
            }
            Self::SetReplicationFactor(count) => put_varint(bytes, u64::from(*count)),
            Self::ChangeZone { node, zone } => {
                put_node(bytes, *node);
                put_bytes(bytes, zone.as_bytes());
            }
            Self::ReplaceNode { node, with } => {
                put_node(bytes, *node);
                put_node(bytes, *with);
            }
            Self::Rebuild { node, shard } => {
                put_node(bytes, *node);
                put_varint(bytes, shard.map_or(0, |shard| u64::from(shard.0) + 1));
            }
            Self::UnsafeRecover(shards) => {
                put_varint(bytes, shards.len() as u64);
                shards.iter().for_each(|shard| put_varint(bytes, u64::from(shard.0)));
            }
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::AddNode(_) => 1,
            Self::DrainNode(_) => 2,
            Self::RemoveNode(_) => 3,
            Self::Repair(_) => 4,
            Self::Rebalance => 5,
            Self::BalanceLeaders => 6,
            Self::DrainLeaders(_) => 7,
            Self::MoveShard { .. } => 8,
            Self::SplitShard { .. } => 9,
            Self::SplitAll => 10,
            Self::SetReplicationFactor(_) => 11,
            Self::ChangeZone { .. } => 12,
            Self::ReplaceNode { .. } => 13,
            Self::Rebuild { .. } => 14,
            Self::UnsafeRecover(_) => 15,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.u8()? {
            1 => Self::AddNode(read_node(reader)?),
            2 => Self::DrainNode(read_node(reader)?),
            3 => Self::RemoveNode(read_node(reader)?),
            4 => Self::Repair(read_node(reader)?),
            5 => Self::Rebalance,
            6 => Self::BalanceLeaders,
            7 => Self::DrainLeaders(read_node(reader)?),
            8 => Self::MoveShard { shard: read_shard(reader)?, from: read_node(reader)?, to: read_node(reader)? },
            9 => Self::SplitShard {
                shard: read_shard(reader)?,
                at: reader.at_most(u64::from(vocab::SLOT_COUNT))?.checked_sub(1).map(|slot| Slot(slot as u16)),
            },
            10 => Self::SplitAll,
            11 => Self::SetReplicationFactor(reader.at_most(u64::from(REPLICATION_FACTOR_MAX))? as u32),
            12 => Self::ChangeZone { node: read_node(reader)?, zone: reader.text(ZONE_BYTES_MAX)?.to_owned() },
            13 => Self::ReplaceNode { node: read_node(reader)?, with: read_node(reader)? },
            14 => Self::Rebuild {
                node: read_node(reader)?,
                shard: reader.at_most(1 << 32)?.checked_sub(1).map(|shard| ShardId(shard as u32)),
            },
            15 => {
                let count = reader.count_at_most(vocab::limits::MAP_SHARDS_MAX, 1)?;
                Self::UnsafeRecover((0..count).map(|_| read_shard(reader)).collect::<Result<_>>()?)
            }
            _ => return Err("a plan of an unknown kind"),
        })
    }
}

impl Plan {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.id.0);
        self.kind.encode(bytes);
        bytes.push(self.state.code());
        put_varint(bytes, self.began_ms);
        put_varint(bytes, self.ended_ms);
        put_varint(bytes, self.steps_done);
        put_bytes(bytes, self.detail.as_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            id: PlanId(reader.varint()?),
            kind: PlanKind::read(reader)?,
            state: PlanState::read(reader)?,
            began_ms: reader.varint()?,
            ended_ms: reader.varint()?,
            steps_done: reader.varint()?,
            detail: reader.text(PLAN_DETAIL_BYTES_MAX)?.to_owned(),
        })
    }
}

impl Step {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.plan.0);
        put_varint(bytes, self.add.map_or(0, |replica| replica.0));
        put_varint(bytes, self.remove.map_or(0, |replica| replica.0));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let replica = |id: u64| (id > 0).then_some(ReplicaId(id));
        Ok(Self { plan: PlanId(reader.varint()?), add: replica(reader.varint()?), remove: replica(reader.varint()?) })
    }
}

impl Split {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.plan.0);
        put_varint(bytes, u64::from(self.parent.0));
        put_slots(bytes, &self.slots);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { plan: PlanId(reader.varint()?), parent: read_shard(reader)?, slots: read_slots(reader)? })
    }
}

fn put_node(bytes: &mut Vec<u8>, node: NodeId) {
    bytes.extend_from_slice(&node.0.to_le_bytes());
}

fn read_node(reader: &mut Reader<'_>) -> Result<NodeId> {
    Ok(NodeId(reader.u64_le()?))
}

pub(crate) fn read_shard(reader: &mut Reader<'_>) -> Result<ShardId> {
    Ok(ShardId(reader.at_most(u64::from(u32::MAX))? as u32))
}
