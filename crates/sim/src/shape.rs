//! What operators want of the store's shape: plans at random, damaged replicas rebuilt, dead nodes removed. They can only
//! propose; the director does it.

use crate::chance::Chance;
use crate::event::Place;
use crate::request::key_name;
use crate::schedule::{Micros, SECOND};
use crate::world::{Outcome, World, node_id, place_of};
use cluster::{Change, Map, PlanKind, PlanState, ShardInfo};
use std::sync::Arc;
use vocab::{NodeId, PlanId, ReplicaId, SLOT_COUNT, ShardId, Slot, slot_of};

/// Nodes that are left at the least.
const NODES_MIN: usize = 3;
/// Data shards that splits make at the most; twice as many as there were, if that is more.
const SHARDS_MAX: usize = 8;
/// How many of a thousand looks want a shard divided, where shards are.
const SPLITS_PER_MILLE: u64 = 60;
/// After the death of a node, no plan is begun for so long: no node has noticed yet.
const SHOCK: Micros = 10 * SECOND;
/// The text of the last plan of a run.
const LAST: &str = "the last plan";

impl World {
    /// Some node brings a change of the map to the metadata group, or tries to.
    fn change(&mut self, change: &Change) -> Outcome {
        let place = self.prng.below(self.plan.nodes as u64) as usize;
        self.propose(place, change)
    }

    pub(crate) fn begin_plan(&mut self, map: &Map, kind: PlanKind, detail: &str) -> Outcome {
        if map.open_plans().any(|plan| plan.kind == kind) {
            return Ok(());
        }
        let (id, at_ms) = (PlanId(map.next_plan), self.moment(0).wall_ms);
        self.note(format_args!("plan {id} is wanted: {kind:?}"));
        self.change(&Change::BeginPlan { id, kind, at_ms, detail: detail.to_owned() })
    }

    /// An operator begins a plan, or has second thoughts about one.
    pub(crate) fn want(&mut self) -> Outcome {
        let Some(map) = self.map.clone() else { return Ok(()) };
        if self.shaping.died_at.is_some_and(|at| self.now() < at + SHOCK) {
            return Ok(());
        }
        let open: Vec<(PlanId, PlanState)> = map.open_plans().map(|plan| (plan.id, plan.state)).collect();
        if !open.is_empty() && self.prng.happens(250) {
            let (id, was) = *self.prng.pick(&open);
            let now = *self.prng.pick(&[PlanState::Paused, PlanState::Running, PlanState::Cancelled]);
            return self.set_plan(id, was, now);
        }
        match self.draw_kind(&map) {
            Some(kind) => self.begin_plan(&map, kind, "drawn"),
            None => Ok(()),
        }
    }

    fn set_plan(&mut self, id: PlanId, was: PlanState, now: PlanState) -> Outcome {
        let at_ms = self.moment(0).wall_ms;
        self.note(format_args!("plan {id} is to be {}", now.word()));
        self.change(&Change::SetPlan { id, was, now, at_ms, detail: now.word().to_owned() })
    }

    fn draw_kind(&mut self, map: &Arc<Map>) -> Option<PlanKind> {
        let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
        let shards: Vec<ShardId> = map.shards.keys().copied().collect();
        let (node, other) = (*self.prng.pick(&nodes), *self.prng.pick(&nodes));
        let shard = *self.prng.pick(&shards);
        let staying = nodes.iter().filter(|id| !map.leaving.contains(id) && !self.shaping.is_gone(place_of(**id)));
        let may_leave = staying.filter(|id| **id != node).count() >= NODES_MIN;
        let held: Vec<NodeId> = map.shards[&shard].replicas.iter().map(|replica| replica.node).collect();
        let from = *self.prng.pick(&held);
        Some(match self.prng.below(106) {
            0..20 => PlanKind::MoveShard { shard, from, to: node },
            20..30 if may_leave => PlanKind::DrainNode(node),
            30..42 => PlanKind::AddNode(node),
            42..48 if may_leave => PlanKind::ReplaceNode { node, with: other },
            48..54 if may_leave => PlanKind::RemoveNode(node),
            54..64 => PlanKind::Rebalance,
            64..72 => PlanKind::BalanceLeaders,
            72..80 => PlanKind::DrainLeaders(node),
            80..88 => PlanKind::SetReplicationFactor(*self.prng.pick(self.plan.factors())),
            88..94 if self.plan.zones > 1 => {
                let zone = format!("zone{}", self.prng.below(self.plan.zones as u64));
                PlanKind::ChangeZone { node, zone }
            }
            94..97 => PlanKind::Rebuild { node, shard: None },
            97..100 => PlanKind::Rebuild { node: from, shard: Some(shard) },
            100..106 => return self.draw_split(map),
            _ => return None,
        })
    }

    /// An operator wants a shard divided, or all.
    pub(crate) fn want_split(&mut self) -> Outcome {
        let Some(map) = self.map.clone() else { return Ok(()) };
        match self.draw_split(&map) {
            Some(kind) => self.begin_plan(&map, kind, "drawn"),
            None => Ok(()),
        }
    }

