//! Steps: which are begun for plans, and what the leader of the shard is to do next until the map shows that it is done.

use super::action::DirectorAction;
use super::explicit_moves::{own_moves, receiver};
use super::inputs::Inputs;
use super::moves::{allows, is_busy, plan_of};
use super::observe::{SILENT_US, Seen};
use super::pending_moves::PendingMoves;
use crate::peer_protocol::Order;
use cluster::placement::Move;
use cluster::{Change, Map, Plan, PlanKind, PlanState, ReplicaInfo, ShardInfo, Step};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Moment, NodeId, PlanId, ReplicaId, ShardId};

/// Steps that are begun at once.
const STEPS_AT_ONCE: usize = 32;
/// The node of a replica that is being filled may be silent for this long, in µs, before another node is looked for.
const PATIENCE_US: u64 = 10_000_000;

/// What a step waits for.
enum Next {
    /// Its shard's leader is to obey an order.
    Order(Order),
    /// The replica that is to go is no member any more: the map can give it up.
    Forget(ReplicaId),
    /// It is over.
    End { done: bool },
}

/// Begins steps, the most urgent first, as many as may be under way at once. Answers the plans that still have some.
pub(super) fn begin(
    inputs: &Inputs<'_>,
    pending: &mut PendingMoves,
    actions: &mut Vec<DirectorAction>,
) -> BTreeSet<PlanId> {
    let &Inputs { map, settings, seen, now } = inputs;
    pending.drop_done(map);
    let mut traffic = Traffic::of(map, seen, now);
    let mut left: BTreeSet<PlanId> = map.steps.values().map(|step| step.plan).collect();
    left.extend(map.splits.values().map(|split| split.plan));
    // What is moved for another plan is wanted by this one too: it is not done before that is.
    for step in pending.first_moves() {
        left.extend(map.open_plans().filter(|plan| allows(&plan.kind, step, map)).map(|plan| plan.id));
    }
    let mut begun = BTreeSet::new();
    for (plan, step, current) in moves_of_plans(inputs, pending) {
        let id = plan.id;
        left.insert(id);
        let free = !begun.contains(&step.shard) && !is_busy(map, step.shard);
        if !current || !free || plan.state != PlanState::Running || begun.len() >= STEPS_AT_ONCE {
            continue;
        }
        let Some(leader) = seen.leader(step.shard, now) else { continue };
        // What is to come again elsewhere goes only once it can.
        let absent = receiver(&plan.kind).is_some_and(|node| !seen.can_take(node, now));
        if absent || !inputs.leaves_majority(&step) {
            continue;
        }
        if let Some(to) = step.add {
            let is_full =
                traffic.sends(leader.node) >= settings.moves_per_source || traffic.takes(to) >= settings.moves_per_node;
            if is_full || !seen.can_take(to, now) {
                continue;
            }
            traffic.add(step.shard, to, seen, now);
        }
        begun.insert(step.shard);
        let next = map.shards.get(&step.shard).map_or(0, |info| info.next_replica);
        let add = step.add.map(|node| (ReplicaId(next), node));
        let change = Change::BeginStep { plan: id, shard: step.shard, add, remove: step.remove };
        actions.push(DirectorAction::Propose(change));
    }
    left
}

/// The next move of each shard for each open plan, and whether it follows from the newest map.
fn moves_of_plans<'a>(inputs: &Inputs<'a>, pending: &PendingMoves) -> Vec<(&'a Plan, Move, bool)> {
    let &Inputs { map, seen, .. } = inputs;
    let lost = &pending.lost;
    let mut moves = Vec::new();
    for plan in map.open_plans() {
        let own = own_moves(map, plan, seen, lost);
        moves.extend(own.into_iter().map(|step| (plan, step, true)));
    }
    for step in pending.first_moves() {
        let plan = plan_of(map, step);
        let current = pending.holds(map, step.shard);
        moves.extend(plan.map(|plan| (plan, redirected(&plan.kind, *step, map, lost), current)));
    }
    moves
}

