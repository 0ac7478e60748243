//! The place of a node in a run, from 0, and its id in the store, from 1.

use vocab::NodeId;

/// A node's number in a run, from 0.
pub type Place = usize;

/// The node's id at a place.
#[must_use]
pub fn node_id(place: Place) -> NodeId {
    NodeId(place as u64 + 1)
}

/// The place of a node.
#[must_use]
pub fn place_of(node: NodeId) -> Place {
    node.0 as usize - 1
}
