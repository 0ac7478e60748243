//! The metadata group's state machine: a change applied to the map. Deterministic, and safe to repeat.

use crate::change::Change;
use crate::map::{Map, NodeInfo, ReplicaInfo, setting_fault};
use crate::settings::store_setting;
use std::fmt;
use vocab::limits::{MAP_SETTINGS_MAX, NODES_MAX, REPLICAS_MAX};
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

impl Map {
    /// Applies a change. The epoch rises by one if the map becomes another, and only then.
    pub fn apply(&mut self, change: &Change) -> Result<Outcome> {
        let epoch = self.epoch;
        let outcome = match change {
            Change::Begin(map) if map.store == self.store => Ok(UNCHANGED),
            Change::Begin(map) => Err(Refusal::OtherStore(map.store)),
            Change::RegisterNode(node) => self.register_node(node),
            Change::UpdateNode { was, now } => self.update_node(was, now),
            Change::ForgetNode(node) => self.forget_node(*node),
            Change::AddReplica { shard, replica, node, learner } => self.add_replica(*shard, *replica, *node, *learner),
            Change::SetReplicas { shard, members_index, voters, learners } => {
                self.set_replicas(*shard, *members_index, voters, learners)
            }
            Change::ForgetReplica { shard, replica } => self.forget_replica(*shard, *replica),
            Change::Setting { name, was, now } => self.set(name, was.as_deref(), now.as_deref()),
            Change::BeginPlan { id, kind, at_ms, detail } => self.begin_plan(*id, kind, *at_ms, detail),
            Change::SetPlan { id, was, now, at_ms, detail } => self.set_plan(*id, (*was, *now), *at_ms, detail),
            Change::BeginStep { plan, shard, add, remove } => self.begin_step(*plan, *shard, *add, *remove),
            Change::EndStep { plan, shard, done } => self.end_step(*plan, *shard, *done),
            Change::BeginSplit { plan, parent, child, slots } => self.begin_split(*plan, *parent, *child, slots),
            Change::EndSplit { child } => self.end_split(*child),
            Change::ChooseSurvivor { plan, shard, replica } => self.choose_survivor(*plan, *shard, *replica),
            Change::Event { .. } => Ok(UNCHANGED),
        }?;
        assert_eq!(outcome.changed, self.epoch.0 == epoch.0 + 1, "a change raises the epoch, nothing else does");
        Ok(outcome)
    }

    pub(crate) fn changed(&mut self) -> Outcome {
        self.epoch.0 += 1;
        Outcome { changed: true }
    }

    fn register_node(&mut self, node: &NodeInfo) -> Result<Outcome> {
        match self.nodes.get(&node.id) {
            Some(known) if known == node => return Ok(UNCHANGED),
            Some(_) => return Err(Refusal::OtherFacts(node.id)),
            None => {}
        }
        if let Some(fault) = node.fault() {
            return Err(Refusal::OutOfBounds(fault));
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(Refusal::OutOfBounds(format!("a store has at most {NODES_MAX} nodes")));
        }
        self.nodes.insert(node.id, node.clone());
        Ok(self.changed())
    }

    fn update_node(&mut self, was: &NodeInfo, now: &NodeInfo) -> Result<Outcome> {
        let known = self.nodes.get_mut(&now.id).ok_or(Refusal::UnknownNode(now.id))?;
        if known == now {
            return Ok(UNCHANGED);
        }
        if known != was {
            return Err(Refusal::NodeChanged(now.id));
        }
        if let Some(fault) = now.fault() {
            return Err(Refusal::OutOfBounds(fault));
        }
        known.clone_from(now);
        Ok(self.changed())
    }

    fn forget_node(&mut self, node: NodeId) -> Result<Outcome> {
        if let Some((shard, _)) = self.replicas_on(node).next() {
            return Err(Refusal::HoldsReplica(node, shard));
        }
        if self.nodes.remove(&node).is_none() {
            return Ok(UNCHANGED);
        }
        self.leaving.remove(&node);
        Ok(self.changed())
    }

