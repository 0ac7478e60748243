//! Steps that are under way: what the leader of the shard is to do next, until the map shows that it is done.

use super::observe::{SILENT_US, Seen};
use super::pending_moves::is_busy;
use super::{Director, DirectorAction};
use crate::peer_protocol::Order;
use cluster::{Change, Map, ReplicaInfo, ShardInfo, Step};
use vocab::{Moment, NodeId, ReplicaId, ShardId};

/// For how long a replica that is being filled may be on a node that does not answer, in µs, before another is sought.
const PATIENCE_US: u64 = 10_000_000;

/// What a step waits for.
enum Next {
    /// Its shard's leader is to do that.
    Order(Order),
    /// The one that is to go is no member: the map can give it up.
    Forget(ReplicaId),
    /// It is over.
    End { done: bool },
}

impl Director {
    /// Takes every step on by as much as can be done now.
    pub(super) fn advance(&self, map: &Map, now: Moment, actions: &mut Vec<DirectorAction>) {
        for (&shard, step) in &map.steps {
            let Some(info) = map.shards.get(&shard) else { continue };
            match self.next(map, shard, info, step, now) {
                Next::Order(order) => {
                    if let Some(leader) = self.seen.leader(shard, now) {
                        actions.push(DirectorAction::Order { node: leader.node, shard, order });
                    }
                }
                Next::Forget(replica) => {
                    actions.push(DirectorAction::Propose(Change::ForgetReplica { shard, replica }));
                }
                Next::End { done } => {
                    actions.push(DirectorAction::Propose(Change::EndStep { plan: step.plan, shard, done }));
                }
            }
        }
    }

    fn next(&self, map: &Map, shard: ShardId, info: &ShardInfo, step: &Step, now: Moment) -> Next {
        let ended = map.plans.get(&step.plan).is_none_or(|plan| plan.state.has_ended());
        let replica = |id: Option<ReplicaId>| id.and_then(|id| info.replica(id)).copied();
        let (add, remove) = (replica(step.add), replica(step.remove));
        match (step.add, add) {
            (Some(_), None) => return Next::End { done: false },
            (Some(id), Some(add)) if add.learner || !add.member => {
                let silent_us = self.seen.silent_us(add.node, now);
                let is_vain = ended
                    || map.leaving.contains(&add.node)
                    || silent_us > PATIENCE_US + SILENT_US
                    || self.seen.is_broken(shard, id);
                return match (is_vain, add.member) {
                    (false, false) => Next::Order(Order::Add { replica: id.0, node: add.node }),
                    (false, true) => Next::Order(Order::Promote { replica: id.0 }),
                    (true, true) => Next::Order(Order::Remove { replica: id.0 }),
                    (true, false) => Next::End { done: false },
                };
            }
            (None, _) if ended => return Next::End { done: false },
            _ => {}
        }
        match remove {
            Some(remove) if !remove.member => Next::Forget(remove.id),
            // The others went otherwise: a report of that was late.
            Some(remove) if info.voters().all(|voter| voter.id == remove.id) => Next::End { done: false },
            // Its leader would refuse for as long as that lasts, and what would end it may need a step of its own.
            Some(remove) if !self.may_let_go(info, shard, remove.id, 0, now) => Next::End { done: false },
            Some(remove) => Next::Order(Order::Remove { replica: remove.id.0 }),
            None => Next::End { done: true },
        }
    }

    /// Brings the map to what leaders told of their groups, where a report of a change was lost; and has leaders let go
    /// of members that the map has given up.
    pub(super) fn reconcile(&mut self, map: &Map, actions: &mut Vec<DirectorAction>) {
        for shard in std::mem::take(&mut self.seen.news) {
            let Some(info) = map.shards.get(&shard) else { continue };
            let Some(leader) = self.seen.shards.get(&shard).and_then(|seen| seen.leader.as_ref()) else { continue };
            let known = &leader.known;
            if known.joint || known.members.is_empty() {
                continue;
            }
            // One whose id was never given out is in a newer map than this one.
            let is_stranger = |id: ReplicaId| info.replica(id).is_none() && id.0 < info.next_replica;
            let stranger = known.members.iter().find(|member| is_stranger(member.id));
            if let Some(stranger) = stranger {
                let order = Order::Remove { replica: stranger.id.0 };
                actions.push(DirectorAction::Order { node: leader.node, shard, order });
                continue;
            }
            let same = known.members.iter().all(|member| {
                info.replica(member.id).is_some_and(|replica| replica.member && replica.learner != member.votes)
            });
            let members = info.replicas.iter().filter(|replica| replica.member).count();
            if (same && members == known.members.len()) || known.index <= info.members_index {
                continue;
            }
            let of = |votes: bool| {
                let members = known.members.iter().filter(|member| member.votes == votes);
                members.map(|member| member.id).collect::<Vec<_>>()
            };
            let (voters, learners) = (of(true), of(false));
            let change = Change::SetReplicas { shard, members_index: known.index, voters, learners };
            actions.push(DirectorAction::Propose(change));
        }
    }

    /// Gives up replicas that were about to come when their step ended: a report that they have become members may have
    /// been under way. With them, placement takes their shard for busy.
    pub(super) fn tidy(&self, map: &Map, now: Moment, actions: &mut Vec<DirectorAction>) {
        for (&shard, info) in &map.shards {
            let mut left = info.replicas.iter().filter(|replica| replica.learner || !replica.member).peekable();
            if left.peek().is_none() || is_busy(map, shard) {
                continue;
            }
            for &ReplicaInfo { id: replica, member, .. } in left {
                if !member {
                    actions.push(DirectorAction::Propose(Change::ForgetReplica { shard, replica }));
                } else if let Some(leader) = self.seen.leader(shard, now) {
                    let order = Order::Remove { replica: replica.0 };
                    actions.push(DirectorAction::Order { node: leader.node, shard, order });
                }
            }
        }
    }

    /// Has leaders make the splits that the map wants.
    pub(super) fn advance_splits(&self, map: &Map, now: Moment, actions: &mut Vec<DirectorAction>) {
        for (&child, split) in &map.splits {
            if let Some(leader) = self.seen.leader(split.parent, now) {
                let order = Order::Split { child, slots: split.slots.clone() };
                actions.push(DirectorAction::Order { node: leader.node, shard: split.parent, order });
            }
        }
    }
}

/// The shards that nodes send away and take in now, by node.
#[derive(Default)]
pub(super) struct Traffic {
    from: std::collections::BTreeMap<NodeId, usize>,
    to: std::collections::BTreeMap<NodeId, usize>,
}

impl Traffic {
    pub(super) fn of(map: &Map, seen: &Seen, now: Moment) -> Self {
        let mut traffic = Self::default();
        for (&shard, step) in &map.steps {
            let add = step.add.and_then(|add| map.replica(shard, add));
            if let Some(add) = add.filter(|add| add.learner || !add.member) {
                traffic.add(shard, add.node, seen, now);
            }
        }
        traffic
    }

    pub(super) fn add(&mut self, shard: ShardId, to: NodeId, seen: &Seen, now: Moment) {
        if let Some(leader) = seen.leader(shard, now) {
            *self.from.entry(leader.node).or_default() += 1;
        }
        *self.to.entry(to).or_default() += 1;
    }

    pub(super) fn sends(&self, node: NodeId) -> usize {
        self.from.get(&node).copied().unwrap_or(0)
    }

    pub(super) fn takes(&self, node: NodeId) -> usize {
        self.to.get(&node).copied().unwrap_or(0)
    }
}
