//! Changes of plans, of steps and of splits, applied to the map.

use crate::map::Map;
use crate::plan::{Plan, PlanKind, PlanState, Split, Step};
use crate::refusal::{Outcome, Refusal, Result, UNCHANGED, changed};
use crate::shard_info::{ReplicaInfo, ShardInfo};
use vocab::limits::{
    MAP_SHARDS_MAX, PLAN_DETAIL_BYTES_MAX, PLANS_MAX, PLANS_OPEN_MAX, REPLICAS_MAX, REPLICATION_FACTOR_MAX,
};
use vocab::{NodeId, PlanId, ReplicaId, ShardId};

/// The log index of a report of members that is the first to count for a shard which is not as it was made in the store's
/// first map: 0 stands for one that is.
const FIRST_REPORT: u64 = 2;

/// What the store is to become, to be changed.
pub(crate) struct Planning<'a>(pub(crate) &'a mut Map);

impl Planning<'_> {
    pub(crate) fn begin_plan(&mut self, id: PlanId, kind: &PlanKind, at_ms: u64, detail: &str) -> Result<Outcome> {
        if self.0.plans.get(&id).is_some_and(|known| known.kind == *kind) {
            return Ok(UNCHANGED);
        }
        if id.0 != self.0.next_plan {
            return Err(Refusal::NotNextPlan(id, PlanId(self.0.next_plan)));
        }
        if self.0.open_plans().count() >= PLANS_OPEN_MAX {
            return Err(Refusal::OutOfBounds(format!("{PLANS_OPEN_MAX} plans are under way, no more may be begun")));
        }
        if let Some(twin) = self.0.open_plans().find(|plan| plan.kind == *kind) {
            return Err(Refusal::Impossible(format!("plan {} wants the same already", twin.id)));
        }
        if detail.len() > PLAN_DETAIL_BYTES_MAX {
            return Err(Refusal::OutOfBounds(format!("a plan's text has at most {PLAN_DETAIL_BYTES_MAX} bytes")));
        }
        self.intend(kind)?;
        self.0.next_plan += 1;
        let (kind, detail) = (kind.clone(), detail.to_owned());
        let plan = Plan { id, kind, state: PlanState::Running, began_ms: at_ms, ended_ms: 0, steps_done: 0, detail };
        self.0.plans.insert(id, plan);
        self.forget_old_plans();
        Ok(changed(self.0))
    }

    /// Enters in the map what the plan wants, as far as the map can express it.
    fn intend(&mut self, kind: &PlanKind) -> Result<()> {
        let known =
            |of: &Self, node: &NodeId| of.0.nodes.contains_key(node).then_some(()).ok_or(Refusal::UnknownNode(*node));
        match kind {
            PlanKind::DrainNode(node) | PlanKind::RemoveNode(node) => {
                known(self, node)?;
                self.may_leave(*node)?;
                self.0.leaving.insert(*node);
            }
            PlanKind::ReplaceNode { node, with } => {
                known(self, node)?;
                known(self, with)?;
                if node == with || self.0.leaving.contains(with) {
                    return Err(Refusal::Impossible(format!("node {with} cannot take the place of node {node}")));
                }
                self.may_leave(*node)?;
                self.0.leaving.insert(*node);
            }
            PlanKind::AddNode(node) => {
                known(self, node)?;
                // That one would never end.
                if let Some(plan) = self.0.open_plans().find(|plan| plan.kind.empties(*node)) {
                    return Err(Refusal::Impossible(format!(
                        "plan {} wants node {node} empty: cancel that first",
                        plan.id
                    )));
                }
                self.0.leaving.remove(node);
            }
            PlanKind::Repair(node) => known(self, node)?,
            PlanKind::DrainLeaders(node) => {
                known(self, node)?;
                if self.0.nodes.len() == 1 {
                    let text = format!("node {node} is the only one: no other node can lead what it leads");
                    return Err(Refusal::Impossible(text));
                }
            }
            PlanKind::ChangeZone { node, zone } => {
                let info = self.0.nodes.get(node).ok_or(Refusal::UnknownNode(*node))?;
                let mut info = info.clone();
                info.zone.clone_from(zone);
                if let Some(fault) = info.fault() {
                    return Err(Refusal::OutOfBounds(fault));
                }
                self.0.nodes.insert(*node, info);
            }
            PlanKind::SetReplicationFactor(count) => {
                if !(1..=REPLICATION_FACTOR_MAX).contains(count) {
                    let text = format!("a replication factor is 1 to {REPLICATION_FACTOR_MAX}");
                    return Err(Refusal::OutOfBounds(text));
                }
                self.0.replication_factor = *count;
            }
            kind => self.intend_for_shards(kind)?,
        }
        Ok(())
    }

    /// The same, for plans that name shards, or none and no node.
    fn intend_for_shards(&mut self, kind: &PlanKind) -> Result<()> {
        let known =
            |of: &Self, node: &NodeId| of.0.nodes.contains_key(node).then_some(()).ok_or(Refusal::UnknownNode(*node));
        match kind {
            PlanKind::Rebuild { node, shard } => {
                known(self, node)?;
                if let Some(shard) = shard
                    && self.shard_of(*shard)?.replica_on(*node).is_none()
                {
                    return Err(Refusal::Impossible(format!("node {node} has no replica of shard {shard}")));
                }
            }
            PlanKind::MoveShard { shard, from, to } => {
                known(self, to)?;
                let info = self.shard_of(*shard)?;
                if info.replica_on(*from).is_none() {
                    return Err(Refusal::Impossible(format!("node {from} has no replica of shard {shard}")));
                }
                if info.replica_on(*to).is_some() {
                    return Err(Refusal::HasReplica(*to, *shard));
                }
            }
            PlanKind::SplitShard { shard, at } => {
                let info = self.shard_of(*shard)?;
                if *shard == ShardId::META || info.slot_count() < 2 {
                    return Err(Refusal::Impossible(format!("shard {shard} has no slots to share")));
                }
                if let Some(at) = at
                    && (!info.owns(*at) || info.slots[0].0 == at.0)
                {
                    let text = format!("slot {at} does not divide the slots of shard {shard}");
                    return Err(Refusal::Impossible(text));
                }
            }
            PlanKind::UnsafeRecover(shards) => {
                for shard in shards {
                    self.shard_of(*shard)?;
                }
                // The replicas that are left may have applied less than the lost ones had reported.
                for shard in shards {
                    self.0.shards.get_mut(shard).expect("it was looked up before").members_index = FIRST_REPORT - 1;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn shard_of(&self, shard: ShardId) -> Result<&ShardInfo> {
        self.0.shards.get(&shard).ok_or(Refusal::UnknownShard(shard))
    }

    /// Checks that a node stays in the store.
    fn may_leave(&self, node: NodeId) -> Result<()> {
        let stay = |other: &&NodeId| **other != node && !self.0.leaving.contains(other);
        if self.0.nodes.iter().filter(|(_, info)| info.capacity > 0).map(|(id, _)| id).any(|id| stay(&id)) {
            Ok(())
        } else {
            Err(Refusal::Impossible(format!("node {node} is the last that may hold anything")))
        }
    }

    fn forget_old_plans(&mut self) {
        while self.0.plans.len() >= PLANS_MAX {
            let ended = self.0.plans.values().find(|plan| plan.state.has_ended()).map(|plan| plan.id);
            let ended = ended.expect("fewer plans are open than the map holds");
            self.0.plans.remove(&ended);
        }
    }

    pub(crate) fn set_plan(
        &mut self,
        id: PlanId,
        (was, now): (PlanState, PlanState),
        at_ms: u64,
        detail: &str,
    ) -> Result<Outcome> {
        let plan = self.0.plans.get_mut(&id).ok_or(Refusal::PlanChanged(id))?;
        if plan.state == now && plan.detail == detail {
            return Ok(UNCHANGED);
        }
        if plan.state != was || was.has_ended() {
            return Err(Refusal::PlanChanged(id));
        }
        if detail.len() > PLAN_DETAIL_BYTES_MAX {
            return Err(Refusal::OutOfBounds(format!("a plan's text has at most {PLAN_DETAIL_BYTES_MAX} bytes")));
        }
        plan.state = now;
        detail.clone_into(&mut plan.detail);
        if now.has_ended() {
            plan.ended_ms = at_ms;
        }
        let kind = plan.kind.clone();
        if now.has_ended() {
            self.0.survivors.retain(|_, (of, _)| *of != id);
        }
        if now == PlanState::Cancelled {
            self.intend_no_more(&kind);
        }
        Ok(changed(self.0))
    }

    /// The first choice of a plan is final: another replica may go on only for another plan, which an operator has to begin.
    pub(crate) fn choose_survivor(&mut self, plan: PlanId, id: ShardId, replica: ReplicaId) -> Result<Outcome> {
        let recovers = |plan: &Plan| matches!(&plan.kind, PlanKind::UnsafeRecover(shards) if shards.contains(&id));
        if !self.0.plans.get(&plan).is_some_and(|plan| plan.state == PlanState::Running && recovers(plan)) {
            return Err(Refusal::PlanChanged(plan));
        }
        let votes = self.shard_of(id)?.voters().any(|voter| voter.id == replica);
        match self.0.survivors.get(&id) {
            Some(known) if *known == (plan, replica) => return Ok(UNCHANGED),
            // Two plans that run want it.
            Some((other, chosen)) => {
                return Err(Refusal::Impossible(format!("plan {other} has replica {chosen} of shard {id} go on")));
            }
            None if !votes => return Err(Refusal::UnknownReplica(id, replica)),
            None => {}
        }
        self.0.survivors.insert(id, (plan, replica));
        Ok(changed(self.0))
    }

    /// A node whose removal was cancelled takes part again, unless another plan removes it.
    fn intend_no_more(&mut self, kind: &PlanKind) {
        let (PlanKind::DrainNode(node) | PlanKind::RemoveNode(node) | PlanKind::ReplaceNode { node, .. }) = kind else {
            return;
        };
        // Plans from before the node was last added do not count.
        let added =
            self.0.plans.values().filter(|plan| plan.kind == PlanKind::AddNode(*node)).map(|plan| plan.id).max();
        let given_up = |plan: &Plan| matches!(plan.state, PlanState::Cancelled | PlanState::Failed);
        let mut newer = self.0.plans.values().filter(|plan| !given_up(plan) && Some(plan.id) > added);
        let still = newer.any(|plan| plan.kind.empties(*node));
        if !still {
            self.0.leaving.remove(node);
        }
    }

    pub(crate) fn begin_step(
        &mut self,
        plan: PlanId,
        id: ShardId,
        add: Option<(ReplicaId, NodeId)>,
        remove: Option<ReplicaId>,
    ) -> Result<Outcome> {
        let step = Step { plan, add: add.map(|(replica, _)| replica), remove };
        if self.0.steps.get(&id) == Some(&step) {
            return Ok(UNCHANGED);
        }
        if self.0.plans.get(&plan).is_none_or(|plan| plan.state != PlanState::Running) {
            return Err(Refusal::PlanChanged(plan));
        }
        if self.is_busy(id) {
            return Err(Refusal::Busy(id));
        }
        let shard = self.shard_of(id)?;
        if let Some(remove) = remove {
            shard.replica(remove).ok_or(Refusal::UnknownReplica(id, remove))?;
        }
        if let Some((replica, node)) = add {
            if !self.0.nodes.contains_key(&node) {
                return Err(Refusal::UnknownNode(node));
            }
            if replica.0 != shard.next_replica {
                return Err(Refusal::NotNext(id, replica, ReplicaId(shard.next_replica)));
            }
            if shard.replica_on(node).is_some() {
                return Err(Refusal::HasReplica(node, id));
            }
            if shard.replicas.len() >= REPLICAS_MAX {
                return Err(Refusal::OutOfBounds(format!("shard {id} has {REPLICAS_MAX} replicas already")));
            }
            let mut shard = self.0.shards.get_mut(&id).expect("it was looked up before");
            shard.next_replica = replica.0 + 1;
            shard.replicas.push(ReplicaInfo { id: replica, node, learner: true, member: false });
        } else if remove.is_none() {
            return Err(Refusal::Impossible("a step without a replica that comes or goes".to_owned()));
        }
        self.0.steps.insert(id, step);
        Ok(changed(self.0))
    }

    fn is_busy(&self, shard: ShardId) -> bool {
        let splits = self.0.splits.iter().any(|(child, split)| *child == shard || split.parent == shard);
        splits || self.0.steps.contains_key(&shard)
    }

    pub(crate) fn end_step(&mut self, plan: PlanId, id: ShardId, done: bool) -> Result<Outcome> {
        let Some(step) = self.0.steps.get(&id).copied().filter(|step| step.plan == plan) else { return Ok(UNCHANGED) };
        let mut shard = self.0.shards.get_mut(&id).ok_or(Refusal::UnknownShard(id))?;
        if let Some(add) = step.add {
            shard.replicas.retain(|replica| replica.id != add || replica.member);
        }
        drop(shard);
        self.0.steps.remove(&id);
        if let Some(plan) = self.0.plans.get_mut(&plan)
            && done
        {
            plan.steps_done += 1;
        }
        Ok(changed(self.0))
    }

    pub(crate) fn begin_split(
        &mut self,
        plan: PlanId,
        parent: ShardId,
        child: ShardId,
        slots: &[(u16, u16)],
    ) -> Result<Outcome> {
        let split = Split { plan, parent, slots: slots.to_vec() };
        if self.0.splits.get(&child) == Some(&split) {
            return Ok(UNCHANGED);
        }
        if self.0.plans.get(&plan).is_none_or(|plan| plan.state != PlanState::Running) {
            return Err(Refusal::PlanChanged(plan));
        }
        if child.0 != self.0.next_shard {
            return Err(Refusal::NotNextShard(child, ShardId(self.0.next_shard)));
        }
        if self.is_busy(parent) {
            return Err(Refusal::Busy(parent));
        }
        if self.0.shards.len() >= MAP_SHARDS_MAX {
            return Err(Refusal::OutOfBounds(format!("a store has at most {MAP_SHARDS_MAX} shards")));
        }
        let shard = self.shard_of(parent)?;
        if shard.replicas.iter().any(|replica| replica.learner || !replica.member) {
            return Err(Refusal::Busy(parent));
        }
        let owned = slots
            .iter()
            .all(|&(first, last)| first <= last && shard.slots.iter().any(|&(from, to)| from <= first && last <= to));
        let rising = slots.windows(2).all(|pair| u32::from(pair[0].1) + 1 < u32::from(pair[1].0));
        let count: usize = slots.iter().map(|&(first, last)| usize::from(last.saturating_sub(first)) + 1).sum();
        if parent == ShardId::META || !owned || !rising || count == 0 || count >= shard.slot_count() {
            return Err(Refusal::Impossible(format!("shard {parent} cannot give those slots away")));
        }
        let info = ShardInfo {
            slots: Vec::new(),
            replicas: shard.replicas.clone(),
            next_replica: shard.next_replica,
            members_index: FIRST_REPORT - 1,
        };
        self.0.shards.insert(child, info);
        self.0.next_shard += 1;
        self.0.splits.insert(child, split);
        Ok(changed(self.0))
    }

    pub(crate) fn end_split(&mut self, child: ShardId) -> Result<Outcome> {
        let Some(split) = self.0.splits.remove(&child) else {
            return if self.0.shards.contains_key(&child) { Ok(UNCHANGED) } else { Err(Refusal::UnknownShard(child)) };
        };
        let mut parent = self.0.shards.get_mut(&split.parent).expect("a shard is never removed");
        parent.slots = without(&parent.slots, &split.slots);
        drop(parent);
        self.0.shards.get_mut(&child).expect("it was made with the split").slots = split.slots;
        if let Some(plan) = self.0.plans.get_mut(&split.plan) {
            plan.steps_done += 1;
        }
        Ok(changed(self.0))
    }
}

/// What is left of `slots` without those of `gone`, each range of which lies in one of them.
fn without(slots: &[(u16, u16)], gone: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let mut left = Vec::new();
    for &(first, last) in slots {
        let mut from = u32::from(first);
        for &(start, end) in gone.iter().filter(|range| first <= range.0 && range.1 <= last) {
            if from < u32::from(start) {
                left.push((from as u16, start - 1));
            }
            from = u32::from(end) + 1;
        }
        if from <= u32::from(last) {
            left.push((from as u16, last));
        }
    }
    left
}
