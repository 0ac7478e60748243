//! Whatever operators have wanted and whatever has failed: once nothing more happens, the director brings the store to rest
//! by itself. Every plan ends, every shard has as many replicas as it is to have, where the rules want them, and nothing
//! is left of what was given up.

use super::world::World;
use cluster::placement::{Observed, Why, next_moves};
use cluster::{Change, PlanKind, PlanState};
use std::collections::BTreeSet;
use vocab::{NodeId, PlanId, Prng, ReplicaId, ShardId, Slot};

/// Within so many seconds after the last event all is at rest.
const REST_S: u64 = 600;
/// For so many it has to stay so.
const STAY_S: u64 = 30;

/// Zones that a store may have.
const ZONES: [&[&str]; 4] = [&[""], &["a", "b"], &["a", "b", "c"], &["a", "b", "c", "d"]];

/// A store, and what its operators and fate do to it.
struct Trial {
    world: World,
    prng: Prng,
    /// Nodes that never come back.
    dead: BTreeSet<NodeId>,
    zones: &'static [&'static str],
    next: u64,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let zones = ZONES[prng.below(4) as usize];
        let nodes = 3 + prng.below(5);
        let of: Vec<&str> = (0..nodes).map(|at| zones[at as usize % zones.len()]).collect();
        let mut world = World::new(&of, 1 + prng.below(5) as u32, seed);
        world.set("failure-timeout-ms", "8000");
        (world.loss, world.delay_us) =
            ([0, 10, 40][prng.below(3) as usize], [1, 300_000, 4_000_000][prng.below(3) as usize]);
        Self { world, prng, dead: BTreeSet::new(), zones, next: nodes + 1 }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.prng.below(of.len() as u64) as usize]
    }

    fn chaos(&mut self) {
        for _ in 0..5 + self.prng.below(30) {
            self.event();
            let most = self.pick(&[4, 8, 8, 60]);
            for _ in 0..self.prng.below(most) {
                self.world.step();
            }
        }
    }

    fn event(&mut self) {
        let nodes: Vec<NodeId> = self.world.map.nodes.keys().copied().collect();
        let node = self.pick(&nodes);
        match self.prng.below(20) {
            0 | 1 => _ = self.world.up.remove(&node),
            2..=4 => self.world.up.extend(nodes.iter().filter(|node| !self.dead.contains(*node))),
            5 if self.next < 10 => {
                let zone = self.pick(self.zones);
                self.world.join(self.next, zone);
                self.next += 1;
            }
            6 => self.capacity(node),
            7 => self.world.still_until_us = self.world.now_us + self.prng.below(20_000_000),
            8 => self.kill(node),
            9 => self.damage(node),
            10..=12 => self.second_thoughts(),
            _ => {
                let kind = self.draw(&nodes, node);
                self.begin(kind);
            }
        }
    }

    fn begin(&mut self, kind: PlanKind) {
        let id = PlanId(self.world.map.next_plan);
        let at_ms = self.world.now().wall_ms;
        self.world.apply(&Change::BeginPlan { id, kind, at_ms, detail: "a trial".to_owned() });
    }

    fn set_plan(&mut self, id: PlanId, was: PlanState, now: PlanState) {
        self.world.apply(&Change::SetPlan { id, was, now, at_ms: 1, detail: now.word().to_owned() });
    }

    fn second_thoughts(&mut self) {
        let open: Vec<(PlanId, PlanState)> = self.world.map.open_plans().map(|plan| (plan.id, plan.state)).collect();
        if !open.is_empty() {
            let (id, was) = self.pick(&open);
            let now = self.pick(&[PlanState::Paused, PlanState::Running, PlanState::Cancelled, PlanState::Cancelled]);
            self.set_plan(id, was, now);
        }
    }

    fn draw(&mut self, nodes: &[NodeId], node: NodeId) -> PlanKind {
        let shards: Vec<ShardId> = self.world.map.shards.keys().copied().collect();
        let (shard, other) = (self.pick(&shards), self.pick(nodes));
        let held: Vec<NodeId> = self.world.map.shards[&shard].replicas.iter().map(|replica| replica.node).collect();
        let from = self.pick(&held);
        match self.prng.below(22) {
            0..4 => PlanKind::MoveShard { shard, from, to: node },
            4..6 if self.may_go(node) => PlanKind::DrainNode(node),
            6 if self.may_go(node) => PlanKind::RemoveNode(node),
            7 if self.may_go(node) => PlanKind::ReplaceNode { node, with: other },
            8..10 => PlanKind::AddNode(node),
            10 => PlanKind::Rebalance,
            11 => PlanKind::BalanceLeaders,
            12 => PlanKind::DrainLeaders(node),
            13..16 => PlanKind::SetReplicationFactor(1 + self.prng.below(5) as u32),
            16 | 17 => PlanKind::ChangeZone { node, zone: self.pick(self.zones).to_owned() },
            18 => PlanKind::SplitShard { shard, at: Some(Slot(self.prng.below(1 << 14) as u16)) },
            19 => PlanKind::SplitShard { shard, at: None },
            20 => PlanKind::Rebuild { node, shard: None },
            _ => PlanKind::Rebuild { node: from, shard: Some(shard) },
        }
    }

    /// Whether enough nodes stay without that one.
    fn may_go(&self, node: NodeId) -> bool {
        let map = &self.world.map;
        let stays = |id: &&NodeId| **id != node && !map.leaving.contains(id) && !self.dead.contains(id);
        map.nodes.keys().filter(stays).filter(|id| map.nodes[*id].capacity > 0).count() >= 3
    }

    /// A node is given another weight, or is to hold nothing.
    fn capacity(&mut self, node: NodeId) {
        let was = self.world.map.nodes[&node].clone();
        let capacity = if self.may_go(node) { self.prng.below(3) } else { 1 };
        self.world.apply(&Change::UpdateNode { was: was.clone(), now: cluster::NodeInfo { capacity, ..was } });
    }

    /// Whether every group keeps a sound majority without what is on that node, or without one replica of one shard there.
    fn may_lose(&self, node: NodeId, shard: Option<ShardId>) -> bool {
        let world = &self.world;
        world.groups.iter().filter(|(id, _)| shard.is_none_or(|shard| shard == **id)).all(|(id, group)| {
            let voters: Vec<ReplicaId> = group.members.iter().filter(|of| of.1.0).map(|of| *of.0).collect();
            let sound = |replica: &ReplicaId| {
                let home = world.home(*id, *replica);
                home != node && !self.dead.contains(&home) && !world.broken.contains(&(*id, *replica))
            };
            let newest = |replica: &ReplicaId| sound(replica) && group.members[replica].1 >= group.index;
            voters.iter().filter(|id| sound(id)).count() > voters.len() / 2 && voters.iter().any(newest)
        })
    }

    fn kill(&mut self, node: NodeId) {
        if self.dead.len() < 2 && self.may_go(node) && self.may_lose(node, None) {
            self.world.up.remove(&node);
            self.dead.insert(node);
        }
    }

    fn damage(&mut self, node: NodeId) {
        let held: Vec<(ShardId, ReplicaId)> =
            self.world.map.replicas_on(node).filter(|(_, of)| of.member).map(|(shard, of)| (shard, of.id)).collect();
        if held.is_empty() {
            return;
        }
        let (shard, replica) = self.pick(&held);
        if self.may_lose(node, Some(shard)) {
            self.world.broken.insert((shard, replica));
        }
    }

    /// Nothing fails any more, and operators do what only they can: dead nodes are removed, damaged replicas rebuilt, nodes
    /// that were to be restarted are, and what was paused goes on.
    fn mend(&mut self) {
        (self.world.loss, self.world.still_until_us) = (0, 0);
        let map = self.world.map.clone();
        let now_ms = self.world.now().wall_ms;
        for &node in map.nodes.keys() {
            if self.dead.contains(&node) {
                self.begin(PlanKind::RemoveNode(node));
            } else {
                self.world.up.insert(node);
                let drained = map.open_plans().any(|plan| plan.kind == PlanKind::DrainLeaders(node));
                _ = drained.then(|| self.world.started_ms.insert(node, now_ms));
            }
        }
        for (shard, replica) in self.world.broken.clone() {
            if let Some(of) = map.replica(shard, replica) {
                self.begin(PlanKind::Rebuild { node: of.node, shard: Some(shard) });
            }
        }
        for plan in map.open_plans().filter(|plan| plan.state == PlanState::Paused) {
            self.set_plan(plan.id, PlanState::Paused, PlanState::Running);
        }
    }

    /// What keeps the store from being at rest.
    fn unrest(&self) -> Option<String> {
        let map = &self.world.map;
        if let Some(plan) = map.open_plans().next() {
            let status = self.world.status();
            let waits = status.plans.iter().find(|of| of.id == plan.id.0).and_then(|of| of.waits_for.clone());
            return Some(format!("{plan:?} waits for {waits:?}"));
        }
        if !map.steps.is_empty() || !map.splits.is_empty() {
            return Some(format!("under way: {:?} {:?}", map.steps, map.splits));
        }
        let observed = Observed { leaving: map.leaving.clone(), ..Observed::default() };
        if let Some(step) = next_moves(map, &observed).iter().find(|step| step.why != Why::Balance) {
            return Some(format!("{step:?} is to be made"));
        }
        map.shards.iter().find_map(|(shard, of)| {
            let voters = self.world.groups[shard].members.iter().filter(|of| of.1.0).map(|of| *of.0);
            let same =
                of.replicas.iter().map(|replica| replica.id).eq(voters) && of.voters().count() == of.replicas.len();
            let members = self.world.groups[shard].members.len();
            (!same || members != of.replicas.len()).then(|| format!("shard {shard} is not as its group is"))
        })
    }

    fn describe(&self) -> String {
        let map = &self.world.map;
        let mut text = format!("factor {}, leaving {:?}, dead {:?}\n", map.replication_factor, map.leaving, self.dead);
        map.nodes.values().for_each(|of| text += &format!("node {} {:?} {}\n", of.id.0, of.zone, of.capacity));
        for (shard, of) in &map.shards {
            text += &format!("shard {shard}: {:?}\n  {:?}\n", of.replicas, self.world.groups.get(shard));
        }
        map.plans.values().for_each(|plan| text += &format!("{plan:?}\n"));
        text + &format!("steps {:?}, splits {:?}, broken {:?}", map.steps, map.splits, self.world.broken)
    }

    /// Runs to the end, and says what went wrong.
    fn run(mut self) -> Result<(), String> {
        self.chaos();
        let until_us = self.world.now_us + REST_S * 1_000_000;
        let mut since: Option<(u64, vocab::Epoch)> = None;
        loop {
            // Operators look every five seconds.
            if self.world.now_us.is_multiple_of(5_000_000) || self.world.loss > 0 {
                self.mend();
            }
            self.world.step();
            let unrest = self.unrest();
            let epoch = self.world.map.epoch;
            if unrest.is_none() {
                match since.filter(|(_, before)| *before == epoch) {
                    Some((since_us, _)) if self.world.now_us >= since_us + STAY_S * 1_000_000 => return Ok(()),
                    Some(_) => {}
                    None => since = Some((self.world.now_us, epoch)),
                }
            }
            if self.world.now_us > until_us {
                let what = unrest.unwrap_or_else(|| "it does not stay at rest".to_owned());
                return Err(format!("{what}\n{}", self.describe()));
            }
        }
    }
}

/// BASALT_TRIALS says how many; BASALT_TRIAL, which is the first.
#[test]
fn when_nothing_more_happens_all_comes_to_rest() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("BASALT_TRIAL").unwrap_or(1), number("BASALT_TRIALS").unwrap_or(100));
    let mut failed = Vec::new();
    for seed in first..first + count {
        let trial = std::panic::AssertUnwindSafe(|| Trial::new(seed).run());
        let text = match std::panic::catch_unwind(trial) {
            Ok(Ok(())) => continue,
            Ok(Err(text)) => text,
            Err(_) => "it panics".to_owned(),
        };
        failed.push(seed);
        if failed.len() == 1 {
            println!("trial {seed}: {text}");
        } else {
            println!("trial {seed}: {}", text.lines().next().unwrap_or_default());
        }
    }
    assert!(failed.is_empty(), "{} of {count} trials did not come to rest: {failed:?}", failed.len());
}
