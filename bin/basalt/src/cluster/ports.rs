//! Ports that the system gives to connections that go out: one of those may be taken whenever a node starts.

use super::roster::Roster;
use std::fs;

/// Where Linux tells them.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// How far peer ports lie above client ports: the first of these that can be, and that the system gives to none. 10,000 as those of
/// Redis Cluster; 200 is above the ports for databases, which are 100 above.
const PEERS_ABOVE: [i32; 3] = [10_000, 200, -10_000];
/// Ports below are the system's.
const FIRST_FREE: i32 = 1024;

/// The first and the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingPorts {
    first: u16,
    last: u16,
}

impl OutgoingPorts {
    /// Those of this system; none where it does not tell.
    #[must_use]
    pub fn of_system() -> Option<Self> {
        Self::parse(&fs::read_to_string(RANGE).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { first, last })
    }

    /// Whether one of `count` ports from `port` on is among them.
    fn meet(self, port: u16, count: u16) -> bool {
        let end = u32::from(port) + u32::from(count);
        u32::from(self.first) < end && port <= self.last
    }

    /// What to say of a store whose nodes listen at some of them, before it is started.
    #[must_use]
    pub fn warning(self, roster: &Roster) -> Option<String> {
        let kinds = |port: u16, peer_port: u16, http_port: Option<u16>| {
            let http = http_port.map(|port| ("HTTP", port));
            [("clients", port), ("other nodes", peer_port)].into_iter().chain(http)
        };
        let ports = roster.nodes.iter().flat_map(|node| kinds(node.port, node.peer_port, node.http_port));
        let met: Vec<String> =
            ports.filter(|(_, port)| self.meet(*port, 1)).map(|(kind, port)| format!("{port} ({kind})")).collect();
        let Self { first, last } = self;
        (!met.is_empty()).then(|| {
            format!(
                "this system gives the ports {first} to {last} to connections that go out ({RANGE}), and nodes listen at {}: a node \
                 does not start while a connection has its port",
                met.join(", ")
            )
        })
    }
}

/// The first port for other nodes, of `nodes`, where none is asked for; none if there is no room.
#[must_use]
pub fn peer_ports(port: u16, nodes: u16, outgoing: Option<OutgoingPorts>) -> Option<u16> {
    let there = PEERS_ABOVE.iter().map(|above| i32::from(port) + above).filter(|first| *first >= FIRST_FREE);
    let fitting = there.filter_map(|first| u16::try_from(first).ok());
    let fitting: Vec<u16> = fitting.filter(|first| first.checked_add(nodes).is_some()).collect();
    let is_kept = |first: &&u16| !outgoing.is_some_and(|outgoing| outgoing.meet(**first, nodes));
    fitting.iter().find(is_kept).or(fitting.first()).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn peer_ports_are_none_that_go_out_where_that_can_be() {
        let usual = OutgoingPorts::parse("32768\t60999\n");
        assert_eq!(usual, Some(OutgoingPorts { first: 32_768, last: 60_999 }));
        assert_eq!(["", "1", "a b"].map(OutgoingPorts::parse), [None; 3]);
        for (port, nodes, outgoing, expected) in [
            (7000, 3, usual, Some(17_000)),
            (22_765, 3, usual, Some(32_765)),
            (22_766, 3, usual, Some(22_966)),
            (30_000, 3, usual, Some(30_200)),
            (32_700, 3, usual, Some(22_700)),
            (50_000, 3, usual, Some(60_000)),
            (55_000, 3, usual, Some(65_000)),
            (61_000, 3, usual, Some(61_200)),
            (30_000, 3, None, Some(40_000)),
            (65_500, 64, usual, Some(55_500)),
            (500, 3, usual, Some(10_500)),
        ] {
            assert_eq!(peer_ports(port, nodes, outgoing), expected, "{port}, {nodes} nodes");
        }
    }

    #[test]
    fn ports_that_go_out_are_told_before_the_start() {
        let usual = OutgoingPorts::parse("32768 60999").unwrap();
        let said = |port, peer_port, http_port| usual.warning(&Roster::new(2, port, peer_port, http_port, Vec::new()));
        assert_eq!(said(7000, 17_000, Some(8000)), None);
        let warning = said(32_000, 40_000, Some(33_000)).unwrap();
        let expected = "nodes listen at 40000 (other nodes), 33000 (HTTP), 40001 (other nodes), 33001 (HTTP): a node does not start";
        assert!(warning.contains(expected), "{warning}");
    }
}
