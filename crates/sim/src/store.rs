//! A simulated store: its nodes, their environment, and what is checked of it.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::checkers::{Checkers, Outcome};
use crate::environment::Environment;
use crate::event::{Event, NodeEvent};
use crate::history::Answer;
use crate::nodes::Nodes;
use crate::places::Place;
use crate::schedule::{MILLISECOND, SECOND};
use vocab::{Moment, NodeId};

/// How far a node's time may be from the truth: what its steady clock drifts while it hears of no majority.
const TIME_SLACK_MS: u64 = 10_000;

/// Nodes, their environment, and what is checked of them.
pub struct Store {
    /// Time, chance, the network and the record.
    pub(crate) env: Environment,
    /// What is known of the store.
    pub(crate) checks: Checkers,
    /// Its nodes.
    pub(crate) nodes: Nodes,
}

impl Store {
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
        if has_ms.abs_diff(true_ms) > TIME_SLACK_MS {
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

    /// What comes to a node that is down.
    pub fn arrive_at_dead_node(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Request(operation, ..) => self.refuse(operation, None),
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
        let may_lose = self.env.plan().sync || self.nodes.may_lose_power(place, &self.checks);
        let Some(process) = self.nodes[place].crash(now) else { return };
        self.env.counts.crashes += 1;
        let disk = &self.nodes[place].disk;
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
    }

    /// A node that runs crashes, and is started again.
    pub fn crash_for_a_while(&mut self, place: Place) {
        if self.nodes[place].process.is_none() {
            return;
        }
        self.crash(place);
        let lasts = self.env.a_while();
        self.env.after(lasts, Event::Start(place));
    }

    /// A node that does not write any more is started anew.
    pub fn restart(&mut self, place: Place) {
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
