//! A simulated store: its nodes, their environment, and its checkers.

use crate::bug::Bug;
use crate::bulk::{BulkAnswer, BulkRequest};
use crate::chance::Chance;
use crate::checkers::{Checkers, Outcome};
use crate::collections::{CollectionRequest, Told};
use crate::environment::Environment;
use crate::event::{Event, NodeEvent};
use crate::history::Answer;
use crate::nodes::{Nodes, Refill};
use crate::places::Place;
use crate::schedule::{MILLISECOND, Micros, SECOND};
use crate::wires::Wires;
use vocab::{Moment, NodeId};

/// How far a node's time may be from the truth: what its steady clock drifts while it hears of no majority.
const TIME_SLACK_MS: u64 = 10_000;

/// The same where steady clocks drift no more than those of machines do.
const GOOD_TIME_SLACK_MS: u64 = 1000;
/// A store is settled so long after it was made: each shard has a leader where it is to be.
const SETTLED_AFTER: Micros = 5 * SECOND;

/// Nodes, their environment, and what is checked of them.
pub struct Store {
    /// Time, chance, the network and the record.
    pub(crate) env: Environment,
    /// What is known of the store.
    pub(crate) checks: Checkers,
    /// Its nodes.
    pub(crate) nodes: Nodes,
    /// The links between nodes that keep order.
    pub(crate) wires: Wires,
    /// What the node whose power failed last has yet to get again.
    refill: Option<Refill>,
}

impl Store {
    /// A store whose nodes have not been started.
    #[must_use]
    pub fn new(env: Environment, checks: Checkers, nodes: Nodes, wires: Wires) -> Self {
        Self { env, checks, nodes, wires, refill: None }
    }

    /// Whether a node has lost what its leader alone may hold, and has not got it again: that leader must live.
    fn is_refilling(&mut self) -> bool {
        let nodes = &self.nodes;
        self.refill.take_if(|refill| nodes.is_refilled(refill));
        self.refill.is_some()
    }

    /// Whether a node that goes down now may lose what it has not fsynced.
    fn may_lose(&mut self, place: Place) -> bool {
        if self.env.plan().sync || self.nodes.may_lose_power(place, &self.checks) {
            return true;
        }
        if self.env.plan().has_lonely_power_cuts() {
            self.refill = self.nodes.refill_of(place, &self.checks);
            return self.refill.is_some();
        }
        false
    }

    /// What a node's own clocks show.
    #[must_use]
    pub fn raw_moment(&self, place: Place) -> Moment {
        self.nodes[place].clock.read(self.env.now())
    }

    /// The time as a node has it: the store's, as far as it knows that.
    #[must_use]
    pub fn moment(&self, place: Place) -> Moment {
        let raw = self.raw_moment(place);
        match &self.nodes[place].process {
            Some(process) if !self.env.has(Bug::FollowWall) => process.clock.read(raw),
            _ => raw,
        }
    }

    /// The time as the node's event loop has it: of when its turn began, which is long ago where the process stood still
    /// in between.
    #[must_use]
    pub fn turn(&self, place: Place) -> Moment {
        self.nodes[place].turn.unwrap_or_else(|| self.moment(place))
    }

    /// Holds a node's time to the truth, however its own wall clock jumps.
    pub fn check_time(&self, place: Place) -> Outcome {
        let (has_ms, true_ms) = (self.moment(place).wall_ms, self.env.wall_ms());
        let slack_ms = if self.env.plan().has_good_clocks() { GOOD_TIME_SLACK_MS } else { TIME_SLACK_MS };
        if has_ms.abs_diff(true_ms) > slack_ms {
            return Err(format!("the time of node {} is {has_ms}, and in truth it is {true_ms}", place + 1));
        }
        Ok(())
    }

    /// An answer goes to its client.
    pub fn answer(&mut self, operation: usize, answer: Answer, leader: Option<NodeId>) {
        if !self.env.is_healing() && self.env.plan().faults.network && self.env.happens(10) {
            return;
        }
        let client = self.checks.operation(operation).client;
        let delay = self.env.between(50, 1000);
        self.env.after(delay, Event::Reply(client, operation, answer, leader));
    }

