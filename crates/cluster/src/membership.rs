//! Changes of nodes, of replicas and of settings, applied to the map.

use crate::map::{Map, setting_fault};
use crate::node_info::NodeInfo;
use crate::refusal::{Outcome, Refusal, Result, UNCHANGED, changed};
use crate::shard_info::ReplicaInfo;
use crate::users::{UserChange, users_fault};
use std::collections::BTreeSet;
use vocab::limits::{MAP_SETTINGS_MAX, NODES_MAX, REPLICAS_MAX};
use vocab::{NodeId, ReplicaId, ShardId};

/// Who belongs to the store and to its shards, to be changed.
pub(crate) struct Membership<'a>(pub(crate) &'a mut Map);

impl Membership<'_> {
    pub(crate) fn register_node(&mut self, node: &NodeInfo) -> Result<Outcome> {
        match self.0.nodes.get(&node.id) {
            Some(known) if known == node => return Ok(UNCHANGED),
            Some(_) => return Err(Refusal::OtherFacts(node.id)),
            None => {}
        }
        if let Some(fault) = node.fault() {
            return Err(Refusal::OutOfBounds(fault));
        }
        if self.0.nodes.len() >= NODES_MAX {
            return Err(Refusal::OutOfBounds(format!("a store has at most {NODES_MAX} nodes")));
        }
        self.0.nodes.insert(node.id, node.clone());
        Ok(changed(self.0))
    }

    pub(crate) fn update_node(&mut self, was: &NodeInfo, now: &NodeInfo) -> Result<Outcome> {
        let known = self.0.nodes.get_mut(&now.id).ok_or(Refusal::UnknownNode(now.id))?;
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
        Ok(changed(self.0))
    }

    pub(crate) fn forget_node(&mut self, node: NodeId) -> Result<Outcome> {
        if let Some((shard, _)) = self.0.replicas_on(node).next() {
            return Err(Refusal::HoldsReplica(node, shard));
        }
        if self.0.nodes.remove(&node).is_none() {
            return Ok(UNCHANGED);
        }
        self.0.leaving.remove(&node);
        Ok(changed(self.0))
    }

    pub(crate) fn add_replica(
        &mut self,
        id: ShardId,
        replica: ReplicaId,
        node: NodeId,
        learner: bool,
    ) -> Result<Outcome> {
        if !self.0.nodes.contains_key(&node) {
            return Err(Refusal::UnknownNode(node));
        }
        let mut shard = self.0.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
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
        drop(shard);
        Ok(changed(self.0))
    }

    pub(crate) fn set_replicas(
        &mut self,
        id: ShardId,
        members_index: u64,
        voters: &[ReplicaId],
        learners: &[ReplicaId],
    ) -> Result<Outcome> {
        let mut shard = self.0.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
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
        drop(shard);
        Ok(changed(self.0))
    }

    pub(crate) fn forget_replica(&mut self, id: ShardId, replica: ReplicaId) -> Result<Outcome> {
        let mut shard = self.0.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
        match shard.replica(replica) {
            None => return Ok(UNCHANGED),
            Some(known) if known.member => return Err(Refusal::IsMember(id, replica)),
            Some(_) => {}
        }
        shard.replicas.retain(|known| known.id != replica);
        drop(shard);
        Ok(changed(self.0))
    }

    /// Which settings there are, and of which values, is looked at where a change is proposed: replicas of two releases, of which one knows
    /// more of them, have to come to the same map.
    pub(crate) fn set(&mut self, name: &str, was: Option<&str>, now: Option<&str>) -> Result<Outcome> {
        if let Some(fault) = setting_fault(name, now.unwrap_or_default()) {
            return Err(Refusal::OutOfBounds(fault));
        }
        let known = self.0.settings.get(name).map(String::as_str);
        if known == now {
            return Ok(UNCHANGED);
        }
        if known != was {
            return Err(Refusal::SettingChanged(name.to_owned()));
        }
        if known.is_none() && self.0.settings.len() >= MAP_SETTINGS_MAX {
            return Err(Refusal::OutOfBounds(format!("a store has at most {MAP_SETTINGS_MAX} settings")));
        }
        match now {
            None => self.0.settings.remove(name),
            Some(value) => self.0.settings.insert(name.to_owned(), value.to_owned()),
        };
        Ok(changed(self.0))
    }

    pub(crate) fn set_users(&mut self, users: &[UserChange]) -> Result<Outcome> {
        let known = |user: &UserChange| self.0.users.get(&user.name);
        let mut named = BTreeSet::new();
        if let Some(user) = users.iter().find(|user| !named.insert(&user.name)) {
            return Err(Refusal::OutOfBounds(format!("the user {} is named twice", user.name)));
        }
        if users.iter().all(|user| known(user) == user.now.as_deref()) {
            return Ok(UNCHANGED);
        }
        if let Some(user) = users.iter().find(|user| known(user) != user.was.as_deref()) {
            return Err(Refusal::UserChanged(user.name.clone()));
        }
        let mut rules = (*self.0.users).clone();
        users.iter().for_each(|user| rules.set(&user.name, user.now.as_deref()));
        if let Some(fault) = users_fault(&rules) {
            return Err(Refusal::OutOfBounds(fault));
        }
        self.0.users = rules.into();
        Ok(changed(self.0))
    }
}
