//! The ports at which nodes serve clients with TLS, as they tell each other when they meet: the map has the other ports.

use cluster::NodeInfo;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use vocab::NodeId;

/// What a redirection begins with.
const MOVED: &[u8] = b"-MOVED ";

/// A node's ports.
struct Ports {
    /// Where clients without TLS reach it, as a redirection has it.
    plain: String,
    host: String,
    /// Where clients with TLS do.
    tls: u16,
}

/// The TLS ports of nodes.
#[derive(Default)]
pub(crate) struct TlsPorts(RwLock<BTreeMap<NodeId, Ports>>);

impl TlsPorts {
    /// A node has this port for clients with TLS; 0: none.
    pub(crate) fn learn(&self, node: &NodeInfo, tls: u16) {
        let plain = format!("{}:{}", node.client_host, node.client_port);
        self.0.write().insert(node.id, Ports { plain, host: node.client_host.clone(), tls });
    }

    /// The port of a node; 0: none that is known.
    pub(crate) fn of(&self, node: NodeId) -> u16 {
        self.0.read().get(&node).map_or(0, |ports| ports.tls)
    }

    /// A redirection as a client with TLS is told it; `None`: the reply is no redirection, or the node's port is not known.
    pub(crate) fn redirection(&self, reply: &[u8]) -> Option<Vec<u8>> {
        let rest = reply.strip_prefix(MOVED)?.strip_suffix(b"\r\n")?;
        let (slot, address) = std::str::from_utf8(rest).ok()?.split_once(' ')?;
        let known = self.0.read();
        let ports = known.values().find(|ports| ports.plain == address && ports.tls > 0)?;
        Some(format!("-MOVED {slot} {}:{}\r\n", ports.host, ports.tls).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64, host: &str, port: u16) -> NodeInfo {
        NodeInfo {
            id: NodeId(id),
            peer_address: String::new(),
            client_host: host.to_owned(),
            client_port: port,
            zone: String::new(),
            capacity: 1,
        }
    }

    #[test]
    fn a_client_with_tls_is_sent_to_the_port_with_tls() {
        let ports = TlsPorts::default();
        ports.learn(&node(1, "n1", 7000), 7443);
        ports.learn(&node(2, "::1", 7001), 7444);
        ports.learn(&node(3, "n3", 7002), 0);
        for (reply, expected) in [
            ("-MOVED 5 n1:7000\r\n", Some("-MOVED 5 n1:7443\r\n")),
            ("-MOVED 16383 ::1:7001\r\n", Some("-MOVED 16383 ::1:7444\r\n")),
            ("-MOVED 5 n3:7002\r\n", None),
            ("-MOVED 5 n9:7000\r\n", None),
            ("-MOVED 5 n1:7000", None),
            ("-ERR MOVED 5 n1:7000\r\n", None),
            ("$3\r\nfoo\r\n", None),
        ] {
            let found = ports.redirection(reply.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{reply}");
        }
        assert_eq!((ports.of(NodeId(2)), ports.of(NodeId(3)), ports.of(NodeId(9))), (7444, 0, 0));
    }
}
