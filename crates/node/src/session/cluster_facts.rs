//! The store as one of its nodes sees it: what CLUSTER and INFO answer from.

use std::collections::BTreeMap;
use vocab::{NodeId, ShardId};

/// First and last slot, both inclusive.
pub type SlotRange = (u16, u16);

/// The store's nodes and shards.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The map's epoch.
    pub epoch: u64,
    /// The nodes, in order of their ids, this one among them.
    pub nodes: Vec<ClusterNode>,
    /// The shards that own slots, in order of their ids.
    pub shards: Vec<ClusterShard>,
    /// This node's links to others.
    pub links: Vec<ClusterLink>,
    /// Messages that this node has sent to others.
    pub messages_sent: u64,
    /// Messages that this node has received from others.
    pub messages_received: u64,
}

/// A node as the others see it.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// Which one.
    pub id: NodeId,
    /// Whether it is the one that answers.
    pub myself: bool,
    /// The address for clients; empty: the one that the client used.
    pub host: String,
    /// The port for clients.
    pub port: u16,
    /// The port for clients with TLS; 0: none that is known.
    pub tls_port: u16,
    /// The port for other nodes; 0: none.
    pub peer_port: u16,
    /// Whether it has been heard of lately.
    pub alive: bool,
    /// Whether there is a link to it.
    pub linked: bool,
}

/// A shard.
#[derive(Clone, Debug)]
pub struct ClusterShard {
    /// Which one.
    pub id: ShardId,
    /// Its slots, in order.
    pub slots: Vec<SlotRange>,
    /// The node that leads it. While none does: the last known leader, or else the node of its first replica. So each
    /// slot has a node in the list of every node.
    pub leader: NodeId,
    /// Whether that node leads it now, with a majority: only then does it take writes.
    pub led: bool,
    /// Its replicas, in order of their ids, the leader's among them.
    pub replicas: Vec<ClusterReplica>,
}

/// A replica of a shard.
#[derive(Clone, Copy, Debug)]
pub struct ClusterReplica {
    /// Where it is.
    pub node: NodeId,
    /// Whether it has no vote (yet).
    pub learner: bool,
    /// The last entry that this node knows the replica to hold; 0: unknown.
    pub index: u64,
}

/// The link between this node and another. It carries both directions.
#[derive(Clone, Copy, Debug)]
pub struct ClusterLink {
    /// The other node.
    pub node: NodeId,
    /// Whether this node opened it.
    pub outgoing: bool,
    /// When it was opened, in ms since the epoch.
    pub opened_ms: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u64,
    /// Bytes that the buffer for them takes.
    pub buffer_bytes: u64,
}

/// Slots that follow each other and are served alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The slots.
    pub slots: SlotRange,
    /// Who leads them.
    pub leader: NodeId,
    /// Nodes that may answer reads of them too, if these are asked for.
    pub followers: Vec<NodeId>,
}

/// The id of a node as Redis's protocols want it: 40 hexadecimal digits.
#[must_use]
pub(crate) fn node_name(id: NodeId) -> String {
    format!("{:040x}", id.0)
}

impl ClusterNode {
    /// The port that a client is told: that with TLS if it has TLS, and if the node's is known.
    #[must_use]
    pub fn port_for(&self, encrypted: bool) -> u16 {
        if encrypted && self.tls_port > 0 { self.tls_port } else { self.port }
    }

    /// The id as the Redis Cluster protocol wants it: 40 hexadecimal digits.
    #[must_use]
    pub fn name(&self) -> String {
        node_name(self.id)
    }

    /// The id of the shard that it is shown as, which is no node's: 40 hexadecimal digits.
    #[must_use]
    pub fn shard_name(&self) -> String {
        format!("5{:039x}", self.id.0)
    }
}

impl ClusterShard {
    /// How many slots it has.
    #[must_use]
    pub fn slot_count(&self) -> u64 {
        self.slots.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }
}

impl ClusterFacts {
    /// The node that answers, if it is part of the map.
    #[must_use]
    pub fn myself(&self) -> Option<&ClusterNode> {
        self.nodes.iter().find(|node| node.myself)
    }