    /// At a slot that has keys, at any, or in the middle.
    fn draw_split(&mut self, map: &Map) -> Option<PlanKind> {
        let shards: Vec<ShardId> = map.data_shards().map(|(shard, _)| shard).collect();
        if shards.len() >= SHARDS_MAX.max(2 * self.plan.shards as usize) {
            return None;
        }
        if self.prng.happens(100) {
            return Some(PlanKind::SplitAll);
        }
        let shard = *self.prng.pick(&shards);
        let used = |group: usize| slot_of(&key_name(group, 0));
        let groups = (0..self.plan.groups).map(used).filter(|slot| map.shards[&shard].owns(*slot));
        let mut slots: Vec<Slot> = groups.collect();
        slots.push(Slot(self.prng.below(u64::from(SLOT_COUNT)) as u16));
        let at = if self.prng.happens(600) { Some(*self.prng.pick(&slots)) } else { None };
        Some(PlanKind::SplitShard { shard, at })
    }

    /// Looks at what is still to be done for the store's shape.
    pub(crate) fn look_at_shape(&mut self) -> Outcome {
        let Some(map) = self.map.clone() else { return Ok(()) };
        self.shaping.known.extend(map.nodes.keys());
        self.take_away(&map);
        self.want_settings(&map)?;
        self.recover(&map)?;
        for place in self.shaping.dead.clone() {
            if map.nodes.contains_key(&node_id(place)) && self.prng.happens(200) {
                self.begin_plan(&map, PlanKind::RemoveNode(node_id(place)), "it is dead")?;
            }
        }
        for ((shard, node), replica) in self.shaping.damaged.clone() {
            let is_there = map.shards[&shard].replica_on(node).is_some_and(|there| there.id == replica);
            if !is_there {
                self.shaping.damaged.remove(&(shard, node));
            } else if self.prng.happens(200) {
                self.begin_plan(&map, PlanKind::Rebuild { node, shard: Some(shard) }, "it is damaged")?;
            }
        }
        if !self.healing {
            let divides = self.plan.faults.splits && self.prng.happens(SPLITS_PER_MILLE);
            return if divides { self.want_split() } else { Ok(()) };
        }
        let paused: Vec<PlanId> =
            map.open_plans().filter(|plan| plan.state == PlanState::Paused).map(|plan| plan.id).collect();
        for id in paused {
            self.set_plan(id, PlanState::Paused, PlanState::Running)?;
        }
        if map.open_plans().next().is_none() && !map.plans.values().any(|plan| plan.detail == LAST) {
            self.begin_plan(&map, PlanKind::Rebalance, LAST)?;
        }
        Ok(())
    }

    /// What is to be set for the whole store. Once it is to come to rest, nothing is divided any more.
    fn want_settings(&mut self, map: &Map) -> Outcome {
        let (ops, rest_ms) = self.plan.split_ops.unzip();
        let ops = ops.map(|ops| if self.healing { 0 } else { ops });
        let wanted =
            [("failure-timeout-ms", self.plan.failure_timeout_ms), ("split-ops", ops), ("split-rest-ms", rest_ms)];
        for (name, value) in wanted {
            let Some(now) = value.map(|value| value.to_string()) else { continue };
            let was = map.settings.get(name);
            if was != Some(&now) {
                self.change(&Change::Setting { name: name.to_owned(), was: was.cloned(), now: Some(now) })?;
            }
        }
        Ok(())
    }

    /// A node that the map has had and has no more is switched off.
    fn take_away(&mut self, map: &Map) {
        let gone: Vec<NodeId> =
            self.shaping.known.iter().copied().filter(|node| !map.nodes.contains_key(node)).collect();
        for node in gone {
            let place = place_of(node);
            if self.shaping.dead.insert(place) {
                self.note(format_args!("node {node} is taken away"));
                self.crash(place);
            }
        }
    }

    /// What is not yet as it should be, once nothing goes wrong any more.
    pub(crate) fn unshaped(&self, map: &Map) -> Option<String> {
        if let Some(plan) = map.open_plans().next() {
            let busy = map.steps.keys().chain(map.splits.keys());
            let busy: Vec<String> = busy.map(|shard| format!("shard {shard}:\n{}", self.describe(*shard))).collect();
            return Some(format!(
                "a plan has not ended: {plan:?}; {}; {}; steps {:?}, splits {:?}\n{}\nshard 0:\n{}",
                self.waits(plan.id),
                layout(map),
                map.steps,
                map.splits,
                busy.join("\n"),
                self.describe(ShardId::META)
            ));
        }
        if let Some((shard, split)) = map.splits.iter().next() {
            return Some(format!("shard {shard} is being split off: {split:?}\n{}", self.describe(split.parent)));
        }
        if let Some((shard, step)) = map.steps.iter().next() {
            return Some(format!("shard {shard} has a step: {step:?}"));
        }
        if !map.plans.values().any(|plan| plan.detail == LAST) {
            return Some("the last plan was not begun".to_owned());
        }
        let stranger = (0..self.hosts.len())
            .find(|place| !self.shaping.is_gone(*place) && !map.nodes.contains_key(&node_id(*place)));
        stranger.map(|place| format!("node {} is not in the map", node_id(place)))
    }

