//! Whether the node lives, and whether it takes part.

use crate::shared::NodeShared;
use replica::DiskState;
use serde_json::{Value, json};

/// What keeps the node from taking part; nothing if it does.
pub(super) fn obstacles(store: &NodeShared) -> Vec<String> {
    let known = store.known();
    let mut obstacles = Vec::new();
    if store.is_stopping() {
        obstacles.push("the node stops".to_owned());
    }
    match &known.map {
        None => obstacles.push("the node belongs to no store yet".to_owned()),
        Some(map) if !map.nodes.contains_key(&store.node()) => {
            obstacles.push("the store has removed this node: it can be stopped".to_owned());
        }
        Some(_) => {}
    }
    if store.health.state() != DiskState::Healthy {
        obstacles.push(format!("the disk takes no writes: {}", store.health.reason()));
    }
    let here = known.places().filter(|place| place.handle.is_some());
    let unled = here.filter(|place| store.leader_at(place).is_none()).count();
    if unled > 0 {
        obstacles.push(format!("{unled} of the shards with replicas here have no leader that is known"));
    }
    obstacles
}

/// What `/readyz` says, and whether it is a yes.
pub(super) fn told(store: &NodeShared) -> (bool, Value) {
    let obstacles = obstacles(store);
    (obstacles.is_empty(), json!({"ready": obstacles.is_empty(), "obstacles": obstacles}))
}