/// Takes every step as far as it can go now.
pub(super) fn advance(inputs: &Inputs<'_>, actions: &mut Vec<DirectorAction>) {
    let &Inputs { map, seen, now, .. } = inputs;
    for (&shard, step) in &map.steps {
        let Some(info) = map.shards.get(&shard) else { continue };
        match next(inputs, shard, info, step) {
            Next::Order(order) => {
                if let Some(leader) = seen.leader(shard, now) {
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

fn next(inputs: &Inputs<'_>, shard: ShardId, info: &ShardInfo, step: &Step) -> Next {
    let &Inputs { map, seen, now, .. } = inputs;
    let ended = map.plans.get(&step.plan).is_none_or(|plan| plan.state.has_ended());
    let replica = |id: Option<ReplicaId>| id.and_then(|id| info.replica(id)).copied();
    let (add, remove) = (replica(step.add), replica(step.remove));
    match (step.add, add) {
        (Some(_), None) => return Next::End { done: false },
        (Some(id), Some(add)) if add.learner || !add.member => {
            let silent_us = seen.silent_us(add.node, now);
            let is_useless = ended
                || map.leaving.contains(&add.node)
                || silent_us > PATIENCE_US + SILENT_US
                || seen.is_broken(shard, id);
            return match (is_useless, add.member) {
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
        Some(remove) if !inputs.may_let_go(info, shard, remove.id, 0) => Next::End { done: false },
        Some(remove) => Next::Order(Order::Remove { replica: remove.id.0 }),
        None => Next::End { done: true },
    }
}

/// Changes the map to what leaders have reported of their groups, where the news of a change was lost. Orders leaders to
/// remove members that the map has given up.
pub(super) fn reconcile(inputs: &Inputs<'_>, news: BTreeSet<ShardId>, actions: &mut Vec<DirectorAction>) {
    let &Inputs { map, seen, .. } = inputs;
    for shard in news {
        let Some(info) = map.shards.get(&shard) else { continue };
        let Some(leader) = seen.shards.get(&shard).and_then(|seen| seen.leader.as_ref()) else { continue };
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

/// Gives up replicas that were about to come when their step ended: the news that they have become members may have been
/// under way. Placement counts a shard with such replicas as busy.
pub(super) fn tidy(inputs: &Inputs<'_>, actions: &mut Vec<DirectorAction>) {
    let &Inputs { map, seen, now, .. } = inputs;
    for (&shard, info) in &map.shards {
        let mut left = info.replicas.iter().filter(|replica| replica.learner || !replica.member).peekable();
        if left.peek().is_none() || is_busy(map, shard) {
            continue;
        }
        for &ReplicaInfo { id: replica, member, .. } in left {
            if !member {
                actions.push(DirectorAction::Propose(Change::ForgetReplica { shard, replica }));
            } else if let Some(leader) = seen.leader(shard, now) {
                let order = Order::Remove { replica: replica.0 };
                actions.push(DirectorAction::Order { node: leader.node, shard, order });
            }
        }
    }
}

/// The move, to the node that the plan wants.
fn redirected(kind: &PlanKind, step: Move, map: &Map, lost: &BTreeSet<NodeId>) -> Move {
    let PlanKind::ReplaceNode { with, .. } = kind else { return step };
    // What only fills a shard up goes elsewhere: that place is for what the node has.
    if step.remove.is_none() {
        return step;
    }
    let has_one = map.shards.get(&step.shard).is_some_and(|info| info.replica_on(*with).is_some());
    // It may be leaving by now, or be gone.
    let takes = map.nodes.contains_key(with) && !map.leaving.contains(with) && !lost.contains(with);
    if has_one || !takes { step } else { Move { add: Some(*with), ..step } }
}

/// How many shards each node sends and receives now.
#[derive(Default)]
struct Traffic {
    from: BTreeMap<NodeId, usize>,
    to: BTreeMap<NodeId, usize>,
}

impl Traffic {
    fn of(map: &Map, seen: &Seen, now: Moment) -> Self {
        let mut traffic = Self::default();
        for (&shard, step) in &map.steps {
            let add = step.add.and_then(|add| map.replica(shard, add));
            if let Some(add) = add.filter(|add| add.learner || !add.member) {
                traffic.add(shard, add.node, seen, now);
            }
        }
        traffic
    }

    fn add(&mut self, shard: ShardId, to: NodeId, seen: &Seen, now: Moment) {
        if let Some(leader) = seen.leader(shard, now) {
            *self.from.entry(leader.node).or_default() += 1;
        }
        *self.to.entry(to).or_default() += 1;
    }

    fn sends(&self, node: NodeId) -> usize {
        self.from.get(&node).copied().unwrap_or(0)
    }

    fn takes(&self, node: NodeId) -> usize {
        self.to.get(&node).copied().unwrap_or(0)
    }
}
