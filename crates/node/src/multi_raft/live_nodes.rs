//! Which other nodes live, by when each was last heard of.

use std::collections::BTreeMap;
use vocab::{Moment, NodeId};

/// A node that was not heard of for so long, in µs, may be dead: the groups that hibernate with it are woken. Nodes send
/// beats at least five times in that time.
pub(super) const SILENCE_US: u64 = 1_000_000;
/// A node that has been heard of for so long without a pause, in µs, can be trusted with leadership.
const SETTLED_US: u64 = 3_000_000;

/// Groups that hibernate wait so long for a sign of life of a node to which there is a link, in µs. On a busy machine a
/// node may be silent for more than a second, and all groups that hibernate with it would elect other leaders at once.
const REST_SILENCE_US: u64 = 2_000_000;
/// While large requests are under way, a node to which there is a link may be silent for so long, in µs.
const BULK_SILENCE_US: u64 = 8_000_000;

/// One node that lives, or lived a moment ago.
#[derive(Clone, Copy, Debug)]
struct LiveNode {
    /// Since when it was heard of without a pause.
    since_us: u64,
    heard_us: u64,
}

/// The other nodes that this one has heard of.
#[derive(Debug, Default)]
pub(super) struct LiveNodes {
    nodes: BTreeMap<NodeId, LiveNode>,
}

impl LiveNodes {
    /// A message of any kind came from that node.
    pub(super) fn heard(&mut self, node: NodeId, now: Moment) {
        let fresh = LiveNode { since_us: now.mono_us, heard_us: now.mono_us };
        let known = self.nodes.entry(node).or_insert(fresh);
        if now.mono_us > known.heard_us + SILENCE_US {
            *known = fresh;
        }
        known.heard_us = known.heard_us.max(now.mono_us);
    }

    /// The link to that node is broken.
    pub(super) fn lost(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Whether the node was heard of a moment ago.
    pub(super) fn lives(&self, node: NodeId, now: Moment) -> bool {
        self.nodes.get(&node).is_some_and(|known| now.mono_us <= known.heard_us + SILENCE_US)
    }

    /// Who lives now, for groups that hibernate or may be slow. `is_bulk`: large requests are under way, so that nodes may be slow.
    pub(super) fn as_of(&self, now: Moment, is_bulk: bool) -> Alive<'_> {
        let silence_us = if is_bulk { BULK_SILENCE_US } else { REST_SILENCE_US };
        Alive { nodes: &self.nodes, is_bulk, silent_since_us: now.mono_us.saturating_sub(silence_us) }
    }

    /// Whether the node has lived for a while without a pause.
    pub(super) fn settled(&self, node: NodeId, now: Moment) -> bool {
        self.lives(node, now) && self.nodes.get(&node).is_some_and(|known| now.mono_us >= known.since_us + SETTLED_US)
    }
}

/// The other nodes that live at one moment.
pub(super) struct Alive<'a> {
    nodes: &'a BTreeMap<NodeId, LiveNode>,
    /// Large requests are under way.
    pub(super) is_bulk: bool,
    /// Nodes that were not heard of since then count as dead, in µs.
    silent_since_us: u64,
}

impl Alive<'_> {
    /// Whether that node lives.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.heard_us >= self.silent_since_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_lives_while_it_is_heard_of_and_settles_without_pauses() {
        // Per step: seconds by tenths, what happens, then whether it lives and is settled.
        type Step = (u64, fn(&mut LiveNodes, Moment), (bool, bool));
        const NODE: NodeId = NodeId(2);
        let nothing: fn(&mut LiveNodes, Moment) = |_, _| {};
        let heard: fn(&mut LiveNodes, Moment) = |nodes, now| nodes.heard(NODE, now);
        let lost: fn(&mut LiveNodes, Moment) = |nodes, _| nodes.lost(NODE);
        let steps: [Step; 11] = [
            (0, nothing, (false, false)),
            (1, heard, (true, false)),
            (11, nothing, (true, false)),
            (12, nothing, (false, false)),
            // The silence was a pause.
            (22, heard, (true, false)),
            (32, heard, (true, false)),
            (42, heard, (true, false)),
            (52, heard, (true, true)),
            (62, nothing, (true, true)),
            (63, lost, (false, false)),
            (64, heard, (true, false)),
        ];
        let mut nodes = LiveNodes::default();
        for (tenths, happens, expected) in steps {
            let now = Moment { mono_us: tenths * 100_000, ..Moment::default() };
            happens(&mut nodes, now);
            assert_eq!((nodes.lives(NODE, now), nodes.settled(NODE, now)), expected, "at {tenths}");
        }
    }
}