    fn add_replica(&mut self, id: ShardId, replica: ReplicaId, node: NodeId, learner: bool) -> Result<Outcome> {
        if !self.nodes.contains_key(&node) {
            return Err(Refusal::UnknownNode(node));
        }
        let shard = self.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
        if shard.replica(replica).is_some_and(|known| known.node == node) {
            return Ok(UNCHANGED);
        }
        if replica.0 != shard.next_replica {
            return Err(Refusal::NotNext(id, replica, ReplicaId(shard.next_replica)));
        }
        if shard.replica_on(node).is_some() {
            return Err(Refusal::HasReplica(node, id));
        }
        if shard.replicas.len() >= REPLICAS_MAX {
            return Err(Refusal::OutOfBounds(format!("shard {id} has {REPLICAS_MAX} replicas, no more may be added")));
        }
        shard.next_replica += 1;
        shard.replicas.push(ReplicaInfo { id: replica, node, learner, member: false });
        Ok(self.changed())
    }

    fn set_replicas(
        &mut self,
        id: ShardId,
        members_index: u64,
        voters: &[ReplicaId],
        learners: &[ReplicaId],
    ) -> Result<Outcome> {
        let shard = self.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
        if members_index <= shard.members_index {
            return Ok(UNCHANGED);
        }
        let named: Vec<ReplicaId> = voters.iter().chain(learners).copied().collect();
        let is_twice = |(i, replica): (usize, &ReplicaId)| named[..i].contains(replica);
        if voters.is_empty() || named.iter().enumerate().any(is_twice) {
            return Err(Refusal::BadMembers(id));
        }
        if let Some(unknown) = named.iter().find(|replica| shard.replica(**replica).is_none()) {
            return Err(Refusal::UnknownReplica(id, *unknown));
        }
        shard.replicas.retain(|replica| !replica.member || named.contains(&replica.id));
        for replica in &mut shard.replicas {
            if named.contains(&replica.id) {
                replica.member = true;
                replica.learner = learners.contains(&replica.id);
            }
        }
        shard.members_index = members_index;
        Ok(self.changed())
    }

    fn forget_replica(&mut self, id: ShardId, replica: ReplicaId) -> Result<Outcome> {
        let shard = self.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
        match shard.replica(replica) {
            None => return Ok(UNCHANGED),
            Some(known) if known.member => return Err(Refusal::IsMember(id, replica)),
            Some(_) => {}
        }
        shard.replicas.retain(|known| known.id != replica);
        Ok(self.changed())
    }

    fn set(&mut self, name: &str, was: Option<&str>, now: Option<&str>) -> Result<Outcome> {
        if let Some(fault) = setting_fault(name, now.unwrap_or_default()) {
            return Err(Refusal::OutOfBounds(fault));
        }
        let known = self.settings.get(name).map(String::as_str);
        if known == now {
            return Ok(UNCHANGED);
        }
        if known != was {
            return Err(Refusal::SettingChanged(name.to_owned()));
        }
        // What this version does not know may be taken away, but not set.
        if let Some(value) = now {
            let unknown = || Refusal::OutOfBounds(format!("a store has no setting {name}"));
            let kept = store_setting(name).ok_or_else(unknown)?.parse(value).map_err(Refusal::OutOfBounds)?;
            if kept != value {
                return Err(Refusal::OutOfBounds(format!("{name}: {value} is kept as {kept}")));
            }
        }
        if known.is_none() && self.settings.len() >= MAP_SETTINGS_MAX {
            return Err(Refusal::OutOfBounds(format!("a store has at most {MAP_SETTINGS_MAX} settings")));
        }
        match now {
            None => self.settings.remove(name),
            Some(value) => self.settings.insert(name.to_owned(), value.to_owned()),
        };
        Ok(self.changed())
    }
}
