//! What placement is told beside the map, and what it answers.

use crate::node_info::NodeInfo;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, ReplicaId, ShardId};

/// What placement has to know beside the map.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Nodes that do not answer, but may come back: nothing is placed there, and nothing taken away.
    pub down: BTreeSet<NodeId>,
    /// Nodes that have not answered for as long as it takes to count them lost.
    pub lost: BTreeSet<NodeId>,
    /// Nodes that are to hold nothing; one without capacity is among them anyhow.
    pub leaving: BTreeSet<NodeId>,
    /// How much each shard holds, in bytes. One that is not named holds as much as the others.
    pub bytes: BTreeMap<ShardId, u64>,
}

/// One replica comes, goes, or goes from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Of which shard.
    pub shard: ShardId,
    /// The node that gets a replica. It must be filled before the other one is removed.
    pub add: Option<NodeId>,
    /// The replica that is removed.
    pub remove: Option<ReplicaId>,
    /// What for.
    pub why: Why,
}

/// What a move is for; the more pressing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The shard has fewer replicas than it is to have.
    Repair,
    /// A node is to hold nothing.
    Drain,
    /// A zone holds more of the shard than it must.
    Zone,
    /// The shard has more replicas than it is to have.
    Surplus,
    /// Nodes hold more or less than their part.
    Balance,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Takes and gives.
    Able,
    /// Does not answer now: keeps what it has, and takes nothing.
    Down,
    /// Does not answer and will not: what it had is gone.
    Lost,
    /// Is to hold nothing.
    Leaving,
}

impl Observed {
    pub(super) fn state(&self, node: &NodeInfo) -> NodeState {
        if self.lost.contains(&node.id) {
            NodeState::Lost
        } else if self.leaves(node) {
            NodeState::Leaving
        } else if self.down.contains(&node.id) {
            NodeState::Down
        } else {
            NodeState::Able
        }
    }

    pub(super) fn leaves(&self, node: &NodeInfo) -> bool {
        self.leaving.contains(&node.id) || node.capacity == 0
    }

    pub(super) fn usual_bytes(&self) -> u64 {
        let sum: u128 = self.bytes.values().map(|bytes| u128::from(*bytes)).sum();
        (sum / self.bytes.len().max(1) as u128) as u64
    }
}

impl NodeState {
    /// What is there stays there.
    pub(super) fn counts(self) -> bool {
        matches!(self, Self::Able | Self::Down)
    }
}
