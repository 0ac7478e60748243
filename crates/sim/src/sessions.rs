//! What a node has of clients that publish and that listen.

use crate::messages::{Listened, Party};
use node::peer_protocol::PeerMessage;
use node::pubsub::{Broker, ClientSubscriptions};
use std::collections::BTreeMap;
use vocab::NodeId;

/// What a node has of clients that listen, while its process lives.
#[derive(Default)]
pub struct Sessions {
    pub(crate) broker: Broker,
    pub(crate) own: BTreeMap<Party, ClientSubscriptions>,
    /// What confirmations that wait are about, by their numbers.
    pub(crate) unconfirmed: BTreeMap<u64, Listened>,
    /// The number of the last one.
    pub(crate) last: u64,
    /// A message that a planted bug holds back, by the node that it is for.
    pub(crate) held_back: BTreeMap<NodeId, PeerMessage>,
}
