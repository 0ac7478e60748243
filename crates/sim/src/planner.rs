//! What operators want of the store's shape: plans at random, damaged replicas rebuilt, dead nodes removed, settings. They can
//! only propose; the director does it.

use crate::casualties::{Casualties, NODES_MIN};
use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::control;
use crate::places::{node_id, place_of};
use crate::request::key_name;
use crate::store::Store;
use cluster::{Change, Map, PlanKind, PlanState, ShardInfo};
use vocab::{NodeId, PlanId, SLOT_COUNT, ShardId, Slot, slot_of};

/// Data shards that splits make at the most; twice as many as there were, if that is more.
const SHARDS_MAX: usize = 8;
/// How many of a thousand looks want a shard divided, where shards are.
const SPLITS_PER_MILLE: u64 = 60;
/// The text of the last plan of a run.
const LAST: &str = "the last plan";

/// A look of an operator at a store, as of a map: what is proposed goes by what that map says.
pub struct Planner<'a> {
    store: &'a mut Store,
    casualties: &'a mut Casualties,
    map: &'a Map,
}

impl<'a> Planner<'a> {
    /// A look at a store.
    pub fn new(store: &'a mut Store, casualties: &'a mut Casualties, map: &'a Map) -> Self {
        Self { store, casualties, map }
    }

    /// Some node brings a change of the map to the metadata group, or tries to.
    fn change(&mut self, change: &Change) -> Outcome {
        let place = self.store.env.below(self.store.env.plan().nodes as u64) as usize;
        control::propose(self.store, place, change)
    }

    fn begin_plan(&mut self, kind: PlanKind, detail: &str) -> Outcome {
        if self.map.open_plans().any(|plan| plan.kind == kind) {
            return Ok(());
        }
        let (id, at_ms) = (PlanId(self.map.next_plan), self.store.moment(0).wall_ms);
        self.store.env.note(format_args!("plan {id} is wanted: {kind:?}"));
        self.change(&Change::BeginPlan { id, kind, at_ms, detail: detail.to_owned() })
    }

    fn set_plan(&mut self, id: PlanId, was: PlanState, now: PlanState) -> Outcome {
        let at_ms = self.store.moment(0).wall_ms;
        self.store.env.note(format_args!("plan {id} is to be {}", now.word()));
        self.change(&Change::SetPlan { id, was, now, at_ms, detail: now.word().to_owned() })
    }

    /// An operator begins a plan, or has second thoughts about one.
    pub fn want(&mut self) -> Outcome {
        if self.casualties.is_shock(self.store.env.now()) {
            return Ok(());
        }
        let open: Vec<(PlanId, PlanState)> = self.map.open_plans().map(|plan| (plan.id, plan.state)).collect();
        if !open.is_empty() && self.store.env.happens(250) {
            let (id, was) = *self.store.env.pick(&open);
            let now = *self.store.env.pick(&[PlanState::Paused, PlanState::Running, PlanState::Cancelled]);
            return self.set_plan(id, was, now);
        }
        match self.draw_kind() {
            Some(kind) => self.begin_plan(kind, "drawn"),
            None => Ok(()),
        }
    }

    fn draw_kind(&mut self) -> Option<PlanKind> {
        let (map, env) = (self.map, &mut self.store.env);
        let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
        let shards: Vec<ShardId> = map.shards.keys().copied().collect();
        let (node, other) = (*env.pick(&nodes), *env.pick(&nodes));
        let shard = *env.pick(&shards);
        let staying = nodes.iter().filter(|id| !map.leaving.contains(id) && !self.casualties.is_gone(place_of(**id)));
        let may_leave = staying.filter(|id| **id != node).count() >= NODES_MIN;
        let held: Vec<NodeId> = map.shards[&shard].replicas.iter().map(|replica| replica.node).collect();
        let from = *env.pick(&held);
        Some(match env.below(106) {
            0..20 => PlanKind::MoveShard { shard, from, to: node },
            20..30 if may_leave => PlanKind::DrainNode(node),
            30..42 => PlanKind::AddNode(node),
            42..48 if may_leave => PlanKind::ReplaceNode { node, with: other },
            48..54 if may_leave => PlanKind::RemoveNode(node),
            54..64 => PlanKind::Rebalance,
            64..72 => PlanKind::BalanceLeaders,
            72..80 => PlanKind::DrainLeaders(node),
            80..88 => {
                let factors = env.plan().factors();
                PlanKind::SetReplicationFactor(*env.pick(factors))
            }
            88..94 if env.plan().zones > 1 => {
                let zone = format!("zone{}", env.below(env.plan().zones as u64));
                PlanKind::ChangeZone { node, zone }
            }
            94..97 => PlanKind::Rebuild { node, shard: None },
            97..100 => PlanKind::Rebuild { node: from, shard: Some(shard) },
            100..106 => return self.draw_split(),
            _ => return None,
        })
    }

    /// An operator wants a shard divided, or all.
    pub fn want_split(&mut self) -> Outcome {
        match self.draw_split() {
            Some(kind) => self.begin_plan(kind, "drawn"),
            None => Ok(()),
        }
    }

