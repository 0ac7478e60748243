//! The nodes, and how an operator calls them.

use super::error::AdminError;
use super::sight::Sight;
use cluster::Map;
use serde_json::{Value, json};
use vocab::NodeId;

pub(super) fn list(sight: &Sight) -> Value {
    json!({"complete": sight.directed && sight.status.complete, "nodes": sight.status.nodes})
}

/// The node that a name means: the beginning of its id, its address for clients, or that for nodes.
pub(super) fn find(map: &Map, name: &str) -> Result<NodeId, AdminError> {
    let client = |node: &cluster::NodeInfo| format!("{}:{}", node.client_host, node.client_port) == name;
    let there: Vec<String> = map
        .nodes
        .values()
        .filter(|node| client(node) || node.peer_address == name)
        .map(|node| node.id.to_string())
        .collect();
    // A dead node's address may be that of the one which came in its place: whichever was meant, it must not be guessed.
    if there.len() > 1 {
        let text = format!("several nodes are, or were, at {name}: give the id of one: {}", there.join(", "));
        return Err(AdminError::Usage(text));
    }
    if let Some(node) = map.nodes.values().find(|node| client(node) || node.peer_address == name) {
        return Ok(node.id);
    }
    let name = name.to_ascii_lowercase();
    let found: Vec<NodeId> = map.nodes.keys().copied().filter(|id| id.to_string().starts_with(&name)).collect();
    match found[..] {
        [node] if !name.is_empty() => Ok(node),
        [] => Err(AdminError::NotFound(format!("no node is called {name}; `ctl nodes` lists them"))),
        _ => {
            Err(AdminError::Usage(format!("{} nodes have ids that begin with {name:?}; give more of it", found.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::StoreId;

    #[test]
    fn nodes_are_found_by_what_is_seen_of_them() {
        let node = |id: u64, port: u16| cluster::NodeInfo {
            id: NodeId(id),
            peer_address: format!("h:{}", port + 10_000),
            client_host: "h".to_owned(),
            client_port: port,
            zone: String::new(),
            capacity: 1,
        };
        let nodes = [node(0xAB00_0000_0000_0001, 7000), node(0xAC00_0000_0000_0002, 7001)];
        let map = cluster::initial_map(StoreId(1), &nodes, 1, 1).unwrap();
        for name in ["ab", "AB000", "h:7000", "h:17000", "ab00000000000001"] {
            assert_eq!(find(&map, name), Ok(nodes[0].id), "{name}");
        }
        for name in ["a", ""] {
            assert!(matches!(find(&map, name), Err(AdminError::Usage(_))), "{name}");
        }
        for name in ["ff", "h:7002", "h"] {
            assert!(matches!(find(&map, name), Err(AdminError::NotFound(_))), "{name}");
        }
        let mut twice = map.clone();
        twice.nodes.get_mut(&nodes[1].id).unwrap().client_port = 7000;
        assert!(matches!(find(&twice, "h:7000"), Err(AdminError::Usage(_))));
    }
}
