//! The director: what the node whose replica leads the metadata group does so that plans happen.
//!
//! Pure: nodes report, time passes, and it answers which changes of the map to propose and what to order of the leaders
//! of shards. Everything that must outlive it is in the map; the next director begins with nothing else. What it does
//! is repeated until the map shows it, so nothing of it needs to arrive, and nothing harms that arrives twice.
//!
//! Invariants: a shard has one step at a time; the map gives up a replica only once its group has let it go; a leader
//! that is ordered to remove a voter looks itself whether the others are a majority without it.

mod auto_plans;
mod events;
mod explicit_moves;
mod growth;
mod leaders;
mod observe;
mod pending_moves;
mod plans;
mod progress;
mod recovery;
mod splits;
mod status;
mod steps;
#[cfg(test)]
mod tests;

pub use pending_moves::allows;
pub use status::{MemberStatus, NodeStatus, PlanStatus, ShardStatus, StoreStatus, TransferStatus};

use crate::peer_protocol::{NodeReport, Order};
use cluster::{Change, Map, Settings};
use events::Told;
use growth::Growth;
use leaders::HandOvers;
use observe::Seen;
use pending_moves::PendingMoves;
use progress::Progress;
use std::collections::BTreeMap;
use std::sync::Arc;
use vocab::{Epoch, Moment, NodeId, PlanId, ShardId};

/// Between two looks of the director that stood still there is more than this, in µs.
const STOOD_US: u64 = 1_000_000;

/// What is to be done for a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectorAction {
    /// Bring a change to the metadata group.
    Propose(Change),
    /// Tell a shard's replica on that node what to do.
    Order {
        /// The node.
        node: NodeId,
        /// The shard.
        shard: ShardId,
        /// What.
        order: Order,
    },
}

/// The director's state: what nodes report, and the placement that is worked out from it.
#[derive(Debug, Default)]
pub struct Director {
    seen: Seen,
    pending: PendingMoves,
    hand_overs: HandOvers,
    progress: Progress,
    told: Told,
    /// Plans without anything to do, and since when, in µs.
    quiet: BTreeMap<PlanId, u64>,
    growth: Growth,
    epoch: Epoch,
    ticked_us: u64,
}

impl Director {
    /// One that has heard of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A node is heard of, whatever it said.
    pub fn heard(&mut self, from: NodeId, now: Moment) {
        self.seen.heard(from, now);
    }

    /// What a node tells of itself.
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
        let settings = Settings::of(map);
        self.progress.note(map, &self.seen, now);
        self.advance(map, now, &mut actions);
        self.advance_splits(map, now, &mut actions);
        self.note_growth(map, &settings, now);
        self.reconcile(map, &mut actions);
        self.tidy(map, now, &mut actions);
        self.recover(map, now, &mut actions);
        self.look(map, &settings, now);
        self.begin_plans(map, &settings, now, &mut actions);
        let mut left = self.begin_steps(map, &settings, now, &mut actions);
        self.begin_splits(map, now, &mut left, &mut actions);
        self.end_plans(map, &left, &settings, now, &mut actions);
        self.spread_leaders(map, now, &mut actions);
        self.tell(map, &settings, now, &mut actions);
        actions
    }
}
