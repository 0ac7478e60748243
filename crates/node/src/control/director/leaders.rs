//! Spreading leaders: where another node should lead a shard, the leader hands over, a few at a time.

use super::action::DirectorAction;
use super::inputs::Inputs;
use crate::peer_protocol::Order;
use cluster::placement::leaders_wanted;
use cluster::{Map, PlanKind, PlanState};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, ShardId};

/// The time between two looks at the leaders, in µs.
const LOOK_US: u64 = 500_000;
/// Leaders that hand over at one look: so many, or in a large store one of `AT_ONCE_PART` shards.
const AT_ONCE: usize = 8;
const AT_ONCE_PART: usize = 32;
/// A hand-over is ordered again after this time, in µs. Writes wait while it is tried.
const RETRY_US: u64 = 5_000_000;
/// A node that has answered for this long without a pause, in µs, can lead. Leaders ask for a little less.
const SETTLED_US: u64 = 3_500_000;
/// A new director waits this much longer, in µs: it has not heard of all nodes at the same moment.
const FIRST_HEARD_US: u64 = 1_000_000;

/// Hand-overs that were ordered.
#[derive(Debug, Default)]
pub(super) struct HandOvers {
    /// When each was ordered, in µs.
    asked: BTreeMap<ShardId, u64>,
    looked_us: u64,
}

impl HandOvers {
    /// Orders leaders to hand over where another node should lead.
    pub(super) fn spread(&mut self, inputs: &Inputs<'_>, actions: &mut Vec<DirectorAction>) {
        let &Inputs { map, seen, now, .. } = inputs;
        let may_begin_us = seen.began_us.unwrap_or(now.mono_us) + SETTLED_US + FIRST_HEARD_US;
        if now.mono_us < may_begin_us.max(self.looked_us + LOOK_US) {
            return;
        }
        self.looked_us = now.mono_us;
        self.asked.retain(|_, asked_us| now.mono_us < *asked_us + RETRY_US);
        let at_once = AT_ONCE.max(map.shards.len() / AT_ONCE_PART);
        let mut ordered = 0;
        for (shard, from, to) in misplaced(inputs) {
            if ordered < at_once && !self.asked.contains_key(&shard) {
                ordered += 1;
                self.asked.insert(shard, now.mono_us);
                actions.push(DirectorAction::Order { node: from, shard, order: Order::Transfer { to } });
            }
        }
    }
}

/// Shards that another node should lead: the shard, its leader's node, and the node that should lead.
fn misplaced(inputs: &Inputs<'_>) -> Vec<(ShardId, NodeId, NodeId)> {
    let &Inputs { map, seen, now, .. } = inputs;
    let drained: BTreeSet<NodeId> = drained(map).collect();
    let is_fit = |node: &NodeId| {
        let figures = seen.nodes.get(node).and_then(|node| node.figures.as_ref());
        !map.leaving.contains(node)
            && !drained.contains(node)
            && figures.is_some_and(|figures| figures.can_write && !figures.clock_is_off)
    };
    let may_lead = |node: &NodeId| seen.is_settled_for(*node, SETTLED_US, now) && is_fit(node);
    let alive: BTreeSet<NodeId> = map.nodes.keys().copied().filter(may_lead).collect();
    let leads = |shard: &ShardId| Some((*shard, seen.leader(*shard, now)?.node));
    let leaders: BTreeMap<ShardId, NodeId> = map.shards.keys().filter_map(leads).collect();
    let wanted = leaders_wanted(map, &alive, &leaders).into_iter();
    let wrong = wanted.filter_map(|(shard, to)| Some((shard, *leaders.get(&shard)?, to)));
    // A shard whose replicas are changing has its leader where its step wants it; what is damaged cannot lead.
    let can_take = |shard: ShardId, to: NodeId| {
        let replica = map.shards.get(&shard).and_then(|info| info.replica_on(to));
        !map.steps.contains_key(&shard) && replica.is_some_and(|replica| inputs.is_sound(shard, replica))
    };
    // One that leads and has just been silent for a while (it may have had much to do) keeps what it leads until it is settled.
    let may_be_asked = |from: &NodeId| alive.contains(from) || !is_fit(from);
    let mut wrong: Vec<(ShardId, NodeId, NodeId)> =
        wrong.filter(|(shard, from, to)| from != to && may_be_asked(from) && can_take(*shard, *to)).collect();
    // The metadata group last: the next director needs all reports first.
    let meta = wrong.iter().find(|(shard, _, _)| *shard == ShardId::META).map(|(_, from, _)| *from);
    if meta.is_some_and(|node| wrong.iter().any(|(shard, from, _)| *shard != ShardId::META && *from == node)) {
        wrong.retain(|(shard, _, _)| *shard != ShardId::META);
    }
    wrong
}

/// Whether every shard is led by the node that should lead it.
pub(super) fn leaders_are_even(inputs: &Inputs<'_>) -> bool {
    misplaced(inputs).is_empty()
}

/// Nodes that are to lead nothing until they have been restarted.
fn drained(map: &Map) -> impl Iterator<Item = NodeId> {
    map.open_plans().filter(|plan| plan.state == PlanState::Running).filter_map(|plan| match plan.kind {
        PlanKind::DrainLeaders(node) => Some(node),
        _ => None,
    })
}
