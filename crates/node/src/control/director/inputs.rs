//! What one look of the director goes by, and the questions that several of its parts ask about that.

use super::observe::Seen;
use cluster::placement::Move;
use cluster::{Map, ReplicaInfo, Settings, ShardInfo};
use std::collections::BTreeMap;
use vocab::{Moment, NodeId, ReplicaId, ShardId};

/// The store at one moment, as far as the node that directs it knows.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) map: &'a Map,
    /// The settings that the map holds.
    pub(super) settings: &'a Settings,
    /// What nodes have reported.
    pub(super) seen: &'a Seen,
    pub(super) now: Moment,
}

impl Inputs<'_> {
    /// Whether a replica can vote: its node answers, and has not reported that it is damaged.
    pub(super) fn is_sound(&self, shard: ShardId, replica: &ReplicaInfo) -> bool {
        self.seen.answers(replica.node, self.now) && !self.seen.is_broken(shard, replica.id)
    }

    /// Whether more than half of a shard's voters are sound: then the shard heals by itself.
    pub(super) fn has_majority(&self, shard: ShardId) -> bool {
        let Some(info) = self.map.shards.get(&shard) else { return false };
        info.voters().filter(|replica| self.is_sound(shard, replica)).count() > info.voters().count() / 2
    }

    /// Whether more than half of the voters that stay are sound once `remove` is gone, with `added` that come.
    pub(super) fn may_let_go(&self, info: &ShardInfo, shard: ShardId, remove: ReplicaId, added: usize) -> bool {
        let votes = info.voters().any(|voter| voter.id == remove);
        let stay = || info.voters().filter(|voter| voter.id != remove);
        let sound = stay().filter(|voter| self.is_sound(shard, voter)).count() + added;
        !votes || sound > (stay().count() + added) / 2
    }

    /// Whether a move leaves its shard a sound majority. Before that it is not begun: it would block other steps.
    pub(super) fn leaves_majority(&self, step: &Move) -> bool {
        let Some((info, remove)) = self.map.shards.get(&step.shard).zip(step.remove) else { return true };
        self.may_let_go(info, step.shard, remove, usize::from(step.add.is_some()))
    }

    /// The nodes that a shard without a majority waits for: none if it has one.
    pub(super) fn waits_for(&self, shard: ShardId) -> Vec<NodeId> {
        if self.has_majority(shard) {
            return Vec::new();
        }
        let voters = self.map.shards.get(&shard).into_iter().flat_map(|info| info.voters());
        let unsound = voters.filter(|replica| !self.is_sound(shard, replica));
        let mut nodes: Vec<NodeId> = unsound.map(|replica| replica.node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// How many shards each node leads, by the reports.
    pub(super) fn led(&self) -> BTreeMap<NodeId, usize> {
        let mut led = BTreeMap::new();
        for leader in self.seen.shards.keys().filter_map(|shard| self.seen.leader(*shard, self.now)) {
            *led.entry(leader.node).or_default() += 1;
        }
        led
    }

    /// Whether a node leads nothing for sure: it has reported or does not answer, and of each shard that it holds another
    /// node has reported that it leads it.
    pub(super) fn leads_nothing(&self, node: NodeId) -> bool {
        let reported = self.seen.nodes.get(&node).is_some_and(|seen| seen.figures.is_some());
        let elsewhere = |shard: ShardId| self.seen.leader(shard, self.now).is_some_and(|leader| leader.node != node);
        let mut voters = self.map.replicas_on(node).filter(|(_, replica)| replica.member && !replica.learner);
        (reported || !self.seen.answers(node, self.now)) && voters.all(|(shard, _)| elsewhere(shard))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::control::director::test_reports::report_of;
    use crate::test_nodes::node_info;
    use vocab::StoreId;

    const SHARD: ShardId = ShardId(1);

    /// What nodes have told, of which some do not answer and some have a damaged replica.
    fn seen(map: &Map, silent: &[u64], damaged: &[u64], now: Moment) -> Seen {
        let mut seen = Seen::default();
        seen.began_us.get_or_insert(1);
        for id in map.nodes.keys().filter(|id| !silent.contains(&id.0)) {
            seen.report(*id, report_of(map, *id, &[], damaged.contains(&id.0)), now);
        }
        seen
    }

    #[test]
    fn a_majority_is_of_voters_that_answer_and_are_sound() {
        let map = cluster::initial_map(StoreId(7), &[1, 2, 3].map(node_info), 1, 3).unwrap();
        let (settings, now) = (Settings::of(&map), Moment { wall_ms: 60_000, mono_us: 60_000_000 });
        // Silent nodes, nodes with a damaged replica, whether there is a majority, and the nodes without which there is
        // none; then whether node 1's replica may go, and whether it may with one that comes.
        type Case<'a> = (&'a [u64], &'a [u64], bool, &'a [u64], bool, bool);
        let cases: [Case<'_>; 6] = [
            (&[], &[], true, &[], true, true),
            (&[1], &[], true, &[], true, true),
            (&[2], &[], true, &[], false, true),
            (&[], &[3], true, &[], false, true),
            (&[2], &[3], false, &[2, 3], false, false),
            (&[1, 2, 3], &[], false, &[1, 2, 3], false, false),
        ];
        for (silent, damaged, has_majority, waits_for, may_go, may_be_replaced) in cases {
            let seen = seen(&map, silent, damaged, now);
            let inputs = Inputs { map: &map, settings: &settings, seen: &seen, now };
            let case = format!("{silent:?} are silent, {damaged:?} are damaged");
            assert_eq!(inputs.has_majority(SHARD), has_majority, "{case}");
            assert!(inputs.waits_for(SHARD).iter().map(|node| node.0).eq(waits_for.iter().copied()), "{case}");
            let info = &map.shards[&SHARD];
            let first = info.replica_on(NodeId(1)).unwrap().id;
            assert_eq!(inputs.may_let_go(info, SHARD, first, 0), may_go, "{case}");
            assert_eq!(inputs.may_let_go(info, SHARD, first, 1), may_be_replaced, "{case}");
            assert!(inputs.may_let_go(info, SHARD, ReplicaId(99), 0), "one that does not vote may always go");
        }
    }
}