    /// The request was not done, and will not be.
    pub fn refuse(&mut self, operation: usize, leader: Option<NodeId>) {
        self.answer(operation, Answer::Refused, leader);
    }

    /// An answer goes to a hostile client.
    pub fn answer_bulk(&mut self, request: &BulkRequest, answer: BulkAnswer, leader: Option<NodeId>) {
        let delay = self.env.between(50, 1000);
        self.env.after(delay, Event::BulkReply(request.client, request.number, answer, leader));
    }

    /// An answer goes to a client of collections.
    pub fn answer_collection(&mut self, request: &CollectionRequest, told: Told, leader: Option<NodeId>) {
        if !self.env.is_healing() && self.env.plan().faults.network && self.env.happens(10) {
            return;
        }
        let delay = self.env.between(50, 1000);
        self.env.after(delay, Event::CollectionReply(request.client, request.tag, told, leader));
    }

    /// Whether nothing may keep ordinary clients waiting or cause an election: nothing fails in this run, hostile clients or
    /// not, and the store has been made.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.env.plan().bulk.is_some_and(|bulk| bulk.is_calm)
            && self.checks.made_at().is_some_and(|at| self.env.now() > at + SETTLED_AFTER)
    }

    /// What comes to a node that is down.
    pub fn arrive_at_dead_node(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Request(operation, ..) => self.refuse(operation, None),
            NodeEvent::Bulk(request) => self.answer_bulk(&request, BulkAnswer::Refused, None),
            NodeEvent::Collection(request) => self.answer_collection(&request, Told::Refused, None),
            NodeEvent::Rows(task) => {
                if let Some(from) = self.nodes.leader_place(task.shard) {
                    self.env.later(MILLISECOND, from, NodeEvent::RowsSent(task.shard, task.replica, false));
                }
            }
            _ => {}
        }
    }

    /// The process at a place is gone. Of its log, what was written and not fsynced may be lost.
    pub fn crash(&mut self, place: Place) {
        let now = self.env.now();
        let may_lose = self.may_lose(place);
        let Some(process) = self.nodes[place].crash(now) else { return };
        self.env.counts.crashes += 1;
        let disk = &mut self.nodes[place].disk;
        if let Some(write) = process.log.under_way()
            && self.env.happens(500)
            && !disk.log.inner().is_full()
        {
            // It had reached the disk, unacknowledged.
            _ = replica::LogStore::write(&*disk.log, write, false);
        }
        let unsynced = disk.log.inner().unsynced();
        let kept = if may_lose { self.env.below(unsynced as u64 + 1) as usize } else { unsynced };
        disk.crash_keeping(kept);
        self.env.note(format_args!("node {} crashes; {kept} of {unsynced} log writes are kept", place + 1));
        for event in std::mem::take(&mut self.nodes[place].held) {
            self.arrive_at_dead_node(event);
        }
        self.env.link_down(place);
        self.checks.messages.crashed(place);
        for other in self.wires.crashed(place, &mut self.env) {
            self.checks.messages.unlinked(place, other);
        }
    }

    /// A node that runs crashes, and is started again; false if it must not crash now.
    pub fn crash_for_a_while(&mut self, place: Place) -> bool {
        if self.nodes[place].process.is_none() || self.is_refilling() {
            return false;
        }
        self.crash(place);
        let lasts = self.env.a_while();
        self.env.after(lasts, Event::Start(place));
        true
    }

    /// A node that does not write any more is started anew.
    pub fn restart(&mut self, place: Place) {
        if self.is_refilling() {
            return self.restart_soon(place);
        }
        self.crash(place);
        self.env.after(SECOND / 10, Event::Start(place));
    }

    /// A node that cannot go on is restarted, as its operator would.
    pub fn restart_soon(&mut self, place: Place) {
        let most = if self.env.is_healing() { 100 } else { 5000 };
        let delay = self.env.between(10, most) * MILLISECOND;
        self.env.later(delay, place, NodeEvent::Restart);
    }
}
