//! What a change of the map comes to: whether it changed anything, or why it was refused.

use crate::map::Map;
use std::fmt;
use vocab::{NodeId, PlanId, ReplicaId, ShardId, StoreId};

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The map is another, and so is its epoch. If not, the change had happened already, or came too late to matter.
    pub changed: bool,
}

pub(crate) const UNCHANGED: Outcome = Outcome { changed: false };

/// Why a change was refused. The map is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The change is the first map of another store.
    OtherStore(StoreId),
    /// The map has no such node.
    UnknownNode(NodeId),
    /// The map has no such shard.
    UnknownShard(ShardId),
    /// The shard has no such replica in the map.
    UnknownReplica(ShardId, ReplicaId),
    /// A known node registers with other facts.
    OtherFacts(NodeId),
    /// The node's facts are no longer those that the change starts from.
    NodeChanged(NodeId),
    /// The setting's value is no longer the one that the change starts from.
    SettingChanged(String),
    /// The user's rules are no longer those that the change starts from.
    UserChanged(String),
    /// A new replica has to have the shard's next id, which is the last of these.
    NotNext(ShardId, ReplicaId, ReplicaId),
    /// The node holds a replica of the shard already.
    HasReplica(NodeId, ShardId),
    /// The node still holds a replica of this shard.
    HoldsReplica(NodeId, ShardId),
    /// The replica is a member of its group, which has to let it go first.
    IsMember(ShardId, ReplicaId),
    /// The report names no voter, or a replica twice.
    BadMembers(ShardId),
    /// There are too many of something, or a text is not as it must be; says what.
    OutOfBounds(String),
    /// There is no such plan, or it is not as the change takes it to be.
    PlanChanged(PlanId),
    /// A new plan has to have the next number, which is the second.
    NotNextPlan(PlanId, PlanId),
    /// A new shard has to have the next number, which is the second.
    NotNextShard(ShardId, ShardId),
    /// The shard has a step or a split under way.
    Busy(ShardId),
    /// It cannot be as it is wanted; says why.
    Impossible(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherStore(store) => write!(f, "the map is that of another store, {store}"),
            Self::UnknownNode(node) => write!(f, "the store has no node {node}"),
            Self::UnknownShard(shard) => write!(f, "the store has no shard {shard}"),
            Self::UnknownReplica(shard, replica) => write!(f, "shard {shard} has no replica {replica} in the map"),
            Self::OtherFacts(node) => write!(f, "node {node} is registered with other addresses, zone or capacity"),
            Self::NodeChanged(node) => write!(f, "node {node} was changed in the meantime"),
            Self::SettingChanged(name) => write!(f, "the setting {name} was changed in the meantime"),
            Self::UserChanged(name) => write!(f, "the user {name} was changed in the meantime"),
            Self::NotNext(shard, replica, next) => {
                write!(f, "a new replica of shard {shard} cannot be {replica}: the next is {next}")
            }
            Self::HasReplica(node, shard) => write!(f, "node {node} has a replica of shard {shard} already"),
            Self::HoldsReplica(node, shard) => write!(f, "node {node} still holds a replica of shard {shard}"),
            Self::IsMember(shard, replica) => {
                write!(f, "replica {replica} of shard {shard} is a member of its group, which must remove it first")
            }
            Self::BadMembers(shard) => write!(f, "the members of shard {shard} have no voter, or name a replica twice"),
            Self::OutOfBounds(what) | Self::Impossible(what) => f.write_str(what),
            Self::PlanChanged(plan) => write!(f, "plan {plan} is not there, or was changed in the meantime"),
            Self::NotNextPlan(plan, next) => write!(f, "a new plan cannot be {plan}: the next is {next}"),
            Self::NotNextShard(shard, next) => write!(f, "a new shard cannot be {shard}: the next is {next}"),
            Self::Busy(shard) => write!(f, "shard {shard} is being changed already"),
        }
    }
}

impl std::error::Error for Refusal {}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// The map has become another.
pub(crate) fn changed(map: &mut Map) -> Outcome {
    map.epoch.0 += 1;
    Outcome { changed: true }
}
