//! A group of replicas in one thread: a network that delays, drops and doubles, machines that crash, and a seed that
//! decides all of it.

// Each test file uses a part of it.
#![allow(dead_code)]

pub mod history;
pub mod node;

use history::History;
use node::{Node, Parcel};
use replica::{MemberChange, MemberKind, Members};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Prng, ReplicaId};

/// Steps between two ticks of a replica's clock.
const TICK_STEPS: u64 = 10;

/// What can go wrong.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// Of a thousand messages, so many are lost.
    pub lost: u64,
    /// And so many come twice.
    pub doubled: u64,
    /// Steps that a message may take.
    pub delay_max: u64,
    /// Of ten thousand steps, a machine crashes in so many.
    pub crashes: u64,
    /// Of a thousand steps, a log write is done in so many.
    pub writes: u64,
    /// Of ten thousand steps, members change in so many.
    pub changes: u64,
    /// Of ten thousand steps, leadership is handed over in so many.
    pub transfers: u64,
}

/// None at all.
pub const HEALTHY: Faults =
    Faults { lost: 0, doubled: 0, delay_max: 2, crashes: 0, writes: 900, changes: 0, transfers: 0 };

pub struct Group {
    pub prng: Prng,
    pub nodes: BTreeMap<ReplicaId, Node>,
    pub history: History,
    pub faults: Faults,
    pub sync: bool,
    /// Bytes of log that a replica keeps for others: one of these.
    pub kept: Vec<u64>,
    /// No more member changes or restarts are injected.
    pub quiet: bool,
    /// Nodes that are cut off in both directions.
    pub cut: BTreeSet<ReplicaId>,
    /// By when they arrive.
    flying: BTreeMap<(u64, u64), Parcel>,
    restarts: BTreeMap<ReplicaId, u64>,
    step: u64,
    sent: u64,
    proposed: u64,
    next_id: u64,
}

impl Group {
    pub fn new(seed: u64, sync: bool, faults: Faults) -> Self {
        let voters: Vec<_> = (1..=3).map(ReplicaId).collect();
        let mut group = Self {
            prng: Prng::new(seed),
            nodes: voters.iter().map(|&id| (id, Node::new(id, &voters, sync))).collect(),
            history: History::new(sync),
            faults,
            sync,
            kept: vec![0, 100, 1 << 20],
            quiet: false,
            cut: BTreeSet::new(),
            flying: BTreeMap::new(),
            restarts: BTreeMap::new(),
            step: 0,
            sent: 0,
            proposed: 0,
            next_id: 4,
        };
        voters.iter().for_each(|id| group.start(*id));
        group
    }

