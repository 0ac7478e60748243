//! What the director asks of its node: changes of the map, and orders to replicas.

use crate::peer_protocol::Order;
use cluster::Change;
use vocab::{NodeId, ShardId};

/// One thing that is to be done for a plan. It may be lost, and it may be done twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectorAction {
    /// Bring a change to the metadata group.
    Propose(Change),
    /// Tell a shard's replica on that node what to do.
    Order {
        /// The node.
        node: NodeId,
        /// The shard.
        shard: ShardId,
        /// What it is to do.
        order: Order,
    },
}
