//! What the map knows of a shard and of its replicas.

use crate::bytes::{Result, put_slots, read_slots};
use std::collections::BTreeMap;
use vocab::limits::{NODES_MAX, REPLICAS_MAX};
use vocab::{NodeId, Reader, ReplicaId, SLOT_COUNT, Slot, put_varint};

const LEARNER: u8 = 1;
const MEMBER: u8 = 2;

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

    /// What is wrong with it by itself, if anything is.
    pub(crate) fn fault(&self, is_meta: bool, knows: impl Fn(NodeId) -> bool) -> Option<String> {
        if self.replicas.len() > REPLICAS_MAX {
            return Some(format!("{} replicas are more than {REPLICAS_MAX}", self.replicas.len()));
        }
        if self.voters().next().is_none() {
            return Some("no replica votes".to_owned());
        }
        for (i, replica) in self.replicas.iter().enumerate() {
            if replica.id.0 == 0 || replica.id.0 >= self.next_replica {
                return Some(format!("replica {} is not of 1 to {}", replica.id, self.next_replica.saturating_sub(1)));
            }
            if i > 0 && self.replicas[i - 1].id >= replica.id {
                return Some(format!("replica {} is out of order, or there twice", replica.id));
            }
            if self.replicas[..i].iter().any(|other| other.node == replica.node) {
                return Some(format!("two replicas are on node {}", replica.node));
            }
            if !knows(replica.node) {
                return Some(format!("replica {} is on the unknown node {}", replica.id, replica.node));
            }
        }
        if is_meta && !self.slots.is_empty() {
            return Some("the metadata group owns slots".to_owned());
        }
        for (i, &(first, last)) in self.slots.iter().enumerate() {
            if first > last || last >= SLOT_COUNT {
                return Some(format!("{first} to {last} is no range of slots"));
            }
            if i > 0 && u32::from(self.slots[i - 1].1) + 1 >= u32::from(first) {
                return Some(format!("slots from {first} on do not stand apart from the range before"));
            }
        }
        None
    }

    /// Appends its bytes. `places`: where each node stands among the map's nodes.
    pub(crate) fn encode(&self, places: &BTreeMap<NodeId, u64>, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.members_index);
        put_varint(bytes, self.next_replica);
        put_slots(bytes, &self.slots);
        put_varint(bytes, self.replicas.len() as u64);
        for replica in &self.replicas {
            put_varint(bytes, replica.id.0);
            put_varint(bytes, *places.get(&replica.node).expect("a replica's node is in the map"));
            bytes.push(u8::from(replica.learner) * LEARNER + u8::from(replica.member) * MEMBER);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, nodes: &[NodeId]) -> Result<Self> {
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
        Ok(Self { slots, replicas, next_replica, members_index })
    }
}
