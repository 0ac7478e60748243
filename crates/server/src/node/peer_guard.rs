//! Who may speak as which node: by its certificate, and by the map.

use crate::links::{Guard, Peer, Purpose, Refusal, RefusalKind};
use crate::shared::NodeShared;
use cluster::{Map, NodeInfo};
use std::sync::Arc;
use vocab::host_of;

/// What a node's links ask before they let another node in.
pub(super) fn guard(store: &Arc<NodeShared>) -> Guard {
    let store = store.clone();
    Box::new(move |peer, certificate| {
        let known = store.known();
        let shown = certificate.map(|certificate| Shown {
            is_for: Box::new(|host| certificate.is_for(host)),
            names: certificate.shown_names(),
        });
        decide(known.map.as_deref(), peer, shown.as_ref())
    })
}

/// The certificate that a node has shown.
struct Shown<'a> {
    is_for: Box<dyn Fn(&str) -> bool + 'a>,
    names: String,
}

/// A node's certificate must be for the host at which it says that it is reached, and for the host at which the map has it: so
/// no node speaks as another. A node that is not in the map brings no snapshots and no requests of clients.
fn decide(map: Option<&Map>, peer: &Peer, shown: Option<&Shown<'_>>) -> Result<(), Refusal> {
    let in_map = map.and_then(|map| map.nodes.get(&peer.node));
    if let Some(shown) = shown {
        let said = NodeInfo::decode(&peer.hello).map(|info| info.peer_address);
        let said = said.map_err(|_| Refusal::new(RefusalKind::Certificate, "a node that does not say where it is"))?;
        for address in [Some(&said), in_map.map(|info| &info.peer_address)].into_iter().flatten() {
            let host = host_of(address);
            if !(shown.is_for)(host) {
                let text = format!(
                    "the certificate of node {} is not for its host {host}, but for {}",
                    peer.node, shown.names
                );
                return Err(Refusal::new(RefusalKind::Certificate, text));
            }
        }
    }
    if peer.purpose != Purpose::Link && map.is_some() && in_map.is_none() {
        let text = format!("node {} is not in the map of this store: it can only join", peer.node);
        return Err(Refusal::new(RefusalKind::NotInMap, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::{NodeId, StoreId};

    fn info(id: u64, host: &str) -> NodeInfo {
        NodeInfo {
            id: NodeId(id),
            peer_address: format!("{host}:17000"),
            client_host: host.to_owned(),
            client_port: 7000,
            zone: String::new(),
            capacity: 1,
        }
    }

    #[test]
    fn a_node_is_who_its_certificate_and_the_map_say() {
        let map = cluster::initial_map(StoreId(1), &[info(1, "n1"), info(2, "n2")], 1, 1).unwrap();
        let mut refused = Vec::new();
        for (node, host, purpose, names, expected) in [
            (1, "n1", Purpose::Link, Some(&["n1"][..]), None),
            (1, "n1", Purpose::Link, None, None),
            (1, "n1", Purpose::Snapshot, Some(&["n1", "n2"]), None),
            // Another node's certificate, and another host's.
            (1, "n2", Purpose::Link, Some(&["n2"]), Some(RefusalKind::Certificate)),
            (1, "n1", Purpose::Link, Some(&["n2"]), Some(RefusalKind::Certificate)),
            // It has moved.
            (1, "n3", Purpose::Link, Some(&["n1", "n3"]), None),
            // It is to join.
            (3, "n3", Purpose::Link, Some(&["n3"]), None),
            (3, "n3", Purpose::Snapshot, Some(&["n3"]), Some(RefusalKind::NotInMap)),
            (3, "n3", Purpose::Client, None, Some(RefusalKind::NotInMap)),
        ] {
            let mut hello = Vec::new();
            info(node, host).encode(&mut hello);
            let peer = Peer::of(NodeId(node), hello, purpose);
            let shown = names
                .map(|names| Shown { is_for: Box::new(move |host| names.contains(&host)), names: names.join(", ") });
            let found = decide(Some(&map), &peer, shown.as_ref()).err();
            assert_eq!(found.as_ref().map(|refusal| refusal.kind), expected, "{node} {host} {purpose:?} {names:?}");
            refused.extend(found);
            assert!(decide(None, &peer, None).is_ok(), "without a map, all are to join");
        }
        assert!(refused[0].text.contains("not for its host n1, but for n2"), "{refused:?}");
    }
}
