//! Who is to lead what: leaders are spread by handing them over, a few at a time.

use super::plans::Verdict;
use super::{Director, DirectorAction};
use crate::peer_protocol::Order;
use cluster::placement::leaders_wanted;
use cluster::{Map, Plan, PlanKind, PlanState};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Moment, NodeId, ShardId};

/// Between two looks at who leads what, in µs.
const LOOK_US: u64 = 500_000;
/// Leaders that are handed over at one look; and, in a large store, one of so many shards.
const AT_ONCE: usize = 8;
const AT_ONCE_PART: usize = 32;
/// How long a hand-over is given before it is asked for again, in µs: writes wait while it is tried.
const RETRY_US: u64 = 5_000_000;
/// A node that has answered for so long, without a pause, can lead, in µs: longer than leaders want it themselves.
const SETTLED_US: u64 = 3_500_000;
/// Who directs anew has not heard of all nodes at the same time: some would have settled before others, in µs.
const FIRST_HEARD_US: u64 = 1_000_000;
/// For how long a node is kept from leading that was to be restarted, in ms.
const DRAINED_MS_MAX: u64 = 15 * 60 * 1000;

/// Leaders that were told to hand over.
#[derive(Debug, Default)]
pub(super) struct HandOvers {
    /// When, in µs.
    asked: BTreeMap<ShardId, u64>,
    looked_us: u64,
}

impl Director {
    /// Has leaders hand over where others should lead.
    pub(super) fn spread_leaders(&mut self, map: &Map, now: Moment, actions: &mut Vec<DirectorAction>) {
        let may_begin_us = self.seen.began_us.unwrap_or(now.mono_us) + SETTLED_US + FIRST_HEARD_US;
        if now.mono_us < may_begin_us.max(self.hand_overs.looked_us + LOOK_US) {
            return;
        }
        self.hand_overs.looked_us = now.mono_us;
        self.hand_overs.asked.retain(|_, asked_us| now.mono_us < *asked_us + RETRY_US);
        let at_once = AT_ONCE.max(map.shards.len() / AT_ONCE_PART);
        let mut ordered = 0;
        for (shard, from, to) in self.misplaced(map, now) {
            if ordered < at_once && !self.hand_overs.asked.contains_key(&shard) {
                ordered += 1;
                self.hand_overs.asked.insert(shard, now.mono_us);
                actions.push(DirectorAction::Order { node: from, shard, order: Order::Transfer { to } });
            }
        }
    }

    /// Shards that another node should lead: shard, who leads, who should.
    fn misplaced(&self, map: &Map, now: Moment) -> Vec<(ShardId, NodeId, NodeId)> {
        let drained: BTreeSet<NodeId> = drained(map).collect();
        let may_lead = |node: &NodeId| {
            self.seen.is_settled_for(*node, SETTLED_US, now)
                && !map.leaving.contains(node)
                && !drained.contains(node)
                && self
                    .seen
                    .nodes
                    .get(node)
                    .and_then(|seen| seen.figures.as_ref())
                    .is_some_and(|seen| seen.can_write && !seen.clock_is_off)
        };
        let alive: BTreeSet<NodeId> = map.nodes.keys().copied().filter(may_lead).collect();
        let leads = |shard: &ShardId| Some((*shard, self.seen.leader(*shard, now)?.node));
        let leaders: BTreeMap<ShardId, NodeId> = map.shards.keys().filter_map(leads).collect();
        let wanted = leaders_wanted(map, &alive, &leaders).into_iter();
        let wrong = wanted.filter_map(|(shard, to)| Some((shard, *leaders.get(&shard)?, to)));
        // A shard whose replicas are changing has its leader where its step wants it; what is damaged cannot lead.
        let can_take = |shard: ShardId, to: NodeId| {
            let replica = map.shards.get(&shard).and_then(|info| info.replica_on(to));
            !map.steps.contains_key(&shard) && replica.is_some_and(|replica| self.is_sound(shard, replica, now))
        };
        let mut wrong: Vec<(ShardId, NodeId, NodeId)> =
            wrong.filter(|(shard, from, to)| from != to && can_take(*shard, *to)).collect();
        // The metadata group last: the next director needs all reports first.
        let meta = wrong.iter().find(|(shard, _, _)| *shard == ShardId::META).map(|(_, from, _)| *from);
        if meta.is_some_and(|node| wrong.iter().any(|(shard, from, _)| *shard != ShardId::META && *from == node)) {
            wrong.retain(|(shard, _, _)| *shard != ShardId::META);
        }
        wrong
    }

    pub(super) fn leaders_are_even(&self, map: &Map, now: Moment) -> bool {
        self.misplaced(map, now).is_empty()
    }

    /// How many shards each node leads, as far as was told.
    pub(super) fn led(&self, now: Moment) -> BTreeMap<NodeId, usize> {
        let mut led = BTreeMap::new();
        for leader in self.seen.shards.keys().filter_map(|shard| self.seen.leader(*shard, now)) {
            *led.entry(leader.node).or_default() += 1;
        }
        led
    }

    /// Whether a node leads nothing for sure: it has told of itself, or does not answer, and of each shard that it holds
    /// another node has said that it leads it.
    pub(super) fn leads_nothing(&self, map: &Map, node: NodeId, now: Moment) -> bool {
        let told = self.seen.nodes.get(&node).is_some_and(|seen| seen.figures.is_some());
        let elsewhere = |shard: ShardId| self.seen.leader(shard, now).is_some_and(|leader| leader.node != node);
        let mut voters = map.replicas_on(node).filter(|(_, replica)| replica.member && !replica.learner);
        (told || !self.seen.answers(node, now)) && voters.all(|(shard, _)| elsewhere(shard))
    }

    pub(super) fn leaders_drained(&self, map: &Map, plan: &Plan, node: NodeId, now: Moment) -> Verdict {
        let figures = self.seen.nodes.get(&node).and_then(|seen| seen.figures.as_ref());
        if !map.nodes.contains_key(&node) {
            Verdict::Over(PlanState::Failed, format!("the store has no node {node} any more"))
        } else if figures.is_some_and(|of| of.started_ms > plan.began_ms) && self.seen.is_settled(node, now) {
            Verdict::Over(PlanState::Done, format!("node {node} was restarted and may lead again"))
        } else if now.wall_ms > plan.began_ms + DRAINED_MS_MAX {
            Verdict::Over(PlanState::Done, format!("node {node} was not restarted, and may lead again"))
        } else {
            Verdict::Open
        }
    }
}

/// Nodes that are to lead nothing until they have been restarted.
fn drained(map: &Map) -> impl Iterator<Item = NodeId> {
    map.open_plans().filter(|plan| plan.state == PlanState::Running).filter_map(|plan| match plan.kind {
        PlanKind::DrainLeaders(node) => Some(node),
        _ => None,
    })
}
