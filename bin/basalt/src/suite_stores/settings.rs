//! What a suite's file says of a store, as the settings of its nodes.

use crate::cluster::StoreShape;
use bench::model::{StoreFile, plain};

/// The ports of other nodes lie so far above those of clients: nodes that are added have room.
const PEER_PORT_ABOVE: u16 = 50;

/// The shape that `asked` means.
pub fn shape(asked: &StoreFile, port: u16) -> StoreShape {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    StoreShape {
        nodes: Some(asked.nodes.max(1)),
        shards: (asked.shards > 0).then(|| asked.shards.to_string()),
        replication_factor: asked.replication_factor,
        port: Some(port),
        peer_port: Some(port.saturating_add(PEER_PORT_ABOVE)),
        http_port: None,
        durability: given(&asked.durability),
        engine: given(&asked.engine),
        memory: given(&asked.memory),
        set: asked.set.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
    }
}
