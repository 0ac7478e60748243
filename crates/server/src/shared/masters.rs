//! What clients that are configured for Sentinel take for masters: the listeners for databases, one of each node.
//!
//! Every node answers for every database. So when a node is lost, each other one tells those who listen on it to `+switch-master` that
//! it is the master from here on, under each name that they have asked for.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::NodeId;
use vocab::limits::SENTINEL_NAMES_MAX;

/// The channel on which clients listen for a change of the master.
pub(crate) const SWITCH_MASTER: &[u8] = b"+switch-master";

/// Names and addresses of masters, as this node knows them.
#[derive(Default)]
pub(crate) struct Masters {
    /// Under which names clients have asked for a master.
    names: Mutex<BTreeSet<Vec<u8>>>,
    /// What is known of the other nodes.
    nodes: Mutex<BTreeMap<NodeId, Listener>>,
    /// When it is looked next whether there is a node to be asked, in ms since the epoch.
    next_look_ms: AtomicU64,
}

/// Where a node listens for clients of databases.
enum Listener {
    /// It was asked at that time, in ms since the epoch.
    Asked(u64),
    /// Nowhere.
    None,
    /// At that host and port.
    At(String, String),
}

/// A node that has not answered is asked again after so long, in ms.
const AGAIN_AFTER_MS: u64 = 5000;
/// Between two looks for nodes that are to be asked, in ms.
const LOOK_EVERY_MS: u64 = 1000;

impl Masters {
    /// A client has asked for the master of that name.
    pub(crate) fn asked(&self, name: &[u8]) {
        let mut names = self.names.lock();
        if names.len() < SENTINEL_NAMES_MAX && !names.contains(name) {
            names.insert(name.to_vec());
        }
    }

    /// Whether it is time to look for nodes that are to be asked.
    pub(crate) fn looks(&self, now_ms: u64) -> bool {
        let is_time = now_ms >= self.next_look_ms.load(Ordering::Relaxed);
        if is_time {
            self.next_look_ms.store(now_ms + LOOK_EVERY_MS, Ordering::Relaxed);
        }
        is_time
    }

    /// Whether a node that can be talked to is to be asked where it listens: then it is being asked.
    pub(crate) fn asks(&self, node: NodeId, now_ms: u64) -> bool {
        let mut nodes = self.nodes.lock();
        let is_due = match nodes.get(&node) {
            None => true,
            Some(Listener::Asked(at_ms)) => now_ms.saturating_sub(*at_ms) >= AGAIN_AFTER_MS,
            Some(Listener::None | Listener::At(..)) => false,
        };
        if is_due {
            nodes.insert(node, Listener::Asked(now_ms));
        }
        is_due
    }

    /// A node listens for clients of databases there, or nowhere.
    pub(crate) fn listens(&self, node: NodeId, at: Option<(String, String)>) {
        let listener = at.map_or(Listener::None, |(host, port)| Listener::At(host, port));
        self.nodes.lock().insert(node, listener);
    }

    /// Where the other nodes listen: id, host and port.
    pub(crate) fn listeners(&self) -> Vec<(NodeId, String, String)> {
        let nodes = self.nodes.lock();
        let listens = |(node, listener): (&NodeId, &Listener)| match listener {
            Listener::At(host, port) => Some((*node, host.clone(), port.clone())),
            Listener::Asked(_) | Listener::None => None,
        };
        nodes.iter().filter_map(listens).collect()
    }

    /// A node is lost: what clients are told, the master being at that host and port from here on.
    pub(crate) fn switched(&self, lost: NodeId, own_name: &str, (host, port): (&str, &str)) -> Vec<Vec<u8>> {
        let Some(Listener::At(old_host, old_port)) = self.nodes.lock().remove(&lost) else { return Vec::new() };
        let mut names = self.names.lock().clone();
        names.insert(own_name.as_bytes().to_vec());
        let rest = format!(" {old_host} {old_port} {host} {port}");
        names.into_iter().map(|name| [&name[..], rest.as_bytes()].concat()).collect()
    }
}

/// Host and port of an address. `any` is the host where it listens on all.
pub(crate) fn host_and_port(address: &str, any: &str) -> Option<(String, String)> {
    let (host, port) = vocab::host_and_port(address)?;
    let host = if matches!(host, "" | "0.0.0.0" | "::" | "*") { any } else { host };
    Some((host.to_owned(), port.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn clients_are_told_of_a_lost_node_under_each_name_once() {
        let masters = Masters::default();
        let told = |lost| -> Vec<String> {
            let own = masters.switched(NodeId(lost), "basalt", ("b", "2"));
            own.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
        };
        assert!(told(1).is_empty(), "it has no listener, as far as is known");
        masters.listens(NodeId(1), Some(("a".to_owned(), "1".to_owned())));
        assert_eq!(masters.listeners(), [(NodeId(1), "a".to_owned(), "1".to_owned())]);
        masters.asked(b"mymaster");
        masters.asked(b"mymaster");
        assert_eq!(told(1), ["basalt a 1 b 2", "mymaster a 1 b 2"]);
        assert!(told(1).is_empty(), "that was told");
        assert!(
            masters.asks(NodeId(1), 10) && !masters.asks(NodeId(1), AGAIN_AFTER_MS) && masters.asks(NodeId(1), 5010)
        );
        masters.listens(NodeId(1), None);
        assert!(!masters.asks(NodeId(1), 1 << 40) && told(1).is_empty(), "it has none");
        for name in 0..2 * SENTINEL_NAMES_MAX {
            masters.asked(format!("name{name}").as_bytes());
        }
        masters.listens(NodeId(1), Some(("a".to_owned(), "1".to_owned())));
        assert!(told(1).len() <= SENTINEL_NAMES_MAX + 1);
    }

    #[test]
    fn an_address_is_taken_apart() {
        for (address, expected) in [
            ("127.0.0.1:7100", Some(("127.0.0.1", "7100"))),
            ("0.0.0.0:6379", Some(("example", "6379"))),
            ("[::1]:6379", Some(("::1", "6379"))),
            ("", None),
        ] {
            let expected = expected.map(|(host, port): (&str, &str)| (host.to_owned(), port.to_owned()));
            assert_eq!(host_and_port(address, "example"), expected, "{address}");
        }
    }
}