    /// A node of the map.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&ClusterNode> {
        // In order of their ids, but nothing breaks if they are not.
        match self.nodes.binary_search_by_key(&id, |node| node.id) {
            Ok(at) => self.nodes.get(at),
            Err(_) => self.nodes.iter().find(|node| node.id == id),
        }
    }

    /// The slots that each node leads, in order, in as few ranges as possible.
    #[must_use]
    pub fn led(&self) -> BTreeMap<NodeId, Vec<SlotRange>> {
        let mut led: BTreeMap<NodeId, Vec<SlotRange>> = BTreeMap::new();
        for shard in &self.shards {
            led.entry(shard.leader).or_default().extend(&shard.slots);
        }
        led.values_mut().for_each(|ranges| *ranges = merged(std::mem::take(ranges)));
        led
    }

    /// All slots in order, with the nodes that serve them; followers that are alive and vote are among these if wanted.
    #[must_use]
    pub fn routes(&self, with_followers: bool) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for shard in &self.shards {
            let serves = |replica: &&ClusterReplica| {
                with_followers
                    && !replica.learner
                    && replica.node != shard.leader
                    && self.node(replica.node).is_some_and(|node| node.alive)
            };
            let mut followers: Vec<NodeId> = shard.replicas.iter().filter(serves).map(|replica| replica.node).collect();
            followers.sort_unstable();
            let route = |slots: &SlotRange| Route { slots: *slots, leader: shard.leader, followers: followers.clone() };
            routes.extend(shard.slots.iter().map(route));
        }
        routes.sort_unstable_by_key(|route| route.slots);
        routes.dedup_by(|next, before| {
            let joins = u32::from(next.slots.0) == u32::from(before.slots.1) + 1
                && next.leader == before.leader
                && next.followers == before.followers;
            if joins {
                before.slots.1 = next.slots.1;
            }
            joins
        });
        routes
    }

    /// The other nodes that live and hold replicas of shards that this one leads, and the sum of the indexes that
    /// these hold.
    #[must_use]
    pub fn followers_of_mine(&self) -> Vec<(&ClusterNode, u64)> {
        let Some(myself) = self.myself() else { return Vec::new() };
        let mut sums: BTreeMap<NodeId, u64> = BTreeMap::new();
        for shard in self.shards.iter().filter(|shard| shard.led && shard.leader == myself.id) {
            for replica in shard.replicas.iter().filter(|replica| replica.node != myself.id) {
                *sums.entry(replica.node).or_default() += replica.index;
            }
        }
        let node = |(id, sum)| self.node(id).filter(|node| node.alive).map(|node| (node, sum));
        sums.into_iter().filter_map(node).collect()
    }
}

/// Ranges joined where they meet.
pub(super) fn merged(mut ranges: Vec<SlotRange>) -> Vec<SlotRange> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let meet = u32::from(next.0) <= u32::from(before.1) + 1;
        if meet {
            before.1 = before.1.max(next.1);
        }
        meet
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: u32, slots: &[SlotRange], nodes: &[u64]) -> ClusterShard {
        let replica = |node: &u64| ClusterReplica { node: NodeId(*node), learner: false, index: 5 };
        ClusterShard {
            id: ShardId(id),
            slots: slots.to_vec(),
            leader: NodeId(nodes[0]),
            led: true,
            replicas: nodes.iter().map(replica).collect(),
        }
    }

    fn facts(shards: Vec<ClusterShard>) -> ClusterFacts {
        let node = |id: u64| ClusterNode {
            id: NodeId(id),
            myself: id == 1,
            host: String::new(),
            port: 1,
            tls_port: 2 * u16::from(id == 1),
            peer_port: 0,
            alive: id != 3,
            linked: id != 3,
        };
        ClusterFacts { nodes: (1..=4).map(node).collect(), shards, ..ClusterFacts::default() }
    }

    #[test]
    fn ranges_are_merged() {
        for (ranges, expected) in [
            (
                &[(100, 200), (0, 49), (50, 99), (300, 300), (16383, 16383)][..],
                &[(0, 200), (300, 300), (16383, 16383)][..],
            ),
            (&[(0, 8191), (8192, 16383)], &[(0, 16383)]),
            (&[], &[]),
        ] {
            assert_eq!(merged(ranges.to_vec()), expected);
        }
        assert_eq!(facts(Vec::new()).nodes[0].name(), format!("{}1", "0".repeat(39)));
    }

    #[test]
    fn routes_join_where_they_are_served_alike() {
        let facts = facts(vec![
            shard(1, &[(0, 99), (300, 399)], &[1, 2, 3]),
            shard(2, &[(100, 199)], &[1, 2, 4]),
            shard(3, &[(200, 299)], &[1, 4, 2]),
        ]);
        let plain: Vec<_> = facts.routes(false).into_iter().map(|route| route.slots).collect();
        assert_eq!(plain, [(0, 399)]);
        let routes: Vec<_> = facts.routes(true).into_iter().map(|route| (route.slots, route.followers)).collect();
        let ids = |ids: &[u64]| ids.iter().map(|id| NodeId(*id)).collect::<Vec<_>>();
        // Node 3 does not live.
        assert_eq!(routes, [((0, 99), ids(&[2])), ((100, 299), ids(&[2, 4])), ((300, 399), ids(&[2]))]);
        let mine: Vec<_> = facts.followers_of_mine().into_iter().map(|(node, sum)| (node.id.0, sum)).collect();
        assert_eq!(mine, [(2, 15), (4, 10)]);
    }
}
