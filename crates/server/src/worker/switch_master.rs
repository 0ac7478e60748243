//! Clients that are configured for Sentinel hear of the loss of a node (`Masters`).

use crate::peers::ask;
use crate::shared::{NodeShared, SWITCH_MASTER, host_and_port};
use node::pubsub::SubscriptionKind;
use resp::Value;
use std::sync::Arc;
use vocab::NodeId;

const LISTENER: &str = "database-listen";

/// Finds out where nodes listen for clients of databases that can be talked to since a while ago.
pub(super) fn learn_listeners(store: &Arc<NodeShared>, now_ms: u64) {
    if !store.masters.looks(now_ms) || store.config.text(LISTENER).unwrap_or_default().is_empty() {
        return;
    }
    let known = store.known();
    let Some(map) = &known.map else { return };
    for info in map.nodes.values() {
        let node = info.id;
        if node == store.node() || !store.peers.is_up(node) || !store.masters.asks(node, now_ms) {
            continue;
        }
        let (store, host) = (store.clone(), info.client_host.clone());
        store.clone().pool.run(Box::new(move || match listener_of(&store, node, &host) {
            Ok(listener) => store.masters.listens(node, listener),
            Err(why) => log::info!("where node {node} listens for clients of databases is not known: {why}"),
        }));
    }
}

/// The host and the port; none if it has no such listener. Waits: for threads of the pool.
fn listener_of(store: &NodeShared, node: NodeId, host: &str) -> Result<Option<(String, String)>, String> {
    let answer = ask(store, node, &[b"CONFIG", b"GET", LISTENER.as_bytes()])?;
    let address = match resp::decode(&answer) {
        Ok(Some((Value::Array(found), _))) => match found.get(1) {
            Some(Value::Bulk(address)) => Some(String::from_utf8_lossy(address).into_owned()),
            _ => None,
        },
        _ => None,
    };
    Ok(address.and_then(|address| host_and_port(&address, host)))
}

/// Tells the clients of this node that listen for it that a node is lost, and that they are served here.
pub(super) fn tell_lost(store: &NodeShared, node: NodeId) {
    let text = |name: &str| store.config.text(name).unwrap_or_default();
    let Some((host, port)) = host_and_port(&text(LISTENER), &store.node_info().client_host) else { return };
    for message in store.masters.switched(node, &text("sentinel-master-name"), (&host, &port)) {
        // Each node tells its own clients.
        let publication = store.broker.publish(SubscriptionKind::Channel, SWITCH_MASTER, &message);
        for delivery in &publication.deliveries {
            store.mailboxes.deliver(&store.broker, delivery, None);
        }
    }
}
