//! Groups at rest, and the nodes whose life stands in for their heartbeats.

use super::{MultiRaft, TICK_MS};
use crate::peer_protocol::PeerMessage;
use crate::shard::{Effects, LEASE_US};
use std::collections::BTreeMap;
use vocab::{Moment, NodeId, ShardId};

/// After so many ticks in which nothing happened, a leader tells its followers that they need no heartbeats.
pub const REST_AFTER_TICKS: u32 = 40;
/// A node that was not heard of for so long may be dead: the groups that rest on it are woken. Nodes send beats at
/// least five times in that time.
const SILENCE_US: u64 = 1_000_000;
/// A node that has been heard of for so long, without a pause, can be trusted with leadership.
const SETTLED_US: u64 = 3_000_000;

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    since_us: u64,
    heard_us: u64,
}

/// When other nodes were last heard of.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    nodes: BTreeMap<NodeId, Neighbour>,
}

impl Neighbours {
    pub(super) fn heard(&mut self, node: NodeId, now: Moment) {
        let fresh = Neighbour { since_us: now.mono_us, heard_us: now.mono_us };
        let neighbour = self.nodes.entry(node).or_insert(fresh);
        if now.mono_us > neighbour.heard_us + SILENCE_US {
            *neighbour = fresh;
        }
        neighbour.heard_us = neighbour.heard_us.max(now.mono_us);
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    pub(super) fn lives(&self, node: NodeId, now: Moment) -> bool {
        self.nodes.get(&node).is_some_and(|neighbour| now.mono_us <= neighbour.heard_us + SILENCE_US)
    }

    pub(super) fn settled(&self, node: NodeId, now: Moment) -> bool {
        self.lives(node, now) && self.nodes.get(&node).is_some_and(|n| now.mono_us >= n.since_us + SETTLED_US)
    }
}

impl MultiRaft {
    /// If a read here asks for how old this replica is, its leader is asked, which may be at rest.
    pub(super) fn ask_how_old(&mut self, at: usize, effects: &mut dyn Effects) {
        let Some(hosted) = &mut self.replicas[at] else { return };
        if !hosted.shard.view().take_fresh_wanted() || hosted.shard.replica().is_leader() {
            return;
        }
        // If its leader is gone, it is time to find that out.
        if hosted.resting {
            hosted.wake();
        }
        if let Some(node) = hosted.shard.leader_node() {
            effects.send(node, PeerMessage::Wake { shards: vec![ShardId(at as u32)] });
        }
    }

    /// A follower of a shard wants to know how old it is.
    pub(super) fn woken(&mut self, shard: ShardId, now: Moment) {
        let at = shard.0 as usize;
        if let Some(Some(hosted)) = self.replicas.get_mut(at)
            && hosted.shard.replica().serves()
        {
            hosted.wake();
            hosted.shard.vouch(now);
            self.touch(at);
        }
    }

    /// Tells followers that these groups have come to rest.
    pub(super) fn tell_rests(&mut self, rests: &[usize], effects: &mut dyn Effects) {
        let mut by_node: BTreeMap<NodeId, Vec<(ShardId, u64, u64)>> = BTreeMap::new();
        for &at in rests {
            let Some(hosted) = &self.replicas[at] else { continue };
            let status = hosted.shard.replica().status();
            for node in hosted.shard.other_nodes(self.node) {
                by_node.entry(node).or_default().push((ShardId(at as u32), status.term, status.committed));
            }
        }
        for (node, shards) in by_node {
            effects.send(node, PeerMessage::Rest { shards });
        }
    }
}

const _: () = assert!(SILENCE_US >= 10 * TICK_MS * 1000);
// Who wakes for want of a leader has kept the promise that leases rest on.
const _: () = assert!(SILENCE_US > LEASE_US + LEASE_US / 4);
