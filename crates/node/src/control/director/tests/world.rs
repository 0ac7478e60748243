//! A toy store: groups that elect, learn and obey at once, messages that may be lost, and a director in the midst.

use crate::control::director::{Director, DirectorAction, StoreStatus};
use crate::format::slots::Slots;
use crate::peer_protocol::{DivisionReport, LeaderReport, MemberReport, NodeFigures, NodeReport, Order, ReplicaReport};
use crate::test_nodes::node_info;
use cluster::{Change, Map, NodeInfo, PlanKind, PlanState, ShardInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vocab::{Moment, NodeId, PlanId, Prng, ReplicaId, ShardId, StoreId};

/// One look of the director.
pub(super) const TICK_US: u64 = 250_000;

/// A shard's group as it really is.
#[derive(Debug)]
pub(super) struct Group {
    /// Members: whether they vote, and what they hold.
    pub(super) members: BTreeMap<ReplicaId, (bool, u64)>,
    pub(super) leader: Option<ReplicaId>,
    pub(super) index: u64,
    pub(super) term: u64,
}

pub(super) struct World {
    pub(super) map: Map,
    pub(super) groups: BTreeMap<ShardId, Group>,
    /// Where each replica is or was.
    homes: BTreeMap<(ShardId, ReplicaId), NodeId>,
    pub(super) up: BTreeSet<NodeId>,
    /// Nodes that are up and so busy that they report nothing.
    pub(super) busy: BTreeSet<NodeId>,
    /// Replicas that are damaged.
    pub(super) broken: BTreeSet<(ShardId, ReplicaId)>,
    pub(super) director: Director,
    pub(super) now_us: u64,
    pub(super) prng: Prng,
    /// Of a hundred proposals and orders, how many are lost.
    pub(super) loss: u64,
    /// How long the others take at the most, in µs. If they take any time, some come twice, and who leads the metadata
    /// group directs.
    pub(super) delay_us: u64,
    mail: Vec<(u64, DirectorAction)>,
    directs: Option<NodeId>,
    /// Until then, the director stands still.
    pub(super) still_until_us: u64,
    /// Shards that elect no leader.
    pub(super) unelected: BTreeSet<ShardId>,
    /// Leaders ignore the director's orders.
    pub(super) deaf: bool,
    /// When each node was started, in ms, if not long ago.
    pub(super) started_ms: BTreeMap<NodeId, u64>,
    /// Replicas that were made.
    pub(super) made: usize,
    /// Operations a second that are asked of slots, and keys in slots, if that matters.
    pub(super) asked: BTreeMap<u16, u64>,
    pub(super) keys: BTreeMap<u16, u64>,
    /// Operations of each shard since its leader leads.
    done: BTreeMap<(ShardId, ReplicaId), u64>,
    halves: BTreeMap<ShardId, (Vec<(u16, u16)>, DivisionReport)>,
    /// Shards with rows that a split has given away.
    pub(super) halved: BTreeSet<ShardId>,
    /// What each key takes, in bytes.
    pub(super) key_bytes: u64,
    /// The most that were filled at once from, and on, one node.
    pub(super) busiest: (usize, usize),
    pub(super) events: Vec<String>,
}

pub(super) fn info(id: u64, zone: &str) -> NodeInfo {
    NodeInfo { zone: zone.to_owned(), ..node_info(id) }
}

fn weight(info: &ShardInfo, weights: &BTreeMap<u16, u64>) -> u64 {
    info.slots.iter().flat_map(|&(first, last)| weights.range(first..=last)).map(|(_, weight)| weight).sum()
}

impl World {
    pub(super) fn new(zones: &[&str], shards: u32, seed: u64) -> Self {
        let nodes: Vec<NodeInfo> = (1..).zip(zones).map(|(id, zone)| info(id, zone)).collect();
        let map = cluster::initial_map(StoreId(1), &nodes, shards, 3).unwrap();
        let groups = map.shards.iter().map(|(id, shard)| {
            let members = shard.replicas.iter().map(|replica| (replica.id, (true, 10))).collect();
            (*id, Group { members, leader: shard.replicas.first().map(|replica| replica.id), index: 10, term: 1 })
        });
        let mut world = Self {
            groups: groups.collect(),
            homes: BTreeMap::new(),
            up: map.nodes.keys().copied().collect(),
            busy: BTreeSet::new(),
            broken: BTreeSet::new(),
            director: Director::new(),
            now_us: 1_000_000_000,
            prng: Prng::new(seed),
            loss: 0,
            delay_us: 0,
            mail: Vec::new(),
            directs: None,
            still_until_us: 0,
            unelected: BTreeSet::new(),
            deaf: false,
            started_ms: BTreeMap::new(),
            made: 0,
            asked: BTreeMap::new(),
            keys: BTreeMap::new(),
            done: BTreeMap::new(),
            halves: BTreeMap::new(),
            key_bytes: 1,
            halved: BTreeSet::new(),
            busiest: (0, 0),
            events: Vec::new(),
            map,
        };
        world.note_homes();
        world
    }

    pub(super) fn now(&self) -> Moment {
        Moment { wall_ms: 1_700_000_000_000 + self.now_us / 1000, mono_us: self.now_us }
    }

    pub(super) fn join(&mut self, id: u64, zone: &str) {
        self.apply(&Change::RegisterNode(info(id, zone)));
        self.up.insert(NodeId(id));
    }

    pub(super) fn begin(&mut self, kind: PlanKind) -> PlanId {
        let id = PlanId(self.map.next_plan);
        let at_ms = self.now().wall_ms;
        cluster::apply(&mut self.map, &Change::BeginPlan { id, kind, at_ms, detail: "a test".to_owned() }).unwrap();
        id
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        let was = self.map.settings.get(name).cloned();
        let (name, now) = (name.to_owned(), Some(value.to_owned()));
        cluster::apply(&mut self.map, &Change::Setting { name, was, now }).unwrap();
    }

    pub(super) fn state(&self, plan: PlanId) -> PlanState {
        self.map.plans[&plan].state
    }

    pub(super) fn status(&self) -> StoreStatus {
        self.director.status(&self.map, self.now())
    }

    /// Replicas of data shards on each node.
    pub(super) fn loads(&self) -> BTreeMap<u64, usize> {
        let on = |node: &NodeId| self.map.replicas_on(*node).filter(|(shard, _)| *shard != ShardId::META).count();
        self.map.nodes.keys().map(|node| (node.0, on(node))).collect()
    }

    pub(super) fn leads(&self) -> BTreeMap<u64, usize> {
        let mut leads: BTreeMap<u64, usize> = self.map.nodes.keys().map(|node| (node.0, 0)).collect();
        for (shard, group) in self.groups.iter().filter(|(shard, _)| **shard != ShardId::META) {
            let node = group.leader.map(|leader| self.homes[&(*shard, leader)]);
            node.into_iter().for_each(|node| *leads.get_mut(&node.0).unwrap() += 1);
        }
        leads
    }

    pub(super) fn run(&mut self, seconds: u64) {
        let until_us = self.now_us + seconds * 1_000_000;
        while self.now_us < until_us {
            self.step();
        }
    }

    /// Runs until that holds; panics if it does not come about in so many seconds.
    pub(super) fn run_until(&mut self, what: &str, seconds: u64, holds: impl Fn(&Self) -> bool) {
        let until_us = self.now_us + seconds * 1_000_000;
        while !holds(self) {
            assert!(
                self.now_us < until_us,
                "{what}: not within {seconds} s\n{:#?}\n{:?}",
                self.map.plans,
                self.map.steps
            );
            self.step();
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.map.steps.is_empty() && self.map.open_plans().next().is_none()
    }

    /// The node that directs.
    pub(super) fn directing(&self) -> NodeId {
        self.homes[&(ShardId::META, self.groups[&ShardId::META].leader.unwrap())]
    }

    /// One look of the director.
    pub(super) fn step(&mut self) {
        self.now_us += TICK_US;
        self.elect();
        self.fill();
        self.ask();
        self.mail.sort_by_key(|(at_us, _)| *at_us);
        let due = self.mail.partition_point(|(at_us, _)| *at_us <= self.now_us);
        for (_, action) in self.mail.drain(..due).collect::<Vec<_>>() {
            self.act(action);
        }
        if self.now_us >= self.still_until_us && self.succeed() {
            if self.now_us.is_multiple_of(2 * TICK_US) {
                self.report();
            }
            let (now, map) = (self.now(), Arc::new(self.map.clone()));
            for action in self.director.tick(now, &map) {
                self.send(action);
            }
        }
        self.check();
    }

    /// Whether anybody directs. One who has just begun to knows nothing.
    fn succeed(&mut self) -> bool {
        let leader = self.groups[&ShardId::META].leader;
        let directs = leader.map(|leader| self.homes[&(ShardId::META, leader)]);
        if self.delay_us > 0 && directs != self.directs {
            self.directs = directs;
            self.director = Director::new();
        }
        self.delay_us == 0 || directs.is_some()
    }

    fn send(&mut self, action: DirectorAction) {
        if self.prng.below(100) < self.loss {
            return;
        }
        if self.delay_us == 0 {
            return self.act(action);
        }
        for _ in 0..1 + self.prng.below(8) / 7 {
            let soon = self.prng.below(3) > 0;
            let delay_us = self.prng.below(if soon { TICK_US } else { self.delay_us });
            self.mail.push((self.now_us + delay_us, action.clone()));
        }
    }

    fn act(&mut self, action: DirectorAction) {
        match action {
            DirectorAction::Propose(Change::Event { kind, text, .. }) => self.events.push(format!("{kind}: {text}")),
            DirectorAction::Propose(change) => self.apply(&change),
            DirectorAction::Order { node, shard, order } => self.obey(node, shard, &order),
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        let before = self.homes.len();
        // What comes too late is refused, and asked for again if it is still wanted.
        let _: Result<_, _> = cluster::apply(&mut self.map, change);
        self.note_homes();
        self.made += self.homes.len() - before;
    }

    fn note_homes(&mut self) {
        for (shard, info) in &self.map.shards {
            info.replicas.iter().for_each(|replica| _ = self.homes.insert((*shard, replica.id), replica.node));
        }
    }

    pub(super) fn home(&self, shard: ShardId, replica: ReplicaId) -> NodeId {
        self.homes[&(shard, replica)]
    }

    fn lives(&self, shard: ShardId, replica: ReplicaId) -> bool {
        self.up.contains(&self.homes[&(shard, replica)]) && !self.broken.contains(&(shard, replica))
    }

    fn elect(&mut self) {
        let shards: Vec<ShardId> = self.groups.keys().copied().collect();
        for shard in shards {
            let group = &self.groups[&shard];
            let voters: Vec<ReplicaId> = group.members.iter().filter(|of| of.1.0).map(|of| *of.0).collect();
            let alive: Vec<ReplicaId> = voters.iter().copied().filter(|id| self.lives(shard, *id)).collect();
            let has_majority = alive.len() > voters.len() / 2;
            let has_majority = has_majority && !self.unelected.contains(&shard);
            let stays = group.leader.is_some_and(|leader| alive.contains(&leader) && has_majority);
            let newest = alive.iter().copied().max_by_key(|id| (group.members[id].1, std::cmp::Reverse(*id)));
            let group = self.groups.get_mut(&shard).unwrap();
            if !stays {
                group.leader = newest.filter(|_| has_majority);
                group.term += u64::from(group.leader.is_some());
            }
        }
    }

    /// Followers get what they lack, at most one that is far behind from each leader's node at a time.
    fn fill(&mut self) {
        let shards: Vec<ShardId> = self.groups.keys().copied().collect();
        let (mut from, mut on): (BTreeMap<NodeId, usize>, BTreeMap<NodeId, usize>) = Default::default();
        for shard in shards {
            let group = &self.groups[&shard];
            let Some(leader) = group.leader else { continue };
            let (source, index) = (self.homes[&(shard, leader)], group.index);
            let lacking: Vec<ReplicaId> = group.members.iter().filter(|of| of.1.1 < index).map(|of| *of.0).collect();
            for id in lacking {
                let (home, votes) = (self.homes[&(shard, id)], self.groups[&shard].members[&id].0);
                let is_open = self.map.replica(shard, id).is_some_and(|replica| replica.node == home);
                if is_open && self.lives(shard, id) {
                    let member = self.groups.get_mut(&shard).unwrap().members.get_mut(&id).unwrap();
                    // Its rows take four looks to arrive.
                    member.1 = if votes { index } else { (member.1 + index.div_ceil(4)).min(index) };
                    if !votes {
                        *from.entry(source).or_default() += 1;
                        *on.entry(home).or_default() += 1;
                    }
                }
            }
        }
        let most = |of: BTreeMap<NodeId, usize>| of.into_values().max().unwrap_or(0);
        self.busiest = (self.busiest.0.max(most(from)), self.busiest.1.max(most(on)));
    }

    fn ask(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        for (shard, group) in &self.groups {
            let Some((leader, info)) = group.leader.zip(self.map.shards.get(shard)) else { continue };
            let rate = weight(info, &self.asked);
            *self.done.entry((*shard, leader)).or_default() += rate * TICK_US / 1_000_000;
        }
    }

    /// What a shard is asked a second, and how many keys it has.
    pub(super) fn weights(&self, shard: ShardId) -> (u64, u64) {
        let info = &self.map.shards[&shard];
        (weight(info, &self.asked), weight(info, &self.keys))
    }

    fn division(&mut self, shard: ShardId) -> Option<DivisionReport> {
        let leader = self.groups[&shard].leader?;
        if self.asked.is_empty() && self.keys.is_empty() {
            return None;
        }
        let slots = &self.map.shards.get(&shard)?.slots;
        let operations = self.done.get(&(shard, leader)).copied().unwrap_or_default();
        if let Some((of, halves)) = self.halves.get(&shard)
            && of == slots
        {
            return Some(DivisionReport { operations, ..*halves });
        }
        let all = Slots::from(slots.clone());
        let halves =
            |weights: &BTreeMap<u16, u64>| all.halves(|slot| weights.get(&slot.0).copied().unwrap_or_default());
        let (by_keys, by_load) = (halves(&self.keys).map(|(slot, _)| slot), halves(&self.asked));
        let division = DivisionReport { operations, by_keys, by_load };
        self.halves.insert(shard, (slots.clone(), division));
        Some(division)
    }

    fn report(&mut self) {
        let shards: Vec<ShardId> = self.groups.keys().copied().collect();
        let divisions: BTreeMap<ShardId, DivisionReport> =
            shards.into_iter().filter_map(|shard| Some((shard, self.division(shard)?))).collect();
        for node in self.up.difference(&self.busy).copied().collect::<Vec<_>>() {
            let replicas = self.map.replicas_on(node).filter_map(|(shard, replica)| {
                let group = self.groups.get(&shard)?;
                let leads = group.leader == Some(replica.id);
                let member = |(id, (votes, matched)): (&ReplicaId, &(bool, u64))| MemberReport {
                    id: *id,
                    votes: *votes,
                    active: self.lives(shard, *id),
                    matched: *matched,
                };
                let known = LeaderReport {
                    index: group.index,
                    joint: false,
                    members: group.members.iter().map(member).collect(),
                };
                let held = group.members.get(&replica.id).map_or(0, |of| of.1);
                Some(ReplicaReport {
                    shard,
                    replica: replica.id,
                    is_halved: leads && self.halved.contains(&shard),
                    bytes: (100 << 20) + self.weights(shard).1 * self.key_bytes,
                    keys: 1000,
                    applied: held,
                    last: held,
                    last_term: 1,
                    term: group.term,
                    leads: leads.then_some(known),
                    division: divisions.get(&shard).copied().filter(|_| leads),
                    broken: self.broken.contains(&(shard, replica.id)).then(|| "damaged".to_owned()),
                })
            });
            let started_ms = self.started_ms.get(&node).copied().unwrap_or(1);
            let figures = NodeFigures { can_write: true, started_ms, ..NodeFigures::default() };
            let report = NodeReport { figures, replicas: replicas.collect(), transfers: Vec::new() };
            let report = NodeReport::decode(&report.encode()).unwrap();
            let now = self.now();
            self.director.report(node, report, now);
        }
    }

    fn obey(&mut self, node: NodeId, shard: ShardId, order: &Order) {
        if self.deaf || !self.up.contains(&node) || !self.groups.contains_key(&shard) {
            return;
        }
        if let Order::Split { child, .. } = order {
            return self.divide(node, shard, *child);
        }
        let homes = &self.homes;
        let alive: BTreeSet<ReplicaId> =
            self.groups[&shard].members.keys().copied().filter(|id| self.lives(shard, *id)).collect();
        let group = self.groups.get_mut(&shard).unwrap();
        if let Order::Recover { replica } = order {
            let id = ReplicaId(*replica);
            if group.members.keys().eq([&id]) {
                return;
            }
            assert!(group.leader.is_none() && homes[&(shard, id)] == node, "recovered although it is led");
            assert!(group.members.contains_key(&id), "another one goes on alone already: {:?}", group.members);
            group.members.retain(|other, _| *other == id);
            (group.leader, group.term, group.index) = (Some(id), group.term + 1, group.index + 1);
            group.members.get_mut(&id).unwrap().1 = group.index;
            return;
        }
        let Some(leader) = group.leader.filter(|leader| homes[&(shard, *leader)] == node) else { return };
        let holds = |id: &ReplicaId, group: &Group| alive.contains(id) && group.members[id].1 >= group.index;
        let changed = match order {
            Order::Transfer { to } => {
                let to = group.members.keys().copied().find(|id| homes[&(shard, *id)] == *to);
                if let Some(to) = to.filter(|to| group.members[to].0 && holds(to, group)) {
                    (group.leader, group.term) = (Some(to), group.term + 1);
                }
                false
            }
            Order::Add { replica, .. } => {
                let id = ReplicaId(*replica);
                !group.members.contains_key(&id) && group.members.insert(id, (false, 0)).is_none()
            }
            Order::Promote { replica } => {
                let id = ReplicaId(*replica);
                let ready = group.members.get(&id).is_some_and(|of| !of.0) && holds(&id, group);
                ready && group.members.get_mut(&id).is_some_and(|of| std::mem::replace(&mut of.0, true) || of.0)
            }
            Order::Remove { replica } => {
                let id = ReplicaId(*replica);
                let stay: Vec<ReplicaId> =
                    group.members.iter().filter(|of| of.1.0 && *of.0 != id).map(|of| *of.0).collect();
                let sound: Vec<ReplicaId> = stay.iter().copied().filter(|id| holds(id, group)).collect();
                let votes = group.members.get(&id).is_some_and(|of| of.0);
                if votes && sound.len() <= stay.len() / 2 {
                    false
                } else if id == leader {
                    (group.leader, group.term) = (sound.first().copied(), group.term + 1);
                    false
                } else {
                    group.members.remove(&id).is_some()
                }
            }
            Order::Recover { .. } | Order::Split { .. } => false,
        };
        if changed {
            group.index += 1;
            group.members.get_mut(&leader).unwrap().1 = group.index;
            let of = |votes: bool| group.members.iter().filter(|of| of.1.0 == votes).map(|of| *of.0).collect();
            let change =
                Change::SetReplicas { shard, members_index: group.index, voters: of(true), learners: of(false) };
            self.send(DirectorAction::Propose(change));
        }
    }

    /// A shard's leader gives slots to a new shard, whose members are its own, or says once more that it has.
    fn divide(&mut self, node: NodeId, shard: ShardId, child: ShardId) {
        let group = &self.groups[&shard];
        if group.leader.is_some_and(|leader| self.homes[&(shard, leader)] == node) {
            if !self.groups.contains_key(&child) {
                let made = Group { members: group.members.clone(), ..*group };
                for id in made.members.keys() {
                    let home = self.homes[&(shard, *id)];
                    self.homes.insert((child, *id), home);
                }
                self.groups.insert(child, made);
            }
            self.send(DirectorAction::Propose(Change::EndSplit { child }));
        }
    }

    fn check(&self) {
        self.map.validate().unwrap();
        for (shard, group) in &self.groups {
            let newest = group.members.iter().filter(|of| of.1.0 && of.1.1 >= group.index).count();
            assert!(newest > 0, "shard {shard}: no replica holds what was written: {group:?}");
            // What came into the group after the map had given it up is on its way out.
            let known: Vec<ReplicaId> =
                group.members.keys().copied().filter(|id| self.map.replica(*shard, *id).is_some()).collect();
            let homes: BTreeSet<NodeId> = known.iter().map(|id| self.homes[&(*shard, *id)]).collect();
            assert_eq!(homes.len(), known.len(), "shard {shard}: two members on one node");
        }
    }
}
