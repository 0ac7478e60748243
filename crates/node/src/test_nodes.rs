//! Nodes for tests.

use cluster::NodeInfo;
use vocab::NodeId;

/// A node at an address of its own.
pub(crate) fn node_info(id: u64) -> NodeInfo {
    NodeInfo {
        id: NodeId(id),
        peer_address: format!("10.0.0.{id}:17000"),
        client_host: format!("10.0.0.{id}"),
        client_port: 7000,
        zone: String::new(),
        capacity: 1,
    }
}