    /// What directors say that a plan waits for.
    fn waits(&self, id: PlanId) -> String {
        let pictures = self.hosts.iter().filter_map(|host| host.process.as_ref()?.control.picture());
        let plans = pictures.flat_map(|picture| picture.plans).filter(|plan| plan.id == id.0);
        let waits: Vec<String> = plans.map(|plan| format!("waits for {:?}", plan.waits_for)).collect();
        if waits.is_empty() { "no node directs".to_owned() } else { waits.join(", ") }
    }

    /// A node crashes, and when it comes back the files of one of its trees are damaged. Not while another replica of the
    /// shard is lacking, or about to be taken away to be made anew: what a majority has lost comes back by no means.
    pub(crate) fn damage(&mut self, place: Place) -> Outcome {
        let Some(map) = self.map.clone() else { return Ok(()) };
        let id = node_id(place);
        let shards: Vec<(ShardId, ReplicaId)> =
            map.replicas_on(id).map(|(shard, replica)| (shard, replica.id)).collect();
        let rebuilt = |shard: ShardId| {
            map.open_plans().any(|plan| match plan.kind {
                PlanKind::Rebuild { shard: Some(of), .. } => of == shard,
                PlanKind::Rebuild { node, shard: None } => map.replicas_on(node).any(|(of, _)| of == shard),
                _ => false,
            })
        };
        let able = shards.into_iter().find(|(shard, _)| {
            *shard != ShardId::META
                && !rebuilt(*shard)
                && !map.steps.contains_key(shard)
                && self.shaping.damaged.keys().all(|(damaged, _)| damaged != shard)
                && self.is_whole(&map, *shard)
        });
        let Some((shard, replica)) = able else { return Ok(()) };
        let unwell = |replica: &cluster::ReplicaInfo| self.shaping.is_gone(place_of(replica.node));
        if map.shards[&shard].replicas.iter().any(unwell) || !self.hosts[place].disk.damage(shard) {
            return Ok(());
        }
        self.note(format_args!("the tree of shard {shard} on node {} is damaged", place + 1));
        self.shaping.damaged.insert((shard, id), replica);
        self.crash_for_a_while(place);
        Ok(())
    }

    /// A node dies for good, where no shard loses its majority by that.
    pub(crate) fn kill(&mut self, place: Place) {
        let Some(map) = self.map.clone() else { return };
        let id = node_id(place);
        let left = map.nodes.keys().filter(|node| **node != id && !self.shaping.is_gone(place_of(**node))).count();
        if !map.nodes.contains_key(&id) || !self.is_calm(&map) || left < NODES_MIN {
            return;
        }
        self.note(format_args!("node {id} dies for good"));
        self.die(place);
    }

    /// Nothing will ever run there again.
    pub(crate) fn die(&mut self, place: Place) {
        self.shaping.dead.insert(place);
        self.shaping.died_at = Some(self.now());
        self.crash(place);
    }

    /// Whether nothing is under way or lacking: then it is known what a death takes.
    pub(crate) fn is_calm(&self, map: &Map) -> bool {
        let mourned = |place: &Place| !map.nodes.contains_key(&node_id(*place));
        self.shaping.dead.iter().all(mourned)
            && self.shaping.damaged.is_empty()
            && map.open_plans().next().is_none()
            && map.steps.is_empty()
            && map.splits.is_empty()
            && map.shards.keys().all(|shard| self.is_whole(map, *shard))
    }

    /// Whether all replicas of a shard vote, run, and know of the same members as the map.
    fn is_whole(&self, map: &Map, shard: ShardId) -> bool {
        let info: &ShardInfo = &map.shards[&shard];
        let voters: Vec<ReplicaId> = info.voters().map(|voter| voter.id).collect();
        let knows = |replica: &cluster::ReplicaInfo| {
            let process = self.hosts[place_of(replica.node)].process.as_ref();
            let here = process.and_then(|process| process.core.shard(shard)).map(node::Shard::replica);
            here.is_some_and(|here| {
                let members = here.members();
                here.me() == replica.id
                    && members.voters == voters
                    && members.voters_outgoing.is_empty()
                    && members.learners.is_empty()
            })
        };
        voters.len() >= 3 && voters.len() == info.replicas.len() && info.replicas.iter().all(knows)
    }
}

/// Where everything is, in a few words.
pub fn layout(map: &Map) -> String {
    let of_shard = |(id, info): (&ShardId, &ShardInfo)| {
        let on: Vec<String> = info
            .replicas
            .iter()
            .map(|replica| format!("{}{}", replica.node, if replica.learner { "?" } else { "" }))
            .collect();
        format!("shard {id} on {}", on.join(" "))
    };
    let nodes: Vec<String> = map.nodes.values().map(|node| format!("{} {}", node.id, node.zone)).collect();
    let shards: Vec<String> = map.shards.iter().map(of_shard).collect();
    let (leaving, factor) = (&map.leaving, map.replication_factor);
    format!("nodes {}, leaving {leaving:?}, {factor} replicas: {}", nodes.join(", "), shards.join(", "))
}