    pub fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&ReplicaId(id)).expect("it exists")
    }

    pub fn leader(&self) -> Option<ReplicaId> {
        self.nodes.values().filter(|node| node.leads() && !self.cut.contains(&node.id)).map(|node| node.id).next()
    }

    /// Who belongs to the group, as its leader knows.
    pub fn members(&self) -> Option<Members> {
        Some(self.nodes[&self.leader()?].replica.as_ref()?.members())
    }

    pub fn start(&mut self, id: ReplicaId) {
        let seed = self.prng.next_u64();
        let kept = self.pick(&self.kept.clone()).unwrap_or(0);
        let node = self.nodes.get_mut(&id).expect("it exists");
        node.start(seed);
        node.replica().keep_log(kept);
        self.history.started(id, node.replica().term());
        self.restarts.remove(&id);
    }

    pub fn crash(&mut self, id: ReplicaId, kept: usize) {
        self.node(id.0).crash(kept);
    }

    fn chance(&mut self, of: u64, all: u64) -> bool {
        of > 0 && self.prng.below(all) < of
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.prng.below(of.len() as u64) as usize]) }
    }

    pub fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Runs until `done` is, or fails.
    pub fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..20_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not after {} steps", self.step);
    }

    fn step(&mut self) {
        self.step += 1;
        self.deliver();
        let ids: Vec<_> = self.nodes.values().filter(|node| node.replica.is_some()).map(|node| node.id).collect();
        for &id in &ids {
            let tick = (self.step + id.0 * 3).is_multiple_of(TICK_STEPS);
            let write = self.chance(self.faults.writes, 1000);
            let node = self.nodes.get_mut(&id).expect("it exists");
            if tick && node.replica().tick() {
                node.pump(&mut self.history);
            }
            if write && node.replica.is_some() && node.has_writes() {
                node.finish_write(&mut self.history);
            }
            self.send(id);
        }
        self.accident(&ids);
        if !self.quiet {
            self.control();
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.step {
                return;
            }
            let parcel = entry.remove();
            let (from, to) = (ReplicaId(parcel.message.from), ReplicaId(parcel.message.to));
            let snapshot = parcel.rows.is_some();
            let reaches = !self.cut.contains(&from) && !self.cut.contains(&to);
            let receiver = self.nodes.get_mut(&to).filter(|node| node.replica.is_some() && reaches);
            let arrives = receiver.is_some();
            if let Some(node) = receiver {
                node.receive(parcel, &mut self.history);
                self.send(to);
            }
            if snapshot && let Some(replica) = self.nodes.get_mut(&from).and_then(|node| node.replica.as_mut()) {
                replica.report_snapshot(to, arrives);
            }
        }
    }

    /// Puts on the network what a node has to say.
    fn send(&mut self, id: ReplicaId) {
        let out = std::mem::take(&mut self.node(id.0).out);
        for parcel in out {
            let times = if self.chance(self.faults.doubled, 1000) { 2 } else { 1 };
            let to = ReplicaId(parcel.message.to);
            if self.chance(self.faults.lost, 1000) {
                if parcel.rows.is_some()
                    && let Some(replica) = &mut self.node(id.0).replica
                {
                    replica.report_snapshot(to, false);
                }
                continue;
            }
            for _ in 0..times {
                let at = self.step + 1 + self.prng.below(self.faults.delay_max.max(1));
                self.sent += 1;
                self.flying.insert((at, self.sent), Parcel { message: parcel.message.clone(), rows: parcel.rows });
            }
        }
    }

    fn accident(&mut self, ids: &[ReplicaId]) {
        let due: Vec<_> = self.restarts.iter().filter(|(_, at)| **at <= self.step).map(|(id, _)| *id).collect();
        due.iter().for_each(|&id| self.start(id));
        if self.chance(self.faults.crashes, 10_000)
            && let Some(id) = self.pick(ids)
        {
            if self.chance(1, 4) {
                self.history.crashes = 1;
            }
            // At times the power fails everywhere.
            let all = self.chance(1, 4);
            for &id in ids.iter().filter(|other| all || **other == id) {
                let kept = self.prng.below(4) as usize;
                self.crash(id, kept);
            }
        }
        let down: Vec<_> = self.nodes.values().filter(|node| node.replica.is_none() && !node.diverged).collect();
        for id in down.iter().map(|node| node.id).collect::<Vec<_>>() {
            let at = self.step + 20 + self.prng.below(400);
            self.restarts.entry(id).or_insert(at);
        }
        if !self.quiet
            && self.chance(50, 10_000)
            && let Some(id) = self.pick(ids)
            && self.node(id.0).replica.is_some()
        {
            self.node(id.0).flush();
        }
    }

    /// What clients and operators do.
    fn control(&mut self) {
        if self.chance(100, 1000) {
            self.propose();
        }
        if self.chance(30, 1000) {
            self.read();
        }
        if self.chance(self.faults.transfers, 10_000)
            && let Some(leader) = self.leader()
            && let Some(members) = self.members()
            && let Some(to) = self.pick(&members.voters)
        {
            self.node(leader.0).replica().transfer_leader(to);
            self.pump(leader);
        }
        if self.chance(self.faults.changes, 10_000) {
            self.change_members();
        }
    }

    pub fn pump(&mut self, id: ReplicaId) {
        let node = self.nodes.get_mut(&id).expect("it exists");
        node.pump(&mut self.history);
        self.send(id);
    }

    pub fn propose(&mut self) -> Option<(u64, u64)> {
        let leader = self.leader()?;
        self.proposed += 1;
        let (data, sync) = (self.proposed.to_le_bytes().to_vec(), self.sync);
        let place = self.node(leader.0).replica().propose(data, sync).ok();
        self.pump(leader);
        place
    }

    /// Every replica that believes to lead is asked: an old leader must not answer.
    pub fn read(&mut self) {
        let leaders: Vec<_> = self.nodes.values().filter(|node| node.leads()).map(|node| node.id).collect();
        for id in leaders {
            self.sent += 1;
            let context = self.sent;
            if self.node(id.0).replica().read_index(context) {
                self.history.asked(context);
                self.pump(id);
            }
        }
    }

    /// Grows to five members and shrinks to three, replacing some; ids are never used twice.
    fn change_members(&mut self) {
        let Some(leader) = self.leader() else { return };
        let Some(members) = self.members() else { return };
        let others: Vec<_> = members.voters.iter().copied().filter(|id| *id != leader).collect();
        let (new, old) = (ReplicaId(self.next_id), self.pick(&others));
        let change = |id, kind| MemberChange { id, kind };
        let mut changes = Vec::new();
        match self.prng.below(4) {
            0 | 1 if members.learners.is_empty() => changes.push(change(new, MemberKind::Learner)),
            0 | 1 if members.voters.len() < 5 => changes.push(change(members.learners[0], MemberKind::Voter)),
            2 if members.voters.len() > 3 => changes.extend(old.map(|id| change(id, MemberKind::Remove))),
            3 => {
                // A learner takes a voter's place, which becomes one or goes.
                let kind = if self.chance(1, 2) { MemberKind::Learner } else { MemberKind::Remove };
                if let (Some(&learner), Some(old)) = (members.learners.first(), old) {
                    changes.extend([change(learner, MemberKind::Voter), change(old, kind)]);
                }
            }
            _ => {}
        }
        if !changes.is_empty() && self.node(leader.0).replica().propose_members(&changes, b"why".to_vec()).is_ok() {
            if changes.iter().any(|change| change.id == new) {
                self.next_id += 1;
                self.nodes.insert(new, Node::new(new, &[], self.sync));
                self.start(new);
            }
            self.pump(leader);
        }
    }

    /// All faults end; everything that was begun comes to an end, and all members to the same state.
    pub fn heal(&mut self) {
        self.faults = HEALTHY;
        self.cut.clear();
        self.history.crashes = 0;
        self.run_until("all are up", |group| group.nodes.values().all(|node| node.replica.is_some() || node.diverged));
        self.run_until("a leader is elected", |group| group.leader().is_some());
        self.run_until("the members are settled", |group| {
            group.members().is_some_and(|members| members.voters_outgoing.is_empty())
        });
        self.run(TICK_STEPS * 30);
        // Who applied, and dropped from its log, an entry that a crash has taken back from the others hears of it when the
        // one after is compared.
        let furthest = self.history.last_applied();
        let mut compared = false;
        while !compared {
            let (index, _) = self.propose().expect("a leader takes proposals");
            compared = index > furthest + 1;
            self.run_until("everyone has everything", |group| {
                let Some(members) = group.members() else { return false };
                let up = |id: &ReplicaId| !group.nodes[id].diverged;
                let ids = members.voters.iter().chain(&members.learners).filter(|id| up(id));
                ids.map(|id| group.nodes[id].tree.index).all(|applied| applied >= index)
            });
        }
    }

    /// All members that did not fall out are in the same state.
    pub fn compare(&self) {
        let states: Vec<_> = self.nodes.values().filter(|node| !node.diverged).map(|node| node.tree).collect();
        let last = states.iter().map(|tree| tree.index).max();
        let mut newest = states.iter().filter(|tree| Some(tree.index) == last);
        let first = newest.next();
        assert!(newest.all(|tree| Some(tree) == first), "{states:?}");
    }
}