    /// At a slot that has keys, at any, or in the middle.
    fn draw_split(&mut self) -> Option<PlanKind> {
        let (map, env) = (self.map, &mut self.store.env);
        let shards: Vec<ShardId> = map.data_shards().map(|(shard, _)| shard).collect();
        if shards.len() >= SHARDS_MAX.max(2 * env.plan().shards as usize) {
            return None;
        }
        if env.happens(100) {
            return Some(PlanKind::SplitAll);
        }
        let shard = *env.pick(&shards);
        let used = |group: usize| slot_of(&key_name(group, 0));
        let groups = (0..env.plan().groups).map(used).filter(|slot| map.shards[&shard].owns(*slot));
        let mut slots: Vec<Slot> = groups.collect();
        slots.push(Slot(env.below(u64::from(SLOT_COUNT)) as u16));
        let at = if env.happens(600) { Some(*env.pick(&slots)) } else { None };
        Some(PlanKind::SplitShard { shard, at })
    }

    /// Looks at what is still to be done for the store's shape.
    pub fn look(&mut self) -> Outcome {
        self.casualties.take_away(self.store, self.map);
        self.want_settings()?;
        self.recover()?;
        for place in self.casualties.dead() {
            if self.map.nodes.contains_key(&node_id(place)) && self.store.env.happens(200) {
                self.begin_plan(PlanKind::RemoveNode(node_id(place)), "it is dead")?;
            }
        }
        for (shard, node) in self.casualties.damaged(self.map) {
            // As a rule the director has done it before.
            if self.store.env.happens(20) {
                self.begin_plan(PlanKind::Rebuild { node, shard: Some(shard) }, "it is damaged")?;
            }
        }
        if !self.store.env.is_healing() {
            let divides = self.store.env.plan().faults.splits && self.store.env.happens(SPLITS_PER_MILLE);
            return if divides { self.want_split() } else { Ok(()) };
        }
        let paused = self.map.open_plans().filter(|plan| plan.state == PlanState::Paused).map(|plan| plan.id);
        for id in paused.collect::<Vec<PlanId>>() {
            self.set_plan(id, PlanState::Paused, PlanState::Running)?;
        }
        if self.map.open_plans().next().is_none() && !self.map.plans.values().any(|plan| plan.detail == LAST) {
            self.begin_plan(PlanKind::Rebalance, LAST)?;
        }
        Ok(())
    }

    /// Goes on with what is left of shards that have lost their majority, once a node can be asked for it.
    fn recover(&mut self) -> Outcome {
        let lost = self.store.checks.lost().to_vec();
        let begun = |plan: &cluster::Plan| {
            matches!(plan.kind, PlanKind::UnsafeRecover(_)) && !matches!(plan.state, PlanState::Cancelled)
        };
        let waits = self.casualties.is_grief(self.store.env.now());
        if lost.is_empty() || waits || self.map.plans.values().any(begun) || !self.store.env.happens(100) {
            return Ok(());
        }
        self.begin_plan(PlanKind::UnsafeRecover(lost), "a majority is lost")
    }

    /// What is to be set for the whole store. Once it is to come to rest, nothing is divided any more.
    fn want_settings(&mut self) -> Outcome {
        let (ops, rest_ms) = self.store.env.plan().split_ops.unzip();
        let ops = ops.map(|ops| if self.store.env.is_healing() { 0 } else { ops });
        let timeout_ms = self.store.env.plan().failure_timeout_ms;
        let wanted = [
            ("failure-timeout-ms", timeout_ms),
            ("split-ops", ops),
            ("own-shard-ops", ops),
            ("split-rest-ms", rest_ms),
        ];
        for (name, value) in wanted {
            let Some(now) = value.map(|value| value.to_string()) else { continue };
            let was = self.map.settings.get(name);
            if was != Some(&now) {
                self.change(&Change::Setting { name: name.to_owned(), was: was.cloned(), now: Some(now) })?;
            }
        }
        Ok(())
    }
}

/// What is not yet as it should be, once nothing goes wrong any more.
#[must_use]
pub fn unshaped(store: &Store, casualties: &Casualties, map: &Map) -> Option<String> {
    let describe = |shard: ShardId| store.nodes.describe(Some(map), shard);
    if let Some(plan) = map.open_plans().next() {
        let busy = map.steps.keys().chain(map.splits.keys());
        let busy: Vec<String> = busy.map(|shard| format!("shard {shard}:\n{}", describe(*shard))).collect();
        return Some(format!(
            "a plan has not ended: {plan:?}; {}; {}; steps {:?}, splits {:?}\n{}\nshard 0:\n{}",
            waits(store, plan.id),
            layout(map),
            map.steps,
            map.splits,
            busy.join("\n"),
            describe(ShardId::META)
        ));
    }
    if let Some((shard, split)) = map.splits.iter().next() {
        return Some(format!("shard {shard} is being split off: {split:?}\n{}", describe(split.parent)));
    }
    if let Some((shard, step)) = map.steps.iter().next() {
        return Some(format!("shard {shard} has a step: {step:?}"));
    }
    if !map.plans.values().any(|plan| plan.detail == LAST) {
        return Some("the last plan was not begun".to_owned());
    }
    let stranger =
        (0..store.nodes.count()).find(|place| !casualties.is_gone(*place) && !map.nodes.contains_key(&node_id(*place)));
    stranger.map(|place| format!("node {} is not in the map", node_id(place)))
}

/// What directors say that a plan waits for.
fn waits(store: &Store, id: PlanId) -> String {
    let statuses = store.nodes.iter().filter_map(|host| host.process.as_ref()?.control.status());
    let plans = statuses.flat_map(|status| status.plans).filter(|plan| plan.id == id.0);
    let waits: Vec<String> = plans.map(|plan| format!("waits for {:?}", plan.waits_for)).collect();
    if waits.is_empty() { "no node directs".to_owned() } else { waits.join(", ") }
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
