//! Shards that have lost their majority for good, and whose operator goes on with what is left.

use super::plans::Verdict;
use super::{Director, DirectorAction};
use crate::peer_protocol::Order;
use cluster::{Change, Map, PlanKind, PlanState, ReplicaInfo, ShardInfo};
use vocab::{Moment, NodeId, PlanId, ReplicaId, ShardId};

impl Director {
    /// Has the replica that has most of each such shard go on alone. Which one that is, the map says before it is told: it
    /// may obey and be heard of no more, and then another one that went on too would lead the same shard besides it.
    pub(super) fn recover(&self, map: &Map, now: Moment, actions: &mut Vec<DirectorAction>) {
        for plan in map.open_plans().filter(|plan| plan.state == PlanState::Running) {
            let PlanKind::UnsafeRecover(shards) = &plan.kind else { continue };
            for &shard in shards {
                if self.seen.leader(shard, now).is_some() || self.has_majority(map, shard, now) {
                    continue;
                }
                match map.survivors.get(&shard) {
                    Some((_, chosen)) => {
                        if let Some(of) = map.replica(shard, *chosen) {
                            let order = Order::Recover { replica: chosen.0 };
                            actions.push(DirectorAction::Order { node: of.node, shard, order });
                        }
                    }
                    None => {
                        if let Some(of) = self.survivor(map, shard, now) {
                            let change = Change::ChooseSurvivor { plan: plan.id, shard, replica: of.id };
                            actions.push(DirectorAction::Propose(change));
                        }
                    }
                }
            }
        }
    }

    /// What such a plan waits for: a replica that was chosen, and does not answer.
    pub(super) fn awaited_survivor(&self, map: &Map, plan: PlanId, now: Moment) -> Option<String> {
        let of_plan = map.survivors.iter().filter(|(_, (of, _))| *of == plan);
        let node = |shard: ShardId, replica: ReplicaId| map.replica(shard, replica).map(|replica| replica.node);
        let mut silent = of_plan.filter(|(shard, _)| self.seen.leader(**shard, now).is_none()).filter_map(
            |(shard, (_, replica))| {
                let node = node(*shard, *replica).filter(|node| !self.seen.answers(*node, now))?;
                let text = format!("shard {shard} is to go on with what node {node} has of it, which is silent");
                Some(format!("{text}: bring it back, or, if it is gone for good, cancel this plan and begin another"))
            },
        );
        silent.next()
    }

    /// The voter with the longest log among those that answer.
    fn survivor(&self, map: &Map, shard: ShardId, now: Moment) -> Option<ReplicaInfo> {
        let seen = self.seen.shards.get(&shard)?;
        let length = |replica: &&ReplicaInfo| {
            let of = seen.replicas.get(&replica.id)?;
            of.broken.is_none().then_some((of.last, of.applied, std::cmp::Reverse(replica.id)))
        };
        let voters = map.shards.get(&shard)?.voters().filter(|replica| self.seen.answers(replica.node, now));
        voters.filter(|replica| length(replica).is_some()).max_by_key(length).copied()
    }

    /// Whether enough voters answer and are sound: then the shard heals by itself.
    pub(super) fn has_majority(&self, map: &Map, shard: ShardId, now: Moment) -> bool {
        let Some(info) = map.shards.get(&shard) else { return false };
        let voters = info.voters().count();
        info.voters().filter(|replica| self.is_sound(shard, replica, now)).count() > voters / 2
    }

    /// Whether those that vote without a replica are led on: most of them answer and are sound, with `added` that come.
    pub(super) fn may_let_go(
        &self,
        info: &ShardInfo,
        shard: ShardId,
        remove: ReplicaId,
        added: usize,
        now: Moment,
    ) -> bool {
        let votes = info.voters().any(|voter| voter.id == remove);
        let stay = || info.voters().filter(|voter| voter.id != remove);
        let sound = stay().filter(|voter| self.is_sound(shard, voter, now)).count() + added;
        !votes || sound > (stay().count() + added) / 2
    }

    pub(super) fn is_sound(&self, shard: ShardId, replica: &ReplicaInfo, now: Moment) -> bool {
        let seen = self.seen.shards.get(&shard).and_then(|seen| seen.replicas.get(&replica.id));
        self.seen.answers(replica.node, now) && seen.is_none_or(|seen| seen.broken.is_none())
    }

    /// The nodes that a shard without a majority waits for: none if it has one.
    pub(super) fn waits_for(&self, map: &Map, shard: ShardId, now: Moment) -> Vec<NodeId> {
        if self.has_majority(map, shard, now) {
            return Vec::new();
        }
        let voters = map.shards.get(&shard).into_iter().flat_map(|info| info.voters());
        let unsound = voters.filter(|replica| !self.is_sound(shard, replica, now));
        let mut nodes: Vec<NodeId> = unsound.map(|replica| replica.node).collect();
        nodes.sort_unstable();
        nodes
    }

    pub(super) fn recovered(&self, map: &Map, shards: &[ShardId], now: Moment) -> Verdict {
        // One that stood still while the others were destroyed says for a moment that it leads, as it did before.
        let led = |shard: &ShardId| self.seen.leader(*shard, now).is_some() && self.has_majority(map, *shard, now);
        if shards.iter().filter(|shard| map.shards.contains_key(shard)).all(led) {
            Verdict::Over(
                PlanState::Done,
                "each shard has a leader; what it has lost, if anything, is unknown".to_owned(),
            )
        } else {
            Verdict::Open
        }
    }
}
