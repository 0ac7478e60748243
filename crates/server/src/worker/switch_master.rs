//! Clients that are configured for Sentinel hear of the loss of a node (`Masters`).

use crate::peers::ask;
use crate::shared::{NodeShared, SWITCH_MASTER, host_and_port};
use node::pubsub::SubscriptionKind;
use resp::Value;
use std::sync::Arc;
use vocab::NodeId;

const LISTENER: &str = "database-listen";
const ANNOUNCED: &str = "announce-database";

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
    let answer = ask(store, node, &[b"CONFIG", b"GET", LISTENER.as_bytes(), ANNOUNCED.as_bytes()])?;
    Ok(listener_in(&answer, host))
}

/// The same of what CONFIG GET answers. A release that announces no such address leaves it out.
fn listener_in(answer: &[u8], host: &str) -> Option<(String, String)> {
    let Ok(Some((Value::Array(found), _))) = resp::decode(answer) else { return None };
    let (pairs, _) = found.as_chunks::<2>();
    let text = |name: &str| {
        let [_, value] = pairs.iter().find(|[of, _]| of.as_bytes() == Some(name.as_bytes()))?;
        value.as_bytes().map(|value| String::from_utf8_lossy(value).into_owned())
    };
    told(&text(LISTENER)?, &text(ANNOUNCED).unwrap_or_default(), host)
}

/// The host and the port that clients are told of a node; none if it has no such listener.
fn told(listener: &str, announced: &str, host: &str) -> Option<(String, String)> {
    let listener = host_and_port(listener, host)?;
    Some(host_and_port(announced, host).unwrap_or(listener))
}

/// Tells the clients of this node that listen for it that a node is lost, and that they are served here.
pub(super) fn tell_lost(store: &NodeShared, node: NodeId) {
    let text = |name: &str| store.config.text(name).unwrap_or_default();
    let Some((host, port)) = told(&text(LISTENER), &text(ANNOUNCED), &store.node_info().client_host) else { return };
    for message in store.masters.switched(node, &text("sentinel-master-name"), (&host, &port)) {
        // Each node tells its own clients.
        let publication = store.broker.publish(SubscriptionKind::Channel, SWITCH_MASTER, &message);
        for delivery in &publication.deliveries {
            store.mailboxes.deliver(&store.broker, delivery, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_where_a_node_listens_or_what_it_announces() {
        type Case = (&'static [&'static str], Option<(&'static str, &'static str)>);
        let cases: [Case; 6] = [
            (&[], None),
            (&["database-listen", ""], None),
            (&["database-listen", "0.0.0.0:6379"], Some(("node", "6379"))),
            (&["announce-database", "", "database-listen", "10.0.0.7:6379"], Some(("10.0.0.7", "6379"))),
            (
                &["announce-database", "kv.example:7001", "database-listen", "10.0.0.7:6379"],
                Some(("kv.example", "7001")),
            ),
            (&["announce-database", "kv.example:7001", "database-listen", ""], None),
        ];
        for (settings, expected) in cases {
            let mut answer = Vec::new();
            let words: Vec<&[u8]> = settings.iter().map(|word| word.as_bytes()).collect();
            // A request is an array of bulk strings, as the answer is.
            resp::encode_request(&mut answer, &words);
            let expected = expected.map(|(host, port)| (host.to_owned(), port.to_owned()));
            assert_eq!(listener_in(&answer, "node"), expected, "{settings:?}");
        }
    }
}
