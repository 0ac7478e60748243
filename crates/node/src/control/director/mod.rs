//! The director: the part of the node that leads the metadata group that carries plans out.
//!
//! It is pure: nodes report, time passes, and it answers which changes of the map to propose and what to order the leaders
//! of shards. Everything that must outlive it is in the map; the next director begins with nothing else. It repeats each
//! action until the map shows the result, so any action may be lost, or arrive twice.
//!
//! Invariants: a shard has at most one step under way; the map gives up a replica only after its group has removed it; a
//! leader that is ordered to remove a voter checks by itself that the others are a majority without it.

mod action;
mod auto_plans;
mod events;
mod explicit_moves;
mod growth;
mod inputs;
mod leaders;
mod moves;
mod observe;
mod pending_moves;
mod plan_ends;
mod progress;
mod recovery;
mod splits;
mod status;
mod steps;
#[cfg(test)]
mod test_reports;
#[cfg(test)]
mod tests;

pub use action::DirectorAction;
pub use moves::allows;
pub use status::{MemberStatus, NodeStatus, PlanStatus, ShardStatus, StoreStatus, TransferStatus};

use crate::peer_protocol::NodeReport;
use cluster::{Map, Settings};
use events::LastEvents;
use growth::Growth;
use inputs::Inputs;
use leaders::HandOvers;
use observe::Seen;
use pending_moves::PendingMoves;
use plan_ends::PlanEnds;
use progress::Progress;
use status::StatusOf;
use std::sync::Arc;
use vocab::{Epoch, Moment, NodeId};

/// A longer time than this between two looks, in µs, is a pause in which this node stood still.
const STOOD_US: u64 = 1_000_000;

/// The director's state: what nodes have reported, and what each part of the director remembers of its own work.
#[derive(Debug, Default)]
pub struct Director {
    seen: Seen,
    pending: PendingMoves,
    hand_overs: HandOvers,
    progress: Progress,
    told: LastEvents,
    plan_ends: PlanEnds,
    growth: Growth,
    epoch: Epoch,
    ticked_us: u64,
}

impl Director {
    /// One that has no report yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A message of any kind came from that node.
    pub fn heard(&mut self, from: NodeId, now: Moment) {
        self.seen.heard(from, now);
    }

    /// A node's report came.
    pub fn report(&mut self, from: NodeId, report: NodeReport, now: Moment) {
        self.seen.report(from, report, now);
    }

    /// Time passes; to be called about four times a second, and when the map has changed.
    pub fn tick(&mut self, now: Moment, map: &Arc<Map>) -> Vec<DirectorAction> {
        let mut actions = Vec::new();
        self.seen.began_us.get_or_insert(now.mono_us);
        if self.ticked_us > 0 {
            self.seen.stood_still(now.mono_us.saturating_sub(self.ticked_us + STOOD_US), now);
        }
        self.ticked_us = now.mono_us;
        if self.epoch != map.epoch {
            self.epoch = map.epoch;
            self.seen.keep(map);
        }
        if !self.seen.is_ready(map, now) {
            return actions;
        }
        let news = std::mem::take(&mut self.seen.news);
        let settings = Settings::of(map);
        let inputs = Inputs { map, settings: &settings, seen: &self.seen, now };
        self.progress.note(&inputs);
        steps::advance(&inputs, &mut actions);
        splits::advance(&inputs, &mut actions);
        self.growth.note(&inputs);
        steps::reconcile(&inputs, news, &mut actions);
        steps::tidy(&inputs, &mut actions);
        recovery::recover(&inputs, &mut actions);
        self.pending.refresh(&inputs, map);
        actions.extend(auto_plans::wanted(&inputs, &self.pending, &self.growth));
        let mut left = steps::begin(&inputs, &mut self.pending, &mut actions);
        splits::begin(&inputs, &mut left, &mut actions);
        self.plan_ends.end(&inputs, &self.pending, &left, &mut actions);
        self.hand_overs.spread(&inputs, &mut actions);
        self.told.tell(&inputs, &mut actions);
        actions
    }

    /// The store for operators, by what nodes have reported.
    #[must_use]
    pub fn status(&self, map: &Map, now: Moment) -> StoreStatus {
        let settings = Settings::of(map);
        let inputs = Inputs { map, settings: &settings, seen: &self.seen, now };
        StatusOf { inputs, pending: &self.pending, progress: &self.progress, growth: &self.growth }.store()
    }
}
