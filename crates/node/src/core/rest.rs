//! Groups at rest, and the nodes whose life stands in for their heartbeats.

use super::TICK_MS;
use std::collections::BTreeMap;
use vocab::{Moment, NodeId};

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

const _: () = assert!(SILENCE_US >= 10 * TICK_MS * 1000);
