//! What operators know of the store's shape: what is damaged, dead or lost.

use crate::event::Place;
use crate::schedule::Micros;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, ReplicaId, ShardId};

/// What operators have in mind.
#[derive(Default)]
pub struct Shaping {
    /// Replicas that are of no use until there is another one in their place.
    pub(crate) damaged: BTreeMap<(ShardId, NodeId), ReplicaId>,
    /// Nodes that will never come back.
    pub(crate) dead: BTreeSet<Place>,
    /// Nodes that were in the map.
    pub(crate) known: BTreeSet<NodeId>,
    /// When the last node died.
    pub died_at: Option<Micros>,
    /// Shards that have lost their majority for good.
    pub lost: Vec<ShardId>,
}

impl Shaping {
    /// Whether nothing runs at a place, and nothing ever will.
    #[must_use]
    pub fn is_gone(&self, place: Place) -> bool {
        self.dead.contains(&place)
    }
}
